"""From one snapshot to the next: what changed is replaced whole, all else is shared.

One sentence tests it: refreshing gives what reloading gives.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from stead.catalog.arrays import places, with_values
from stead.catalog.columns import InventoryColumns
from stead.catalog.forest import NOBODY
from stead.catalog.names import Names
from stead.catalog.sharing import Sharing
from stead.catalog.snapshot import Identities, Snapshot
from stead.domain.provider import Slot

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from stead.domain.changes import Changes, InventoryRow, ProviderRow


def refreshed(snapshot: Snapshot, changes: Changes) -> Snapshot:
    """The snapshot after *changes*; *snapshot* stays as it is."""
    base = Snapshot.empty() if changes.everything else snapshot
    base = _with_names(base, changes)
    if changes.provider_ids:
        base = _with_providers(base, changes)
    return _with_sharing(base)


def _with_names(snapshot: Snapshot, changes: Changes) -> Snapshot:
    uuids = {**snapshot.aggregate_uuids, **changes.aggregate_uuids}
    if len(uuids) > len(snapshot.aggregate_uuids):
        ids = {uuid: id_ for id_, uuid in uuids.items()}
        snapshot = replace(snapshot, aggregate_uuids=uuids, aggregate_ids=ids)
    if changes.traits is not None:
        snapshot = replace(snapshot, trait_names=Names(changes.traits))
    if changes.resource_classes is not None:
        snapshot = replace(snapshot, class_names=Names(changes.resource_classes))
    return snapshot


def _with_providers(snapshot: Snapshot, changes: Changes) -> Snapshot:
    rows = {row.id: row for row in changes.providers}
    gone = [
        slot
        for id_ in changes.provider_ids
        if id_ not in rows and (slot := snapshot.identities.slot_of_id.get(id_)) is not None
    ]
    identities = _identities(snapshot.identities, rows, gone)
    size = len(identities.uuids)
    by_slot: dict[int, ProviderRow] = {identities.slot_of_id[id_]: row for id_, row in rows.items()}
    slots = places(list(by_slot))
    touched: list[int] = [*by_slot, *gone]

    slot_of_id = identities.slot_of_id
    parents = {slot: _slot_or_nobody(slot_of_id, row.parent_id) for slot, row in by_slot.items()}
    roots = {slot: _slot_or_nobody(slot_of_id, row.root_id) for slot, row in by_slot.items()}
    nobody: dict[int, int] = dict.fromkeys(gone, NOBODY)
    inventories = _by_slot(slot_of_id, ((row.provider_id, row) for row in changes.inventories))
    classes = {slot: [row.class_id for row in inventories[slot]] for slot in touched}
    return replace(
        snapshot,
        identities=identities,
        generations=with_values(
            snapshot.generations, slots, [row.generation for row in by_slot.values()], size=size, fill=0
        ),
        modified=with_values(snapshot.modified, slots, [row.modified for row in by_slot.values()], size=size, fill=0),
        forest=snapshot.forest.replanted({**parents, **nobody}, {**roots, **nobody}, size),
        inventory=_inventory(snapshot, touched, inventories),
        class_sets=snapshot.class_sets.replaced(classes, size),
        trait_sets=snapshot.trait_sets.replaced(_members(slot_of_id, touched, changes.provider_traits), size),
        aggregate_sets=snapshot.aggregate_sets.replaced(
            _members(slot_of_id, touched, changes.provider_aggregates), size
        ),
    )


def _identities(old: Identities, rows: Mapping[int, ProviderRow], gone: Sequence[Slot]) -> Identities:
    """Who stands where, once *rows* (by id) came or changed and *gone* went."""
    same = not gone and all(
        (slot := old.slot_of_id.get(id_)) is not None and (old.uuids[slot], old.names[slot]) == (row.uuid, row.name)
        for id_, row in rows.items()
    )
    if same:
        return old
    uuids, names = list(old.uuids), list(old.names)
    slot_of_id, slot_of_uuid = dict(old.slot_of_id), dict(old.slot_of_uuid)
    leaving = {old.uuids[slot] for slot in gone}
    leaving |= {old.uuids[slot] for id_ in rows if (slot := old.slot_of_id.get(id_)) is not None}
    for uuid in leaving:
        del slot_of_uuid[uuid]
    for slot in gone:
        del slot_of_id[int(old.ids[slot])]
        uuids[slot] = names[slot] = ""
    free = sorted(old.free, reverse=True)  # a slot that gets free now is not taken before the next refresh
    for id_, row in rows.items():
        place = slot_of_id.get(id_)
        if place is None:
            place = slot_of_id[id_] = Slot(free.pop() if free else len(uuids))
        if place == len(uuids):
            uuids.append(row.uuid)
            names.append(row.name)
        else:
            uuids[place], names[place] = row.uuid, row.name
        slot_of_uuid[row.uuid] = place
    ids = np.full(len(uuids), NOBODY, np.int64)
    ids[places(list(slot_of_id.values()))] = list(slot_of_id)
    return Identities(tuple(uuids), tuple(names), ids, slot_of_uuid, slot_of_id, frozenset(free).union(gone))


def _slot_or_nobody(slot_of_id: Mapping[int, Slot], id_: int | None) -> int:
    return NOBODY if id_ is None else slot_of_id[id_]


def _by_slot(slot_of_id: Mapping[int, Slot], rows: Iterable[tuple[int, InventoryRow]]) -> dict[int, list[InventoryRow]]:
    found: dict[int, list[InventoryRow]] = defaultdict(list)
    for id_, row in rows:
        if id_ in slot_of_id:  # an inventory whose provider is gone belongs to nobody
            found[slot_of_id[id_]].append(row)
    return found


def _members(
    slot_of_id: Mapping[int, Slot], touched: Iterable[int], pairs: Iterable[tuple[int, int]]
) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {slot: [] for slot in touched}
    for id_, member in pairs:
        slot = slot_of_id.get(id_)
        if slot is not None:
            found[slot].append(member)
    return found


def _inventory(
    snapshot: Snapshot, touched: Iterable[int], inventories: Mapping[int, Sequence[InventoryRow]]
) -> Mapping[int, InventoryColumns]:
    """The columns of every class, once the touched slots have these inventories."""
    new: dict[int, dict[int, InventoryRow]] = defaultdict(dict)
    gone: dict[int, set[int]] = defaultdict(set)
    for slot in touched:
        has = {row.class_id: row for row in inventories.get(slot, ())}
        had = snapshot.class_sets.of(slot) if slot < snapshot.forest.size else frozenset()
        for class_id, row in has.items():
            new[class_id][slot] = row
        for class_id in had - set(has):
            gone[class_id].add(slot)
    columns = dict(snapshot.inventory)
    for class_id in {*new, *gone}:
        old = columns.get(class_id) or InventoryColumns.of({})
        columns[class_id] = old.replaced(gone[class_id], new[class_id])
    # A class without inventory may be deleted, and must then be in nobody's way.
    return {class_id: some for class_id, some in columns.items() if len(some.slots)}


def _with_sharing(snapshot: Snapshot) -> Snapshot:
    parts = (snapshot.forest, snapshot.trait_sets, snapshot.aggregate_sets, snapshot.sharing_trait)
    return snapshot if snapshot.sharing.still_holds(*parts) else replace(snapshot, sharing=Sharing(*parts))
