"""The traits and aggregates of each slot, and the sharing providers that follow from aggregates.

A cloud has many providers of few kinds. So a slot has the number of its set, and a condition on members is computed per
set, then looked up for all slots at once. Each member has the numbers of its sets.
"""

from __future__ import annotations

import itertools
import threading
from array import array
from collections import defaultdict
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, overload

import numpy as np

from stead.catalog.blocks import Blocks, ValueTable
from stead.domain.provider import Slot

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from numpy.typing import NDArray

    from stead.catalog.columns import Masks
    from stead.catalog.forest import Forest


Members = tuple[int, ...]
"""A set of ids, ascending."""


class _Sets(ValueTable[Members]):
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


# Sharing providers, and the trees they serve: those with a provider in one of their aggregates.
#
# The anchors of a sharing provider are its own root and the roots of all providers in one of its own aggregates.


class Sharing:
    """What follows from a forest with its traits and aggregates; immutable, computed on first use."""

    def __init__(
        self,
        forest: Forest,
        traits: Memberships,
        aggregates: Memberships,
        sharing_trait: int | None,
        masks: Masks,
    ) -> None:
        """Nothing is computed yet. *sharing_trait* is the id of the trait of sharing providers."""
        self._forest = forest
        self._traits = traits
        self._aggregates = aggregates
        self._sharing_trait = sharing_trait
        self._masks = masks
        self._roots: dict[int, NDArray[np.int64]] = {}

    def still_holds(self, forest: Forest, traits: Memberships, aggregates: Memberships, trait: int | None) -> bool:
        """Whether it was computed from exactly these objects."""
        same = self._forest is forest and self._traits is traits and self._aggregates is aggregates
        return same and self._sharing_trait == trait

    @property
    def mask(self) -> NDArray[np.bool_]:
        """Mask of the slots with a sharing provider; read-only."""
        if self._sharing_trait is None:
            return np.zeros(self._forest.size, np.bool_)
        return self._traits.passing([(self._sharing_trait,)], (), self._masks)

    @cached_property
    def providers(self) -> NDArray[np.int64]:
        """Slots of all sharing providers, ascending."""
        return np.flatnonzero(self.mask)

    def anchors(self, slot: int) -> NDArray[np.int64]:
        """Roots of the trees that a sharing provider serves, ascending."""
        aggregates = self._aggregates.of(slot)
        if not aggregates:
            return np.array([self._forest.root[slot]], np.int64)
        # The provider's own root is among them, since it is in these aggregates itself. Not cached for each set of
        # aggregates: there may be many sets of a few large aggregates.
        return np.unique(np.concatenate([*map(self._roots_of, aggregates)]))

    def served(self, slots: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Mask of the roots of the trees that any of these sharing providers serves."""
        roots = np.zeros(self._forest.size, np.bool_)
        numbers = self._aggregates.set_of.at(slots)
        roots[self._forest.root.at(slots[numbers == 0])] = True
        # Each aggregate once: many providers are in the same ones.
        each_set = slots[np.unique(numbers, return_index=True)[1]].tolist()
        for aggregate in set().union(*map(self._aggregates.of, each_set)):
            roots[self._roots_of(aggregate)] = True
        return roots

    def _roots_of(self, aggregate: int) -> NDArray[np.int64]:
        """Roots of all providers in an aggregate."""
        roots = self._roots.get(aggregate)
        if roots is None:
            members = np.flatnonzero(self._aggregates.passing([(aggregate,)], (), self._masks))
            roots = self._roots[aggregate] = np.unique(self._forest.root.at(members)).astype(np.int64)
        return roots

    def reaching(self, anchor: int) -> Sequence[Slot]:
        """Sharing providers of other trees that serve the tree of *anchor*, ascending."""
        return self.circles[int(self.circle[anchor])]

    @property
    def circle(self) -> NDArray[np.int32]:
        """By slot of a root, the number of the set in :attr:`circles` that serves its tree, shape ``(slots,)``."""
        return self._reach[0]

    @property
    def circles(self) -> Sequence[tuple[Slot, ...]]:
        """The distinct sets of sharing providers that serve a tree from outside, each ascending."""
        return self._reach[1]

    @cached_property
    def _reach(self) -> tuple[NDArray[np.int32], Circles]:
        circle = np.zeros(self._forest.size, np.int32)
        # All providers with the same aggregates serve the same trees, so they are added to a set together.
        alike: dict[int, list[Slot]] = defaultdict(list)
        for slot, number in zip(self.providers.tolist(), self._aggregates.set_of.at(self.providers), strict=True):
            if number:  # without aggregates, it serves its own tree alone
                alike[int(number)].append(Slot(slot))
        steps: list[tuple[int, Sequence[Slot]]] = [(0, ())]
        for slots in alike.values():
            anchors = self.anchors(slots[0])
            # Trees with the same set so far get the same new one, so equal sets have one number.
            before, place = np.unique(circle[anchors], return_inverse=True)
            circle[anchors] = len(steps) + place
            steps += [(number, slots) for number in before.tolist()]
        own: dict[int, list[Slot]] = defaultdict(list)
        for slot in itertools.chain.from_iterable(alike.values()):
            own[self._forest.root[slot]].append(slot)
        circles = Circles(steps, [])
        for root, slots in own.items():
            circle[root] = circles.without(int(circle[root]), slots)
        return circle, circles


class Circles(Sequence[tuple[Slot, ...]]):
    """Sets of sharing providers, by number; number 0 is the empty set. Each is made when it is read.

    In an aggregate of many sharing providers, each one's own tree has a set of its own: all others. So to hold them all
    would take the square of their number.
    """

    def __init__(self, steps: Sequence[tuple[int, Sequence[Slot]]], lacking: list[tuple[int, Sequence[Slot]]]) -> None:
        """Begin with sets, each of which is the set of an earlier number and further slots.

        Args:
            lacking: further sets, each the set of a number without some of its slots.
        """
        self._steps = steps
        self._lacking = lacking
        self._sizes = [0]
        for number, slots in steps[1:]:
            self._sizes.append(self._sizes[number] + len(slots))

    def without(self, number: int, slots: Sequence[Slot]) -> int:
        """The number of a new set: that of *number* without *slots*, which are all in it."""
        if self._sizes[number] == len(slots):
            return 0
        self._lacking.append((number, slots))
        return len(self) - 1

    def __len__(self) -> int:
        return len(self._steps) + len(self._lacking)

    @overload
    def __getitem__(self, number: int) -> tuple[Slot, ...]: ...

    @overload
    def __getitem__(self, number: slice) -> Sequence[tuple[Slot, ...]]: ...

    def __getitem__(self, number: int | slice) -> tuple[Slot, ...] | Sequence[tuple[Slot, ...]]:
        """The slots of a set, ascending."""
        if isinstance(number, slice):
            return [self[each] for each in range(*number.indices(len(self)))]
        lacking: Sequence[Slot] = ()
        if number >= len(self._steps):
            number, lacking = self._lacking[number - len(self._steps)]
        slots: set[Slot] = set()
        while number:
            number, added = self._steps[number]
            slots.update(added)
        return tuple(sorted(slots.difference(lacking)))
