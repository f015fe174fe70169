"""A snapshot: all providers at one moment. It is immutable; a refresh makes the next one."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from stead.catalog.blocks import Blocks, Directory, IdIndex, TextIndex, Texts, TreeIndex
from stead.catalog.columns import Inventories, InventoryColumns, Masks
from stead.catalog.forest import ALONE, NO_SLOT, Forest, Shape
from stead.catalog.fragments import TextCache
from stead.catalog.memberships import Memberships, Sharing
from stead.class_order import class_order
from stead.domain.names import SHARES_VIA_AGGREGATE
from stead.domain.provider import BY_NAME, MAX_INT, HeldInventory, Provider, Slot

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from stead.catalog.columns import Shares
    from stead.domain.changes import NameRow
    from stead.domain.provider import Disabled

    Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Identities:
    """The provider at each slot, and the slot of each provider. Free slots have no provider."""

    uuids: Texts
    names: Texts
    ids: Blocks[np.int64]
    slot_of_uuid: Directory[str, Slot]
    slot_of_name: Directory[str, Slot]
    slot_of_id: Directory[int, Slot]
    free: tuple[Slot, ...]

    @classmethod
    def of(cls, uuids: Texts, names: Texts, ids: Blocks[np.int64]) -> Identities:
        """The identities with these columns."""
        slots = np.flatnonzero(ids.whole != NO_SLOT).astype(np.int32)
        return cls.indexed(
            uuids,
            names,
            ids,
            TextIndex.of(uuids, slots),
            TextIndex.of(names, slots),
            IdIndex.of(ids.whole[slots], slots),
        )

    @classmethod
    def indexed(
        cls, uuids: Texts, names: Texts, ids: Blocks[np.int64], by_uuid: TextIndex, by_name: TextIndex, by_id: IdIndex
    ) -> Identities:
        """The identities with these columns, and their indexes."""
        free = tuple(map(Slot, np.flatnonzero(ids.whole == NO_SLOT).tolist()))
        return cls(uuids, names, ids, Directory(by_uuid), Directory(by_name), Directory(by_id), free)

    @property
    def size(self) -> int:
        """Number of slots, free ones included."""
        return self.ids.size


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Snapshot:
    """Everything that a read needs, at one moment.

    ``masks`` and ``fragments`` are caches of results computed from the rest; all snapshots share them.
    """

    identities: Identities
    generations: Blocks[np.int64]
    modified: Blocks[np.int64]
    versions: Blocks[np.int64]
    """By slot a number that changes whenever anything about its provider changes, including names."""
    forest: Forest
    inventory: Inventories
    """By class id; a class without inventory is missing."""
    trait_sets: Memberships
    aggregate_sets: Memberships
    aggregate_uuids: Mapping[int, str]
    aggregate_ids: Mapping[str, int]
    trait_names: Names
    class_names: Names
    sharing: Sharing
    service_states: ServiceStates
    masks: Masks
    fragments: TextCache

    @classmethod
    def empty(cls) -> Snapshot:
        """No providers, no names, empty caches."""
        forest, traits, aggregates = Forest.empty(), Memberships.none("traits"), Memberships.none("aggregates")
        numbers, masks = Blocks.none(np.int64, 0), Masks()
        return cls(
            Identities.of(Texts(), Texts(), Blocks.none(np.int64, NO_SLOT)),
            numbers,
            numbers,
            numbers,
            forest,
            Inventories.of({}, 0),
            traits,
            aggregates,
            {},
            {},
            Names(),
            Names(),
            Sharing(forest, traits, aggregates, None, masks),
            ServiceStates(forest, {}),
            masks,
            TextCache(),
        )

    def find(self, uuid: str) -> Slot | None:
        """The slot of the provider with exactly this uuid."""
        return self.identities.slot_of_uuid.get(uuid)

    def find_named(self, name: str) -> Slot | None:
        """The slot of the provider with exactly this name."""
        return self.identities.slot_of_name.get(name)

    def find_referenced(self, reference: str) -> Slot | None:
        """The slot of the provider with this uuid, or with the name that follows ``name:``."""
        name = reference.removeprefix(BY_NAME)
        return self.find(reference) if name == reference else self.find_named(name)

    @property
    def size(self) -> int:
        """Number of slots, free ones included."""
        return self.identities.size

    @property
    def live(self) -> Mask:
        """Mask of the slots with a provider; read-only."""
        return self.forest.live(self.masks)

    @property
    def enabled(self) -> Mask:
        """Mask of the slots with a provider that may give new allocations; read-only."""
        out_of_service = self.service_states.out_of_service
        return self.live if out_of_service is None else self.live & ~out_of_service

    @property
    def roots(self) -> Mask:
        """Mask of the slots with a provider without parent; read-only."""
        return self.forest.roots(self.masks)

    def serving(self, class_id: int, amount: int) -> Mask:
        """Mask of the slots that can serve *amount* of a class alone; read-only."""
        columns = self.inventory.get(class_id)
        # No max_unit is greater than MAX_INT, so no provider serves more alone.
        if columns is None or amount > MAX_INT:
            return np.zeros(self.size, np.bool_)
        if isinstance(columns.kind, Blocks) and isinstance(columns.room, Blocks):
            return self.masks.get(("serving", class_id, amount), (columns.kind, columns.room), columns.able(amount))
        # Not cached: to compute the mask of a rare class takes less than to look whether a cached one still holds.
        mask = columns.serving(amount)
        mask.flags.writeable = False
        return mask

    def shares(self, class_id: int, amount: int) -> Shares:
        """The part of *amount* of a class that each slot could give."""
        return (self.inventory.get(class_id) or InventoryColumns.none(self.size)).shares(amount)

    def with_standings(
        self,
        inventory: Inventories,
        generations: Blocks[np.int64],
        modified: Blocks[np.int64],
        versions: Blocks[np.int64],
    ) -> Snapshot:
        """A snapshot after claims and releases, which change only this."""
        # As `replace` would make it, which takes as long as all the rest of a refresh after one claim.
        return Snapshot(
            identities=self.identities,
            generations=generations,
            modified=modified,
            versions=versions,
            forest=self.forest,
            inventory=inventory,
            trait_sets=self.trait_sets,
            aggregate_sets=self.aggregate_sets,
            aggregate_uuids=self.aggregate_uuids,
            aggregate_ids=self.aggregate_ids,
            trait_names=self.trait_names,
            class_names=self.class_names,
            sharing=self.sharing,
            service_states=self.service_states,
            masks=self.masks,
            fragments=self.fragments,
        )

    def with_taken(self, amounts: Mapping[Slot, Mapping[int, int]]) -> Snapshot:
        """A snapshot in which these amounts are taken in addition (released, if negative), by slot and class id.

        Only for searches. Never render it: cached texts are by provider version, and versions do not change here.
        """
        if not amounts:
            return self
        lessened = {
            class_id: self.inventory[class_id].lessened(slots, of_class)
            for class_id, (slots, of_class) in self._by_class(amounts).items()
        }
        return replace(self, inventory=self.inventory.with_columns(lessened))

    def with_all_released(self, classes: Collection[int], unreleased: Mask) -> Snapshot:
        """A snapshot in which nothing of *classes* is taken, except at the slots of *unreleased*.

        Only for searches, like `with_taken`.
        """
        released = {}
        for class_id in self.inventory.keys() & classes:
            slots = (columns := self.inventory[class_id]).slots
            slots = slots[~unreleased[slots]]
            released[class_id] = columns.taken(slots, [0] * len(slots))
        return replace(self, inventory=self.inventory.with_columns(released))

    def with_room_only(self, amounts: Mapping[Slot, Mapping[int, int]]) -> Snapshot:
        """A snapshot with exactly this room of these classes, by slot and class id, and all providers enabled.

        Only for searches, like `with_taken`.
        """
        limited = {
            class_id: self.inventory[class_id].limited(slots, of_class)
            for class_id, (slots, of_class) in self._by_class(amounts).items()
        }
        inventory = self.inventory.with_columns(limited)
        return replace(self, inventory=inventory, service_states=ServiceStates(self.forest, {}))

    def _by_class(self, amounts: Mapping[Slot, Mapping[int, int]]) -> dict[int, tuple[NDArray[np.int64], list[int]]]:
        """By class with inventory, the slots, ascending, and their amounts."""
        by_class: dict[int, dict[Slot, int]] = defaultdict(dict)
        for slot in sorted(amounts):
            for class_id, amount in amounts[slot].items():
                if class_id in self.inventory:
                    by_class[class_id][slot] = amount
        return {
            class_id: (np.array(list(at_slots), np.int64), list(at_slots.values()))
            for class_id, at_slots in by_class.items()
        }

    def with_traits(self, clauses: Collection[Collection[int]], forbidden: Collection[int]) -> Mask:
        """Mask of the slots with a trait of every clause, and without forbidden traits; read-only."""
        return self.trait_sets.passing(clauses, forbidden, self.masks)

    def in_aggregates(self, clauses: Collection[Collection[int]], forbidden: Collection[int]) -> Mask:
        """Mask of the slots in an aggregate of every clause, and in no forbidden aggregate; read-only."""
        return self.aggregate_sets.passing(clauses, forbidden, self.masks)

    def texts(
        self, form: Hashable, slots: NDArray[np.int64], make: Callable[[Sequence[int]], Iterable[bytes]]
    ) -> Iterator[bytes]:
        """The encoded text of each of *slots* in an answer, from the cache if its provider did not change.

        A comma is before each, and they are joined in parts of about 100. Lazy.

        Args:
            form: identifies the text, which must depend only on this, the provider and its ancestors.
            make: makes the texts of slots.
        """
        return self.fragments.joined(form, slots, self.versions.at(slots), make)

    def last_modified(self, slots: NDArray[np.int64]) -> int:
        """The time of the last change of at least one provider, in seconds since 1970."""
        return int(self.modified.at(slots).max())

    def uuid(self, slot: int) -> str:
        """The uuid of the provider at a slot."""
        return self.identities.uuids[slot]

    def provider(self, slot: int) -> Provider:
        """The provider at a slot."""
        parent = self.forest.parent[slot]
        return Provider(
            self.uuid(slot),
            self.identities.names[slot],
            self.generations[slot],
            None if parent == NO_SLOT else self.uuid(parent),
            self.uuid(self.forest.root[slot]),
            self.modified[slot],
        )

    def in_class_order(self, class_ids: Iterable[int]) -> list[int]:
        """*class_ids* in the order in which people read their names."""
        names = self.class_names.by_id
        return sorted(class_ids, key=lambda class_id: class_order(names[class_id].name))

    def inventories(self, slot: int) -> dict[str, HeldInventory]:
        """The inventories of the provider at a slot, by class name, in the order of `in_class_order`."""
        return {
            self.class_names.by_id[class_id].name: inventory
            for class_id in self.in_class_order(self.inventory.at((slot,)))
            if (inventory := self.inventory[class_id].at(slot)) is not None
        }

    def traits(self, slot: int) -> list[NameRow]:
        """The traits of the provider at a slot, by id."""
        return [self.trait_names.by_id[trait] for trait in self.trait_sets.of(slot)]

    def aggregates(self, slot: int) -> list[str]:
        """The uuids of the aggregates to which the provider at a slot belongs, in the order of their creation."""
        return [self.aggregate_uuids[aggregate] for aggregate in self.aggregate_sets.of(slot)]

    def traits_in_use(self) -> set[str]:
        """Names of the traits that at least one provider has."""
        return {self.trait_names.by_id[trait].name for trait in self.trait_sets.in_use()}

    @property
    def sharing_trait(self) -> int | None:
        """The id of the trait of sharing providers; None if the trait does not exist."""
        row = self.trait_names.by_name.get(SHARES_VIA_AGGREGATE)
        return row.id if row else None


# A part: some trees of a snapshot as a snapshot of their own, for many questions about only these trees.
#
# A question then costs what these trees cost, not what all slots do. Sharing providers of other trees are missing, so
# the questions must not need them.


class _Consecutive(Forest):
    """A forest in which the members of a tree have consecutive slots, in the order of their positions."""

    __slots__ = ()

    def members_of(self, roots: NDArray[np.int64], shape: Shape) -> NDArray[np.int64]:
        return roots[:, None] + np.arange(shape.size)


def part(snapshot: Snapshot, roots: NDArray[np.int64]) -> tuple[Snapshot, NDArray[np.int64]]:
    """The trees of *roots*, and the slot in *snapshot* of each of the part's slots.

    Its texts and versions are those of *snapshot*; its masks are its own.
    """
    shapes = snapshot.forest.shape.at(roots)
    members = [
        snapshot.forest.members_of(roots[shapes == shape], snapshot.forest.shapes.values[shape])
        for shape in np.unique(shapes).tolist()
    ]
    slots = np.concatenate([np.empty(0, np.int64), *(each.ravel() for each in members)])
    place_of = np.full(snapshot.size + 1, NO_SLOT, np.int32)  # the last one is the place of NO_SLOT
    place_of[slots] = np.arange(len(slots))
    forest = _forest(snapshot.forest, slots, place_of, members)
    trait_sets, aggregate_sets = snapshot.trait_sets.only(slots), snapshot.aggregate_sets.only(slots)
    masks = Masks()
    disabled = {
        Slot(place): state
        for slot, state in snapshot.service_states.disabled.items()
        if (place := int(place_of[slot])) != NO_SLOT
    }
    alone = Snapshot(
        identities=_identities(snapshot.identities, slots),
        generations=snapshot.generations.only(slots),
        modified=snapshot.modified.only(slots),
        versions=snapshot.versions.only(slots),
        forest=forest,
        # The classes of these trees alone; a part is small, so each gets arrays over all its slots.
        inventory=Inventories.of(
            {class_id: snapshot.inventory[class_id].only(slots) for class_id in snapshot.inventory.at(slots)},
            len(slots),
        ),
        trait_sets=trait_sets,
        aggregate_sets=aggregate_sets,
        aggregate_uuids=snapshot.aggregate_uuids,
        aggregate_ids=snapshot.aggregate_ids,
        trait_names=snapshot.trait_names,
        class_names=snapshot.class_names,
        sharing=Sharing(forest, trait_sets, aggregate_sets, snapshot.sharing_trait, masks),
        service_states=ServiceStates(forest, disabled),
        masks=masks,
        fragments=TextCache(),
    )
    return alone, slots


def _forest(
    old: Forest, slots: NDArray[np.int64], place_of: NDArray[np.int32], members: list[NDArray[np.int64]]
) -> Forest:
    trees = TreeIndex.of(
        {
            places[0]: tuple(map(Slot, places))
            for each in members
            if each.shape[1] > ALONE.size
            for places in place_of[each].tolist()
        }
    )
    return _Consecutive(
        old.parent.holding(place_of[old.parent.at(slots)]),
        old.root.holding(place_of[old.root.at(slots)]),
        old.position.only(slots),
        old.shape.only(slots),
        old.shapes,
        trees,
        Directory(trees),
    )


def _identities(old: Identities, slots: NDArray[np.int64]) -> Identities:
    return Identities.of(old.uuids.only(slots), old.names.only(slots), old.ids.only(slots))


# The providers that give no new allocations: disabled providers, and all providers below them.


class ServiceStates:
    """What follows from a forest and the providers in it that are disabled themselves; immutable."""

    def __init__(self, forest: Forest, disabled: Mapping[Slot, Disabled]) -> None:
        """Nothing is computed yet."""
        self._forest = forest
        self.disabled = disabled

    def still_holds(self, forest: Forest, disabled: Mapping[Slot, Disabled]) -> bool:
        """Whether it was computed from exactly these objects."""
        return self._forest is forest and self.disabled is disabled

    @cached_property
    def out_of_service(self) -> NDArray[np.bool_] | None:
        """Mask of the slots that give no new allocations; None if no provider is disabled. Read-only."""
        if not self.disabled:
            return None
        mask = np.zeros(self._forest.size, np.bool_)
        for slot in self.disabled:
            mask[list(self._forest.subtree(slot))] = True
        mask.flags.writeable = False
        return mask

    def cause(self, slot: int) -> tuple[Slot, Disabled] | None:
        """The provider that disables a slot, and its state: itself, or the nearest above; None if it is enabled."""
        above = slot
        while above != NO_SLOT:
            if (disabled := self.disabled.get(Slot(above))) is not None:
                return Slot(above), disabled
            above = self._forest.parent[above]
        return None


# Names of traits or of resource classes, by id and by name.


class Names:
    """One table of names; immutable."""

    def __init__(self, rows: Sequence[NameRow] = ()) -> None:
        self.rows: tuple[NameRow, ...] = tuple(sorted(rows))

    @cached_property
    def by_name(self) -> dict[str, NameRow]:
        """Rows by name."""
        return {row.name: row for row in self.rows}

    @cached_property
    def by_id(self) -> dict[int, NameRow]:
        """Rows by id."""
        return {row.id: row for row in self.rows}
