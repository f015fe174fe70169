"""Matching: whether needs that compete for the same providers can all be served.

Isolated needs compete because a provider serves one of them; needs of equal amounts because a provider has room for so
many of them and no more. Keeping one complete matching alive while needs are assigned one by one tells of every branch,
before it is entered, whether there is a way through it; so the next way is always found in polynomial time.
"""

from __future__ import annotations

from collections import defaultdict, deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from stead.domain.provider import Slot


class Matching:
    """Needs that compete, each with a provider, some of them for good; never changes once it is made."""

    def __init__(
        self,
        choices: Mapping[int, Sequence[Slot]],
        room: Callable[[Slot], int],
        matched: Mapping[int, Slot] | None = None,
        fixed: frozenset[int] = frozenset(),
    ) -> None:
        """Complete *matched*, in which the needs *fixed* keep their providers.

        Args:
            choices: for each need the providers that may serve it.
            room: how many of the needs a provider can serve.
            matched: needs that have a provider already, within its room.
        """
        self._choices = choices
        self._room = room
        self._fixed = fixed
        self._slot_of = dict(matched or {})
        self._needs_of: dict[Slot, set[int]] = defaultdict(set)
        for need, slot in self._slot_of.items():
            self._needs_of[slot].add(need)
        self.is_complete = all(self._serve(need) for need in choices if need not in self._slot_of)

    def assigned(self, need: int, slot: Slot) -> Matching | None:
        """The matching after *need* is served by *slot* for good; None if the other needs can not be served then.

        A need that does not compete leaves it as it is.
        """
        if need not in self._choices:
            return self
        holders = self._needs_of[slot] - {need}
        matched = {other: its for other, its in self._slot_of.items() if other != need}
        if len(holders) >= self._room(slot):
            displaced = next((holder for holder in holders if holder not in self._fixed), None)
            if displaced is None:
                return None
            del matched[displaced]
        after = Matching(self._choices, self._room, {**matched, need: slot}, self._fixed | {need})
        return after if after.is_complete else None

    def _serve(self, need: int) -> bool:
        """Find a provider for *need* as well, moving others that are not fixed, by a shortest augmenting path."""
        came_from: dict[Slot, int] = {}  # which need looks at the provider
        looking = deque([need])
        while looking:
            asking = looking.popleft()
            for slot in self._choices[asking]:
                if slot in came_from:
                    continue
                came_from[slot] = asking
                if len(self._needs_of[slot]) < self._room(slot):
                    self._move_along(slot, came_from, need)
                    return True
                looking.extend(self._needs_of[slot] - self._fixed)
        return False

    def _move_along(self, slot: Slot, came_from: Mapping[Slot, int], last: int) -> None:
        """Give *slot* to the need that looked at it, that need's provider to the one before, and so on to *last*."""
        while True:
            need = came_from[slot]
            freed = self._slot_of.get(need)
            self._slot_of[need] = slot
            self._needs_of[slot].add(need)
            if freed is None or need == last:
                return
            self._needs_of[freed].discard(need)
            slot = freed
