"""Which members (traits, aggregates, resource classes) belong to which slot, with equal sets kept once.

A cloud has many providers and few kinds of them, so a slot holds the number of its set, and a question about members is
answered per set and then looked up for all slots at once. Each member has a bitmap over the sets.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stead.catalog.arrays import places, with_values

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from numpy.typing import NDArray

EMPTY_SET = 0


class Memberships:
    """The set of members of every slot; never changes."""

    def __init__(
        self,
        set_of: NDArray[np.int32],
        sets: tuple[frozenset[int], ...],
        numbers: Mapping[frozenset[int], int],
        bitmaps: dict[int, NDArray[np.bool_]],
    ) -> None:
        """Use :meth:`none` and :meth:`replaced`.

        Args:
            set_of: shape ``(slots,)``, each slot's number among *sets*.
            numbers: the place of each set in *sets*.
            bitmaps: those made so far, each of shape ``(sets,)``; more are added as they are asked for.
        """
        self.set_of = set_of
        self.sets = sets
        self._numbers = numbers
        self._bitmaps = bitmaps

    @classmethod
    def none(cls) -> Memberships:
        """No slots at all."""
        return cls(np.empty(0, np.int32), (frozenset(),), {frozenset(): EMPTY_SET}, {})

    def replaced(self, members: Mapping[int, Iterable[int]], size: int) -> Memberships:
        """The same with other sets at some slots, for *size* slots."""
        numbers, sets = self._numbers, self.sets
        wanted = {slot: frozenset(some) for slot, some in members.items()}
        new = dict.fromkeys(some for some in wanted.values() if some not in numbers)
        if new:
            numbers = {**numbers, **{some: len(sets) + place for place, some in enumerate(new)}}
            sets = (*sets, *new)
        set_of = with_values(
            self.set_of, places(list(wanted)), [numbers[some] for some in wanted.values()], size=size, fill=EMPTY_SET
        )
        if set_of is self.set_of:
            return self
        return Memberships(set_of, sets, numbers, {} if new else self._bitmaps)

    def of(self, slot: int) -> frozenset[int]:
        """The members of one slot."""
        return self.sets[int(self.set_of[slot])]

    def sets_with(self, member: int) -> NDArray[np.bool_]:
        """Which sets hold *member*, shape ``(sets,)``."""
        bitmap = self._bitmaps.get(member)
        if bitmap is None:
            bitmap = np.fromiter((member in some for some in self.sets), np.bool_, len(self.sets))
            self._bitmaps[member] = bitmap
        return bitmap

    def passing(self, clauses: Iterable[Collection[int]], forbidden: Iterable[int]) -> NDArray[np.bool_]:
        """Which slots meet every clause (hold at least one of its members) and hold nothing forbidden."""
        return self.sets_passing(clauses, forbidden)[self.set_of]

    def sets_passing(self, clauses: Iterable[Collection[int]], forbidden: Iterable[int]) -> NDArray[np.bool_]:
        """Which sets do, shape ``(sets,)``."""
        kept = np.ones(len(self.sets), np.bool_)
        for clause in clauses:
            meets = np.zeros(len(self.sets), np.bool_)
            for member in clause:
                meets |= self.sets_with(member)
            kept &= meets
        for member in forbidden:
            kept &= ~self.sets_with(member)
        return kept

    def in_use(self) -> set[int]:
        """Members that at least one slot has."""
        return {member for number in np.unique(self.set_of) for member in self.sets[number]}
