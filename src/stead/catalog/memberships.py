"""Which members (traits, or aggregates) belong to which slot, with equal sets kept once.

A cloud has many providers and few kinds of them, so a slot holds the number of its set, and a question about members is
answered per set and then looked up for all slots at once. Each member has a bitmap over the sets.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stead.catalog.blocks import Blocks
from stead.catalog.interned import Interned

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from numpy.typing import NDArray

    from stead.catalog.masks import Masks

Members = tuple[int, ...]
"""A set of ids, ascending."""


class _Sets(Interned[Members]):
    """Sets by their numbers, and bitmaps over them; number 0 is the empty one."""

    def __init__(self, first: Members = ()) -> None:
        super().__init__(first)
        self._bitmaps: dict[int, NDArray[np.bool_]] = {}

    def holding(self, member: int) -> NDArray[np.bool_]:
        """Which sets hold *member*, shape ``(sets,)`` or more."""
        bitmap = self._bitmaps.get(member, np.empty(0, np.bool_))
        if len(bitmap) < len(self):
            new = [member in some for some in self.values[len(bitmap) :]]
            bitmap = self._bitmaps[member] = np.concatenate([bitmap, np.array(new, np.bool_)])
        return bitmap


class Memberships:
    """The set of members of every slot; never changes."""

    def __init__(self, what: str, sets: _Sets, set_of: Blocks[np.int32]) -> None:
        """Use :meth:`none` and :meth:`replaced`.

        Args:
            what: a word for the members, by which kept masks are told apart.
            set_of: each slot's number among *sets*.
        """
        self._what = what
        self._sets = sets
        self.set_of = set_of

    @classmethod
    def none(cls, what: str) -> Memberships:
        """No slots at all."""
        return cls(what, _Sets(), Blocks.none(np.int32, 0))

    def replaced(self, slots: NDArray[np.int64], members: Iterable[Members], size: int) -> Memberships:
        """The same with other sets at *slots* (ascending), for *size* slots."""
        sets, set_of = self._sets.compacted(self.set_of.replaced(slots, self._sets.numbers(members), size))
        return self if set_of is self.set_of else Memberships(self._what, sets, set_of)

    def of(self, slot: int) -> Members:
        """The members of one slot."""
        number: int = self.set_of[slot]
        return self._sets.values[number]

    def passing(
        self, clauses: Collection[Collection[int]], forbidden: Collection[int], masks: Masks
    ) -> NDArray[np.bool_]:
        """Which slots meet every clause (hold at least one of its members) and hold nothing forbidden.

        Not to be written to: it is kept in *masks*.
        """
        kept: list[NDArray[np.bool_]] = []

        def meets(block: NDArray[np.int32]) -> NDArray[np.bool_]:
            if not kept:
                kept.append(self.sets_passing(clauses, forbidden))
            return kept[0][block]

        condition = (self._what, tuple(map(frozenset, clauses)), frozenset(forbidden))
        return masks.get(condition, (self.set_of,), meets)

    def sets_passing(self, clauses: Iterable[Collection[int]], forbidden: Iterable[int]) -> NDArray[np.bool_]:
        """Which sets do, by their numbers."""
        number = len(self._sets)
        kept = np.ones(number, np.bool_)
        for clause in clauses:
            meets = np.zeros(number, np.bool_)
            for member in clause:
                meets |= self._sets.holding(member)[:number]
            kept &= meets
        for member in forbidden:
            kept &= ~self._sets.holding(member)[:number]
        return kept

    def in_use(self) -> set[int]:
        """Members that at least one slot has."""
        numbers = set().union(*(np.unique(block).tolist() for block in self.set_of.blocks))
        return {member for number in numbers for member in self._sets.values[number]}
