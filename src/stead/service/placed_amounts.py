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
        of.used == amounts.get(slot, {}).get(class_id, 0)
        for slot in snapshot.forest.members(root)
        for class_id, columns in snapshot.inventory.items()
        if (of := columns.at(slot)) is not None
    )


def slots(snapshot: Snapshot, amounts: Mapping[str, Mapping[str, int]]) -> Amounts:
    """The same amounts by slot and class id instead of uuid and name, without unknown ones."""
    known = snapshot.class_names.by_name
    return {
        slot: {known[name].id: amount for name, amount in of.items() if name in known}
        for uuid, of in amounts.items()
        if (slot := snapshot.find(uuid)) is not None
    }
