"""Kinds: trees that are equal for a request are one kind, and the candidates of one of them are those of all.

The hosts of a cloud are built alike. Where they differ (names, what other consumers take), a request often cannot see
the difference. So `combine` searches once per kind, in positions instead of providers, and the meaning of each way is
computed once per kind, too.
"""

from __future__ import annotations

import itertools
import random
from collections import Counter
from dataclasses import dataclass, replace
from itertools import chain, islice
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from stead.candidates.combine import SearchSpace, demand_of, divided, ways
from stead.candidates.splits import Share
from stead.candidates.work import ARRANGED, CANDIDATE, CHOSEN, LOOKED, WorkSpent

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from stead.candidates.combine import Demand
    from stead.candidates.match import MatchedGroup, Pool
    from stead.candidates.work import Work
    from stead.catalog.columns import Shares
    from stead.catalog.snapshot import Shape, Snapshot
    from stead.domain.provider import Slot
    from stead.domain.request import CandidateRequest

    Mask = NDArray[np.bool_]
    Numbers = NDArray[np.int64]

    Needs = tuple[int, ...]
    """Numbers of needs, ascending."""


_FIRST_TREES, _MOST_TREES = 32, 4096
"""Trees read together: few at first, because a request with a limit may need only these, then more and more."""

_FIRST = np.zeros(1, np.int64)
"""The place of the first tree."""

_DRAWN_FROM_ALL = 32
"""If a kind has at most this number of ways, all are found and drawn from. Finding more first would take too long."""


class Kind:
    """Trees with the same ways to serve a request, in positions."""

    def __init__(
        self, pools: Sequence[Pool], reaching: Sequence[Slot], demand: Demand, space: SearchSpace, work: Work
    ) -> None:
        """Nothing is searched for yet. Searching spends *work*, and raises WorkSpent when that is used up."""
        self._pools = pools
        self._work = work
        self.reaching = reaching
        self.demand = demand
        self.space = space
        # Without a choice, there is at most one way.
        self.has_choice = bool(space.shares) or any(len(positions) > 1 for positions in space.choices)
        self._cached: list[Arrangement] = []
        self._search: Iterator[Arrangement] | None = self._arranged(space)

    def _arranged(self, space: SearchSpace) -> Iterator[Arrangement]:
        for demand, divided_space in divided(self.demand, space, self._work):
            pools = self._pools
            if demand.parts or space.shares:
                # A further part of a need is served from the pool of that need, with an amount of its own.
                pool_of_need = [*range(len(pools)), *demand.parts.values()]
                pools = [
                    replace(pools[number], amounts=amounts)
                    for number, amounts in zip(pool_of_need, demand.amounts, strict=True)
                ]
            for way in ways(demand, divided_space, self._work):
                yield Arrangement(pools, way, self.reaching, is_divided=bool(demand.parts))

    @property
    def is_explored(self) -> bool:
        """Whether all ways were found."""
        return self._search is None

    def arrangements(self) -> Iterable[Arrangement]:
        """All ways, each once. Ways that were found for one tree are not searched for again for the next."""
        return self._cached if self._search is None else self._replayed()

    def _replayed(self) -> Iterator[Arrangement]:
        # Several iterators of one kind may be open at a time (breadth-first order). So each looks first whether
        # another one has advanced the common search since.
        for number in itertools.count():
            if number == len(self._cached):
                arrangement = next(self._search, None) if self._search is not None else None
                if arrangement is None:
                    self._search = None
                    return
                self._cached.append(arrangement)
            yield self._cached[number]

    def shuffled(self) -> Iterator[Arrangement]:
        """All ways, each once, in a random order that differs from call to call."""
        first = list(islice(self.arrangements(), _DRAWN_FROM_ALL + 1))
        if len(first) <= _DRAWN_FROM_ALL:
            return (first[place] for place in drawn(len(first)))
        choices = [random.sample(positions, len(positions)) for positions in self.space.choices]
        return self._arranged(replace(self.space, choices=choices))


