"""Requirements of a search: sets of providers, of which at least one must serve one of certain needs.

The top of a subtree must serve one of the needs bound to it. One of the providers that meet a required trait must serve
one of the needs of the unsuffixed group.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stead.candidates.demand import Choices, Demand


class Requirements:
    """How many assigned needs meet each requirement, and whether a later need still can."""

    __slots__ = ("_last_depth", "_met", "_of_need", "_positions")

    def __init__(
        self,
        demand: Demand,
        tops: Sequence[int],
        clauses: Sequence[frozenset[int]],
        choices: Choices,
        order: Sequence[int],
    ) -> None:
        """Nothing is assigned yet.

        Args:
            tops: by subtree of *demand*, the position that is its top.
            clauses: the positions that meet each required trait.
            order: the needs in the order in which the search assigns them.
        """
        requirements = [(subtree.bound, frozenset([top])) for subtree, top in zip(demand.subtrees, tops, strict=True)]
        requirements += [(demand.clause_needs, clause) for clause in clauses]
        self._positions = [positions for _, positions in requirements]
        self._met = [0] * len(requirements)
        self._of_need: dict[int, list[int]] = defaultdict(list)
        # For each requirement the depth of the last need in the order with a choice that meets it; 0 if none has one.
        self._last_depth = [0] * len(requirements)
        for depth, need in enumerate(order, 1):
            for number, (needs, positions) in enumerate(requirements):
                if need in needs:
                    self._of_need[need].append(number)
                    if not positions.isdisjoint(choices[need]):
                        self._last_depth[number] = depth

    @property
    def can_be_met(self) -> bool:
        """Whether each requirement has a need with a choice that meets it."""
        return all(self._last_depth)

    def of_position(self, position: int) -> tuple[bool, ...]:
        """Which requirements a provider meets."""
        return tuple(position in positions for positions in self._positions)

    def assign(self, need: int, position: int) -> None:
        """Count that *position* serves *need*."""
        for number in self._of_need.get(need, ()):
            if position in self._positions[number]:
                self._met[number] += 1

    def release(self, need: int, position: int) -> None:
        """Undo `assign`."""
        for number in self._of_need.get(need, ()):
            if position in self._positions[number]:
                self._met[number] -= 1

    def allow(self, need: int, depth: int) -> bool:
        """Whether each requirement of *need* is met, or can be by a need after *depth*.

        Only the requirements of the need that was just assigned can have become impossible: those of other needs have
        the same later needs as before.
        """
        return all(self._met[number] or self._last_depth[number] > depth for number in self._of_need.get(need, ()))
