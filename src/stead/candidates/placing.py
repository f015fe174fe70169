"""Placing: a place for each of several requests, so that all of them have one at the same time.

One after the other gets the best candidate in what is left by those before it. Where the last of them finds nothing,
those before it are moved, from the last one backwards; that is bin packing, so it is tried a bounded number of times.

Source: "POST /claims", docs/api.md.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
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
"""So many ways that led nowhere are enough, and so many candidates of one request are tried."""

Amounts = dict["Slot", dict[int, int]]
"""By slot and class id."""


@dataclass(frozen=True, slots=True)
class NoPlace:
    """There is none for the request of this ``number``; ``gave_up`` if that is not sure.

    ``left`` is what the requests before it left, placed as they come.
    """

    number: int
    gave_up: bool
    left: Snapshot


def place(
    snapshot: Snapshot,
    requests: Sequence[CandidateRequest],
    enumeration: Enumeration,
    *,
    distinct_roots: bool,
    among_best: int = 1,
) -> list[Candidate] | NoPlace:
    """A candidate for each of *requests*, all of which fit together.

    Args:
        distinct_roots: no two of them are found under the same root.
        among_best: each is drawn from so many of the best, if that leaves a place for all.

    Raises:
        UnknownResourceClass, UnknownTraits
    """
    open_ = [replace(request, order=request.order or Drawn()) for request in requests]
    if among_best > 1:
        drawn = _Search(snapshot, open_, enumeration, among_best, distinct_roots=distinct_roots, drawn=True)
        if not isinstance(placed := drawn.run(dead_ends=1), NoPlace):
            return placed
    first = _Search(snapshot, open_, enumeration, 1, distinct_roots=distinct_roots).run(dead_ends=1)
    if not isinstance(first, NoPlace) or first.number == 0:
        return first
    alone = _Search(snapshot, [open_[first.number]], enumeration, 1, distinct_roots=False).run(dead_ends=1)
    if isinstance(alone, NoPlace):  # wherever the others are
        return replace(first, gave_up=alone.gave_up)
    whole = _Search(snapshot, open_, enumeration, DEAD_ENDS, distinct_roots=distinct_roots).run(dead_ends=DEAD_ENDS)
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
        enumeration: Enumeration,
        limit: int,
        *,
        distinct_roots: bool,
        drawn: bool = False,
    ) -> None:
        self._requests = [replace(request, limit=limit) for request in requests]
        self._drawn = drawn
        self._limit = limit
        self._enumeration = enumeration
        self._distinct_roots = distinct_roots
        self._snapshot = snapshot
        self._works: list[Work] = []
        self._placed: list[Candidate] = []
        self._furthest = 0
        self._gave_up = False

    def run(self, dead_ends: int) -> list[Candidate] | NoPlace:
        """All placed, or the first that could not be."""
        levels = [self._candidates()]
        dead: set[object] = set()
        while True:
            found = next(levels[-1], None)
            if found is not None:
                self._placed.append(found)
                if len(self._placed) == len(self._requests):
                    return self._placed
                if self._state() in dead:
                    self._placed.pop()
                    continue
                levels.append(self._candidates())
                continue
            self._gave_up |= self._works[-1].is_cut
            levels.pop()
            self._works.pop()
            dead_ends -= 1
            if not levels or dead_ends <= 0:
                return NoPlace(self._furthest, self._gave_up or bool(levels), self._left())
            dead.add(self._state())
            self._placed.pop()

    def _candidates(self) -> Iterator[Candidate]:
        """Those for the next request, after what is placed."""
        number = len(self._placed)
        self._furthest = max(self._furthest, number)
        self._works.append(Work(self._enumeration.work))
        found = find(
            self._left(),
            self._requests[number],
            self._enumeration,
            work=self._works[-1],
            among=self._free_roots(),
        )
        if not self._drawn:
            return found
        several = list(found)
        shuffle(several)
        return iter(several)

    def _left(self) -> Snapshot:
        return self._snapshot.with_taken(self._total()) if self._placed else self._snapshot

    def _free_roots(self) -> NDArray[np.bool_] | None:
        if not (self._distinct_roots and self._placed):
            return None
        free = np.ones(self._snapshot.size, np.bool_)
        free[[candidate.members[0] for candidate in self._placed]] = False
        return free

    def _state(self) -> object:
        """All that those still to be placed can see of the ones that are."""
        roots = frozenset(candidate.members[0] for candidate in self._placed) if self._distinct_roots else None
        total = self._total()
        return len(self._placed), roots, frozenset((slot, frozenset(of.items())) for slot, of in total.items())

    def _total(self) -> Amounts:
        return summed(taken_by(candidate) for candidate in self._placed)
