"""Placing: a place for each of several requests, so that all of them have one at the same time.

One after the other gets the best candidate in what is left by those before it. Where the last of them finds nothing,
those before it are moved, from the last one backwards; that is bin packing, so it is tried a bounded number of times.

Source: "POST /claims", docs/api.md.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from functools import partial
from math import inf
from random import shuffle
from typing import TYPE_CHECKING

import numpy as np

from stead.candidates.engine import find
from stead.candidates.work import Work
from stead.domain.order import Drawn

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from stead.candidates.candidate import Candidate
    from stead.candidates.engine import Enumeration
    from stead.catalog.snapshot import Snapshot
    from stead.domain.provider import Slot
    from stead.domain.request import CandidateRequest

DEAD_ENDS = 200
"""So many ways that led nowhere are enough, and so many candidates of one request are tried each time."""

Amounts = dict["Slot", dict[int, int]]
"""By slot and class id."""


@dataclass(frozen=True, slots=True)
class NoPlace:
    """There is none for the request of this ``number``; ``gave_up`` if that is not sure, ``is_cut`` if work ran out.

    ``left`` is what the requests before it left, placed as they come.
    """

    number: int
    gave_up: bool
    is_cut: bool
    left: Snapshot


def place(
    snapshot: Snapshot,
    requests: Sequence[CandidateRequest],
    enumeration: Enumeration,
    *,
    distinct_roots: bool,
    among_best: int = 1,
    until: float = inf,
) -> list[Candidate] | NoPlace:
    """A candidate for each of *requests*, all of which fit together: the best, or any if which is takes too much work.

    Args:
        distinct_roots: no two of them are found under the same root.
        among_best: each is drawn from so many of the best, if that leaves a place for all.
        until: when it gives up, by the monotonic clock.

    Raises:
        UnknownResourceClass, UnknownTraits
    """
    enumeration = replace(enumeration, maximum=None, randomize=False)
    search = partial(_Search, snapshot, enumeration=enumeration, until=until)
    wanted = [replace(request, order=request.order or Drawn()) for request in requests]
    if among_best > 1:
        drawn = search(wanted, limit=among_best, distinct_roots=distinct_roots, drawn=True).run(dead_ends=1)
        if not isinstance(drawn, NoPlace):
            return drawn
    first = search(wanted, limit=1, distinct_roots=distinct_roots).run(dead_ends=1)
    if isinstance(first, NoPlace) and first.is_cut:  # to find the best, or to draw
        wanted = [replace(request, order=None) for request in requests]
        first = search(wanted, limit=1, distinct_roots=distinct_roots).run(dead_ends=1)
    if not isinstance(first, NoPlace) or first.number == 0:
        return first
    alone = search([wanted[first.number]], limit=1, distinct_roots=False).run(dead_ends=1)
    if isinstance(alone, NoPlace):  # wherever the others are
        return replace(first, gave_up=alone.gave_up)
    whole = search(wanted, limit=DEAD_ENDS, distinct_roots=distinct_roots).run(dead_ends=DEAD_ENDS)
    return replace(first, gave_up=whole.gave_up) if isinstance(whole, NoPlace) else whole


def taken_by(candidate: Candidate) -> Amounts:
    """What a candidate takes."""
    return {slot: dict(given) for slot, given in candidate.allocations.items()}


def summed(several: Iterable[Amounts]) -> Amounts:
    """All of them together."""
    total: Amounts = {}
    for amounts in several:
        for slot, some in amounts.items():
            of = total.setdefault(slot, {})
            for class_id, amount in some.items():
                of[class_id] = of.get(class_id, 0) + amount
    return total


class _Search:
    """Depth-first: a level for each request, with the candidates that are left to try."""

    def __init__(
        self,
        snapshot: Snapshot,
        requests: Sequence[CandidateRequest],
        *,
        enumeration: Enumeration,
        until: float,
        limit: int,
        distinct_roots: bool,
        drawn: bool = False,
    ) -> None:
        self._requests = [replace(request, limit=limit) for request in requests]
        self._limit = limit
        self._enumeration = enumeration
        self._until = until
        self._distinct_roots = distinct_roots
        self._drawn = drawn
        self._left = [snapshot]
        self._placed: list[Candidate] = []
        self._furthest = 0
        self._gave_up = False
        self._is_cut = False

    def run(self, dead_ends: int) -> list[Candidate] | NoPlace:
        """All placed, or the first that could not be."""
        levels = [self._level()]
        dead: set[object] = set()
        while time.monotonic() < self._until:
            found = levels[-1].next()
            if found is not None:
                self._place(found)
                if len(self._placed) == len(self._requests):
                    return self._placed
                if dead and self._state() in dead:
                    self._take_back()
                    continue
                levels.append(self._level())
                continue
            level = levels.pop()
            self._is_cut |= level.is_cut
            self._gave_up |= level.is_cut or level.is_at_limit
            dead_ends -= 1
            if not levels or dead_ends <= 0:
                return self._no_place(gave_up=self._gave_up or bool(levels))
            dead.add(self._state())
            self._take_back()
        return self._no_place(gave_up=True)

    def _no_place(self, *, gave_up: bool) -> NoPlace:
        return NoPlace(self._furthest, gave_up, self._is_cut, self._left[-1])

    def _level(self) -> _Level:
        """The candidates for the next request, after what is placed."""
        number = len(self._placed)
        self._furthest = max(self._furthest, number)
        work = Work(self._enumeration.work, until=self._until)
        found = find(self._left[-1], self._requests[number], self._enumeration, work=work, among=self._free_roots())
        if self._drawn:
            several = list(found)
            shuffle(several)
            found = iter(several)
        return _Level(found, work, self._limit)

    def _place(self, candidate: Candidate) -> None:
        self._placed.append(candidate)
        self._left.append(self._left[-1].with_taken(taken_by(candidate)))

    def _take_back(self) -> None:
        self._placed.pop()
        self._left.pop()

    def _free_roots(self) -> NDArray[np.bool_] | None:
        if not (self._distinct_roots and self._placed):
            return None
        free = np.ones(self._left[-1].size, np.bool_)
        free[[candidate.members[0] for candidate in self._placed]] = False
        return free

    def _state(self) -> object:
        """All that those still to be placed can see of the ones that are."""
        roots = frozenset(candidate.members[0] for candidate in self._placed) if self._distinct_roots else None
        total = summed(taken_by(candidate) for candidate in self._placed)
        return len(self._placed), roots, frozenset((slot, frozenset(of.items())) for slot, of in total.items())


class _Level:
    """The candidates that are left to try for one request."""

    def __init__(self, found: Iterator[Candidate], work: Work, limit: int) -> None:
        self._found = found
        self._work = work
        self._wanted = limit

    def next(self) -> Candidate | None:
        """Another one, if there is one."""
        found = next(self._found, None)
        self._wanted -= found is not None
        return found

    @property
    def is_cut(self) -> bool:
        """Whether there was no work left to find more."""
        return self._work.is_cut

    @property
    def is_at_limit(self) -> bool:
        """Whether as many were given as are tried."""
        return self._wanted <= 0
