"""The set of members (traits, or aggregates) of each slot; each distinct set is stored once.

A cloud has many providers of few kinds. So a slot has the number of its set, and a condition on members is computed per
set, then looked up for all slots at once. Each member has the numbers of its sets.
"""

from __future__ import annotations

import threading
from array import array
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
    """Sets by number, and for each member the numbers of the sets that have it; number 0 is the empty set."""

    def __init__(self, first: Members = ()) -> None:
        super().__init__(first)
        self._sets_with: dict[int, array[int]] = {}
        self._indexed = 0
        self._indexing = threading.Lock()

    def weight_of(self, value: Members) -> int:
        return 1 + len(value)

    def with_member(self, member: int, number: int) -> NDArray[np.int32]:
        """The numbers below *number* of the sets with *member*, ascending."""
        if self._indexed < number:
            with self._indexing:
                # A list per member, not a mask over the sets: all lists together take what the sets themselves do.
                for indexed in range(self._indexed, number):
                    for each in self.values[indexed]:
                        self._sets_with.setdefault(each, array("i")).append(indexed)
                self._indexed = max(self._indexed, number)
        # A copy: another thread may index further sets meanwhile, and no array grows while NumPy reads it.
        numbers = np.array(self._sets_with.get(member, ()), np.int32)
        return numbers[: numbers.searchsorted(number)]


class Memberships:
    """The set of members of every slot; immutable."""

    def __init__(self, what: str, sets: _Sets, set_of: Blocks[np.int32]) -> None:
        """Use :meth:`none` and :meth:`replaced`.

        Args:
            what: a word for the members; part of the key of cached masks.
            set_of: for each slot the number of its set in *sets*.
        """
        self._what = what
        self._sets = sets
        self.set_of = set_of

    @classmethod
    def none(cls, what: str) -> Memberships:
        """No slots at all."""
        return cls(what, _Sets(), Blocks.none(np.int32, 0))

    def replaced(self, slots: NDArray[np.int64], members: Iterable[Members], size: int) -> Memberships:
        """The memberships with other sets at *slots* (ascending), for *size* slots."""
        sets, set_of = self._sets.compacted(self.set_of.replaced(slots, self._sets.numbers(members), size))
        return self if set_of is self.set_of else Memberships(self._what, sets, set_of)

    def sets(self) -> list[Members]:
        """All sets, by number; some may not be in use."""
        return list(self._sets.values)

    def holding(self, sets: Iterable[Members], set_of: Blocks[np.int32]) -> Memberships:
        """Memberships of the same kind with these sets, by number, and for each slot the number of its set."""
        new = self._sets.emptied()
        new.numbers(sets)
        return Memberships(self._what, new, set_of)

    def only(self, slots: NDArray[np.int64]) -> Memberships:
        """The memberships of *slots* alone, which are numbered by their places."""
        return Memberships(self._what, self._sets, self.set_of.only(slots))

    def of(self, slot: int) -> Members:
        """The members of one slot."""
        number: int = self.set_of[slot]
        return self._sets.values[number]

    def passing(
        self, clauses: Collection[Collection[int]], forbidden: Collection[int], masks: Masks
    ) -> NDArray[np.bool_]:
        """Mask of the slots that have at least one member of every clause, and no forbidden member.

        Read-only, because it is cached in *masks*.
        """
        sets_that_meet: list[NDArray[np.bool_]] = []  # computed once, and only if some block changed

        def meets(block: NDArray[np.int32]) -> NDArray[np.bool_]:
            if not sets_that_meet:
                sets_that_meet.append(self.sets_passing(clauses, forbidden))
            return sets_that_meet[0].take(block)  # half the time of an index of 32 bits

        condition = (self._what, tuple(map(frozenset, clauses)), frozenset(forbidden))
        return masks.get(condition, (self.set_of,), meets)

    def sets_passing(self, clauses: Iterable[Collection[int]], forbidden: Iterable[int]) -> NDArray[np.bool_]:
        """Mask of the sets that meet these conditions, by number."""
        number = len(self._sets)
        passing = np.ones(number, np.bool_)
        for clause in clauses:
            meets = np.zeros(number, np.bool_)
            for member in clause:
                meets[self._sets.with_member(member, number)] = True
            passing &= meets
        for member in forbidden:
            passing[self._sets.with_member(member, number)] = False
        return passing

    def in_use(self) -> set[int]:
        """Members that at least one slot has."""
        numbers = set().union(*(np.unique(block).tolist() for block in self.set_of.blocks))
        return {member for number in numbers for member in self._sets.values[number]}
