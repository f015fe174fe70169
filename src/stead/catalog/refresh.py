"""From one snapshot to the next: changed parts are replaced, all others are shared.

The tests check one property: a refresh results in the same snapshot as a reload.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from stead.catalog.columns import InventoryColumns
from stead.catalog.forest import NO_SLOT
from stead.catalog.names import Names
from stead.catalog.service_states import ServiceStates
from stead.catalog.sharing import Sharing
from stead.catalog.snapshot import Identities, Snapshot
from stead.domain.changes import ProviderRow
from stead.domain.provider import Slot

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from stead.catalog.columns import Numbers
    from stead.catalog.inventories import Inventories
    from stead.domain.changes import Changes

_versions = itertools.count(1)


def new_version() -> int:
    """A version that no provider of this process has had."""
    return next(_versions)


def refreshed(snapshot: Snapshot, changes: Changes) -> Snapshot:
    """The snapshot after *changes*; *snapshot* itself does not change."""
    # The order matters: names before the providers that use them, and what follows from the forest last. Claims
    # come after the providers, whose slots they need.
    base = Snapshot.empty() if changes.everything else snapshot
    base = _with_names(base, changes)
    if changes.provider_ids:
        base = _with_providers(base, changes)
    if changes.claimed:
        base = _with_claims(base, changes)
    return _with_service_states(_with_sharing(base), changes)


def _with_names(snapshot: Snapshot, changes: Changes) -> Snapshot:
    if not changes.aggregate_uuids.keys() <= snapshot.aggregate_uuids.keys():
        uuids = {**snapshot.aggregate_uuids, **changes.aggregate_uuids}
        ids = {uuid: id_ for id_, uuid in uuids.items()}
        snapshot = replace(snapshot, aggregate_uuids=uuids, aggregate_ids=ids)
    traits, classes = snapshot.trait_names, snapshot.class_names
    if changes.traits is not None:
        snapshot = replace(snapshot, trait_names=Names(changes.traits))
    if changes.resource_classes is not None:
        snapshot = replace(snapshot, class_names=Names(changes.resource_classes))
    if _renamed(traits, snapshot.trait_names) or _renamed(classes, snapshot.class_names):
        # Cached texts contain names, so a new name makes the text of every provider out of date.
        everyone = np.arange(snapshot.size)
        snapshot = replace(snapshot, versions=snapshot.versions.replaced(everyone, new_version(), snapshot.size))
    return snapshot


def _renamed(old: Names, new: Names) -> bool:
    """Whether a name of an existing id changed."""
    return old is not new and any(
        (row := new.by_id.get(id_)) is not None and row.name != before.name for id_, before in old.by_id.items()
    )


_FREE_SLOT = ProviderRow(NO_SLOT, "", "", 0, None, NO_SLOT, 0)
"""The row of a slot whose provider was deleted."""


@dataclass(frozen=True, slots=True)
class _Touched:
    """The slots whose providers changed, ascending, with their new rows.

    ``place`` is by provider id its place in ``slots``; ``size`` is the number of all slots after the change.
    """

    slots: NDArray[np.int64]
    rows: Sequence[ProviderRow]
    place: Mapping[int, int]
    size: int

    @classmethod
    def by(cls, changes: Changes, old: Identities) -> _Touched:
        """Assign slots: changed providers keep theirs, new ones get a free slot, or one after all others.

        A slot that becomes free now is not used before the next refresh, so a slot has one change per refresh.
        """
        rows_by_id = {row.id: row for row in changes.providers}
        slot_of, new_slots = old.slot_of_id.get, map(Slot, itertools.chain(old.free, itertools.count(old.size)))
        gone = (slot_of(id_) for id_ in changes.provider_ids if id_ not in rows_by_id)
        # A deleted provider may have no slot: it was created and deleted between two refreshes.
        row_at = dict.fromkeys((slot for slot in gone if slot is not None), _FREE_SLOT)
        for id_, row in rows_by_id.items():
            slot = slot_of(id_)
            row_at[next(new_slots) if slot is None else slot] = row
        slots = sorted(row_at)
        rows = [row_at[slot] for slot in slots]
        place = {row.id: place for place, row in enumerate(rows) if row is not _FREE_SLOT}
        return cls(np.array(slots, np.int64), rows, place, max(old.size, slots[-1] + 1 if slots else 0))


def _with_providers(snapshot: Snapshot, changes: Changes) -> Snapshot:
    """The snapshot with the changed providers exactly as *changes* has them."""
    touched = _Touched.by(changes, snapshot.identities)
    if not touched.rows:
        return snapshot
    slots, size = touched.slots, touched.size
    ids, uuids, names, generations, parent_ids, root_ids, modified = zip(*touched.rows, strict=True)
    identities = _identities(snapshot.identities, touched, ids, uuids, names)
    slot_of_id = identities.slot_of_id.get
    parents, roots = (
        np.array(
            [NO_SLOT if id_ is None or (slot := slot_of_id(id_)) is None else slot for id_ in provider_ids], np.int32
        )
        for provider_ids in (parent_ids, root_ids)
    )
    traits, aggregates = changes.traits_of.get, changes.aggregates_of.get
    return replace(
        snapshot,
        identities=identities,
        generations=snapshot.generations.replaced(slots, generations, size),
        modified=snapshot.modified.replaced(slots, modified, size),
        versions=snapshot.versions.replaced(slots, new_version(), size),
        forest=snapshot.forest.replanted(slots, parents, roots, size),
        inventory=_inventory(snapshot, touched, changes),
        trait_sets=snapshot.trait_sets.replaced(slots, (traits(id_, ()) for id_ in ids), size),
        aggregate_sets=snapshot.aggregate_sets.replaced(slots, (aggregates(id_, ()) for id_ in ids), size),
    )


def _identities(
    old: Identities, touched: _Touched, ids: Sequence[int], uuids: Sequence[str], names: Sequence[str]
) -> Identities:
    """The identities with these ids, uuids and names at the touched slots."""
    slots, size = touched.slots, touched.size
    by_id, by_uuid = old.ids.replaced(slots, ids, size), old.uuids.replaced(slots, uuids, size)
    by_name = old.names.replaced(slots, names, size)
    if by_id is old.ids and by_uuid is old.uuids and by_name is old.names:
        return old
    places = [Slot(slot) for slot in slots.tolist()]
    before = [slot for slot in places if slot < old.size and old.ids[slot] != NO_SLOT]
    now = [(row, slot) for row, slot in zip(touched.rows, places, strict=True) if row is not _FREE_SLOT]
    return Identities(
        by_uuid,
        by_name,
        by_id,
        old.slot_of_uuid.replaced(map(old.uuids.__getitem__, before), {row.uuid: slot for row, slot in now}),
        old.slot_of_name.replaced(map(old.names.__getitem__, before), {row.name: slot for row, slot in now}),
        old.slot_of_id.replaced(map(old.ids.__getitem__, before), {row.id: slot for row, slot in now}),
        tuple(sorted({*old.free, *places}.difference(slot for _, slot in now))),
    )


@dataclass(frozen=True, slots=True)
class _Given:
    """The inventories of one class by their places among the touched slots.

    Each has its numbers (None for no inventory), its sum of allocations, and the time of its change.
    """

    rows: dict[int, tuple[Numbers | None, int, int]]


def _inventory(snapshot: Snapshot, touched: _Touched, changes: Changes) -> Inventories:
    """The columns of every class, with the inventories of *changes* and no others at the touched slots."""
    old, used = snapshot.inventory, changes.used.get
    existing = touched.slots[touched.slots < snapshot.size]  # the old columns do not have the new slots
    given: dict[int, _Given] = {}
    for class_id in old.at(existing):
        if having := old[class_id].places(existing).tolist():
            given[class_id] = _Given(dict.fromkeys(having, (None, 0, 0)))
    for id_, class_id, total, reserved, least, most, step, ratio, modified in changes.inventories:
        place = touched.place.get(id_)
        if place is None:
            continue  # the inventory of a deleted provider
        new = given.get(class_id)
        if new is None:
            new = given[class_id] = _Given({})
        new.rows[place] = (total, reserved, least, most, step, ratio), used((id_, class_id), 0), modified
    columns = {}
    for class_id, new in given.items():
        before = old.get(class_id) or InventoryColumns.none()
        places = sorted(new.rows)
        inventories, amounts, times = zip(*(new.rows[place] for place in places), strict=True)
        after = before.replaced(touched.slots[places], inventories, amounts, times, touched.size)
        # To look at a common class takes a pass over it, and only a provider that loses it can make it rare.
        columns[class_id] = after.fitted() if after.is_rare or None in inventories else after
    return old.replaced(columns, touched.size)


def _with_claims(snapshot: Snapshot, changes: Changes) -> Snapshot:
    """The snapshot with new sums of allocations for some providers, of which nothing else changed."""
    slot_of_id = snapshot.identities.slot_of_id
    rows = sorted((slot, row) for row in changes.claimed if (slot := slot_of_id.get(row.id)) is not None)
    slots, size = np.array([slot for slot, _ in rows], np.int64), snapshot.size
    used = changes.used
    modified = [snapshot.modified[slot] if row.modified is None else row.modified for slot, row in rows]
    inventory, taken = snapshot.inventory, {}
    for class_id in inventory.at(slots):
        columns, at, here = inventory[class_id], slots, rows
        if columns.is_rare:
            places = columns.places(slots)
            at, here = slots[places], [rows[place] for place in places.tolist()]
        taken[class_id] = columns.taken(at, [used.get((row.id, class_id), 0) for _, row in here])
    return snapshot.with_standings(
        inventory.with_columns(taken),
        generations=snapshot.generations.replaced(slots, [row.generation for _, row in rows], size),
        modified=snapshot.modified.replaced(slots, modified, size),
        versions=snapshot.versions.replaced(slots, new_version(), size),
    )


def _with_service_states(snapshot: Snapshot, changes: Changes) -> Snapshot:
    """The snapshot with the states of changed providers from *changes*; others keep theirs."""
    if not changes.provider_ids:
        return snapshot
    before = snapshot.service_states.disabled
    slot_of_id, ids = snapshot.identities.slot_of_id.get, snapshot.identities.ids
    changed = set(changes.provider_ids)
    # If a slot lost its provider or has another one now, the old id or the new one is among the changed ids.
    disabled = {slot: state for slot, state in before.items() if ids[slot] != NO_SLOT and ids[slot] not in changed}
    disabled |= {slot: state for id_, state in changes.disabled.items() if (slot := slot_of_id(id_)) is not None}
    after = before if disabled == before else disabled
    if snapshot.service_states.still_holds(snapshot.forest, after):
        return snapshot
    return replace(snapshot, service_states=ServiceStates(snapshot.forest, after))


def _with_sharing(snapshot: Snapshot) -> Snapshot:
    parts = (snapshot.forest, snapshot.trait_sets, snapshot.aggregate_sets, snapshot.sharing_trait)
    if snapshot.sharing.still_holds(*parts):
        return snapshot
    return replace(snapshot, sharing=Sharing(*parts, snapshot.masks))
