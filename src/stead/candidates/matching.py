"""Matching: whether needs that compete for the same providers can all be served.

Isolated needs compete because a provider serves one of them; needs of equal amounts because a provider has room for so
many of them and no more. Keeping one complete matching alive while needs are assigned one by one tells of every branch,
before it is entered, whether there is a way through it; so the next way is always found in polynomial time.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from stead.candidates.work import LOOKED

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from stead.candidates.work import Work

_NOBODY: frozenset[int] = frozenset()


class Room:
    """Needs that compete and may all be served by the same positions, where any room is as good as any other.

    The matching of such needs, of which only the number is of interest; never changes once it is made.
    """

    __slots__ = ("_left", "_needs", "is_complete")

    def __init__(self, needs: Collection[int], left: Mapping[int, int], *, is_complete: bool) -> None:
        """*needs*, with room for so many of them *left* by position; complete if that is enough for all."""
        self._needs = needs
        self._left = left
        self.is_complete = is_complete

    def assigned(self, need: int, position: int) -> Room | None:
        """What is left after *need* is served by *position* for good; None if there is no room.

        A need that does not compete leaves it as it is.
        """
        if need not in self._needs:
            return self
        left = self._left[position]
        return Room(self._needs, {**self._left, position: left - 1}, is_complete=True) if left else None


class Matching:
    """Needs that compete, each with a position, some of them for good; never changes once it is made."""

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
        """Complete a matching, if that can be, in which the needs *fixed* keep their positions.

        Args:
            choices: for each need the positions that may serve it.
            room: how many of the needs a position can serve.
            work: what mending the matching is paid from.
            position_of: those of needs that have one already; with *needs_at*, the same the other way round, it is
                given over.

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
        """The matching after *need* is served by *position* for good; None if the other needs can not be served then.

        A need that does not compete leaves it as it is.

        Raises:
            WorkSpent
        """
        if need not in self._choices:
            return self
        fixed, before = self._fixed | {need}, self._position_of[need]
        if before == position:
            return Matching(self._choices, self._room, self._work, self._position_of, self._needs_at, fixed)
        holders = self._needs_at.get(position, _NOBODY)
        position_of, needs_at = {**self._position_of, need: position}, dict(self._needs_at)
        needs_at[before] -= {need}
        needs_at[position] = holders | {need}
        if len(holders) >= self._room(position):
            displaced = next((holder for holder in holders if holder not in self._fixed), None)
            if displaced is None:
                return None
            needs_at[position] -= {displaced}
            del position_of[displaced]
        after = Matching(self._choices, self._room, self._work, position_of, needs_at, fixed)
        return after if after.is_complete else None

    def _serve(self, need: int) -> bool:
        """Find a position for *need* as well, moving others that are not fixed, by a shortest augmenting path."""
        came_from: dict[int, int] = {}  # which need looks at the position
        looking = deque([need])
        while looking:
            asking = looking.popleft()
            self._work.spend(LOOKED * len(self._choices[asking]))
            for position in self._choices[asking]:
                if position in came_from:
                    continue
                came_from[position] = asking
                holders = self._needs_at.get(position, _NOBODY)
                if len(holders) < self._room(position):
                    self._move_along(position, came_from, need)
                    return True
                looking.extend(holders - self._fixed)
        return False

    def _move_along(self, position: int, came_from: Mapping[int, int], last: int) -> None:
        """Give *position* to the need that looked at it, that need's to the one that looked at that, up to *last*."""
        while True:
            need = came_from[position]
            freed = self._position_of.get(need)
            self._position_of[need] = position
            self._needs_at[position] = self._needs_at.get(position, _NOBODY) | {need}
            if freed is None or need == last:
                return
            self._needs_at[freed] -= {need}
            position = freed
