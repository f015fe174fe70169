"""Planned changes of providers: rows as the database would have them, from which a refresh makes a snapshot.

The rows come from a snapshot instead of the database, so a planned change has the same effect as a stored one.
"""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import TYPE_CHECKING
from uuid import uuid4

import numpy as np

from stead.catalog.forest import NO_SLOT
from stead.catalog.fragments import Fragments
from stead.catalog.refresh import refreshed
from stead.domain.changes import Changes, InventoryRow, ProviderRow, StandingRow
from stead.domain.names import DISABLED_TRAIT
from stead.domain.provider import Disabled, Slot

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stead.catalog.snapshot import Snapshot
    from stead.domain.inventory import Inventory

PLANNED = Disabled("planned", 0, None)
"""The state of providers that a planned change disables."""


class Draft:
    """The rows of the providers that planned changes touch."""

    def __init__(self, snapshot: Snapshot) -> None:
        """Nothing is changed yet."""
        # Planned providers have versions of their own, whose texts would displace those of stored providers.
        self._snapshot = replace(snapshot, fragments=Fragments())
        ids = snapshot.identities.ids.whole
        self._new_ids = itertools.count(int(ids.max()) + 1 if ids.size else 1)
        self._rows: dict[int, ProviderRow] = {}
        self._inventories: dict[int, dict[int, InventoryRow]] = {}
        self._used: dict[tuple[int, int], int] = {}
        self._traits: dict[int, set[int]] = {}
        self._aggregates: dict[int, tuple[int, ...]] = {}
        self._disabled: dict[int, Disabled] = {}
        self._deleted_aggregates: set[int] = set()

    def snapshot(self) -> Snapshot:
        """The snapshot with all changes."""
        changes = Changes(
            None,
            provider_ids=list(self._rows),
            providers=list(self._rows.values()),
            inventories=[row for rows in self._inventories.values() for row in rows.values()],
            used=self._used,
            disabled=self._disabled,
            traits_of={id_: tuple(sorted(traits)) for id_, traits in self._traits.items()},
            aggregates_of={
                id_: tuple(aggregate for aggregate in aggregates if aggregate not in self._deleted_aggregates)
                for id_, aggregates in self._aggregates.items()
            },
        )
        return refreshed(self._snapshot, changes)

    def _touch(self, slot: int) -> int:
        """The id of the provider at *slot*, with its rows among the changed ones."""
        snapshot = self._snapshot
        id_: int = snapshot.identities.ids[slot]
        if id_ in self._rows:
            return id_
        parent, ids = snapshot.forest.parent[slot], snapshot.identities.ids
        self._rows[id_] = ProviderRow(
            id_,
            snapshot.uuid(slot),
            snapshot.identities.names[slot],
            snapshot.generations[slot],
            None if parent == NO_SLOT else ids[parent],
            ids[snapshot.forest.root[slot]],
            snapshot.modified[slot],
        )
        rows = self._inventories[id_] = {}
        for class_id in snapshot.inventory.at((slot,)):
            stored = snapshot.inventory[class_id].at(slot)
            if stored is not None:
                rows[class_id] = _row(id_, class_id, stored.inventory, stored.modified)
                self._used[id_, class_id] = stored.used
        self._traits[id_] = set(snapshot.trait_sets.of(slot))
        self._aggregates[id_] = tuple(snapshot.aggregate_sets.of(slot))
        disabled = snapshot.service_states.disabled.get(Slot(slot))
        if disabled is not None:
            self._disabled[id_] = disabled
        return id_

    def disable(self, slot: int) -> None:
        """Disable a provider, which gets the trait that says so. One that is disabled keeps its state."""
        id_ = self._touch(slot)
        self._disabled.setdefault(id_, PLANNED)
        self._traits[id_] |= self._disabled_trait()

    def _disabled_trait(self) -> set[int]:
        row = self._snapshot.trait_names.by_name.get(DISABLED_TRAIT)
        return set() if row is None else {row.id}

    def set_inventory(self, slot: int, class_id: int, inventory: Inventory | None) -> None:
        """Replace an inventory; None removes it."""
        id_ = self._touch(slot)
        if inventory is None:
            del self._inventories[id_][class_id]
        else:
            self._inventories[id_][class_id] = _row(id_, class_id, inventory, self._rows[id_].modified)

    def set_trait(self, slot: int, trait: int, *, has: bool) -> None:
        """Add a trait, or remove it."""
        traits = self._traits[self._touch(slot)]
        if has:
            traits.add(trait)
        else:
            traits.discard(trait)

    def delete_aggregate(self, aggregate: int) -> None:
        """Remove all members of an aggregate."""
        members = self._snapshot.in_aggregates([(aggregate,)], ())
        for slot in np.flatnonzero(members).tolist():
            self._touch(slot)
        # Removed at the end from all members and their copies, once for all deleted aggregates.
        self._deleted_aggregates.add(aggregate)

    def copy(self, slot: int, count: int) -> None:
        """Add trees like the present tree of *slot*: enabled, without allocations, with names of their own."""
        members = [self._touch(member) for member in self._snapshot.forest.members(self._snapshot.forest.root[slot])]
        for number in range(1, count + 1):
            new_id = {id_: next(self._new_ids) for id_ in members}
            for id_, copied in new_id.items():
                row, uuid = self._rows[id_], str(uuid4())
                name = f"{row.name} (copy {number})"
                if self._snapshot.find_named(name) is not None:
                    name = f"{name} {uuid}"
                parent = None if row.parent_id is None else new_id[row.parent_id]
                self._rows[copied] = ProviderRow(copied, uuid, name, 0, parent, new_id[row.root_id], row.modified)
                inventories = self._inventories[id_].items()
                self._inventories[copied] = {
                    key: inventory._replace(provider_id=copied) for key, inventory in inventories
                }
                # A set of its own, which later changes of the provider leave alone.
                self._traits[copied] = self._traits[id_] - (self._disabled_trait() if id_ in self._disabled else set())
                self._aggregates[copied] = self._aggregates[id_]


def with_usage_moved(snapshot: Snapshot, amounts: Mapping[Slot, Mapping[int, int]]) -> Snapshot:
    """The snapshot after claims that took these amounts (released, if negative), by slot and class id."""
    ids = snapshot.identities.ids
    used: dict[tuple[int, int], int] = {}
    rows = []
    for slot, of_slot in amounts.items():
        rows.append(StandingRow(ids[slot], snapshot.generations[slot] + 1, None))
        for class_id in snapshot.inventory.at((slot,)):
            stored = snapshot.inventory[class_id].at(slot)
            if stored is not None:
                used[ids[slot], class_id] = stored.used + of_slot.get(class_id, 0)
    return refreshed(snapshot, Changes(None, claimed=rows, used=used)) if rows else snapshot


def _row(id_: int, class_id: int, inventory: Inventory, modified: int) -> InventoryRow:
    numbers = inventory.total, inventory.reserved, inventory.min_unit, inventory.max_unit, inventory.step_size
    return InventoryRow(id_, class_id, *numbers, inventory.allocation_ratio, modified)
