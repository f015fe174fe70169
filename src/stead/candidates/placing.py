"""Placing: each of several requests in turn gets the best candidate in what the earlier requests leave.

Source: "POST /claims", docs/stead-api.md.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from random import choice
from typing import TYPE_CHECKING

import numpy as np

from stead.candidates.engine import find
from stead.candidates.work import Work, WorkSpent
from stead.domain.request import Drawn

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from numpy.typing import NDArray

    from stead.candidates.engine import Enumeration
    from stead.candidates.kinds import Candidate
    from stead.catalog.snapshot import Snapshot
    from stead.domain.provider import Slot
    from stead.domain.request import CandidateRequest

Amounts = dict["Slot", dict[int, int]]
"""By slot and class id."""

SEARCH = 300
"""Units of the calls of one search for candidates, however small the site is."""


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


@dataclass(frozen=True, slots=True)
class Member:
    """A request of a gang. What its consumer has now, ``released``, is free before the request is served."""

    request: CandidateRequest
    released: Amounts = field(default_factory=dict)


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


class Placing:
    """Requests that need a place at the same time, in one snapshot."""

    def __init__(
        self, snapshot: Snapshot, members: Sequence[Member], enumeration: Enumeration, *, distinct_roots: bool
    ) -> None:
        self._snapshot = snapshot
        self._members = [replace(each, request=enumeration.ordered(each.request)) for each in members]
        self._enumeration = enumeration
        self._distinct_roots = distinct_roots

    def in_order(
        self, order: Sequence[int], work_of: Callable[[], Work], *, among_best: int = 1, is_ordered: bool = True
    ) -> dict[int, Candidate] | NoPlace:
        """The best candidate for each member in turn, or the first member that has none.

        Args:
            work_of: the budget of each search.
            is_ordered: false if any candidate will do.
        """
        placed: dict[int, Candidate] = {}
        snapshot, free_roots = self._snapshot, self._every_root()
        for number in order:
            work = work_of()
            free = snapshot.with_taken(negated(self._members[number].released))
            request = self._members[number].request
            by = (request.order or Drawn()) if is_ordered else None
            candidate = self._drawn(free, replace(request, order=by, limit=among_best), free_roots, work)
            if candidate is None:
                return NoPlace(number, work.is_cut, work.is_cut, snapshot)
            placed[number] = candidate
            snapshot = free.with_taken(taken_by(candidate))
            if free_roots is not None:
                # Members are parents first, so the first one is the root.
                free_roots[candidate.members[0]] = False
        return placed

    def _every_root(self) -> NDArray[np.bool_] | None:
        """The roots that a candidate may have; None for all."""
        return np.ones(self._snapshot.size, np.bool_) if self._distinct_roots else None

    def _drawn(
        self, snapshot: Snapshot, request: CandidateRequest, among: NDArray[np.bool_] | None, work: Work
    ) -> Candidate | None:
        """One of the candidates up to the limit of *request*."""
        try:
            work.spend(SEARCH)
            work.require_time()  # each request may have a budget of its own, but all have one time
        except WorkSpent:
            return None
        best = list(find(snapshot, request, self._enumeration, work=work, among=among))
        return choice(best) if best else None
