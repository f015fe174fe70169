"""Fragments: the text of one provider in an answer, made on first use and cached until that provider changes."""

from __future__ import annotations

import threading
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    Slots = NDArray[np.int64]


MOST_BYTES = 32 << 20
"""Limit of the bytes that the cached fragments of one form have together."""

MOST_FORMS = 4
"""Limit of the forms that are cached at the same time."""


class _Shelf:
    """Texts of one form with their versions, in arrays by slot, since one answer can need those of all providers.

    Texts are dropped in turns: a turn ends when the texts that were used in it have half of the bytes. It drops those
    that were not used in it.
    """

    def __init__(self) -> None:
        self.texts: NDArray[np.object_] = np.empty(0, np.object_)
        self.runs = JoinedTexts()
        self._versions = np.zeros(0, np.int64)  # 0 where no text is cached
        self._turns = np.zeros(0, np.int64)  # in which each text was last used
        self._turn = 1
        self._bytes = 0
        # Of two threads that read and write without it, one could read the text of another version.
        self._lock = threading.Lock()

    def get(self, slots: NDArray[np.int64], versions: NDArray[np.int64]) -> tuple[list[Any], NDArray[np.int64]]:
        """What is cached for each of *slots*, and the places where that is not the text of the version."""
        with self._lock:
            try:
                cached_versions = self._versions[slots]
            except IndexError:
                self._grow(int(slots.max()) + 1)
                cached_versions = self._versions[slots]
            texts = self.texts[slots].tolist()
            is_current = cached_versions == versions
            if self._turn > 1:
                self._use(slots[is_current & (self._turns[slots] < self._turn)])
        return texts, np.flatnonzero(~is_current)

    def put(self, slots: NDArray[np.int64], versions: NDArray[np.int64], texts: Sequence[bytes]) -> None:
        with self._lock:
            for slot, text in zip(slots.tolist(), texts, strict=True):
                self.texts[slot] = text  # one by one: NumPy would convert a sequence of bytes
            self._versions[slots] = versions
            self._use(slots)

    def _use(self, slots: NDArray[np.int64]) -> None:
        """Count the texts at *slots* in this turn, and end it if they are too many. Requires the lock."""
        self._turns[slots] = self._turn
        self._bytes += sum(map(len, self.texts[slots].tolist()))
        if self._bytes > MOST_BYTES // 2:
            unused = self._turns < self._turn
            self.texts[unused] = None
            self._versions[unused] = 0
            self._turn += 1
            self._bytes = 0

    def _grow(self, size: int) -> None:
        more = size + size // 8 - len(self.texts)  # new providers come one by one
        self.texts = np.concatenate([self.texts, np.empty(more, np.object_)])
        self._versions = np.concatenate([self._versions, np.zeros(more, np.int64)])
        self._turns = np.concatenate([self._turns, np.zeros(more, np.int64)])


class TextCache:
    """A bounded cache of texts, shared by all snapshots of one catalog; thread-safe."""

    def __init__(self) -> None:
        self._shelves: dict[Hashable, _Shelf] = {}

    def get(
        self,
        form: Hashable,
        slots: NDArray[np.int64],
        versions: NDArray[np.int64],
        make: Callable[[Sequence[int]], Iterable[bytes]],
    ) -> list[bytes]:
        """The texts of the providers at *slots*, encoded.

        Args:
            form: identifies the text; the text must depend only on this and on the provider's version.
            versions: for each slot a number above 0 that changes whenever its provider changes.
            make: makes the texts of slots.
        """
        shelf = self._shelf(form)
        texts, missing = shelf.get(slots, versions)
        if missing.size:
            made = list(make(slots[missing].tolist()))
            for place, text in zip(missing.tolist(), made, strict=True):
                texts[place] = text
            shelf.put(slots[missing], versions[missing], made)
        return texts

    def joined(
        self,
        form: Hashable,
        slots: NDArray[np.int64],
        versions: NDArray[np.int64],
        make: Callable[[Sequence[int]], Iterable[bytes]],
    ) -> Iterator[bytes]:
        """The same texts with a comma before each, joined in parts of about 100. Lazy."""

        def texts(slots: NDArray[np.int64], versions: NDArray[np.int64]) -> list[bytes]:
            return self.get(form, slots, versions, make)

        return self._shelf(form).runs.get(slots, versions, texts)

    def _shelf(self, form: Hashable) -> _Shelf:
        shelf = self._shelves.get(form)
        if shelf is None:
            if len(self._shelves) >= MOST_FORMS:
                self._shelves = {}
            shelf = self._shelves.setdefault(form, _Shelf())
        return shelf


