"""The provider trees that a document names, as they are in a snapshot. The plan for the document compares the two.

Source: "PUT /provider_trees", docs/api.md.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

from stead.catalog.forest import NO_SLOT
from stead.domain.inventory import Inventory
from stead.domain.tree_document import CurrentProvider, CurrentTrees
from stead.process import slices

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from numpy.typing import NDArray

    from stead.catalog.memberships import Memberships
    from stead.catalog.snapshot import Snapshot
    from stead.domain.tree_document import TreeDocument

    Slots = NDArray[np.int64]

_AT_ONCE = 256
"""Providers read before other requests may run; reading them takes about a millisecond."""


def current_trees(snapshot: Snapshot, document: TreeDocument) -> CurrentTrees:
    """All providers of the trees of which *document* names a provider, each in full."""
    slots = {slot for name in document.references() if (slot := snapshot.find_referenced(name)) is not None}
    roots = sorted({snapshot.forest.root[slot] for slot in slots})
    slices.give_way()
    members = np.fromiter(chain.from_iterable(map(snapshot.forest.members, roots)), np.int64)
    providers: dict[str, CurrentProvider] = {}
    for start in range(0, len(members), _AT_ONCE):
        slices.give_way()
        for provider in _providers(snapshot, members[start : start + _AT_ONCE]):
            providers[provider.uuid] = provider
    return CurrentTrees(
        providers,
        {provider.name: uuid for uuid, provider in providers.items()},
        snapshot.class_names.by_name,
        snapshot.trait_names.by_name,
    )


def _providers(snapshot: Snapshot, slots: Slots) -> Iterable[CurrentProvider]:
    uuids = snapshot.identities.uuids
    parents = [None if parent == NO_SLOT else uuids[parent] for parent in snapshot.forest.parent.at(slots).tolist()]
    inventories, used = _amounts(snapshot, slots)
    return map(
        CurrentProvider,
        uuids.at(slots).tolist(),
        snapshot.identities.names.at(slots).tolist(),
        snapshot.generations.at(slots).tolist(),
        parents,
        uuids.at(snapshot.forest.root.at(slots)).tolist(),
        inventories,
        _sets(snapshot.trait_sets, slots, lambda slot: frozenset(row.name for row in snapshot.traits(slot))),
        _sets(snapshot.aggregate_sets, slots, lambda slot: frozenset(snapshot.aggregates(slot))),
        used,
    )


def _amounts(snapshot: Snapshot, slots: Slots) -> tuple[list[dict[str, Inventory]], list[dict[str, int]]]:
    """The inventories and the usages at each of *slots*, by the name of the class."""
    inventories: list[dict[str, Inventory]] = [{} for _ in slots]
    usages: list[dict[str, int]] = [{} for _ in slots]
    for class_id in snapshot.inventory.at(slots):
        columns = snapshot.inventory[class_id]
        kind = columns.kind.at(slots)
        having = np.flatnonzero(kind)
        name = snapshot.class_names.by_id[class_id].name
        inventory_of = {number: Inventory(*columns.kinds.values[number]) for number in np.unique(kind[having]).tolist()}
        amounts = columns.used(slots[having]).tolist()
        for place, number, used in zip(having.tolist(), kind[having].tolist(), amounts, strict=True):
            inventories[place][name] = inventory_of[number]
            if used:
                usages[place][name] = used
    return inventories, usages


def _sets(sets: Memberships, slots: Slots, members: Callable[[int], frozenset[str]]) -> list[frozenset[str]]:
    """The members at each of *slots*; equal sets are one object."""
    numbers = sets.set_of.at(slots).tolist()
    slot_of_set = dict(zip(numbers, slots.tolist(), strict=True))
    made = {number: members(slot) for number, slot in slot_of_set.items()}
    return [made[number] for number in numbers]
