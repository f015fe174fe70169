"""Amounts of allocations by slot and class id, as searches use them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stead.candidates.placing import Amounts
    from stead.catalog.snapshot import Snapshot


def are_usage_of(snapshot: Snapshot, root: int, amounts: Amounts) -> bool:
    """Whether *amounts*, as far as they are of the tree of *root*, are all that is in use there."""
    return all(
        stored.used == amounts.get(slot, {}).get(class_id, 0)
        for slot in snapshot.forest.members(root)
        for class_id in snapshot.inventory.at((slot,))
        if (stored := snapshot.inventory[class_id].at(slot)) is not None
    )


def are_whole(snapshot: Snapshot, allocations: Mapping[str, Mapping[str, int]]) -> bool:
    """Whether the snapshot has all providers and classes of some allocations, so that :func:`slots` drops nothing."""
    placed = slots(snapshot, allocations)
    return sum(map(len, allocations.values())) == sum(map(len, placed.values()))


def slots(snapshot: Snapshot, amounts: Mapping[str, Mapping[str, int]]) -> Amounts:
    """The same amounts by slot and class id instead of uuid and name, without unknown ones."""
    classes = snapshot.class_names.by_name
    return {
        slot: {classes[name].id: amount for name, amount in by_name.items() if name in classes}
        for uuid, by_name in amounts.items()
        if (slot := snapshot.find(uuid)) is not None
    }