# Runs: the texts of neighbouring providers, joined for long answers, and cached until one of the providers changes.


RUN = 128
"""Slots of a run. A change of one provider joins the texts of its run again, about 100 kB."""

DENSE = 4
"""An answer with fewer than one of this number of slots is joined without runs: it would fill none."""

MOST_BYTES_OF_RUNS = 16 << 20
"""Limit of the bytes of all runs of one form, beside the single texts."""


class JoinedTexts:
    """The joined texts of one form. Run ``n`` has the slots from ``n * RUN`` on; thread-safe."""

    def __init__(self) -> None:
        self._texts: list[bytes] = []  # by run; empty if the run is not cached
        self._counts: list[int] = []  # by run, of the texts in it
        self._versions = np.zeros(0, np.int64)  # by slot; 0 if the text of the slot is not in its run
        self._bytes = 0
        self._lock = threading.Lock()

    def get(self, slots: Slots, versions: Slots, texts: Callable[[Slots, Slots], Sequence[bytes]]) -> Iterator[bytes]:
        """The texts of *slots* in their order, with a comma before each, in parts of up to ``RUN`` texts.

        Args:
            versions: for each slot a number above 0 that changes whenever its text changes.
            texts: the texts of some of the slots with their versions.
        """
        if not _fill_runs(slots):
            for start in range(0, len(slots), RUN):
                here = slice(start, start + RUN)
                yield b",".join([b"", *texts(slots[here], versions[here])])
            return
        numbers = slots // RUN
        bounds = [0, *(np.flatnonzero(numbers[1:] != numbers[:-1]) + 1).tolist(), len(slots)]
        runs: list[int] = numbers[bounds[:-1]].tolist()
        with self._lock:
            self._grow(runs[-1] + 1)
            cached: list[int] = np.add.reduceat(self._versions[slots] == versions, bounds[:-1], dtype=np.int64).tolist()
            # None if the run has another text, or that of a slot that is not among *slots*.
            joined = [
                self._texts[run] if number == self._counts[run] == end - start else None
                for run, number, (start, end) in zip(runs, cached, pairwise(bounds), strict=True)
            ]
        for text, (start, end) in zip(joined, pairwise(bounds), strict=True):
            if text is None:
                of_run, their_versions = slots[start:end], versions[start:end]
                text = b",".join([b"", *texts(of_run, their_versions)])
                self._keep(of_run, their_versions, text)
            yield text

    def _keep(self, slots: Slots, versions: Slots, text: bytes) -> None:
        """Cache the *text* of all the slots of one run that an answer has."""
        run = int(slots[0]) // RUN
        with self._lock:
            size = self._bytes - len(self._texts[run]) + len(text)
            # Beyond the limit the first runs stay: a long answer needs all of them, so none is used less than others.
            if size <= MOST_BYTES_OF_RUNS:
                self._texts[run], self._counts[run], self._bytes = text, len(slots), size
                self._versions[run * RUN : (run + 1) * RUN] = 0
                self._versions[slots] = versions

    def _grow(self, runs: int) -> None:
        """Make room for this number of runs. Requires the lock."""
        more = runs - len(self._texts)
        if more > 0:
            self._texts += [b""] * more
            self._counts += [0] * more
            self._versions = np.concatenate([self._versions, np.zeros(more * RUN, np.int64)])


def _fill_runs(slots: Slots) -> bool:
    """Whether *slots* are ascending, more than a run, and on the whole a good part of their runs."""
    return len(slots) > RUN and int(slots[-1] - slots[0]) < DENSE * len(slots) and bool((slots[1:] > slots[:-1]).all())