class TreeKinds:
    """Sorts the trees of a snapshot into kinds, for one request."""

    def __init__(
        self,
        snapshot: Snapshot,
        groups: Sequence[MatchedGroup],
        work: Work,
        request: CandidateRequest | None = None,
    ) -> None:
        """The needs of *groups* are bound to each other as *request* says, or unbound; all searches spend *work*."""
        self._forest = snapshot.forest
        self._work = work
        self.pools = [pool for group in groups for pool in group.pools]
        self.demand = demand_of(self.pools, request)
        self._reader = TreeReader(snapshot, groups, self.demand)
        self._kinds: dict[tuple[int, bytes], Kind] = {}
        """By the shape and the signature of its trees."""

    @property
    def requested(self) -> Mapping[int, int]:
        """What all groups together take, by class id, in the order in which they name the classes."""
        total: Counter[int] = Counter()
        for pool in self.pools:
            total.update(pool.amounts)
        return total

    def runs(
        self,
        anchors: NDArray[np.int64],
        places: Iterable[int] | None = None,
        *,
        of_all: bool = False,
        limit: int | None = None,
    ) -> Iterator[tuple[Kind, NDArray[np.int64]]]:
        """The trees in order, as runs of consecutive trees of one kind: the kind, and the slots by position.

        Args:
            places: the places in *anchors*, in the order of the trees; None for the order of *anchors*.
            of_all: the caller needs all trees, so all portions can be large.
            limit: the caller needs this number of trees if all of them serve the request; None if it is unknown.
        """
        remaining = None if places is None else iter(places)
        portion_size = _MOST_TREES if of_all else min(_FIRST_TREES, limit or _FIRST_TREES)
        start = 0
        while True:
            if remaining is None:
                portion = anchors[start : start + portion_size]
                start += portion_size
            else:
                portion = anchors[list(islice(remaining, portion_size))]
            if not portion.size:
                return
            self._work.require_time()  # reading trees spends no work, so this is where it ends in time
            yield from self._runs(portion)
            portion_size = min(portion_size * 4, _MOST_TREES)

    def _runs(self, anchors: NDArray[np.int64]) -> Iterator[tuple[Kind, NDArray[np.int64]]]:
        shapes = self._forest.shape.at(anchors)
        runs: list[_Run] = []
        for shape in np.bincount(shapes).nonzero()[0].tolist():
            runs += self._runs_of_shape(shape, (shapes == shape).nonzero()[0], anchors)
        runs.sort(key=itemgetter(0))
        # Lazy, since thousands of trees can all be different, and their kinds take far longer than their columns.
        return ((self._kind_of(run), run.slots) for run in runs)

    def _runs_of_shape(self, shape: int, places: NDArray[np.int64], anchors: NDArray[np.int64]) -> Iterator[_Run]:
        """The runs among the trees at *places*, which have one shape."""
        of_shape = anchors[places]
        slots = self._forest.members_of(of_shape, self._forest.shapes.values[shape])
        columns = self._reader.read(shape, slots, of_shape)
        signatures = columns.signatures()
        # Trees of other shapes can stand between two equal trees.
        ends = (signatures[1:] != signatures[:-1]).any(axis=1) | (places[1:] > places[:-1] + 1)
        starts = np.concatenate([_FIRST, ends.nonzero()[0] + 1])
        # As one void value per row, the matrix becomes bytes objects without a loop in Python.
        different = signatures[starts].view(f"V{signatures.shape[1]}").ravel().tolist()
        bounds = [*starts.tolist(), len(places)]
        for signature, start, stop in zip(different, bounds, bounds[1:], strict=False):
            yield _Run(int(places[start]), shape, signature, columns, start, slots[start:stop])

    def _kind_of(self, run: _Run) -> Kind:
        kind = self._kinds.get((run.shape, run.signature))
        if kind is None:  # the first tree of a run stands for all of its kind
            reaching, space = self._reader.reaching(run.columns, run.row), self._reader.space(run.columns, run.row)
            self._work.spend(ARRANGED + LOOKED * sum(map(len, space.choices)))
            kind = Kind(self.pools, reaching, self.demand, space, self._work)
            self._kinds[run.shape, run.signature] = kind
        return kind


class _Run(NamedTuple):
    """Consecutive trees of one kind: the place of the first, its row in *columns*, and the slots by position."""

    place: int
    shape: int
    signature: bytes
    columns: TreeColumns
    row: int
    slots: NDArray[np.int64]


# What a request can see of trees, in columns: a signature that equal trees share, and a tree's `SearchSpace`.
#
# All trees of one shape are read together, because one vector operation on many trees costs little more than on one.


