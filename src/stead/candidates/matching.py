"""Bipartite matching: whether isolated needs can all be served, each by a provider of its own.

Keeping one complete matching alive while needs are assigned one by one tells of every branch, before it is entered,
whether there is a way through it; so the next way is always found in polynomial time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from stead.domain.provider import Slot


class Matching:
    """Isolated needs, each with a provider of its own, some of them for good; never changes once it is made."""

    def __init__(
        self,
        choices: Mapping[int, Sequence[Slot]],
        matched: Mapping[int, Slot] | None = None,
        fixed: frozenset[int] = frozenset(),
    ) -> None:
        """Complete *matched*, in which the needs *fixed* keep their providers.

        Args:
            choices: for each isolated need the providers that may serve it.
            matched: needs that have a provider already, no two the same.
        """
        self._choices = choices
        self._fixed = fixed
        self._slot_of = dict(matched or {})
        self._need_of = {slot: need for need, slot in self._slot_of.items()}
        self.is_complete = all(self._serve(need, set()) for need in choices if need not in self._slot_of)

    def assigned(self, need: int, slot: Slot) -> Matching | None:
        """The matching after *need* is served by *slot* for good; None if the other needs can not be served then.

        A need that is not isolated leaves it as it is.
        """
        if need not in self._choices:
            return self
        holder = self._need_of.get(slot)
        if holder is not None and holder in self._fixed:
            return None
        matched = {other: its for other, its in self._slot_of.items() if other not in (need, holder)}
        after = Matching(self._choices, {**matched, need: slot}, self._fixed | {need})
        return after if after.is_complete else None

    def _serve(self, need: int, seen: set[Slot]) -> bool:
        """Find a provider for *need* as well, moving others that are not fixed."""
        for slot in self._choices[need]:
            if slot in seen:
                continue
            seen.add(slot)
            holder = self._need_of.get(slot)
            if holder is None or (holder not in self._fixed and self._serve(holder, seen)):
                self._slot_of[need] = slot
                self._need_of[slot] = need
                return True
        return False
