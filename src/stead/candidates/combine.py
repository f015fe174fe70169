"""Combine: all ways to serve every need under one anchor, one after the other, each found before the next is sought.

A need is one open choice: a suffixed group, or one class of the unsuffixed group. Providers are assigned need by need,
those with the fewest choices first; before a branch is entered it is asked whether capacities, isolation, required
traits and subtrees leave a way through it.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from functools import cache
from itertools import product
from typing import TYPE_CHECKING

from stead.candidates.matching import Matching
from stead.domain.provider import Slot

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    Choices = Sequence[Sequence[Slot]]
    """For each need the providers it may be served by."""

    Way = tuple[Slot, ...]
    """For each need the provider that serves it."""


@dataclass(frozen=True, slots=True)
class Demand:
    """What a request needs of every tree alike; needs go by their places in ``amounts``.

    ``amounts`` says what each need takes, by class id. ``isolated`` needs are served by different providers. Each of
    ``subtrees`` names needs of which one must be served by an ancestor of all the others (or by the same provider).
    ``clause_needs`` are those whose providers must meet required traits together. ``left(slot, class id)`` is how much
    one candidate may take of a place in all; ``is_below(slot, top)`` the ancestor relation.
    """

    amounts: Sequence[Mapping[int, int]]
    left: Callable[[Slot, int], int]
    is_below: Callable[[Slot, Slot], bool]
    isolated: frozenset[int] = frozenset()
    subtrees: Sequence[frozenset[int]] = ()
    clause_needs: frozenset[int] = frozenset()

    def contested(self) -> frozenset[int]:
        """Classes that more than one need takes; of all others a provider that was matched has enough."""
        times = Counter(class_id for amounts in self.amounts for class_id in amounts)
        return frozenset(class_id for class_id, count in times.items() if count > 1)


class Combiner:
    """Finds all ways to serve one demand, tree by tree."""

    def __init__(self, demand: Demand) -> None:
        self._demand = demand
        self._contested = demand.contested()
        self._is_bound = bool(self._contested or len(demand.isolated) > 1 or demand.subtrees)

    def ways(self, choices: Choices, clauses: Sequence[frozenset[Slot]] = ()) -> Iterator[Way]:
        """All ways to choose from *choices* (by need), each once.

        Args:
            clauses: sets of providers; one of each must serve one of the demand's ``clause_needs``.
        """
        open_clauses = [clause for clause in clauses if not self._is_always_met(clause, choices)]
        if not all(choices) or (self._contested and self._is_over_demanded(choices)):
            return
        if not (self._is_bound or open_clauses):
            yield from product(*choices)
            return
        for tops, narrowed in _topped(self._demand, choices):
            yield from _Search(self._demand, self._contested, tops, narrowed, open_clauses).run()

    def _is_always_met(self, clause: frozenset[Slot], choices: Choices) -> bool:
        """Whether some need meets *clause* whatever is chosen for it."""
        return any(clause.issuperset(choices[need]) for need in self._demand.clause_needs)

    def _is_over_demanded(self, choices: Choices) -> bool:
        """Whether all providers together have less of a contested class than is asked of them."""
        demanded: Counter[int] = Counter()
        places: dict[int, set[Slot]] = defaultdict(set)
        for amounts, some in zip(self._demand.amounts, choices, strict=True):
            for class_id in self._contested.intersection(amounts):
                demanded[class_id] += amounts[class_id]
                places[class_id].update(some)
        left = self._demand.left
        return any(
            sum(left(slot, class_id) for slot in places[class_id]) < amount for class_id, amount in demanded.items()
        )


def _topped(demand: Demand, choices: Choices) -> Iterator[tuple[Sequence[Slot], Choices]]:
    """Every choice of a top for each subtree constraint, with the needs' choices narrowed to below the tops.

    A way that holds has exactly one top per constraint, so no way is met twice.
    """
    levels = [iter([(Slot(-1), choices)])]  # by place of the constraint; the first level has none
    tops: list[Slot] = []
    while levels:
        top, narrowed = next(levels[-1], (None, choices))
        del tops[len(levels) - 1 :]
        if top is None:
            levels.pop()
            continue
        tops.append(top)
        if len(levels) > len(demand.subtrees):
            yield tops[1:], narrowed
        else:
            levels.append(_below_tops(demand, demand.subtrees[len(levels) - 1], narrowed))


def _below_tops(demand: Demand, bound: frozenset[int], choices: Choices) -> Iterator[tuple[Slot, Choices]]:
    """Every provider that could be the top of the needs *bound*, with their choices narrowed to below it."""
    for top in dict.fromkeys(slot for need in sorted(bound) for slot in choices[need]):
        narrowed = [
            [slot for slot in some if demand.is_below(slot, top)] if need in bound else some
            for need, some in enumerate(choices)
        ]
        if all(narrowed[need] for need in bound):
            yield top, narrowed


def _rivals(demand: Demand, contested: frozenset[int]) -> list[list[int]]:
    """Needs that compete with each other: the isolated ones, or those that take equal amounts of contested classes."""
    if demand.isolated:
        return [sorted(demand.isolated)]
    alike: dict[frozenset[tuple[int, int]], list[int]] = defaultdict(list)
    for need, amounts in enumerate(demand.amounts):
        if not contested.isdisjoint(amounts):
            alike[frozenset(amounts.items())].append(need)
    return [needs for needs in alike.values() if len(needs) > 1]


@dataclass(frozen=True, slots=True)
class _Level:
    """Where the search stands with one need: the providers not tried yet, and the matchings before it is served."""

    need: int
    untried: Iterator[Slot]
    matchings: Sequence[Matching]


class _Search:
    """Depth-first search over the needs, those with the fewest choices first."""

    def __init__(
        self,
        demand: Demand,
        contested: frozenset[int],
        tops: Sequence[Slot],
        choices: Choices,
        clauses: Sequence[frozenset[Slot]],
    ) -> None:
        self._demand = demand
        self._choices = choices
        self._order = sorted(range(len(choices)), key=lambda need: len(choices[need]))
        self._way: dict[int, Slot] = {}
        self._taken: Counter[tuple[Slot, int]] = Counter()
        self._claims = [
            [(class_id, amount) for class_id, amount in amounts.items() if class_id in contested]
            for amounts in demand.amounts
        ]
        self._musts = [(bound, frozenset([top])) for bound, top in zip(demand.subtrees, tops, strict=True)]
        self._musts += [(demand.clause_needs, clause) for clause in clauses]
        self._matchings = [self._matching(rivals) for rivals in _rivals(demand, contested)]

    def run(self) -> Iterator[Way]:
        """All ways."""
        if not (all(matching.is_complete for matching in self._matchings) and self._may_still_hold(0)):
            return
        levels = [self._level(0, self._matchings)]
        while levels:
            level = levels[-1]
            if level.need in self._way:
                self._take_back(level.need)
            matchings = self._go_on(level, len(levels))
            if matchings is None:
                levels.pop()
            elif len(levels) == len(self._order):
                yield tuple(self._way[need] for need in range(len(levels)))
            else:
                levels.append(self._level(len(levels), matchings))

    def _level(self, depth: int, matchings: Sequence[Matching]) -> _Level:
        need = self._order[depth]
        return _Level(need, iter(self._choices[need]), matchings)

    def _go_on(self, level: _Level, depth: int) -> Sequence[Matching] | None:
        """Serve the need of *level* by its next provider that leaves a way; the matchings after that, None if none."""
        for slot in level.untried:
            if not self._has_room(level.need, slot):
                continue
            after = [matching.assigned(level.need, slot) for matching in level.matchings]
            if None in after:
                continue
            self._assign(level.need, slot)
            if self._may_still_hold(depth):
                return [matching for matching in after if matching is not None]
            self._take_back(level.need)
        return None

    def _matching(self, rivals: Sequence[int]) -> Matching:
        """A matching of needs that compete: for a provider that serves one of them, or for its room."""
        amounts, left = self._demand.amounts[rivals[0]], self._demand.left
        isolated = not self._demand.isolated.isdisjoint(rivals)

        @cache
        def room(slot: Slot) -> int:
            return 1 if isolated else min(left(slot, class_id) // amount for class_id, amount in amounts.items())

        return Matching({need: self._choices[need] for need in rivals}, room)

    def _has_room(self, need: int, slot: Slot) -> bool:
        left = self._demand.left
        return all(
            self._taken[slot, class_id] + amount <= left(slot, class_id) for class_id, amount in self._claims[need]
        )

    def _assign(self, need: int, slot: Slot) -> None:
        self._way[need] = slot
        for class_id, amount in self._claims[need]:
            self._taken[slot, class_id] += amount

    def _take_back(self, need: int) -> None:
        slot = self._way.pop(need)
        for class_id, amount in self._claims[need]:
            self._taken[slot, class_id] -= amount

    def _may_still_hold(self, depth: int) -> bool:
        """Whether of every set of providers that must serve one of some needs, one does, or still can after *depth*."""
        return all(
            any(self._way.get(need) in wanted for need in needs)
            or any(need in needs and not wanted.isdisjoint(self._choices[need]) for need in self._order[depth:])
            for needs, wanted in self._musts
        )
