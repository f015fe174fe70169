"""What a request can see of trees, in columns: a signature by which equal trees are recognised, and a tree's `Ground`.

All trees of one shape are read together, because one vector operation on many trees costs little more than on one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from stead.candidates.demand import Ground
from stead.candidates.parts import Share

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from stead.candidates.demand import Demand
    from stead.candidates.match import MatchedGroup
    from stead.catalog.columns import Shares
    from stead.catalog.forest import Shape
    from stead.catalog.snapshot import Snapshot
    from stead.domain.provider import Slot

    Mask = NDArray[np.bool_]
    Numbers = NDArray[np.int64]


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

    def ground(self, columns: TreeColumns, row: int) -> Ground:
        """What the tree in a row of *columns* offers, by position."""
        size, reaching = columns.shape.size, self.reaching(columns, row)
        outside = np.array(reaching, np.int64)
        choices = [
            able[row].nonzero()[0].tolist()
            + [size + number for number, slot in enumerate(reaching) if slot in pool.shared]
            for pool, able in zip(self._pools, columns.able, strict=True)
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

        return Ground(choices, lambda position, class_id: available[class_id][position], is_below, clauses, shares)

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
