"""Reading: what trees offer to a request that is repeated, in columns for all trees of one shape.

Source: "GET /headroom", docs/api.md.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from stead.candidates.work import TRIED, masked

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from typing import Any

    from numpy.typing import NDArray

    from stead.candidates.demand import Demand
    from stead.candidates.match import Pool
    from stead.candidates.work import Work
    from stead.catalog.forest import Shape
    from stead.catalog.snapshot import Snapshot
    from stead.domain.provider import Slot

    Mask = NDArray[np.bool_]
    Numbers = NDArray[np.int64]

MOST = 2**40
"""Counts end here. Sums of counts over all providers fit into the columns."""

MOST_ROOM = 2**50
"""Rooms end here, in units of their class."""


@dataclass(frozen=True, slots=True)
class Trees:
    """Trees of one shape that the same sharing providers reach, for one request or for several of one form.

    For several requests, a tree is there once for each of them. ``request`` has the number of the request.

    Arrays have the shape ``(positions, trees)``, because a position has one role in all trees: most needs concern a few
    positions, and a sum over positions adds whole rows. The tree's own providers come first, then ``reaching``.

    ``able`` says for each need which positions can serve it now. ``rooms`` and ``max_units`` are by class id, in units
    of the class; ``max_units`` has only classes that several needs request or may split. ``meeting`` says for each
    clause which positions meet it. ``amounts`` is what the requests take, by need and class id: one number for all
    trees, or one for each.
    """

    shape: Shape
    anchors: Numbers
    request: Numbers
    slots: Numbers
    reaching: Sequence[Slot]
    able: Sequence[Mask]
    rooms: Mapping[int, Numbers]
    max_units: Mapping[int, Numbers]
    meeting: Sequence[Mask]
    amounts: Sequence[Mapping[int, int | Numbers]]

    def times(self, need: int) -> Numbers:
        """How often each position can serve *need* if it serves nothing else."""
        times = np.zeros(self.slots.shape, np.int64)
        serving = self.serving([need])
        able = self.able[need][serving]
        most = np.full(able.shape, MOST, np.int64)
        for class_id, amount in self.amounts[need].items():
            if class_id in self.rooms:
                np.minimum(most, self.rooms[class_id][serving] // np.minimum(amount, MOST_ROOM + 1), out=most)
        times[serving] = np.where(able, most, 0)
        return times

    def serving(self, needs: Iterable[int], where: slice = slice(None)) -> Numbers:
        """The positions *where* that can serve any of *needs* in any of the trees, ascending."""
        able = np.logical_or.reduce([self.able[need][where].any(axis=1) for need in needs])
        return np.flatnonzero(able) + (where.start or 0)

    def among(self, places: Numbers) -> Trees:
        """The trees at *places* only."""
        return replace(
            self,
            anchors=self.anchors[places],
            request=self.request[places],
            slots=self.slots[:, places],
            able=[able[:, places] for able in self.able],
            rooms={class_id: rooms[:, places] for class_id, rooms in self.rooms.items()},
            max_units={class_id: units[:, places] for class_id, units in self.max_units.items()},
            meeting=[meeting[:, places] for meeting in self.meeting],
            amounts=[
                {c: amount[places] if isinstance(amount, np.ndarray) else amount for c, amount in amounts.items()}
                for amounts in self.amounts
            ],
        )

    def for_each(self, snapshot: Snapshot, amounts: Sequence[Mapping[int, Numbers]], number: int) -> Trees:
        """These trees for each of a *number* of requests, one request after the other.

        ``able`` says which positions could serve the needs if amounts did not matter.

        Args:
            amounts: by need and class id, the amount of each request.
        """

        def repeated(columns: NDArray[Any]) -> NDArray[Any]:
            return np.tile(columns, (1, number))

        able = [repeated(mask) for mask in self.able]
        for need, of_need in enumerate(amounts):
            serving = self.serving([need])
            for class_id, of_requests in of_need.items():
                fits = snapshot.inventory[class_id].fitting(of_requests, self.slots[serving])
                able[need][serving] &= fits.reshape(len(serving), -1)
        trees = len(self.anchors)
        return replace(
            self,
            anchors=np.tile(self.anchors, number),
            request=np.repeat(np.arange(number), trees),
            slots=repeated(self.slots),
            able=able,
            rooms={class_id: repeated(rooms) for class_id, rooms in self.rooms.items()},
            max_units={class_id: repeated(units) for class_id, units in self.max_units.items()},
            meeting=[repeated(meeting) for meeting in self.meeting],
            amounts=[{c: np.repeat(of_requests, trees) for c, of_requests in of_need.items()} for of_need in amounts],
        )


def read_trees(
    snapshot: Snapshot, pools: Sequence[Pool], clauses: Sequence[Mask], anchors: Numbers, work: Work
) -> Iterator[Trees]:
    """The trees of *anchors*, in groups, without positions that serve no need in any tree of the group.

    Args:
        clauses: masks of the providers that meet each clause.

    Raises:
        WorkSpent: while iterating.
    """
    forest, sharing = snapshot.forest, snapshot.sharing
    requesting = Counter(class_id for pool in pools for class_id in pool.amounts)
    is_split = any(pool.shares is not None for pool in pools)
    is_shared = any(pool.shared.size for pool in pools)
    shapes = forest.shape.at(anchors)
    circles = sharing.circle[anchors] if is_shared else np.zeros(len(anchors), np.int32)
    # One number for both, because NumPy is slow to find the unique rows of a matrix.
    group_of = shapes.astype(np.int64) * (int(circles.max(initial=0)) + 1) + circles
    groups = np.unique(group_of).tolist() if (group_of != group_of[:1]).any() else group_of[:1].tolist()
    shared_masks = [_mask(snapshot.size, pool.shared) for pool in pools]
    for group in groups:
        shape_number, circle = divmod(group, int(circles.max(initial=0)) + 1)
        here = anchors[group_of == group] if len(groups) > 1 else anchors
        shape = forest.shapes.values[shape_number]
        own = np.ascontiguousarray(forest.members_of(here, shape).T)
        able = [pool.own[own] for pool in pools]
        serving = np.flatnonzero(np.logical_or.reduce([mask.any(axis=1) for mask in able]))
        if len(serving) < shape.size:
            own, shape, able = own[serving], shape.among(serving.tolist()), [mask[serving] for mask in able]
        reaching = sharing.circles[circle] if is_shared else ()
        outside = np.broadcast_to(np.array(reaching, np.int64)[:, None], (len(reaching), len(here)))
        slots = np.concatenate([own, outside]) if reaching else own
        work.spend((len(pools) + len(clauses)) * masked(slots.size))
        rooms, max_units = {}, {}
        for class_id, number in requesting.items():
            columns = snapshot.inventory.get(class_id)
            if columns is None:
                continue
            # A provider that is over-allocated offers nothing; a negative room would lower the sum of its tree.
            rooms[class_id] = np.minimum(np.maximum(columns.room.at(slots), 0), MOST_ROOM)
            if number > 1 or is_split:
                max_units[class_id] = columns.kinds.table()[3].astype(np.int64)[columns.kind.at(slots)]
        yield Trees(
            shape,
            here,
            np.zeros(len(here), np.int64),
            slots,
            reaching,
            [np.concatenate([own_able, mask[outside]]) for own_able, mask in zip(able, shared_masks, strict=True)]
            if reaching
            else able,
            rooms,
            max_units,
            [clause[slots] for clause in clauses],
            [pool.amounts for pool in pools],
        )


def alike(trees: Trees, demand: Demand, work: Work) -> Iterator[Trees]:
    """*trees* in groups in which the same needs compete, and the same needs find the same rooms.

    So what is counted for a tree does not depend on the trees beside it.

    Raises:
        WorkSpent: while iterating.
    """
    pairs = []
    for need, other in combinations(range(len(demand.amounts)), 2):
        work.spend(TRIED)
        if may_compete(demand, need, other):
            work.spend(2 * masked(trees.slots.size))
            pairs.append((trees.able[need] & trees.able[other]).any(axis=0))
            if demand.amounts[need] == demand.amounts[other]:
                pairs.append((trees.able[need] == trees.able[other]).all(axis=0))
    mixed = [pair for pair in pairs if pair.any() and not pair.all()]
    if not mixed:
        yield trees
        return
    bits = np.ascontiguousarray(np.packbits(np.stack(mixed, axis=1), axis=1))
    # One void value per row, because NumPy is slow to find the unique rows of a matrix.
    _, group_of = np.unique(bits.view(f"V{bits.shape[1]}").ravel(), return_inverse=True)
    for group in range(int(group_of.max()) + 1):
        yield trees.among(np.flatnonzero(group_of == group))


def may_compete(demand: Demand, need: int, other: int) -> bool:
    """Whether two needs compete for a provider that can serve both."""
    shares_class = not demand.amounts[need].keys().isdisjoint(demand.amounts[other])
    return shares_class or are_isolated(demand, need, other)


def _mask(size: int, slots: Numbers) -> Mask:
    mask = np.zeros(size, np.bool_)
    mask[slots] = True
    return mask


def competing(demand: Demand, trees: Trees, work: Work) -> list[list[int]]:
    """The needs in groups: needs of two groups never compete for a provider of any of *trees*.

    Raises:
        WorkSpent
    """
    group_of = list(range(len(demand.amounts)))
    for need, other in combinations(range(len(group_of)), 2):
        if group_of[need] == group_of[other]:
            continue
        work.spend(TRIED)
        if not may_compete(demand, need, other):
            continue
        work.spend(masked(trees.slots.size))
        if (trees.able[need] & trees.able[other]).any():
            old, new = group_of[other], group_of[need]
            group_of = [new if number == old else number for number in group_of]
    return [[need for need, group in enumerate(group_of) if group == number] for number in sorted(set(group_of))]


def are_isolated(demand: Demand, need: int, other: int) -> bool:
    """Whether two needs must have different providers."""
    isolated, bystanders = demand.isolated, demand.bystanders
    if need in isolated:
        return other in isolated or other in bystanders
    return other in isolated and need in bystanders
