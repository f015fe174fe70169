"""Kinds: trees that are equal for a request are one kind, and the ways to serve one of them serve all.

The hosts of a cloud are built alike. Where they differ (names, what other consumers take), a request often cannot see
the difference. So `combine` searches once per kind, in positions instead of providers.
"""

from __future__ import annotations

import itertools
import random
from collections import Counter
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

from stead.candidates.candidate import Arrangement
from stead.candidates.combine import ways
from stead.candidates.demand import demand_of
from stead.candidates.divide import divided
from stead.candidates.draw import drawn
from stead.candidates.tree_columns import TreeReader

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from stead.candidates.demand import Demand, Ground
    from stead.candidates.match import MatchedGroup, Pool
    from stead.candidates.work import Work
    from stead.catalog.snapshot import Snapshot
    from stead.domain.provider import Slot
    from stead.domain.request import CandidateRequest

_FIRST_TREES, _MOST_TREES = 32, 4096
"""Trees read together: few at first, because a request with a limit may need only these, then more and more."""

_DRAWN_FROM_ALL = 32
"""If a kind has at most this number of ways, all are found and drawn from. Finding more first would take too long."""


class Kind:
    """Trees with the same ways to serve a request, in positions."""

    def __init__(
        self, pools: Sequence[Pool], reaching: Sequence[Slot], demand: Demand, ground: Ground, work: Work
    ) -> None:
        """Nothing is searched for yet. Searching spends *work*, and raises WorkSpent when that is used up."""
        self._pools = pools
        self._work = work
        self.reaching = reaching
        self.demand = demand
        self.ground = ground
        self._cached: list[Arrangement] = []
        self._search: Iterator[Arrangement] | None = self._arranged(ground)

    def _arranged(self, ground: Ground) -> Iterator[Arrangement]:
        for demand, divided_ground in divided(self.demand, ground, self._work):
            pools = self._pools
            if demand.parts or ground.shares:
                # A further part of a need is served from the pool of that need, with an amount of its own.
                pool_of_need = [*range(len(pools)), *demand.parts.values()]
                pools = [
                    replace(pools[number], amounts=amounts)
                    for number, amounts in zip(pool_of_need, demand.amounts, strict=True)
                ]
            for way in ways(demand, divided_ground, self._work):
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
        choices = [random.sample(positions, len(positions)) for positions in self.ground.choices]
        return self._arranged(replace(self.ground, choices=choices))


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
        self._kinds: list[Kind] = []
        self._number_of: dict[bytes, int] = {}

    @property
    def requested(self) -> Mapping[int, int]:
        """What all groups together take, by class id, in the order in which they name the classes."""
        total: Counter[int] = Counter()
        for pool in self.pools:
            total.update(pool.amounts)
        return total

    def runs(
        self, anchors: NDArray[np.int64], places: Iterable[int], *, of_all: bool = False, limit: int | None = None
    ) -> Iterator[tuple[Kind, NDArray[np.int64]]]:
        """The trees in order, as runs of consecutive trees of one kind: the kind, and the slots by position.

        Args:
            places: the places in *anchors*, in the order of the trees.
            of_all: the caller needs all trees, so all portions can be large.
            limit: the caller needs this number of trees if all of them serve the request; None if it is unknown.
        """
        remaining = iter(places)
        portion_size = _MOST_TREES if of_all else min(_FIRST_TREES, limit or _FIRST_TREES)
        while portion := list(islice(remaining, portion_size)):
            self._work.require_time()  # reading trees spends no work, so this is where it ends in time
            yield from self._runs(anchors[portion])
            portion_size = min(portion_size * 4, _MOST_TREES)

    def _runs(self, anchors: NDArray[np.int64]) -> Iterator[tuple[Kind, NDArray[np.int64]]]:
        shapes = self._forest.shape.at(anchors)
        kinds, rows = np.empty(len(anchors), np.int64), np.empty(len(anchors), np.int64)
        slots: dict[int, NDArray[np.int64]] = {}
        for shape in np.unique(shapes).tolist():
            places = np.flatnonzero(shapes == shape)
            slots[shape] = self._forest.members_of(anchors[places], self._forest.shapes.values[shape])
            kinds[places] = self._numbers(shape, slots[shape], anchors[places])
            rows[places] = np.arange(len(places))
        bounds = [0, *(np.flatnonzero(np.diff(kinds)) + 1).tolist(), len(anchors)]
        for start, stop in itertools.pairwise(bounds):
            first = int(rows[start])  # trees of one kind have one shape, so their rows are consecutive, too
            yield self._kinds[int(kinds[start])], slots[int(shapes[start])][first : first + stop - start]

    def _numbers(self, shape: int, slots: NDArray[np.int64], anchors: NDArray[np.int64]) -> list[int]:
        """For each tree of one shape the number of its kind; new kinds are added."""
        columns = self._reader.read(shape, slots, anchors)
        signatures = columns.signatures()
        for signature in dict.fromkeys(signatures).keys() - self._number_of.keys():
            row = signatures.index(signature)  # any tree of the kind stands for all
            self._number_of[signature] = len(self._kinds)
            reaching, ground = self._reader.reaching(columns, row), self._reader.ground(columns, row)
            self._kinds.append(Kind(self.pools, reaching, self.demand, ground, self._work))
        return [self._number_of[signature] for signature in signatures]
