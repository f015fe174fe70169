"""A part: some trees of a snapshot as a snapshot of their own, for many questions about only these trees.

A question then costs what these trees cost, not what all slots do. Sharing providers of other trees are missing, so the
questions must not need them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stead.catalog.directory import Directory
from stead.catalog.forest import ALONE, NO_SLOT, Forest, Shape
from stead.catalog.fragments import Fragments
from stead.catalog.index import TreeIndex
from stead.catalog.inventories import Inventories
from stead.catalog.masks import Masks
from stead.catalog.service_states import ServiceStates
from stead.catalog.sharing import Sharing
from stead.catalog.snapshot import Identities, Snapshot
from stead.domain.provider import Slot

if TYPE_CHECKING:
    from numpy.typing import NDArray


class _Consecutive(Forest):
    """A forest in which the members of a tree have consecutive slots, in the order of their positions."""

    __slots__ = ()

    def members_of(self, roots: NDArray[np.int64], shape: Shape) -> NDArray[np.int64]:
        return roots[:, None] + np.arange(shape.size)


def part(snapshot: Snapshot, roots: NDArray[np.int64]) -> tuple[Snapshot, NDArray[np.int64]]:
    """The trees of *roots*, and the slot in *snapshot* of each of the part's slots.

    Its texts and versions are those of *snapshot*; its masks are its own.
    """
    shapes = snapshot.forest.shape.at(roots)
    members = [
        snapshot.forest.members_of(roots[shapes == shape], snapshot.forest.shapes.values[shape])
        for shape in np.unique(shapes).tolist()
    ]
    slots = np.concatenate([np.empty(0, np.int64), *(each.ravel() for each in members)])
    place_of = np.full(snapshot.size + 1, NO_SLOT, np.int32)  # the last one is the place of NO_SLOT
    place_of[slots] = np.arange(len(slots))
    forest = _forest(snapshot.forest, slots, place_of, members)
    trait_sets, aggregate_sets = snapshot.trait_sets.only(slots), snapshot.aggregate_sets.only(slots)
    masks = Masks()
    disabled = {
        Slot(place): state
        for slot, state in snapshot.service_states.disabled.items()
        if (place := int(place_of[slot])) != NO_SLOT
    }
    alone = Snapshot(
        identities=_identities(snapshot.identities, slots),
        generations=snapshot.generations.only(slots),
        modified=snapshot.modified.only(slots),
        versions=snapshot.versions.only(slots),
        forest=forest,
        # The classes of these trees alone; a part is small, so each gets arrays over all its slots.
        inventory=Inventories.of(
            {class_id: snapshot.inventory[class_id].only(slots) for class_id in snapshot.inventory.at(slots)},
            len(slots),
        ),
        trait_sets=trait_sets,
        aggregate_sets=aggregate_sets,
        aggregate_uuids=snapshot.aggregate_uuids,
        aggregate_ids=snapshot.aggregate_ids,
        trait_names=snapshot.trait_names,
        class_names=snapshot.class_names,
        sharing=Sharing(forest, trait_sets, aggregate_sets, snapshot.sharing_trait, masks),
        service_states=ServiceStates(forest, disabled),
        masks=masks,
        fragments=Fragments(),
    )
    return alone, slots


def _forest(
    old: Forest, slots: NDArray[np.int64], place_of: NDArray[np.int32], members: list[NDArray[np.int64]]
) -> Forest:
    trees = TreeIndex.of(
        {
            places[0]: tuple(map(Slot, places))
            for each in members
            if each.shape[1] > ALONE.size
            for places in place_of[each].tolist()
        }
    )
    return _Consecutive(
        old.parent.holding(place_of[old.parent.at(slots)]),
        old.root.holding(place_of[old.root.at(slots)]),
        old.position.only(slots),
        old.shape.only(slots),
        old.shapes,
        trees,
        Directory(trees),
    )


def _identities(old: Identities, slots: NDArray[np.int64]) -> Identities:
    return Identities.of(old.uuids.only(slots), old.names.only(slots), old.ids.only(slots))