@dataclass(frozen=True, slots=True)
class TreeColumns:
    """Everything that a request can see of some trees of one shape.

    Arrays have the shape ``(trees, size of each)``, with a column per position of the tree's own providers. ``circle``
    has the shape ``(trees,)``: the number of the set of sharing providers that serve the tree from outside; None if no
    pool uses any. ``able`` says for each pool which providers may serve it, ``meeting`` for each clause which
    providers meet it. ``available`` is by repeated class, ``shares`` by need whose amount may be split: least, most,
    step and rank of each part.
    """

    shape: Shape
    circle: NDArray[np.int32] | None
    able: Sequence[Mask]
    meeting: Sequence[Mask]
    available: Mapping[int, Numbers]
    shares: Mapping[int, Sequence[Numbers]]

    def signatures(self) -> NDArray[np.uint8]:
        """For each tree all of it but the shape, as a row of bytes: equal rows are equal trees for the request."""
        numbers = [*self.available.values(), *(column for columns in self.shares.values() for column in columns)]
        # Bits instead of bytes make the signatures shorter, and each of them is hashed.
        bits = np.packbits(np.concatenate([*self.able, *self.meeting], axis=1), axis=1)
        parts = [column.view(np.uint8) for column in numbers]
        if self.circle is not None:
            parts.append(self.circle[:, None].view(np.uint8))
        return np.concatenate([*parts, bits], axis=1) if parts else bits


class TreeReader:
    """Reads the trees of one snapshot for one request."""

    def __init__(self, snapshot: Snapshot, groups: Sequence[MatchedGroup], demand: Demand) -> None:
        """*demand* has a need for each pool of *groups*, in their order."""
        self._snapshot = snapshot
        self._demand = demand
        self._pools = [pool for group in groups for pool in group.pools]
        self._clauses = [snapshot.with_traits([clause], ()) for group in groups for clause in group.clauses]
        self._repeated = sorted(demand.repeated)
        self._is_shared = any(pool.shared.size for pool in self._pools)
        self._shared_choices: dict[int, Sequence[Sequence[int]]] = {}
        """For each pool the numbers of its sharing providers among those that serve a tree, by circle."""

    def read(self, shape_number: int, slots: Numbers, anchors: Numbers) -> TreeColumns:
        """The columns of the trees of *anchors*, which have one shape and the providers *slots*."""
        return TreeColumns(
            self._snapshot.forest.shapes.values[shape_number],
            # Sharing providers distinguish trees only if some pool uses any.
            self._snapshot.sharing.circle[anchors] if self._is_shared else None,
            [pool.own[slots] for pool in self._pools],
            [mask[slots] for mask in self._clauses],
            {class_id: self._available(class_id, slots) for class_id in self._repeated},
            {
                need: self._shares(need, pool.shares, slots)
                for need, pool in enumerate(self._pools)
                if pool.shares is not None
            },
        )

    def reaching(self, columns: TreeColumns, row: int) -> Sequence[Slot]:
        """The sharing providers that serve one tree from outside; none if no pool uses any."""
        return () if columns.circle is None else self._snapshot.sharing.circles[columns.circle[row]]

    def space(self, columns: TreeColumns, row: int) -> SearchSpace:
        """What the tree in a row of *columns* offers, by position."""
        size, reaching = columns.shape.size, self.reaching(columns, row)
        outside = np.array(reaching, np.int64)
        choices = [
            able[row].nonzero()[0].tolist() + [size + number for number in of_pool]
            for of_pool, able in zip(self._shared_choices_of(columns, row), columns.able, strict=True)
        ]
        available = {
            class_id: [*amounts[row].tolist(), *self._available(class_id, outside).tolist()]
            for class_id, amounts in columns.available.items()
        }
        # Providers that serve no need of the clauses cannot meet them, whatever traits they have.
        serving = {position for need in self._demand.clause_needs for position in choices[need]}
        clauses = [
            frozenset(np.concatenate([meeting[row], mask[outside]]).nonzero()[0].tolist()) & serving
            for meeting, mask in zip(columns.meeting, self._clauses, strict=True)
        ]
        shares = {need: _by_position([part[row] for part in parts]) for need, parts in columns.shares.items()}

        def is_below(position: int, top: int) -> bool:
            if position < size and top < size:
                return columns.shape.is_below(position, top)
            if position < size or top < size:
                return False
            return self._snapshot.forest.is_below(reaching[position - size], reaching[top - size])

        return SearchSpace(choices, lambda position, class_id: available[class_id][position], is_below, clauses, shares)

    def _shared_choices_of(self, columns: TreeColumns, row: int) -> Sequence[Sequence[int]]:
        if columns.circle is None:
            return [()] * len(self._pools)
        circle = int(columns.circle[row])
        choices = self._shared_choices.get(circle)
        if choices is None:
            outside = np.array(self.reaching(columns, row), np.int64)
            choices = [np.isin(outside, pool.shared).nonzero()[0].tolist() for pool in self._pools]
            self._shared_choices[circle] = choices
        return choices

    def _available(self, class_id: int, slots: Numbers) -> Numbers:
        """How much of a class one candidate may take at each of *slots*.

        Clipped to what the whole request takes: more makes no difference to it, and fewer distinct numbers mean fewer
        kinds of trees.
        """
        requested = sum(pool.amounts.get(class_id, 0) for pool in self._pools)
        return self._snapshot.inventory[class_id].left(slots).clip(-1, requested)

    def _shares(self, need: int, shares: Shares, slots: Numbers) -> Sequence[Numbers]:
        """Least, most, step and rank of the part that the providers at *slots* could give; most is 0 if none."""
        least, most, step = shares.least[slots], shares.most[slots], shares.step[slots]
        most = np.where(self._pools[need].own[slots], most, 0)
        return least, most, step, _ranks(most, self._snapshot.identities.uuids.at(slots).astype(str))


