"""Order: the candidates of a request in the order that it names. All functions are lazy.

Depth-first returns all candidates of one tree, then those of the next. Breadth-first returns one of each tree in every
round. Random order is breadth-first over trees that are drawn one by one.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from itertools import islice, pairwise
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from stead.candidates.candidate import Batch
from stead.candidates.work import CANDIDATE
from stead.catalog.forest import NO_SLOT
from stead.domain.errors import UnknownClassInOrder
from stead.domain.request import ByAmount, ByShare

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from stead.candidates.candidate import Arrangement
    from stead.candidates.kinds import Kind, TreeKinds
    from stead.candidates.work import Work
    from stead.catalog.blocks import Texts
    from stead.catalog.snapshot import Snapshot

    Run = NDArray[np.int64]
    """Trees of one kind, as in a batch."""
    Numbers = NDArray[np.float64]


def depth_first(runs: Iterable[tuple[Kind, Run]]) -> Iterator[Batch]:
    """All candidates of one tree, then those of the next."""
    for kind, trees in runs:
        done = 0
        if kind.has_choice and not kind.is_explored:
            # The search goes on while the candidates of the first tree are consumed, so a limit can end it early.
            done, first = 1, trees[:1]
            for arrangement in kind.arrangements():
                yield Batch((arrangement,), first)
        arrangements = list(kind.arrangements())
        if arrangements and len(trees) > done:
            yield Batch(arrangements, trees[done:])


def in_rounds(runs: Iterable[tuple[Iterable[Arrangement], Run]]) -> Iterator[Batch]:
    """One candidate of each tree in every round, until a tree has no more."""
    waiting: deque[tuple[Iterator[Arrangement], Run]] = deque()
    for arrangements, trees in runs:
        remaining = iter(arrangements)
        for first in remaining:
            yield Batch((first,), trees)
            waiting.append((remaining, trees))
            break
    while waiting:
        remaining, trees = waiting.popleft()
        for arrangement in remaining:
            yield Batch((arrangement,), trees)
            waiting.append((remaining, trees))
            break


# Best: trees, and the candidates of each, in the order that a request names. Lazy.
#
# All trees are measured at once, by columns. The candidates of a tree are measured when the iteration reaches it.
# Equal measures are ordered by uuid, so that every process returns the same order.
#
# Source: "Order", docs/stead-api.md.


_GREAT = 2**63
"""More than any sum in a catalog. Amounts in a query are unbounded integers, and this fits into a float."""

AT_ONCE = 1000
"""Candidates of one tree that are sorted together. Sorting all would first find all, which may be millions."""


class Order(Protocol):
    """Values candidates in one snapshot: the least keys are the best, and the first row is the primary key."""

    def of_trees(self, anchors: NDArray[np.int64], work: Work) -> Numbers:
        """The key of the best candidate of each tree, shape ``(keys, anchors)``."""
        ...

    def of_arrangements(self, arrangements: Sequence[Arrangement], slots: NDArray[np.int64], work: Work) -> Numbers:
        """The key of each of *arrangements* for the providers *slots*, by position. Shape ``(keys, arrangements)``."""
        ...


@dataclass(frozen=True, slots=True)
class Measure:
    """An order by free shares or free amounts, in ids of this snapshot.

    ``factors`` are by class id: weights of free shares or, if not ``by_share``, directions of free amounts, the most
    important first. ``requested`` is what the request takes of each class.
    """

    snapshot: Snapshot
    factors: Mapping[int, float]
    by_share: bool
    requested: Mapping[int, int]

    def of_trees(self, anchors: NDArray[np.int64], work: Work) -> Numbers:  # noqa: ARG002  # it is quick
        """What the request leaves free in each tree, by its own providers."""
        free, capacity = [], []
        for class_id in self.factors:
            room, whole = _amounts_of_trees(self.snapshot, class_id, anchors)
            free.append(np.where(whole > 0, room - float(min(self.requested.get(class_id, 0), _GREAT)), 0.0))
            capacity.append(whole)
        return self._keys(free, capacity)

    def of_arrangements(self, arrangements: Sequence[Arrangement], slots: NDArray[np.int64], work: Work) -> Numbers:
        """What arrangements leave free at the providers that give each class."""
        free, capacity = [], []
        for class_id in self.factors:
            room, whole = (amounts.tolist() for amounts in _amounts(self.snapshot, class_id, slots))
            rooms, capacities = [], []
            # By the few providers of each arrangement: a tree may have thousands.
            for number, arrangement in enumerate(arrangements):
                if number % 64 == 0:  # a thousand arrangements take ten milliseconds
                    work.give_way()
                taken = {
                    position: amounts[class_id]
                    for position, amounts in arrangement.allocations.items()
                    if class_id in amounts
                }
                rooms.append(sum(room[position] for position in taken) - sum(taken.values()))
                capacities.append(sum(whole[position] for position in taken))
            free.append(np.array(rooms, np.float64))
            capacity.append(np.array(capacities, np.float64))
        return self._keys(free, capacity)

    def _keys(self, free: Sequence[Numbers], capacity: Sequence[Numbers]) -> Numbers:
        """Sort keys of trees or candidates, the least first; the first row is the primary key. Shape ``(keys, items)``.

        Args:
            free, capacity: an array of shape ``(items,)`` per class; where the capacity is 0, nothing is free.
        """
        factors = list(self.factors.values())
        if not self.by_share:
            return np.array([-factor * amounts for factor, amounts in zip(factors, free, strict=True)])
        total = np.zeros(len(free[0]))
        for factor, amounts, whole in zip(factors, free, capacity, strict=True):
            total += factor * np.divide(amounts, whole, out=np.zeros(len(amounts)), where=whole > 0)
        return -total[None, :]


def resolve_order(snapshot: Snapshot, by: ByShare | ByAmount, requested: Mapping[int, int]) -> Measure:
    """The measure of an order, for a request whose groups take *requested* together, by class id.

    Raises:
        UnknownClassInOrder
    """
    if isinstance(by, ByAmount):
        return Measure(snapshot, _by_id(snapshot, by.directions), False, requested)
    if isinstance(by.weights, float):
        return Measure(snapshot, dict.fromkeys(requested, by.weights), True, requested)
    return Measure(snapshot, _by_id(snapshot, by.weights), True, requested)


def _by_id(snapshot: Snapshot, factors: Mapping[str, float]) -> dict[int, float]:
    rows = snapshot.class_names.by_name
    for name in factors:
        if name not in rows:
            raise UnknownClassInOrder(name)
    return {rows[name].id: factor for name, factor in factors.items()}


def best_first(
    snapshot: Snapshot,
    tree_kinds: TreeKinds,
    anchors: NDArray[np.int64],
    measure: Order,
    work: Work,
    *,
    breadth_first: bool,
    limit: int | None = None,
) -> Iterator[Batch]:
    """All candidates under *anchors*, the best first: tree by tree, or one of each tree in every round.

    Args:
        limit: the caller needs up to this number; None if it is unknown.
    """
    runs = tree_kinds.runs(anchors, trees_in_order(snapshot, anchors, measure, work), limit=limit)
    if breadth_first:
        return in_rounds(_apart(snapshot, runs, measure, work))
    return _tree_by_tree(_apart(snapshot, runs, measure, work))


def trees_in_order(snapshot: Snapshot, anchors: NDArray[np.int64], measure: Order, work: Work) -> Iterator[int]:
    """The places of trees in *anchors*, the best first. Lazy."""
    return _in_turn(measure.of_trees(anchors, work), snapshot.identities.uuids, anchors)


def _tree_by_tree(runs: Iterator[tuple[Iterator[Arrangement], NDArray[np.int64]]]) -> Iterator[Batch]:
    for arrangements, trees in runs:
        for arrangement in arrangements:
            yield Batch((arrangement,), trees)


def _apart(
    snapshot: Snapshot, runs: Iterator[tuple[Kind, NDArray[np.int64]]], measure: Order, work: Work
) -> Iterator[tuple[Iterator[Arrangement], NDArray[np.int64]]]:
    """The sorted arrangements of each tree. Trees of a kind with a single arrangement stay together in one run."""
    for kind, trees in runs:
        # Two show whether there is anything to sort; a kind may have millions.
        several = len(list(islice(kind.arrangements(), 2))) > 1
        if not several:
            yield iter(kind.arrangements()), trees
            continue
        sorter = _Sorter(snapshot, kind, measure, work)
        for place in range(len(trees)):
            yield sorter.sorted(trees[place]), trees[place : place + 1]


def _amounts_of_trees(snapshot: Snapshot, class_id: int, anchors: NDArray[np.int64]) -> tuple[Numbers, Numbers]:
    """The free amount of a class and the capacity in each tree of *anchors*."""
    if not snapshot.forest.has_nested:
        return _amounts(snapshot, class_id, anchors)
    root = snapshot.forest.root.whole
    live = np.flatnonzero(root != NO_SLOT)
    free, capacity = (
        np.bincount(root[live], amounts, snapshot.size).astype(np.float64)[anchors]
        for amounts in _amounts(snapshot, class_id, live)
    )
    return free, capacity


def _amounts(snapshot: Snapshot, class_id: int, slots: NDArray[np.int64]) -> tuple[Numbers, Numbers]:
    """The free amount of a class and the capacity at each of *slots*; zeros where there is no inventory."""
    columns = snapshot.inventory.get(class_id)
    if columns is None:
        return np.zeros(slots.shape), np.zeros(slots.shape)
    kind = columns.kind.at(slots)
    # Slots without inventory have a room of -1, which must not count in a sum.
    room = np.where(kind > 0, columns.room.at(slots), 0).astype(np.float64)
    return room, columns.kinds.capacities()[kind].astype(np.float64)


def _in_turn(keys: Numbers, uuids: Texts, slots: NDArray[np.int64]) -> Iterator[int]:
    """The places of items in the order of their keys, then of their uuids, which are those at *slots*."""
    # Uuids are read only of equal items, and nearly always their first bytes differ: a flat site has thousands of equal
    # trees, and a request with a limit takes a few.
    for equals in _equal(keys):
        if len(equals) == 1:
            yield equals.item()
            continue
        for places in _equal(uuids.heads(slots[equals])[None, :]):
            same = equals[places]
            if len(same) == 1:
                yield same.item()
            else:
                yield from same[np.argsort(uuids.at(slots[same]))].tolist()


def _equal(keys: NDArray[Any]) -> Iterator[NDArray[np.int64]]:
    """The places of items, those with equal keys together, in the order of the keys. The shape is ``(keys, items)``."""
    # `lexsort` takes the last key as the primary one. For a single key, it is the slower of the two.
    places = np.argsort(keys[0]) if len(keys) == 1 else np.lexsort(keys[::-1])
    sorted_keys = keys[:, places]
    bounds = np.flatnonzero((sorted_keys[:, 1:] != sorted_keys[:, :-1]).any(axis=0)) + 1
    # One by one, because a request with a limit takes a few, and on a used site nearly all trees differ.
    for start, stop in pairwise([0, *bounds.tolist(), len(places)]):
        yield places[start:stop]


class _Sorter:
    """Sorts the arrangements of one kind for one tree after the other."""

    def __init__(self, snapshot: Snapshot, kind: Kind, measure: Order, work: Work) -> None:
        self._snapshot = snapshot
        self._kind = kind
        self._measure = measure
        self._work = work

    def sorted(self, members: NDArray[np.int64]) -> Iterator[Arrangement]:
        """The arrangements for the tree of these *members*, the best first within each portion of ``AT_ONCE``."""
        arrangements = iter(self._kind.arrangements())
        while portion := list(self._paid(islice(arrangements, AT_ONCE))):
            slots = np.concatenate([members, np.array(portion[0].reaching, np.int64)])
            uuids = self._snapshot.identities.uuids.at(slots).tolist()
            keys = self._measure.of_arrangements(portion, slots, self._work).T.tolist()
            order_of_uuids = [[uuids[position] for position in arrangement.way] for arrangement in portion]
            ordered = sorted(range(len(portion)), key=lambda place: (keys[place], order_of_uuids[place]))
            yield from (portion[place] for place in ordered)

    def _paid(self, arrangements: Iterable[Arrangement]) -> Iterator[Arrangement]:
        """*arrangements*, each paid for before the next one is made, so that a portion cannot overdraw the budget."""
        for arrangement in arrangements:
            self._work.spend(CANDIDATE)
            yield arrangement
