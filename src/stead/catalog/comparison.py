"""Where a snapshot differs from the database: what a refresh would change if all changes had been recorded."""

from __future__ import annotations

from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from stead.catalog.refresh import refreshed
from stead.domain.changes import Differences

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from stead.catalog.names import Names
    from stead.catalog.snapshot import Snapshot
    from stead.domain.changes import Changes, NameRow


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
