"""Capacity of a snapshot by resource class: of each provider, and summed over groups of providers.

Numbers are floats, as metrics have them: sums above 2**53 are rounded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stead.catalog.forest import NO_SLOT
from stead.catalog.masks import Masks
from stead.domain.capacity import Inventories, Sums

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from stead.catalog.columns import InventoryColumns
    from stead.catalog.snapshot import Mask, Snapshot


def inventories(snapshot: Snapshot) -> Iterator[Inventories]:
    """All inventories of all providers, class by class."""
    for class_id, columns in snapshot.inventory.items():
        slots = columns.slots
        numbers = columns.kinds.table()[:, columns.kind.at(slots)]
        yield Inventories(
            snapshot.class_names.by_id[class_id].name,
            snapshot.identities.names.at(slots).tolist(),
            numbers[0].tolist(),
            numbers[1].tolist(),
            numbers[5].tolist(),
            columns.used(slots).tolist(),
        )


def sums(snapshot: Snapshot, members: Mask) -> Iterator[Sums]:
    """The sums over the *members*, a mask of slots, for each class of which any of them has inventory."""
    for class_id in snapshot.inventory.at(np.flatnonzero(members)):
        slots = (columns := snapshot.inventory[class_id]).slots
        slots = slots[members[slots]]
        if len(slots):
            yield _sums(snapshot.class_names.by_id[class_id].name, columns, slots)


def _sums(name: str, columns: InventoryColumns, slots: NDArray[np.int64]) -> Sums:
    kind = columns.kind.at(slots)
    numbers = columns.kinds.table()[:, kind]
    return Sums(
        name,
        len(slots),
        float(numbers[0].sum()),
        float(numbers[1].sum()),
        float(columns.kinds.capacities()[kind].sum(dtype=np.float64)),
        float(columns.used(slots).sum(dtype=np.float64)),
    )


def members_of_trait(snapshot: Snapshot, trait: str) -> Mask:
    """The providers that have *trait*; none if there is no such trait."""
    row = snapshot.trait_names.by_name.get(trait)
    if row is None:
        return np.zeros(snapshot.size, np.bool_)
    return snapshot.trait_sets.passing([[row.id]], (), Masks())


def members_of_aggregates(snapshot: Snapshot) -> Iterator[tuple[str, Mask]]:
    """The uuid of each aggregate with its providers: the members, and all providers below a member that is a root."""
    roots = snapshot.forest.root.whole
    is_root = snapshot.forest.parent.whole == NO_SLOT
    for aggregate_id, uuid in snapshot.aggregate_uuids.items():
        # Masks of its own: those of the catalog are for the conditions of queries.
        members = snapshot.aggregate_sets.passing([[aggregate_id]], (), Masks())
        if members.any():
            # A free slot has the root -1, and so gets the value of the last slot. It has no inventory to count.
            yield uuid, members | (members & is_root)[roots]
