"""Runs: the texts of neighbouring providers, joined for long answers, and cached until one of the providers changes."""

from __future__ import annotations

import threading
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    Slots = NDArray[np.int64]

RUN = 128
"""Slots of a run. A change of one provider joins the texts of its run again, about 100 kB."""

DENSE = 4
"""An answer with fewer than one of this number of slots is joined without runs: it would fill none."""

MOST_BYTES = 16 << 20
"""Limit of the bytes of all runs of one form, beside the single texts."""


class Runs:
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
            if size <= MOST_BYTES:
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
