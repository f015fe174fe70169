"""Plain forests as snapshots, and what the engine finds in them put back into names."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from stead.catalog.refresh import refreshed
from stead.catalog.snapshot import Snapshot
from tests.rooms.candidates.brute_force import SHARES, Way
from tests.rooms.candidates.plain import Forest, PlainInventory, PlainProvider
from tests.rooms.catalog.pictures import Picture

if TYPE_CHECKING:
    from stead.candidates.kinds import Candidate

GONE = PlainProvider(
    name="gone",
    inventories={"VCPU": PlainInventory(100)},
    traits=frozenset({SHARES}),
    aggregates=frozenset("abc"),
)
"""A provider that could serve much, and that everybody could use, if it were still there."""


def snapshot_of(forest: Forest) -> Snapshot:
    """*forest* as the catalog shows it; the first slot is one that a provider has left."""
    classes, traits = forest.classes | set(GONE.inventories), forest.traits | GONE.traits
    truth = Picture.of(replace(forest, providers=(GONE, *forest.providers), classes=classes, traits=traits))
    before = refreshed(Snapshot.empty(), truth.everything())
    gone = min(truth.providers)
    truth.remove_provider(gone)
    return refreshed(before, truth.changes({gone}))


def way_of(snapshot: Snapshot, candidate: Candidate) -> Way:
    """*candidate* in names."""
    names = {slot: snapshot.provider(slot).name for slot in served_by(candidate)}
    takes = [
        (names[slot], snapshot.class_names.by_id[class_id].name, amount)
        for slot, given in candidate.allocations.items()
        for class_id, amount in given.items()
    ]
    return Way(
        frozenset(takes),
        frozenset((suffix, frozenset(names[slot] for slot in slots)) for suffix, slots in candidate.mappings.items()),
    )


def served_by(candidate: Candidate) -> set[int]:
    return {*candidate.allocations, *(slot for slots in candidate.mappings.values() for slot in slots)}


def way_of_json(forest: Forest, row: dict[str, Any]) -> Way:
    """One element of ``allocation_requests``, in names; without mappings where it shows none."""
    names = {uuid: provider.name for uuid, provider in forest.by_uuid.items()}
    takes = [
        (names[uuid], name, amount)
        for uuid, given in row["allocations"].items()
        for name, amount in given["resources"].items()
    ]
    mappings = row.get("mappings", {})
    assert all(len(uuids) == len(set(uuids)) for uuids in mappings.values())
    return Way(
        frozenset(takes),
        frozenset((suffix, frozenset(names[uuid] for uuid in uuids)) for suffix, uuids in mappings.items()),
    )


def summary_of(forest: Forest, provider: PlainProvider) -> dict[str, Any]:
    """What the newest version shows of a provider beside the candidates."""
    parent = forest.by_name[provider.parent].uuid if provider.parent is not None else None
    return {
        "resources": {
            name: {"capacity": held.capacity, "used": held.used} for name, held in provider.inventories.items()
        },
        "traits": sorted(provider.traits),
        "parent_provider_uuid": parent,
        "root_provider_uuid": forest.by_name[forest.root(provider.name)].uuid,
    }
