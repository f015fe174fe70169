"""One moment's view of all providers. It never changes under its holder; a refresh makes the next one."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from stead.catalog.forest import NOBODY, Forest
from stead.catalog.memberships import Memberships
from stead.catalog.names import Names
from stead.catalog.sharing import Sharing
from stead.domain.names import SHARES_VIA_AGGREGATE
from stead.domain.provider import HeldInventory, Provider, Slot

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from stead.catalog.columns import InventoryColumns
    from stead.domain.changes import NameRow


@dataclass(frozen=True, slots=True)
class Identities:
    """Who stands at which slot: lists and arrays by slot, and the ways back. Free slots hold no provider."""

    uuids: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    ids: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    slot_of_uuid: Mapping[str, Slot] = field(default_factory=dict)
    slot_of_id: Mapping[int, Slot] = field(default_factory=dict)
    free: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything a read needs, as of one moment."""

    identities: Identities
    generations: NDArray[np.int64]
    modified: NDArray[np.int64]
    forest: Forest
    inventory: Mapping[int, InventoryColumns]
    """By class id; a class without inventory is missing."""
    class_sets: Memberships
    """Of which classes each slot has inventory."""
    trait_sets: Memberships
    aggregate_sets: Memberships
    aggregate_uuids: Mapping[int, str]
    aggregate_ids: Mapping[str, int]
    trait_names: Names
    class_names: Names
    sharing: Sharing

    @classmethod
    def empty(cls) -> Snapshot:
        """No providers, no names."""
        forest, traits, aggregates = Forest.empty(), Memberships.none(), Memberships.none()
        return cls(
            Identities(),
            np.empty(0, np.int64),
            np.empty(0, np.int64),
            forest,
            {},
            Memberships.none(),
            traits,
            aggregates,
            {},
            {},
            Names(),
            Names(),
            Sharing(forest, traits, aggregates, None),
        )

    def find(self, uuid: str) -> Slot | None:
        """Where the provider with this uuid stands, spelled exactly so."""
        return self.identities.slot_of_uuid.get(uuid)

    def live(self) -> NDArray[np.bool_]:
        """Which slots hold a provider."""
        return np.not_equal(self.forest.root, NOBODY)

    def uuid(self, slot: int) -> str:
        """The uuid of the provider at a slot."""
        return self.identities.uuids[slot]

    def provider(self, slot: int) -> Provider:
        """The provider at a slot."""
        parent = int(self.forest.parent[slot])
        return Provider(
            self.uuid(slot),
            self.identities.names[slot],
            int(self.generations[slot]),
            None if parent == NOBODY else self.uuid(parent),
            self.uuid(int(self.forest.root[slot])),
            int(self.modified[slot]),
        )

    def inventories(self, slot: int) -> dict[str, HeldInventory]:
        """What the provider at a slot has, by class name, in the order of class ids."""
        return {
            self.class_names.by_id[class_id].name: self.inventory[class_id].at(slot)
            for class_id in sorted(self.class_sets.of(slot))
        }

    def traits(self, slot: int) -> list[NameRow]:
        """The traits of the provider at a slot, by id."""
        return [self.trait_names.by_id[trait] for trait in sorted(self.trait_sets.of(slot))]

    def aggregates(self, slot: int) -> list[str]:
        """The uuids of the aggregates to which the provider at a slot belongs, in the order they came to be."""
        return [self.aggregate_uuids[aggregate] for aggregate in sorted(self.aggregate_sets.of(slot))]

    def traits_in_use(self) -> set[str]:
        """Names of the traits that at least one provider has."""
        return {self.trait_names.by_id[trait].name for trait in self.trait_sets.in_use()}

    @property
    def sharing_trait(self) -> int | None:
        """The id of the trait that makes a provider share."""
        row = self.trait_names.by_name.get(SHARES_VIA_AGGREGATE)
        return row.id if row else None
