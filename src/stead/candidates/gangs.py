"""Gangs: a candidate for each of several requests, so that all of them fit at the same time.

Each request in turn gets the best candidate in what the earlier requests leave. Nearly all gangs end there. If one
has none, the earlier ones are revised within one budget of work, by the cheapest method that decides:

1. Bounds prove that no place for all exists: too few trees, or too little room.
2. The request without a place moves to the front, and all choose again. So those that have few places choose first.
3. A search tries everything. After each step, it checks that every request still has a candidate.

Only a proof or a search that came to its end says that nothing fits.

Source: "POST /claims", docs/stead-api.md; decision 65.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from itertools import chain, combinations
from math import inf
from typing import TYPE_CHECKING

import numpy as np

from stead.candidates.engine import find, match_all
from stead.candidates.headroom.headroom import headroom, room_of, usable
from stead.candidates.placing import SEARCH, Member, NoPlace, Placing, negated, summed, taken_by
from stead.candidates.work import LOOKED, Work, WorkSpent, keep_on, masked

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from stead.candidates.engine import Enumeration
    from stead.candidates.kinds import Candidate
    from stead.catalog.snapshot import Snapshot
    from stead.domain.request import CandidateRequest

MOST_KINDS = 8
"""Different requests of which every set is compared with the trees that can serve it."""

_PASSES = 64
"""Orders in which all choose again."""


def place(
    snapshot: Snapshot,
    requests: Sequence[CandidateRequest],
    enumeration: Enumeration,
    *,
    distinct_roots: bool,
    among_best: int = 1,
    until: float = inf,
    work: Work | None = None,
    give_way: Callable[[], object] = keep_on,
) -> list[Candidate] | NoPlace:
    """A candidate for each of *requests*; all fit together. Any candidates, if finding the best takes too much work.

    Args:
        distinct_roots: no two candidates have the same root.
        among_best: draw each candidate from this number of the best, if that leaves a place for all.
        until: time of the monotonic clock at which the search gives up.
        work: the budget of all searches together; by default, each request and the revision have that of *enumeration*.
        give_way: lets other requests run.

    Raises:
        UnknownResourceClass, UnknownTraits
    """
    enumeration = replace(enumeration, maximum=None, randomize=False)

    def budget() -> Work:
        if work is not None:
            return work
        give_way()  # a gang has many budgets, and a small one is used up before its search gives way
        return Work(enumeration.work, until=until, give_way=give_way)

    members = [Member(request) for request in requests]
    gang = _Gang(snapshot, members, enumeration, distinct_roots=distinct_roots)
    natural = range(len(requests))
    # The attempts, the cheapest first. Nearly all claims end with the first that applies.
    if among_best > 1:
        drawn = gang.in_order(natural, budget, among_best=among_best)
        if not isinstance(drawn, NoPlace):
            return [drawn[number] for number in natural]
    first = gang.in_order(natural, budget)
    if isinstance(first, NoPlace) and first.is_cut:  # finding the best, or drawing, took all work: any will do
        first = gang.in_order(natural, budget, is_ordered=False)
    if not isinstance(first, NoPlace):
        return [first[number] for number in natural]
    # The first request has no earlier ones that could move out of its way.
    if first.number == 0:
        return first
    revising = budget()
    revised = gang.revised(first.number, revising)
    if revised is None:
        return replace(first, gave_up=revising.is_cut)
    return [revised[number] for number in natural]


def rearranged(
    snapshot: Snapshot, members: Sequence[Member], enumeration: Enumeration, failing: int, work: Work
) -> dict[int, Candidate] | None:
    """A candidate for each of *members*, of which number *failing* found none in their order.

    Returns:
        The candidates by number, in an order in which each fits when its turn comes. None if there are none or, if
        *work* is cut, none was found.

    Raises:
        UnknownResourceClass, UnknownTraits
    """
    enumeration = replace(enumeration, maximum=None, randomize=False)
    return _Gang(snapshot, members, enumeration, distinct_roots=False).revised(failing, work)


class _Gang(Placing):
    """Requests whose earlier places are revised if a later one has none."""

    def revised(self, failing: int, work: Work) -> dict[int, Candidate] | None:
        """A candidate for each member, of which number *failing* found none in their order; in the order of placing.

        Returns:
            None if there are none or, if *work* is cut, none was found.
        """
        try:
            kinds = _kinds([member.request for member in self._members], work)
            fewest = self._trees_of(kinds, work)
            if fewest is None or self._lacks_room(kinds, work):
                return None
            search = _Search(
                self._snapshot,
                self._members,
                kinds,
                fewest,
                self._enumeration,
                work,
                distinct_roots=self._distinct_roots,
            )
            return self._after_passes(failing, work) or search.run()
        except WorkSpent:
            return None

    def _trees_of(self, kinds: Sequence[_Kind], work: Work) -> list[NDArray[np.int64]] | None:
        """By kind the roots of the trees that may serve it; None if they do not suffice for all members.

        Raises:
            WorkSpent
        """
        # Everything that any member releases is free here, so these bounds hold at every step.
        free = self._snapshot.with_taken(negated(summed(member.released for member in self._members)))
        roots = []
        for kind in kinds:
            room = headroom(free, kind.request, work)
            if work.is_cut:
                raise WorkSpent
            if room.at_most < len(kind.numbers):
                return None
            roots.append(room.roots)
        if self._distinct_roots and len(kinds) <= MOST_KINDS:
            # By the theorem of Hall, these sets decide, except for what sharing providers lack.
            for size in range(1, len(kinds) + 1):
                for chosen in combinations(range(len(kinds)), size):
                    work.spend(masked(sum(len(roots[number]) for number in chosen)))
                    trees = np.unique(np.concatenate([roots[number] for number in chosen]))
                    if len(trees) < sum(len(kinds[number].numbers) for number in chosen):
                        return None
        return roots

    def _lacks_room(self, kinds: Sequence[_Kind], work: Work) -> bool:
        """Whether all members together take more of a class than all providers that may give it have.

        Raises:
            WorkSpent
        """
        free = self._snapshot.with_taken(negated(summed(member.released for member in self._members)))
        parts = [(kind.request, len(kind.numbers)) for kind in kinds]
        rooms, amounts = rooms_of(free, parts, work)
        return any(rooms[class_id] < amount for class_id, amount in amounts.items() if class_id in rooms)

    def _after_passes(self, failing: int, work: Work) -> dict[int, Candidate] | None:
        """The candidates after members without one have moved to the front; None if that did not help.

        Raises:
            WorkSpent
        """
        order = list(range(len(self._members)))
        # The search that tries everything must have a part of the budget.
        least = work.remaining / 2
        for _ in range(_PASSES):
            order.remove(failing)
            order.insert(0, failing)
            outcome = self.in_order(order, lambda: work)
            if not isinstance(outcome, NoPlace):
                return outcome
            if outcome.is_cut:
                raise WorkSpent
            if order[0] == outcome.number or work.remaining < least:
                return None
            failing = outcome.number
        return None


@dataclass(frozen=True, slots=True)
class _Kind:
    """A request, and the numbers of the members that make it."""

    request: CandidateRequest
    numbers: list[int]


def _kinds(requests: Sequence[CandidateRequest], work: Work) -> list[_Kind]:
    """*requests* by equality.

    Raises:
        WorkSpent
    """
    kinds: list[_Kind] = []
    for number, request in enumerate(requests):
        plain = replace(request, order=None, limit=None)
        work.spend(LOOKED * (len(kinds) + 10))
        same = next((kind for kind in kinds if kind.request == plain), None)
        if same is None:
            kinds.append(_Kind(plain, [number]))
        else:
            same.numbers.append(number)
    return kinds


def rooms_of(
    snapshot: Snapshot, parts: Sequence[tuple[CandidateRequest, int]], work: Work
) -> tuple[Mapping[int, int], Mapping[int, int]]:
    """By class id, what is free at the providers that any request can use, and what all requests take.

    Args:
        parts: each request, and how many times it counts.

    Raises:
        UnknownResourceClass, UnknownTraits, WorkSpent
    """
    taken: Counter[int] = Counter()
    providers: dict[int, NDArray[np.bool_]] = {}
    for request, times in parts:
        matched = match_all(snapshot, request, work)
        if matched is None:
            continue  # it fits nowhere, which other bounds say
        amounts, of_class = usable(snapshot, request, matched[1], work)
        for class_id, amount in amounts.items():
            taken[class_id] += amount * times
            before = providers.get(class_id)
            providers[class_id] = of_class[class_id] if before is None else before | of_class[class_id]
    rooms = {c: room_of(snapshot, c, mask) for c, mask in providers.items() if c in snapshot.inventory}
    return rooms, taken


class _Search:
    """Depth-first search over all candidates of all members, those with the fewest trees first."""

    def __init__(
        self,
        snapshot: Snapshot,
        members: Sequence[Member],
        kinds: Sequence[_Kind],
        trees: Sequence[NDArray[np.int64]],
        enumeration: Enumeration,
        work: Work,
        *,
        distinct_roots: bool,
    ) -> None:
        self._members = members
        self._kinds = kinds
        self._trees = trees
        self._enumeration = enumeration
        self._work = work
        self._distinct_roots = distinct_roots
        ordered = sorted(range(len(kinds)), key=lambda number: len(trees[number]))
        self._order = [(kind, number) for kind in ordered for number in kinds[kind].numbers]
        self._snapshots = [snapshot]  # before the first placement and after each
        self._placed: list[Candidate] = []

    def run(self) -> dict[int, Candidate] | None:
        """The candidates by member, or None if there are none.

        Raises:
            WorkSpent
        """
        levels = [self._options()]
        failed: set[object] = set()
        while levels:
            candidate = self._next(levels[-1])
            if candidate is None:
                levels.pop()
                if levels:
                    failed.add(self._state())
                    self._take_back()
                continue
            self._place(candidate)
            if len(self._placed) == len(self._order):
                return {number: placed for (_, number), placed in zip(self._order, self._placed, strict=True)}
            # Other candidates can take the same amounts in another order; what failed once fails again.
            if self._state() in failed or not self._can_continue():
                self._take_back()
            else:
                levels.append(self._options())
        return None

    def _next(self, candidates: Iterator[Candidate]) -> Candidate | None:
        candidate = next(candidates, None)
        if candidate is None and self._work.is_cut:
            raise WorkSpent
        return candidate

    def _options(self) -> Iterator[Candidate]:
        """The candidates for the next member, beside those that are placed."""
        kind, number = self._order[len(self._placed)]
        request = self._kinds[kind].request
        free = self._snapshots[-1].with_taken(negated(self._members[number].released))
        if not self._distinct_roots:
            return self._found(free, request, None)
        # A candidate of sharing providers alone is found under one root only, and here its root matters.
        used = {placed.members[0] for placed in self._placed}
        roots = [root for root in self._trees[kind].tolist() if root not in used]
        return chain.from_iterable(self._found(free, request, root) for root in roots)

    def _found(self, snapshot: Snapshot, request: CandidateRequest, root: int | None) -> Iterator[Candidate]:
        self._work.spend(SEARCH)
        among = None
        if root is not None:
            among = np.zeros(snapshot.size, np.bool_)
            among[root] = True
        return find(snapshot, request, self._enumeration, work=self._work, among=among)

    def _can_continue(self) -> bool:
        """Whether each kind of member that is not placed yet has a candidate.

        Raises:
            WorkSpent
        """
        among = None
        if self._distinct_roots:
            among = np.ones(self._snapshots[-1].size, np.bool_)
            among[[placed.members[0] for placed in self._placed]] = False
        # Members of one kind that release nothing see the same, so one of them stands for all.
        checked = {
            (kind, number if self._members[number].released else None): number
            for kind, number in self._order[len(self._placed) :]
        }
        for (kind, _), number in checked.items():
            self._work.spend(SEARCH)
            free = self._snapshots[-1].with_taken(negated(self._members[number].released))
            request = replace(self._kinds[kind].request, limit=1)
            if self._next(find(free, request, self._enumeration, work=self._work, among=among)) is None:
                return False
        return True

    def _place(self, candidate: Candidate) -> None:
        _, number = self._order[len(self._placed)]
        change = summed([negated(self._members[number].released), taken_by(candidate)])
        self._placed.append(candidate)
        self._snapshots.append(self._snapshots[-1].with_taken(change))

    def _take_back(self) -> None:
        self._placed.pop()
        self._snapshots.pop()

    def _state(self) -> object:
        """All that later requests can see of the placed candidates: equal states have equal futures."""
        roots = frozenset(candidate.members[0] for candidate in self._placed) if self._distinct_roots else None
        total = summed(taken_by(candidate) for candidate in self._placed)
        taken = frozenset((slot, frozenset(amounts.items())) for slot, amounts in total.items())
        self._work.spend(LOOKED * len(self._placed))
        return len(self._placed), roots, taken
