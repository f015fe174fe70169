"""A candidate: one complete way to serve a request, as allocations and mappings.

Trees that are alike are served alike, so what a way means is worked out once, in positions, and holds for many trees.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from stead.candidates.match import Pool
    from stead.catalog.snapshot import Snapshot
    from stead.domain.provider import Slot


class Arrangement:
    """What it means that positions serve pools.

    The positions are those of a tree's own providers, and after them those of ``reaching``, sharing providers of other
    trees. ``allocations``: what each position gives in all, by class id. ``mappings``: who serves each group, by
    suffix.
    """

    __slots__ = ("allocations", "is_divided", "mappings", "reaching", "way")

    def __init__(
        self, pools: Sequence[Pool], way: Sequence[int], reaching: Sequence[Slot], *, is_divided: bool = False
    ) -> None:
        """Each of *pools* is served by the position in its place of *way*.

        Args:
            is_divided: some of the pools are parts of one amount.
        """
        self.is_divided = is_divided
        self.way = way
        self.reaching = reaching
        self.allocations = allocations = dict[int, Mapping[int, int]]()
        self.mappings = mappings = dict[str, list[int]]()
        for pool, position in zip(pools, way, strict=True):
            serving = mappings.get(pool.suffix)
            if serving is None:
                mappings[pool.suffix] = [position]
            elif position not in serving:
                serving.append(position)
            if pool.amounts:
                given = allocations.get(position)
                allocations[position] = pool.amounts if given is None else _sum(given, pool.amounts)


def _sum(given: Mapping[int, int], more: Mapping[int, int]) -> Mapping[int, int]:
    return {**given, **{class_id: given.get(class_id, 0) + amount for class_id, amount in more.items()}}


class Candidate(NamedTuple):
    """An arrangement, and the providers of the tree that it is for."""

    arrangement: Arrangement
    members: Sequence[Slot]

    def slots(self) -> Sequence[Slot]:
        """Who stands at each position."""
        return *self.members, *self.arrangement.reaching

    @property
    def allocations(self) -> Mapping[Slot, Mapping[int, int]]:
        """What each provider gives in all, by class id."""
        slots = self.slots()
        return {slots[position]: given for position, given in self.arrangement.allocations.items()}

    @property
    def mappings(self) -> Mapping[str, Sequence[Slot]]:
        """Who serves each group, by suffix."""
        slots, mappings = self.slots(), self.arrangement.mappings
        return {suffix: [slots[position] for position in serving] for suffix, serving in mappings.items()}


@dataclass(frozen=True, slots=True)
class Batch:
    """Candidates: all of ``arrangements`` for the first of ``trees``, then for the next.

    ``trees`` holds the slots of their own providers by their positions, shape ``(trees, size of each)``.
    """

    arrangements: Sequence[Arrangement]
    trees: NDArray[np.int64]

    @property
    def size(self) -> int:
        """Number of candidates."""
        return len(self.arrangements) * len(self.trees)

    def candidates(self) -> Iterator[Candidate]:
        """The candidates one by one."""
        return (Candidate(arrangement, members) for members in self.trees.tolist() for arrangement in self.arrangements)

    def alone(self) -> Iterator[Batch]:
        """The same as batches of one candidate each."""
        for place in range(len(self.trees)):
            for arrangement in self.arrangements:
                yield Batch((arrangement,), self.trees[place : place + 1])

    def first(self, number: int) -> Iterator[Batch]:
        """The first candidates, *number* of them and no more."""
        whole, rest = divmod(number, len(self.arrangements))
        yield Batch(self.arrangements, self.trees[:whole])
        yield Batch(self.arrangements[:rest], self.trees[whole : whole + 1])


def up_to(number: int, found: Iterable[Batch]) -> Iterator[Batch]:
    """The first candidates of *found*, *number* at most; no more is asked for than these need."""
    left = number
    for batch in found if left > 0 else ():
        if batch.size >= left:
            yield from batch.first(left)
            return
        left -= batch.size
        yield batch


def candidates(found: Iterable[Batch]) -> Iterator[Candidate]:
    """All candidates one by one."""
    return chain.from_iterable(batch.candidates() for batch in found)


def gives_from_one_provider_per_tree(snapshot: Snapshot, candidate: Candidate) -> bool:
    """Whether no two providers of one tree give resources."""
    roots = [snapshot.forest.root[slot] for slot in candidate.allocations]
    return len(set(roots)) == len(roots)
