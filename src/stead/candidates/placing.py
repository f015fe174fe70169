"""Placing: a candidate for each of several requests, so that all of them fit at the same time.

Each request in turn gets the best candidate in what the earlier requests leave. If a request has none, the search moves
the earlier ones, the last first. That is bin packing, so the number of attempts is bounded.

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
"""The search gives up after this number of dead ends, and tries up to this number of candidates per request."""

Amounts = dict["Slot", dict[int, int]]
"""By slot and class id."""


@dataclass(frozen=True, slots=True)
class NoPlace:
    """The request of this ``number`` has no candidate.

    ``gave_up``: the search ended before it had tried everything. ``is_cut``: a request used up its work. ``remaining``
    is the snapshot after the requests before it took their candidates.
    """

    number: int
    gave_up: bool
    is_cut: bool
    remaining: Snapshot


def place(
    snapshot: Snapshot,
    requests: Sequence[CandidateRequest],
    enumeration: Enumeration,
    *,
    distinct_roots: bool,
    among_best: int = 1,
    until: float = inf,
) -> list[Candidate] | NoPlace:
    """A candidate for each of *requests*; all fit together. Any candidates, if finding the best takes too much work.

    Args:
        distinct_roots: no two candidates have the same root.
        among_best: draw each candidate from this number of the best, if that leaves a place for all.
        until: time of the monotonic clock at which the search gives up.

    Raises:
        UnknownResourceClass, UnknownTraits
    """
    enumeration = replace(enumeration, maximum=None, randomize=False)
    search = partial(_Search, snapshot, enumeration=enumeration, until=until)
    ordered = [replace(request, order=request.order or Drawn()) for request in requests]
    # Four attempts, the cheapest first. Nearly all claims end with the first that applies.
    if among_best > 1:
        drawn = search(ordered, limit=among_best, distinct_roots=distinct_roots, drawn=True).run(dead_ends=1)
        if not isinstance(drawn, NoPlace):
            return drawn
    first = search(ordered, limit=1, distinct_roots=distinct_roots).run(dead_ends=1)
    if isinstance(first, NoPlace) and first.is_cut:  # finding the best, or drawing, took all work: any will do
        ordered = [replace(request, order=None) for request in requests]
        first = search(ordered, limit=1, distinct_roots=distinct_roots).run(dead_ends=1)
    # The first request has no earlier ones that could move out of its way.
    if not isinstance(first, NoPlace) or first.number == 0:
        return first
    # If the request has no candidate even alone, moving the others cannot help.
    alone = search([ordered[first.number]], limit=1, distinct_roots=False).run(dead_ends=1)
    if isinstance(alone, NoPlace):
        return replace(first, gave_up=alone.gave_up)
    whole = search(ordered, limit=DEAD_ENDS, distinct_roots=distinct_roots).run(dead_ends=DEAD_ENDS)
    return replace(first, gave_up=whole.gave_up) if isinstance(whole, NoPlace) else whole


def taken_by(candidate: Candidate) -> Amounts:
    """The amounts of a candidate."""
    return {slot: dict(given) for slot, given in candidate.allocations.items()}


def summed(several: Iterable[Amounts]) -> Amounts:
    """The sum of several amounts."""
    total: Amounts = {}
    for amounts in several:
        for slot, added in amounts.items():
            at_slot = total.setdefault(slot, {})
            for class_id, amount in added.items():
                at_slot[class_id] = at_slot.get(class_id, 0) + amount
    return total


def negated(amounts: Amounts) -> Amounts:
    """The change of usage if *amounts* are released."""
    return {slot: {class_id: -amount for class_id, amount in by_class.items()} for slot, by_class in amounts.items()}


class _Search:
    """Depth-first search with a level per request, which has the candidates not tried yet.

    It does not use `backtrack.sequences`: each level that ends must tell whether its request ran out of work or of
    candidates, the number of dead ends is bounded, and placements that led to a dead end before are skipped.
    """

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
        self._snapshots = [snapshot]  # before the first placement and after each
        self._placed: list[Candidate] = []
        self._furthest = 0
        self._gave_up = False
        self._is_cut = False

    def run(self, dead_ends: int) -> list[Candidate] | NoPlace:
        """All placed, or the first request for which that failed; gives up after this number of *dead_ends*."""
        levels = [self._level()]
        failed: set[object] = set()
        while time.monotonic() < self._until:
            candidate = levels[-1].next()
            if candidate is not None:
                if len(self._placed) + 1 == len(self._requests):
                    return [*self._placed, candidate]
                self._place(candidate)
                # Other candidates can take the same amounts in another order; what failed once fails again.
                if failed and self._state() in failed:
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
            failed.add(self._state())
            self._take_back()
        return self._no_place(gave_up=True)

    def _no_place(self, *, gave_up: bool) -> NoPlace:
        return NoPlace(self._furthest, gave_up, self._is_cut, self._snapshots[-1])

    def _level(self) -> _Level:
        """The candidates for the next request, beside those that are placed."""
        number = len(self._placed)
        self._furthest = max(self._furthest, number)
        work = Work(self._enumeration.work, until=self._until)
        snapshot, request = self._snapshots[-1], self._requests[number]
        candidates = find(snapshot, request, self._enumeration, work=work, among=self._free_roots())
        if self._drawn:
            best = list(candidates)
            shuffle(best)
            candidates = iter(best)
        return _Level(candidates, work, self._limit)

    def _place(self, candidate: Candidate) -> None:
        self._placed.append(candidate)
        self._snapshots.append(self._snapshots[-1].with_taken(taken_by(candidate)))

    def _take_back(self) -> None:
        self._placed.pop()
        self._snapshots.pop()

    def _free_roots(self) -> NDArray[np.bool_] | None:
        """The roots that the next candidate may have; None for all."""
        if not (self._distinct_roots and self._placed):
            return None
        free = np.ones(self._snapshots[-1].size, np.bool_)
        # Members are parents first, so the first one is the root.
        free[[candidate.members[0] for candidate in self._placed]] = False
        return free

    def _state(self) -> object:
        """All that later requests can see of the placed candidates: equal states have equal futures."""
        roots = frozenset(candidate.members[0] for candidate in self._placed) if self._distinct_roots else None
        total = summed(taken_by(candidate) for candidate in self._placed)
        taken = frozenset((slot, frozenset(amounts.items())) for slot, amounts in total.items())
        return len(self._placed), roots, taken


class _Level:
    """The candidates for one request that were not tried yet."""

    def __init__(self, candidates: Iterator[Candidate], work: Work, limit: int) -> None:
        self._candidates = candidates
        self._work = work
        self._remaining = limit

    def next(self) -> Candidate | None:
        """The next candidate, if there is one."""
        candidate = next(self._candidates, None)
        self._remaining -= candidate is not None
        return candidate

    @property
    def is_cut(self) -> bool:
        """Whether the request used up its work, so there may be more candidates."""
        return self._work.is_cut

    @property
    def is_at_limit(self) -> bool:
        """Whether the limit ended the candidates, so there may be more."""
        return self._remaining <= 0
