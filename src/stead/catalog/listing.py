"""Values of many providers of a snapshot as lists of Python values, for the text of long answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from stead.catalog.columns import Masks
from stead.catalog.snapshot import NO_SLOT
from stead.domain.provider import Inventories, Inventory, Sums

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

    from stead.catalog.columns import InventoryColumns, Memberships
    from stead.catalog.snapshot import Mask, Snapshot


class Amounts(NamedTuple):
    """The allocations of one class: ``used[n]`` is the sum at the provider in place ``places[n]`` of the listing."""

    name: str
    places: list[int]
    used: list[int]


class ListedInventories(NamedTuple):
    """The inventories of one class. The provider in place ``places[n]`` of the listing has ``kinds[numbers[n]]``."""

    name: str
    places: list[int]
    numbers: list[int]
    kinds: dict[int, Inventory]
    """The distinct inventories, so that a caller converts each of them once."""


class Listing:
    """The providers at some slots; each method returns its values in the order of these slots."""

    def __init__(self, snapshot: Snapshot, slots: Iterable[int]) -> None:
        self._snapshot = snapshot
        self._slots = np.fromiter(slots, np.int64)

    def __len__(self) -> int:
        return len(self._slots)

    def slots(self) -> list[int]:
        """The slots."""
        slots: list[int] = self._slots.tolist()
        return slots

    def uuids(self) -> list[str]:
        """Their uuids."""
        uuids: list[str] = self._snapshot.identities.uuids.at(self._slots).tolist()
        return uuids

    def names(self) -> list[str]:
        """Their names."""
        names: list[str] = self._snapshot.identities.names.at(self._slots).tolist()
        return names

    def generations(self) -> list[int]:
        """Their generations."""
        generations: list[int] = self._snapshot.generations.at(self._slots).tolist()
        return generations

    def parents(self) -> list[str | None]:
        """The uuids of their parents; None for roots."""
        uuids = self._snapshot.identities.uuids
        parents: list[int] = self._snapshot.forest.parent.at(self._slots).tolist()
        return [None if parent == NO_SLOT else uuids[parent] for parent in parents]

    def roots(self) -> list[str]:
        """The uuids of the roots of their trees."""
        roots: list[str] = self._snapshot.identities.uuids.at(self._snapshot.forest.root.at(self._slots)).tolist()
        return roots

    def inventories(self) -> Iterator[ListedInventories]:
        """Their inventories, by class in the order of class ids."""
        for class_id in self._snapshot.inventory.at(self._slots):
            columns = self._snapshot.inventory[class_id]
            numbers = columns.kind.at(self._slots)
            places = np.flatnonzero(numbers)
            kinds = {number: Inventory(*columns.kinds.values[number]) for number in np.unique(numbers[places]).tolist()}
            yield ListedInventories(self._name(class_id), places.tolist(), numbers[places].tolist(), kinds)

    def usages(self) -> Iterator[Amounts]:
        """The sums of their allocations, of the classes of which they have inventory, in the order of class ids."""
        for class_id in self._snapshot.inventory.at(self._slots):
            columns = self._snapshot.inventory[class_id]
            places = np.flatnonzero(columns.having(self._slots))
            yield Amounts(self._name(class_id), places.tolist(), columns.used(self._slots[places]).tolist())

    def trait_sets(self) -> list[int]:
        """Numbers of their sets of traits; equal numbers are equal sets."""
        return self._numbers(self._snapshot.trait_sets)

    def aggregate_sets(self) -> list[int]:
        """Numbers of their sets of aggregates; equal numbers are equal sets."""
        return self._numbers(self._snapshot.aggregate_sets)

    def disabled(self) -> list[bool] | None:
        """Whether each is disabled, or below a disabled provider; None if no provider of the snapshot is."""
        out_of_service = self._snapshot.service_states.out_of_service
        if out_of_service is None:
            return None
        disabled: list[bool] = out_of_service[self._slots].tolist()
        return disabled

    def _name(self, class_id: int) -> str:
        return self._snapshot.class_names.by_id[class_id].name

    def _numbers(self, sets: Memberships) -> list[int]:
        numbers: list[int] = sets.set_of.at(self._slots).tolist()
        return numbers


# Capacity of a snapshot by resource class: of each provider, and summed over groups of providers.
#
# Numbers are floats, as metrics have them: sums above 2**53 are rounded.


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
    for class_id in snapshot.in_class_order(snapshot.inventory.at(np.flatnonzero(members))):
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
