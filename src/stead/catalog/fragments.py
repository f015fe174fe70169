"""Fragments: the text of one provider in an answer, made on first use and cached until that provider changes."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import numpy as np

from stead.catalog.runs import Runs

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence

    from numpy.typing import NDArray

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
        self.runs = Runs()
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


class Fragments:
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
