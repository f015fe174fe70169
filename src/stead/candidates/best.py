"""Best: trees, and the candidates of each, in the order that a request asks for, made as they are asked for.

All trees are measured at once, by columns; their candidates only when it is their turn. Who measures the same is
ordered by uuid, which every process has alike.

Source: "Order", docs/api.md.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

from stead.candidates import order
from stead.candidates.candidate import Batch
from stead.candidates.work import CANDIDATE
from stead.catalog.forest import NOBODY
from stead.domain.errors import UnknownClassInOrder
from stead.domain.order import ByAmount, ByShare

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from stead.candidates.candidate import Arrangement
    from stead.candidates.kinds import Demanded, Kind
    from stead.candidates.work import Work
    from stead.catalog.snapshot import Snapshot

    Numbers = NDArray[np.float64]

_GREAT = 2**63
"""More than there can be of anything; integers of a query have no end, and floats do."""

AT_ONCE = 1000
"""Candidates of one tree that are put in order together."""


@dataclass(frozen=True, slots=True)
class Measure:
    """What an order looks at, in ids of this snapshot.

    ``factors`` are by class id: weights of free shares or, if not ``by_share``, directions of free amounts, the most
    important first. ``asked`` is what the request takes of each class.
    """

    factors: Mapping[int, float]
    by_share: bool
    asked: Mapping[int, int]

    def keys(self, free: Sequence[Numbers], capacity: Sequence[Numbers]) -> Numbers:
        """What to sort by, the least first and the first row before the next; shape ``(keys, things)``.

        Args:
            free, capacity: by the places of the classes, shape ``(things,)`` each; nothing free without capacity.
        """
        factors = list(self.factors.values())
        if not self.by_share:
            return np.array([-factor * some for factor, some in zip(factors, free, strict=True)])
        total = np.zeros(len(free[0]))
        for factor, some, whole in zip(factors, free, capacity, strict=True):
            total += factor * np.divide(some, whole, out=np.zeros(len(some)), where=whole > 0)
        return -total[None, :]


def resolve_order(snapshot: Snapshot, by: ByShare | ByAmount, asked: Mapping[int, int]) -> Measure:
    """The measure of an order, for a request that takes *asked* in all, by class id.

    Raises:
        UnknownClassInOrder
    """
    if isinstance(by, ByAmount):
        return Measure(_by_id(snapshot, by.directions), False, asked)
    if isinstance(by.weights, float):
        return Measure(dict.fromkeys(asked, by.weights), True, asked)
    return Measure(_by_id(snapshot, by.weights), True, asked)


def _by_id(snapshot: Snapshot, factors: Mapping[str, float]) -> dict[int, float]:
    known = snapshot.class_names.by_name
    for name in factors:
        if name not in known:
            raise UnknownClassInOrder(name)
    return {known[name].id: factor for name, factor in factors.items()}


def best_first(
    snapshot: Snapshot,
    demanded: Demanded,
    anchors: NDArray[np.int64],
    measure: Measure,
    work: Work,
    *,
    breadth_first: bool,
) -> Iterator[Batch]:
    """All candidates under *anchors*, the best first: tree by tree, or one of each tree in every round."""
    keys = measure.keys(*_of_trees(snapshot, anchors, measure))
    uuids = snapshot.identities.uuids.at(anchors)
    runs = demanded.runs(anchors, _in_turn(keys, uuids))
    if breadth_first:
        return order.breadth_first(_apart(snapshot, runs, measure, work))
    return _tree_by_tree(_apart(snapshot, runs, measure, work))


def _tree_by_tree(runs: Iterator[tuple[Iterator[Arrangement], NDArray[np.int64]]]) -> Iterator[Batch]:
    for arrangements, trees in runs:
        for arrangement in arrangements:
            yield Batch((arrangement,), trees)


def _apart(
    snapshot: Snapshot, runs: Iterator[tuple[Kind, NDArray[np.int64]]], measure: Measure, work: Work
) -> Iterator[tuple[Iterator[Arrangement], NDArray[np.int64]]]:
    """The arrangements of each tree in order; trees that have one only, and the same, stay together."""
    for kind, trees in runs:
        several = len(list(islice(kind.arrangements(), 2))) > 1
        if not several:
            yield iter(kind.arrangements()), trees
            continue
        sorter = _Sorter(snapshot, kind, measure, work)
        for place in range(len(trees)):
            yield sorter.sorted(trees[place]), trees[place : place + 1]


def _of_trees(snapshot: Snapshot, anchors: NDArray[np.int64], measure: Measure) -> tuple[list[Numbers], list[Numbers]]:
    """What stays free of each class in the trees of *anchors*, and their capacities; of their own providers only."""
    free, capacity = [], []
    for class_id in measure.factors:
        room, whole = (_summed(snapshot, some)[anchors] for some in _amounts(snapshot, class_id, _every(snapshot)))
        free.append(np.where(whole > 0, room - float(min(measure.asked.get(class_id, 0), _GREAT)), 0.0))
        capacity.append(whole)
    return free, capacity


def _every(snapshot: Snapshot) -> NDArray[np.int64]:
    return np.arange(snapshot.size, dtype=np.int64)


def _summed(snapshot: Snapshot, amounts: Numbers) -> Numbers:
    """At each root the sum over its tree of what stands at all slots."""
    if not snapshot.forest.has_nested:
        return amounts
    root = snapshot.forest.root.whole
    standing = root != NOBODY
    summed: Numbers = np.bincount(root[standing], amounts[standing], snapshot.size).astype(np.float64)
    return summed


def _amounts(snapshot: Snapshot, class_id: int, slots: NDArray[np.int64]) -> tuple[Numbers, Numbers]:
    """What is free of a class at each of *slots*, and what the capacity is; zeros where there is no inventory."""
    columns = snapshot.inventory.get(class_id)
    if columns is None:
        return np.zeros(slots.shape), np.zeros(slots.shape)
    kind = columns.kind.at(slots)
    room = np.where(kind > 0, columns.room.at(slots), 0).astype(np.float64)
    return room, columns.kinds.capacities()[kind].astype(np.float64)


def _in_turn(keys: Numbers, uuids: NDArray[np.object_]) -> Iterator[int]:
    """The places of things, the least keys first, of equals the first uuid; some cost little more than sorting."""
    places = np.lexsort(keys[::-1])
    sorted_keys = keys[:, places]
    bounds = np.flatnonzero((sorted_keys[:, 1:] != sorted_keys[:, :-1]).any(axis=0)) + 1
    for equals in np.split(places, bounds):
        left = list(zip(uuids[equals].tolist(), equals.tolist(), strict=True))
        heapq.heapify(left)
        while left:
            yield heapq.heappop(left)[1]


class _Sorter:
    """Puts the arrangements of one kind in order, for one tree after the other."""

    def __init__(self, snapshot: Snapshot, kind: Kind, measure: Measure, work: Work) -> None:
        self._snapshot = snapshot
        self._kind = kind
        self._measure = measure
        self._work = work

    def sorted(self, members: NDArray[np.int64]) -> Iterator[Arrangement]:
        """The arrangements for the tree of these *members*, the best first among each thousand that is found."""
        found = iter(self._kind.arrangements())
        while some := list(islice(found, AT_ONCE)):
            self._work.spend(CANDIDATE * len(some))
            slots = np.concatenate([members, np.array(some[0].reaching, np.int64)])
            uuids = self._snapshot.identities.uuids.at(slots).tolist()
            keys = self._measure.keys(*self._of_arrangements(some, slots)).T.tolist()
            ordered = sorted(range(len(some)), key=lambda n: (keys[n], [uuids[position] for position in some[n].way]))
            yield from (some[n] for n in ordered)

    def _of_arrangements(
        self, some: Sequence[Arrangement], slots: NDArray[np.int64]
    ) -> tuple[list[Numbers], list[Numbers]]:
        """What stays free of each class where an arrangement takes it, and the capacities there."""
        free, capacity = [], []
        for class_id in self._measure.factors:
            taking = np.array(
                [[class_id in one.allocations.get(position, ()) for position in range(len(slots))] for one in some],
                np.float64,
            )
            taken = [sum(given.get(class_id, 0) for given in one.allocations.values()) for one in some]
            room, whole = _amounts(self._snapshot, class_id, slots)
            free.append(taking @ room - taken)
            capacity.append(taking @ whole)
        return free, capacity
