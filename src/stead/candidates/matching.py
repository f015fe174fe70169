"""Matching: whether needs that compete for the same providers can all be served.

Isolated needs compete because a provider serves only one of them. Needs of equal amounts compete because a provider has
room for a limited number of them. Before the search enters a branch, it updates a complete matching of these needs. If
none exists, the branch has no way. So the search finds each next way in polynomial time, except where unequal needs
share a provider, which is bin packing.
"""

from __future__ import annotations

from collections import defaultdict, deque
from functools import cache
from typing import TYPE_CHECKING

from stead.candidates.work import LOOKED

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from stead.candidates.demand import Choices, Demand, Ground
    from stead.candidates.work import Work

_NO_NEEDS: frozenset[int] = frozenset()


class Room:
    """The matching of competing needs that all have the same choices.

    Then it does not matter which need has which position: a matching exists if the positions have enough room in all.
    Immutable.
    """

    __slots__ = ("_needs", "_room", "is_complete")

    def __init__(self, needs: Collection[int], room: Mapping[int, int], *, is_complete: bool) -> None:
        """*room* is the number of *needs* for which each position has room; complete if that is enough for all."""
        self._needs = needs
        self._room = room
        self.is_complete = is_complete

    def assigned(self, need: int, position: int) -> Room | None:
        """The room that remains after *need* gets *position*; None if the position has none.

        A need that does not compete changes nothing. The rest is complete: one need fewer, and room for one fewer.
        """
        if need not in self._needs:
            return self
        room = self._room[position]
        return Room(self._needs, {**self._room, position: room - 1}, is_complete=True) if room else None


class Matching:
    """Competing needs, each with a position. Fixed needs keep theirs; others may be moved. Immutable."""

    __slots__ = ("_choices", "_fixed", "_needs_at", "_position_of", "_room", "_work", "is_complete")

    def __init__(
        self,
        choices: Mapping[int, Sequence[int]],
        room: Callable[[int], int],
        work: Work,
        position_of: dict[int, int] | None = None,
        needs_at: dict[int, frozenset[int]] | None = None,
        fixed: frozenset[int] = frozenset(),
    ) -> None:
        """Find positions for the needs that have none, if that is possible.

        Args:
            choices: for each need the positions that may serve it.
            room: the number of needs that a position can serve.
            work: the budget that the search for augmenting paths spends.
            position_of: the positions of the needs that have one. This object takes over the dictionary.
            needs_at: the same by position; also taken over.
            fixed: the needs that must keep their positions.

        Raises:
            WorkSpent
        """
        self._choices = choices
        self._room = room
        self._work = work
        self._fixed = fixed
        self._position_of = {} if position_of is None else position_of
        self._needs_at = {} if needs_at is None else needs_at
        self.is_complete = len(self._position_of) == len(choices) or all(
            self._serve(need) for need in choices if need not in self._position_of
        )

    def assigned(self, need: int, position: int) -> Matching | None:
        """The matching with *need* fixed at *position*; None if the other needs cannot all be served then.

        A need that does not compete changes nothing.

        Raises:
            WorkSpent
        """
        if need not in self._choices:
            return self
        fixed, before = self._fixed | {need}, self._position_of[need]
        if before == position:
            return Matching(self._choices, self._room, self._work, self._position_of, self._needs_at, fixed)
        occupants = self._needs_at.get(position, _NO_NEEDS)
        # Copies, because the search returns to this matching when the branch is done.
        position_of, needs_at = {**self._position_of, need: position}, dict(self._needs_at)
        needs_at[before] -= {need}
        needs_at[position] = occupants | {need}
        if len(occupants) >= self._room(position):
            # One need must make room. Any that is not fixed will do: the augmenting path can move the others as well.
            displaced = next((occupant for occupant in occupants if occupant not in self._fixed), None)
            if displaced is None:
                return None
            needs_at[position] -= {displaced}
            del position_of[displaced]
        after = Matching(self._choices, self._room, self._work, position_of, needs_at, fixed)
        return after if after.is_complete else None

    def _serve(self, need: int) -> bool:
        """Find a position for one more need by a shortest augmenting path, which moves needs that are not fixed."""
        reached_from: dict[int, int] = {}  # by position, the need whose choices it was found among
        queue = deque([need])
        while queue:
            moving = queue.popleft()
            self._work.spend(LOOKED * len(self._choices[moving]))
            for position in self._choices[moving]:
                if position in reached_from:
                    continue
                reached_from[position] = moving
                occupants = self._needs_at.get(position, _NO_NEEDS)
                if len(occupants) < self._room(position):
                    self._move_along(position, reached_from, need)
                    return True
                queue.extend(occupants - self._fixed)
        return False

    def _move_along(self, position: int, reached_from: Mapping[int, int], start: int) -> None:
        """Give *position* to the need it was reached from, that need's position to the one before it, up to *start*."""
        while True:
            need = reached_from[position]
            freed = self._position_of.get(need)
            self._position_of[need] = position
            self._needs_at[position] = self._needs_at.get(position, _NO_NEEDS) | {need}
            if freed is None or need == start:
                return
            self._needs_at[freed] -= {need}
            position = freed


def matchings(demand: Demand, ground: Ground, choices: Choices, work: Work) -> list[Matching | Room]:
    """A matching for each set of needs that compete, which may be incomplete; *choices* are those below the tops.

    Raises:
        WorkSpent
    """
    return [_matching(demand, ground, {need: choices[need] for need in needs}, work) for needs in _competing(demand)]


def _competing(demand: Demand) -> list[list[int]]:
    """Sets of needs that compete: the isolated ones, and those that take equal amounts of contested classes.

    Bystanders may share a provider with each other, so each of them competes with the isolated needs in a set of its
    own.
    """
    competing: list[list[int]] = []
    if demand.isolated:
        if not demand.bystanders:
            return [sorted(demand.isolated)]
        competing = [[*sorted(demand.isolated), bystander] for bystander in sorted(demand.bystanders)]
    equal: dict[frozenset[tuple[int, int]], list[int]] = defaultdict(list)
    for need, amounts in enumerate(demand.amounts):
        if need not in demand.isolated and not demand.contested.isdisjoint(amounts):
            equal[frozenset(amounts.items())].append(need)
    return competing + [needs for needs in equal.values() if len(needs) > 1]


def _matching(demand: Demand, ground: Ground, choices: Mapping[int, Sequence[int]], work: Work) -> Matching | Room:
    """The matching of the needs in *choices*, which compete for a provider, or for its room."""
    first = next(iter(choices))
    amounts, is_isolated = demand.amounts[first], not demand.isolated.isdisjoint(choices)

    @cache  # a search through the same positions asks for each of them many times
    def room(position: int) -> int:
        if is_isolated:
            return 1
        return min(ground.available(position, class_id) // amount for class_id, amount in amounts.items())

    positions = choices[first]
    if any(others != positions for others in choices.values()):
        return Matching(choices, room, work)
    work.spend(LOOKED * len(positions))
    rooms = {position: room(position) for position in positions}
    return Room(choices.keys(), rooms, is_complete=sum(rooms.values()) >= len(choices))
