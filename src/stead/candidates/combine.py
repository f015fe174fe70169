"""Combine: all ways to serve every need under one anchor, one after the other, each found before the next is sought.

A need is one open choice: a suffixed group, or one class of the unsuffixed group. Providers are assigned need by need,
those with the fewest choices first; before a branch is entered it is asked whether capacities, isolation, required
traits and subtrees leave a way through it.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from stead.candidates.matching import Matching

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from stead.domain.provider import Slot

Way = tuple["Slot", ...]
"""The chosen provider of every need, in the order in which the needs were given."""


@dataclass(frozen=True, slots=True)
class Need:
    """One open choice: what is taken (amounts by class id) and from whom it may be taken."""

    suffix: str
    amounts: Mapping[int, int]
    choices: Sequence[Slot]
    is_isolated: bool = False
    """No other isolated need may be served by the same provider."""


@dataclass(frozen=True, slots=True)
class Puzzle:
    """All needs under one anchor, and what binds them together.

    ``left(slot, class id)`` says how much one candidate may take of a place in all. ``is_below(slot, top)`` is the
    ancestor relation. Each of ``subtrees`` names needs of which one must be served by an ancestor of all the others
    (or the same provider). ``clauses`` are sets of providers: of each, one must serve one of the ``clause_needs``.
    """

    needs: Sequence[Need]
    left: Callable[[Slot, int], int]
    is_below: Callable[[Slot, Slot], bool]
    subtrees: Sequence[frozenset[int]] = ()
    clauses: Sequence[frozenset[Slot]] = ()
    clause_needs: frozenset[int] = field(default_factory=frozenset)


def ways(puzzle: Puzzle) -> Iterator[Way]:
    """All ways to solve *puzzle*, each once."""
    if any(not need.choices for need in puzzle.needs) or _is_over_demanded(puzzle):
        return
    for tops, narrowed in _topped(puzzle, 0, (), [list(need.choices) for need in puzzle.needs]):
        yield from _Search(puzzle, tops, narrowed).run()


def _is_over_demanded(puzzle: Puzzle) -> bool:
    """Whether all providers together have less of a contested class than is asked of them."""
    demand: Counter[int] = Counter()
    places: dict[int, set[Slot]] = defaultdict(set)
    for need in puzzle.needs:
        for class_id, amount in need.amounts.items():
            demand[class_id] += amount
            places[class_id].update(need.choices)
    contested = {class_id for class_id in demand if sum(class_id in need.amounts for need in puzzle.needs) > 1}
    return any(
        sum(puzzle.left(slot, class_id) for slot in places[class_id]) < demand[class_id] for class_id in contested
    )


def _topped(
    puzzle: Puzzle, place: int, tops: tuple[Slot, ...], choices: list[list[Slot]]
) -> Iterator[tuple[tuple[Slot, ...], list[list[Slot]]]]:
    """Every choice of a top for each subtree constraint, with the needs' choices narrowed to below the tops.

    A way that holds has exactly one top per constraint, so no way is met twice.
    """
    if place == len(puzzle.subtrees):
        yield tops, choices
        return
    bound = puzzle.subtrees[place]
    for top in sorted({slot for need in bound for slot in choices[need]}):
        narrowed = [
            [slot for slot in some if puzzle.is_below(slot, top)] if need in bound else some
            for need, some in enumerate(choices)
        ]
        if all(narrowed[need] for need in bound):
            yield from _topped(puzzle, place + 1, (*tops, top), narrowed)


class _Search:
    """Depth-first search over the needs, those with the fewest choices first."""

    def __init__(self, puzzle: Puzzle, tops: Sequence[Slot], choices: Sequence[Sequence[Slot]]) -> None:
        self._puzzle = puzzle
        self._tops = tops
        self._choices = choices
        self._order = sorted(range(len(choices)), key=lambda need: len(choices[need]))
        self._way: dict[int, Slot] = {}
        self._taken: Counter[tuple[Slot, int]] = Counter()
        demanded = Counter(class_id for need in puzzle.needs for class_id in need.amounts)
        self._contested = frozenset(class_id for class_id, times in demanded.items() if times > 1)
        isolated = {need: choices[need] for need in self._order if puzzle.needs[need].is_isolated}
        self._matching = Matching(isolated if len(isolated) > 1 else {})

    def run(self) -> Iterator[Way]:
        if not self._matching.is_complete or not self._may_still_hold(0):
            return
        yield from self._from(0)

    def _from(self, depth: int) -> Iterator[Way]:
        if depth == len(self._order):
            yield tuple(self._way[need] for need in range(len(self._order)))
            return
        need = self._order[depth]
        for slot in self._choices[need]:
            before = self._matching
            if not self._has_room(need, slot):
                continue
            after = before.assigned(need, slot)
            if after is None:
                continue
            self._take(need, slot, +1)
            self._way[need] = slot
            self._matching = after
            if self._may_still_hold(depth + 1):
                yield from self._from(depth + 1)
            self._matching = before
            del self._way[need]
            self._take(need, slot, -1)

    def _has_room(self, need: int, slot: Slot) -> bool:
        return all(
            self._taken[slot, class_id] + amount <= self._puzzle.left(slot, class_id)
            for class_id, amount in self._puzzle.needs[need].amounts.items()
            if class_id in self._contested
        )

    def _take(self, need: int, slot: Slot, sign: int) -> None:
        for class_id, amount in self._puzzle.needs[need].amounts.items():
            if class_id in self._contested:
                self._taken[slot, class_id] += sign * amount

    def _may_still_hold(self, depth: int) -> bool:
        """Whether every top and every clause is met already, or still can be by the needs after *depth*."""
        ahead = self._order[depth:]
        for bound, top in zip(self._puzzle.subtrees, self._tops, strict=True):
            if not self._can_be_met(bound, {top}, ahead):
                return False
        clause_needs = self._puzzle.clause_needs
        return all(self._can_be_met(clause_needs, clause, ahead) for clause in self._puzzle.clauses)

    def _can_be_met(self, needs: frozenset[int], wanted: set[Slot] | frozenset[Slot], ahead: Sequence[int]) -> bool:
        """Whether one of *needs* is served by one of *wanted*, or can still be."""
        return any(self._way.get(need) in wanted for need in needs) or any(
            not wanted.isdisjoint(self._choices[need]) for need in ahead if need in needs
        )