def _ranks(most: Numbers, uuids: NDArray[np.str_]) -> Numbers:
    """Per tree, the order by uuid among the providers that could give equally much; 0 for those that give nothing.

    All arrays have the shape ``(trees, size of each)``. Ranks, unlike uuids, are equal in trees that are split alike.
    """
    order = np.lexsort((uuids.argsort(axis=1).argsort(axis=1), most), axis=1)
    ascending = np.take_along_axis(most, order, axis=1)
    place = np.broadcast_to(np.arange(most.shape[1]), most.shape)
    is_first = np.concatenate([np.ones((len(most), 1), np.bool_), ascending[:, 1:] != ascending[:, :-1]], axis=1)
    first = np.maximum.accumulate(np.where(is_first, place, 0), axis=1)
    ranks = np.zeros_like(most)
    np.put_along_axis(ranks, order, np.where(ascending > 0, place - first, 0), axis=1)
    return ranks


def _by_position(columns: Sequence[Numbers]) -> dict[int, Share]:
    """The parts that could be given, by positions of the providers that could give any."""
    shares = (Share(*numbers) for numbers in zip(*(column.tolist() for column in columns), strict=True))
    return {position: share for position, share in enumerate(shares) if share.most}


# Draw: numbers in random order, one by one.


def drawn(number: int) -> Iterator[int]:
    """All places below *number* in random order. The cost is that of the places drawn, not of *number*."""
    # A Fisher-Yates shuffle of a list that is never built: only entries that differ from their place are stored.
    moved: dict[int, int] = {}
    for remaining in range(number, 0, -1):
        place = random.randrange(remaining)
        yield moved.get(place, place)
        last = moved.pop(remaining - 1, remaining - 1)
        if place != remaining - 1:
            moved[place] = last


# A candidate: one complete way to serve a request, as allocations and mappings.


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


def affordable(batches: Iterable[Batch], work: Work) -> Iterator[Batch]:
    """The candidates of *batches*, until the budget of *work* is used up."""
    try:
        for batch in batches:
            choices = len(batch.arrangements[0].way) if batch.arrangements else 0
            work.spend(len(batch.arrangements) * (ARRANGED + CHOSEN * choices))
            # A batch can have thousands of trees, so the request returns the part of it that the budget still pays for.
            allowed = work.remaining // (CANDIDATE + choices)
            if batch.size > allowed:
                yield from batch.first(int(allowed))
                work.is_cut = True
                return
            work.spend(batch.size * (CANDIDATE + choices))
            yield batch
    except WorkSpent:
        return


def candidates(batches: Iterable[Batch]) -> Iterator[Candidate]:
    """All candidates of *batches* one by one."""
    return chain.from_iterable(batch.candidates() for batch in batches)


def gives_from_one_provider_per_tree(snapshot: Snapshot, candidate: Candidate) -> bool:
    """Whether the allocations use at most one provider of each tree."""
    roots = [snapshot.forest.root[slot] for slot in candidate.allocations]
    return len(set(roots)) == len(roots)
