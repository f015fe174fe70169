"""One moment's view of all providers. It never changes under its holder; a refresh makes the next one."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from stead.catalog.blocks import Blocks
from stead.catalog.columns import InventoryColumns
from stead.catalog.directory import Directory
from stead.catalog.forest import NOBODY, Forest
from stead.catalog.fragments import Fragments
from stead.catalog.masks import Masks
from stead.catalog.memberships import Memberships
from stead.catalog.names import Names
from stead.catalog.sharing import Sharing
from stead.domain.inventory import MAX_INT
from stead.domain.names import SHARES_VIA_AGGREGATE
from stead.domain.provider import BY_NAME, HeldInventory, Provider, Slot

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from stead.catalog.columns import Shares
    from stead.domain.changes import NameRow

    Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Identities:
    """Who stands at which slot, and the ways back. Free slots hold no provider."""

    uuids: Blocks[np.object_] = field(default_factory=lambda: Blocks.none(np.object_, ""))
    names: Blocks[np.object_] = field(default_factory=lambda: Blocks.none(np.object_, ""))
    ids: Blocks[np.int64] = field(default_factory=lambda: Blocks.none(np.int64, NOBODY))
    slot_of_uuid: Directory[str, Slot] = field(default_factory=Directory)
    slot_of_name: Directory[str, Slot] = field(default_factory=Directory)
    slot_of_id: Directory[int, Slot] = field(default_factory=Directory)
    free: tuple[Slot, ...] = ()

    @property
    def size(self) -> int:
        """Number of slots, free ones included."""
        return self.ids.size


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything a read needs, as of one moment.

    What is kept in ``masks`` and ``fragments`` follows from what is here; snapshots share them.
    """

    identities: Identities
    generations: Blocks[np.int64]
    modified: Blocks[np.int64]
    versions: Blocks[np.int64]
    """By slot a number that changes whenever anything about its provider does, its names included."""
    forest: Forest
    inventory: Mapping[int, InventoryColumns]
    """By class id; a class without inventory is missing."""
    trait_sets: Memberships
    aggregate_sets: Memberships
    aggregate_uuids: Mapping[int, str]
    aggregate_ids: Mapping[str, int]
    trait_names: Names
    class_names: Names
    sharing: Sharing
    masks: Masks
    fragments: Fragments

    @classmethod
    def empty(cls) -> Snapshot:
        """No providers, no names, nothing kept."""
        forest, traits, aggregates = Forest.empty(), Memberships.none("traits"), Memberships.none("aggregates")
        numbers, masks = Blocks.none(np.int64, 0), Masks()
        return cls(
            Identities(),
            numbers,
            numbers,
            numbers,
            forest,
            {},
            traits,
            aggregates,
            {},
            {},
            Names(),
            Names(),
            Sharing(forest, traits, aggregates, None, masks),
            masks,
            Fragments(),
        )

    def find(self, uuid: str) -> Slot | None:
        """Where the provider with this uuid stands, spelled exactly so."""
        return self.identities.slot_of_uuid.get(uuid)

    def find_named(self, name: str) -> Slot | None:
        """Where the provider with this name stands, spelled exactly so."""
        return self.identities.slot_of_name.get(name)

    def find_referenced(self, reference: str) -> Slot | None:
        """The slot of the provider with this uuid, or with the name that follows ``name:``."""
        name = reference.removeprefix(BY_NAME)
        return self.find(reference) if name == reference else self.find_named(name)

    @property
    def size(self) -> int:
        """Number of slots, those that hold no provider included."""
        return self.identities.size

    @property
    def live(self) -> Mask:
        """Which slots hold a provider; not to be written to."""
        return self.forest.live(self.masks)

    @property
    def roots(self) -> Mask:
        """Which slots hold a provider without parent; not to be written to."""
        return self.forest.roots(self.masks)

    def serving(self, class_id: int, amount: int) -> Mask:
        """Which slots can serve *amount* of a class by themselves; not to be written to."""
        columns = self.inventory.get(class_id)
        if columns is None or amount > MAX_INT:
            return np.zeros(self.size, np.bool_)

        def able(kind: NDArray[np.int32], room: NDArray[np.int64]) -> Mask:
            return columns.able(amount, kind, room)

        return self.masks.get(("serving", class_id, amount), (columns.kind, columns.room), able)

    def shares(self, class_id: int, amount: int) -> Shares:
        """What each slot could give as a part of *amount* of a class."""
        return self.inventory.get(class_id, InventoryColumns.none().grown(self.size)).shares(amount)

    def with_taken(self, amounts: Mapping[Slot, Mapping[int, int]]) -> Snapshot:
        """The same if so much more were taken, by slot and class id (less, if negative). Only for looking for places:
        what is kept of its texts, by the providers' versions, is that of this snapshot.
        """
        lessened = {
            class_id: self.inventory[class_id].lessened(slots, some)
            for class_id, (slots, some) in self._by_class(amounts).items()
        }
        return replace(self, inventory={**self.inventory, **lessened})

    def with_room_only(self, amounts: Mapping[Slot, Mapping[int, int]]) -> Snapshot:
        """The same if there were just so much room of these classes, by slot and class id. Only for looking, too."""
        limited = {
            class_id: self.inventory[class_id].limited(slots, some)
            for class_id, (slots, some) in self._by_class(amounts).items()
        }
        return replace(self, inventory={**self.inventory, **limited})

    def _by_class(self, amounts: Mapping[Slot, Mapping[int, int]]) -> dict[int, tuple[NDArray[np.int64], list[int]]]:
        """Slots, ascending, and amounts of each class that there is inventory of."""
        by_class: dict[int, dict[Slot, int]] = defaultdict(dict)
        for slot in sorted(amounts):
            for class_id, amount in amounts[slot].items():
                if class_id in self.inventory:
                    by_class[class_id][slot] = amount
        return {class_id: (np.array(list(some), np.int64), list(some.values())) for class_id, some in by_class.items()}

    def with_traits(self, clauses: Collection[Collection[int]], forbidden: Collection[int]) -> Mask:
        """Which slots have a trait of every clause and none of those forbidden; not to be written to."""
        return self.trait_sets.passing(clauses, forbidden, self.masks)

    def in_aggregates(self, clauses: Collection[Collection[int]], forbidden: Collection[int]) -> Mask:
        """Which slots are in an aggregate of every clause and in none of those forbidden; not to be written to."""
        return self.aggregate_sets.passing(clauses, forbidden, self.masks)

    def texts(
        self, form: Hashable, slots: NDArray[np.int64], make: Callable[[Sequence[int]], Iterable[str]]
    ) -> list[str]:
        """The text of each of *slots* in an answer, kept from earlier if nothing about its provider changed.

        Args:
            form: which text; it must follow from this and from what the provider is, has and is below of.
            make: makes the texts of some slots.
        """
        versions: list[int] = self.versions.at(slots).tolist()
        return self.fragments.get(form, slots.tolist(), versions, make)

    def last_modified(self, slots: Sequence[int]) -> int:
        """When the newest of some providers was written, in seconds since 1970; there is at least one."""
        return int(self.modified.at(np.array(slots, np.int64)).max())

    def uuid(self, slot: int) -> str:
        """The uuid of the provider at a slot."""
        uuid: str = self.identities.uuids[slot]
        return uuid

    def provider(self, slot: int) -> Provider:
        """The provider at a slot."""
        parent = self.forest.parent[slot]
        return Provider(
            self.uuid(slot),
            self.identities.names[slot],
            self.generations[slot],
            None if parent == NOBODY else self.uuid(parent),
            self.uuid(self.forest.root[slot]),
            self.modified[slot],
        )

    def inventories(self, slot: int) -> dict[str, HeldInventory]:
        """What the provider at a slot has, by class name, in the order of class ids."""
        return {
            self.class_names.by_id[class_id].name: held
            for class_id in sorted(self.inventory)
            if (held := self.inventory[class_id].at(slot)) is not None
        }

    def traits(self, slot: int) -> list[NameRow]:
        """The traits of the provider at a slot, by id."""
        return [self.trait_names.by_id[trait] for trait in self.trait_sets.of(slot)]

    def aggregates(self, slot: int) -> list[str]:
        """The uuids of the aggregates to which the provider at a slot belongs, in the order they came to be."""
        return [self.aggregate_uuids[aggregate] for aggregate in self.aggregate_sets.of(slot)]

    def traits_in_use(self) -> set[str]:
        """Names of the traits that at least one provider has."""
        return {self.trait_names.by_id[trait].name for trait in self.trait_sets.in_use()}

    @property
    def sharing_trait(self) -> int | None:
        """The id of the trait that makes a provider share."""
        row = self.trait_names.by_name.get(SHARES_VIA_AGGREGATE)
        return row.id if row else None
