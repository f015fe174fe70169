"""From one snapshot to the next: changed parts are replaced, all others are shared.

The tests check one property: a refresh results in the same snapshot as a reload.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import numpy as np

from stead.catalog.columns import InventoryColumns
from stead.catalog.fragments import TextCache
from stead.catalog.snapshot import NO_SLOT, Identities, Names, ServiceStates, Sharing, Snapshot
from stead.domain.changes import Changes, Differences, InventoryRow, ProviderRow, StandingRow
from stead.domain.names import DISABLED_TRAIT
from stead.domain.provider import Disabled, Slot

if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from stead.catalog.columns import Inventories, Numbers
    from stead.domain.changes import NameRow
    from stead.domain.provider import Inventory


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
    # A root that does not exist: the provider is served as one.
    roots = np.where((roots == NO_SLOT) & (np.array(ids) != NO_SLOT), slots, roots).astype(np.int32)
    traits, aggregates = changes.traits_of.get, changes.aggregates_of.get
    trait_names, aggregate_uuids = snapshot.trait_names.by_id, changes.aggregate_uuids
    return replace(
        snapshot,
        identities=identities,
        generations=snapshot.generations.replaced(slots, generations, size),
        modified=snapshot.modified.replaced(slots, modified, size),
        versions=snapshot.versions.replaced(slots, new_version(), size),
        forest=snapshot.forest.replanted(slots, parents, roots, size),
        inventory=_inventory(snapshot, touched, changes),
        trait_sets=snapshot.trait_sets.replaced(slots, (only(traits(id_, ()), trait_names) for id_ in ids), size),
        aggregate_sets=snapshot.aggregate_sets.replaced(
            slots, (only(aggregates(id_, ()), aggregate_uuids) for id_ in ids), size
        ),
    )


def only(ids: tuple[int, ...], stored_ids: Container[int]) -> tuple[int, ...]:
    """Those of *ids* that are among *stored_ids*: pairs may refer to traits and aggregates that do not exist."""
    return ids if all(id_ in stored_ids for id_ in ids) else tuple(id_ for id_ in ids if id_ in stored_ids)


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
    old, used, classes = snapshot.inventory, changes.used.get, snapshot.class_names.by_id
    existing = touched.slots[touched.slots < snapshot.size]  # the old columns do not have the new slots
    given: dict[int, _Given] = {}
    for class_id in old.at(existing):
        if having := old[class_id].places(existing).tolist():
            given[class_id] = _Given(dict.fromkeys(having, (None, 0, 0)))
    for id_, class_id, total, reserved, least, most, step, ratio, modified in changes.inventories:
        place = touched.place.get(id_)
        if place is None or class_id not in classes:
            continue  # the inventory of a provider or of a class that does not exist
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


# Planned changes of providers: rows as the database would have them, from which a refresh makes a snapshot.
#
# The rows come from a snapshot instead of the database, so a planned change has the same effect as a stored one.


PLANNED = Disabled("planned", 0, None)
"""The state of providers that a planned change disables."""


class Draft:
    """The rows of the providers that planned changes touch."""

    def __init__(self, snapshot: Snapshot) -> None:
        """Nothing is changed yet."""
        # Planned providers have versions of their own, whose texts would displace those of stored providers.
        self._snapshot = replace(snapshot, fragments=TextCache())
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
            aggregate_uuids=self._snapshot.aggregate_uuids,
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


# Where a snapshot differs from the database: what a refresh would change if all changes had been recorded.


def differing(snapshot: Snapshot, state: Changes) -> Differences:
    """The providers and names for which *snapshot* differs from *state*, which has everything."""
    after = refreshed(snapshot, state)
    same = all(old is new for old, new in zip_longest(_parts(snapshot), _parts(after)))
    providers = () if same else (id_ for id_ in state.provider_ids if _shown(snapshot, id_) != _shown(after, id_))
    return Differences(
        frozenset(providers),
        _differing_names(snapshot.trait_names, state.traits),
        _differing_names(snapshot.class_names, state.resource_classes),
    )


def _parts(snapshot: Snapshot) -> Iterator[object]:
    """The parts that two snapshots share if all providers are equal in them."""
    yield from (snapshot.identities, snapshot.generations, snapshot.modified, snapshot.forest)
    yield from (snapshot.trait_sets, snapshot.aggregate_sets, snapshot.service_states)
    for _, columns in sorted(snapshot.inventory.items()):
        yield from (columns.kind, columns.room, columns.modified)


def _shown(snapshot: Snapshot, provider_id: int) -> Any:
    slot = snapshot.identities.slot_of_id.get(provider_id)
    if slot is None:
        return None
    inventories = {
        class_id: inventory
        for class_id in snapshot.inventory.at((slot,))
        if (inventory := snapshot.inventory[class_id].at(slot))
    }
    disabled = snapshot.service_states.disabled.get(slot)
    return (
        snapshot.provider(slot),
        inventories,
        snapshot.trait_sets.of(slot),
        snapshot.aggregate_sets.of(slot),
        disabled,
    )


def _differing_names(names: Names, rows: Sequence[NameRow] | None) -> frozenset[int]:
    return frozenset() if rows is None else frozenset(row.id for row in {*names.rows} ^ {*rows})
