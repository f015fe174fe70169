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
from operator import itemgetter
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

_FIRST = np.zeros(1, np.int64)
"""The place of the first tree."""

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
        # Without a choice, there is at most one way.
        self.has_choice = bool(ground.shares) or any(len(positions) > 1 for positions in ground.choices)
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
        runs: list[tuple[int, Kind, NDArray[np.int64]]] = []
        for shape in np.bincount(shapes).nonzero()[0].tolist():
            runs += self._runs_of_shape(shape, (shapes == shape).nonzero()[0], anchors)
        runs.sort(key=itemgetter(0))
        return ((kind, slots) for _, kind, slots in runs)

    def _runs_of_shape(
        self, shape: int, places: NDArray[np.int64], anchors: NDArray[np.int64]
    ) -> Iterator[tuple[int, Kind, NDArray[np.int64]]]:
        """The runs among the trees at *places*, which have one shape, each with its first place."""
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
            kind = self._kinds.get((shape, signature))
            if kind is None:  # the first tree of a run stands for all of its kind
                reaching, ground = self._reader.reaching(columns, start), self._reader.ground(columns, start)
                kind = Kind(self.pools, reaching, self.demand, ground, self._work)
                self._kinds[shape, signature] = kind
            yield int(places[start]), kind, slots[start:stop]
