"""A candidate: one complete way to serve a request, as allocations and mappings.

Equal trees are served alike. So the meaning of a way is computed once, in positions, for all trees of a kind.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from stead.candidates.match import Pool
    from stead.catalog.snapshot import Snapshot
    from stead.domain.provider import Slot

    Needs = tuple[int, ...]
    """Numbers of needs, ascending."""


class Arrangement:
    """The allocations and mappings of one way, in positions.

    Positions number a tree's own providers first, then ``reaching``, the sharing providers of other trees. A query can
    find some hundred thousand ways, so their meaning is computed when it is needed, and not kept.
    """

    __slots__ = ("is_divided", "pools", "reaching", "way")

    def __init__(
        self, pools: Sequence[Pool], way: tuple[int, ...], reaching: Sequence[Slot], *, is_divided: bool = False
    ) -> None:
        """Each of *pools* is served by the position at its place in *way*.

        Args:
            is_divided: some of the pools are parts of one split amount.
        """
        self.is_divided = is_divided
        self.pools = pools
        self.way = way
        self.reaching = reaching

    @property
    def needs_at(self) -> dict[int, Needs]:
        """The needs that request something of each position, by position."""
        needs_at: dict[int, Needs] = {}
        for need, (pool, position) in enumerate(zip(self.pools, self.way, strict=True)):
            if pool.amounts:
                # Tuples, because they are keys of the texts that `render` caches.
                needs_at[position] = (*needs_at[position], need) if position in needs_at else (need,)
        return needs_at

    @property
    def allocations(self) -> dict[int, Mapping[int, int]]:
        """The amounts of each position that gives something, by class id."""
        return {position: amounts_of(self.pools, needs) for position, needs in self.needs_at.items()}

    @property
    def mappings(self) -> dict[str, list[int]]:
        """The positions that serve each group, by suffix."""
        mappings = dict[str, list[int]]()
        for pool, position in zip(self.pools, self.way, strict=True):
            serving = mappings.get(pool.suffix)
            if serving is None:
                mappings[pool.suffix] = [position]
            elif position not in serving:
                serving.append(position)
        return mappings


def amounts_of(pools: Sequence[Pool], needs: Needs) -> Mapping[int, int]:
    """What *needs* request together, by class id. Each is served from one of *pools*."""
    # Most positions serve one need, whose amounts need no copy.
    amounts = pools[needs[0]].amounts
    for need in needs[1:]:
        amounts = _sum(amounts, pools[need].amounts)
    return amounts


def _sum(given: Mapping[int, int], more: Mapping[int, int]) -> Mapping[int, int]:
    return {**given, **{class_id: given.get(class_id, 0) + amount for class_id, amount in more.items()}}


class Candidate(NamedTuple):
    """An arrangement, applied to the providers of one tree."""

    arrangement: Arrangement
    members: Sequence[Slot]

    def slots(self) -> Sequence[Slot]:
        """The slot of the provider at each position."""
        return *self.members, *self.arrangement.reaching

    @property
    def allocations(self) -> Mapping[Slot, Mapping[int, int]]:
        """The amounts of each provider, by class id."""
        slots = self.slots()
        return {slots[position]: given for position, given in self.arrangement.allocations.items()}

    @property
    def mappings(self) -> Mapping[str, Sequence[Slot]]:
        """The providers that serve each group, by suffix."""
        slots, mappings = self.slots(), self.arrangement.mappings
        return {suffix: [slots[position] for position in serving] for suffix, serving in mappings.items()}


@dataclass(frozen=True, slots=True)
class Batch:
    """Candidates: all of ``arrangements`` for the first of ``trees``, then for the next.

    ``trees`` has the slots of the trees' own providers by position, shape ``(trees, size of each)``.
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
        """The first *number* candidates."""
        whole, rest = divmod(number, len(self.arrangements))
        yield Batch(self.arrangements, self.trees[:whole])
        yield Batch(self.arrangements[:rest], self.trees[whole : whole + 1])


def up_to(number: int, batches: Iterable[Batch]) -> Iterator[Batch]:
    """The first candidates of *batches*, up to *number*. It does not request a batch that it does not need."""
    remaining = number
    for batch in batches if remaining > 0 else ():
        if batch.size >= remaining:
            yield from batch.first(remaining)
            return
        remaining -= batch.size
        yield batch


def candidates(batches: Iterable[Batch]) -> Iterator[Candidate]:
    """All candidates of *batches* one by one."""
    return chain.from_iterable(batch.candidates() for batch in batches)


def gives_from_one_provider_per_tree(snapshot: Snapshot, candidate: Candidate) -> bool:
    """Whether the allocations use at most one provider of each tree."""
    roots = [snapshot.forest.root[slot] for slot in candidate.allocations]
    return len(set(roots)) == len(roots)
