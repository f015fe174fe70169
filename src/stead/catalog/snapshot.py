"""A snapshot: all providers at one moment, their trees, and which trees a provider serves.

It is immutable; a refresh makes the next one.
"""

from __future__ import annotations

import itertools
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple, overload

import numpy as np

from stead.catalog.blocks import Blocks, Directory, IdIndex, TextIndex, Texts, TreeIndex, ValueTable
from stead.catalog.columns import Inventories, InventoryColumns, Masks, Memberships
from stead.catalog.fragments import TextCache
from stead.domain.names import SHARES_VIA_AGGREGATE
from stead.domain.provider import BY_NAME, MAX_INT, HeldInventory, Provider, Slot
from stead.printing import class_order

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping

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


# The forest: the parent and root of every provider, and the members of every tree in preorder.
#
# In preorder a subtree is a range of positions, so "is below" is a comparison of two numbers.


NO_SLOT = -1
"""The parent of a root; the root of a slot that holds no provider."""


class Shape(NamedTuple):
    """The structure of a tree: its providers by position, parents before children, each subtree a range.

    ``leave`` has for each position the first position after its subtree.
    """

    leave: tuple[int, ...]

    @property
    def size(self) -> int:
        """Number of providers."""
        return len(self.leave)

    def is_below(self, position: int, top: int) -> bool:
        """Whether *position* is *top* or in its subtree."""
        return top <= position < self.leave[top]

    def among(self, positions: Sequence[int]) -> Shape:
        """The structure of some *positions* (ascending) alone: a subtree has those of its positions that are there."""
        return Shape(tuple(bisect_left(positions, self.leave[position]) for position in positions))


ALONE = Shape((1,))
"""A root without children."""


class Shapes(ValueTable[Shape]):
    """Shapes by number; number 0 is that of a provider alone."""

    def weight_of(self, value: Shape) -> int:
        # A tree that grows by one provider after the other leaves a shape behind at each step.
        return value.size


@dataclass(frozen=True, slots=True)
class Forest:
    """The trees of all providers; immutable.

    ``trees`` has the members of every tree with at least two providers, by root, in the order of their positions. Its
    index is ``indexed``. ``position`` has the position of each provider. ``shape`` has for each root the number of its
    tree's shape in ``shapes``.
    """

    parent: Blocks[np.int32]
    root: Blocks[np.int32]
    position: Blocks[np.int32]
    shape: Blocks[np.int32]
    shapes: Shapes
    indexed: TreeIndex
    trees: Directory[int, tuple[Slot, ...]]

    @classmethod
    def empty(cls) -> Forest:
        """No slots at all."""
        no_slot, zero = Blocks.none(np.int32, NO_SLOT), Blocks.none(np.int32, 0)
        nothing = TreeIndex.of({})
        return cls(no_slot, no_slot, zero, zero, Shapes(ALONE), nothing, Directory(nothing))

    @classmethod
    def of(cls, parents: NDArray[np.int32], roots: NDArray[np.int32]) -> Forest:
        """The forest of providers with these parents and roots, NO_SLOT for none.

        A provider with a root that is not at the top of its ancestors is no member of any tree.
        """
        empty, trees = cls.empty(), _Trees(parents, roots)
        leave = trees.in_order(trees.position + trees.weight).tobytes()
        width = trees.members.itemsize
        texts = [leave[start * width : end * width] for start, end in itertools.pairwise([0, *trees.ends.tolist()])]
        # A cloud has few shapes, so most trees have one that was converted before.
        numbers = {
            text: empty.shapes.numbers([Shape(tuple(np.frombuffer(text, np.int32).tolist()))])[0]
            for text in dict.fromkeys(texts)
        }
        shape = np.zeros(len(roots), np.int32)
        shape[trees.tops] = [numbers[text] for text in texts]
        index = TreeIndex(trees.tops, trees.ends, trees.members)
        return cls(
            empty.parent.holding(parents),
            empty.root.holding(roots),
            empty.position.holding(trees.position),
            empty.shape.holding(shape),
            empty.shapes,
            index,
            Directory(index),
        )

    @property
    def size(self) -> int:
        """Number of slots, those that hold no provider included."""
        return self.root.size

    @property
    def has_nested(self) -> bool:
        """Whether any provider has a parent."""
        return len(self.trees) > 0

    def live(self, masks: Masks) -> NDArray[np.bool_]:
        """Mask of the slots with a provider; read-only."""
        return masks.get("live", (self.root,), lambda root: np.not_equal(root, NO_SLOT))

    def roots(self, masks: Masks) -> NDArray[np.bool_]:
        """Mask of the slots with a root; read-only."""
        columns = (self.root, self.parent)
        return masks.get("roots", columns, lambda root, parent: (root != NO_SLOT) & (parent == NO_SLOT))

    def members(self, root: int) -> Sequence[Slot]:
        """The providers of one tree, parents first."""
        return self.trees.get(root) or (Slot(root),)

    def subtree(self, top: int) -> Sequence[Slot]:
        """*top* and all providers below it, parents first."""
        root, position = self.root[top], self.position[top]
        return self.members(root)[position : self.shape_of(root).leave[position]]

    def members_of(self, roots: NDArray[np.int64], shape: Shape) -> NDArray[np.int64]:
        """The members of trees of one shape, shape ``(roots, size)``."""
        if shape == ALONE:
            return roots[:, None]
        if self.trees.is_index:
            return self.indexed.matrix(roots, shape.size)
        is_changed = np.fromiter(map(self.trees.has_changed, roots.tolist()), np.bool_, len(roots))
        members = np.empty((len(roots), shape.size), np.int64)
        members[~is_changed] = self.indexed.matrix(roots[~is_changed], shape.size)
        changed = [self.members(root) for root in roots[is_changed].tolist()]
        members[is_changed] = np.array(changed, np.int64).reshape(-1, shape.size)
        return members

    def shape_of(self, root: int) -> Shape:
        """The shape of the tree of a root."""
        number: int = self.shape[root]
        return self.shapes.values[number]

    def is_below(self, slot: int, top: int) -> bool:
        """Whether *slot* is *top* or in its subtree."""
        root = self.root[slot]
        if root != self.root[top]:
            return False
        return self.shape_of(root).is_below(self.position[slot], self.position[top])

    def replanted(
        self, slots: NDArray[np.int64], parents: NDArray[np.int32], roots: NDArray[np.int32], size: int
    ) -> Forest:
        """A forest with other parents and roots at *slots* (ascending), NO_SLOT for none, for *size* slots.

        *slots* must include every provider whose root changes.
        """
        parent, root = self.parent.replaced(slots, parents, size), self.root.replaced(slots, roots, size)
        # The same object, so that sharing and service states, which follow from it, still hold.
        if parent is self.parent and root is self.root:
            return self
        members = self._regrouped(slots, roots)
        orders = {top: _preorder(top, slots_of, parent) for top, slots_of in members.items() if len(slots_of) > 1}
        trees = {top: tuple(Slot(slot) for slot, _ in order) for top, order in orders.items()}
        numbers = self.shapes.numbers(Shape(tuple(leave for _, leave in order)) for order in orders.values())
        # Providers that are alone in their tree have position 0 and shape 0.
        alone = dict.fromkeys(itertools.chain(slots.tolist(), *members.values()), 0)
        position = alone | {slot: place for order in trees.values() for place, slot in enumerate(order)}
        shape = alone | dict(zip(orders, numbers, strict=True))
        shapes, shape_of = self.shapes.compacted(_with(self.shape, shape, size))
        return Forest(
            parent,
            root,
            _with(self.position, position, size),
            shape_of,
            shapes,
            self.indexed,
            self.trees.replaced((top for top in members if self.trees.get(top)), trees),
        )

    def _regrouped(self, slots: NDArray[np.int64], roots: NDArray[np.int32]) -> dict[int, set[int]]:
        """The members of the changed trees, by root; trees of one provider before and after may be missing."""
        existing = slots[slots < self.size]
        before = dict(zip(existing.tolist(), self.root.at(existing).tolist(), strict=True))
        after = dict(zip(slots.tolist(), roots.tolist(), strict=True))
        affected = {
            root
            for slot, root in itertools.chain(before.items(), after.items())
            if root != NO_SLOT and (root != slot or self.trees.get(root))
        }
        members: dict[int, set[int]] = {
            top: {slot for slot in self.members(top) if slot not in after} for top in affected
        }
        for slot, top in after.items():
            if top in affected:
                members[top].add(slot)
        return members


class _Consecutive(Forest):
    """A forest in which the members of a tree have consecutive slots, in the order of their positions."""

    __slots__ = ()

    def members_of(self, roots: NDArray[np.int64], shape: Shape) -> NDArray[np.int64]:
        return roots[:, None] + np.arange(shape.size)


def _with(column: Blocks[np.int32], values: Mapping[int, int], size: int) -> Blocks[np.int32]:
    slots = np.array(sorted(values), np.int64)
    return column.replaced(slots, [values[slot] for slot in slots.tolist()], size)


def _preorder(top: int, members: Iterable[int], parent: Blocks[np.int32]) -> list[tuple[int, int]]:
    """The members of one tree in preorder, each with the first position after its subtree."""
    parent_of = {slot: parent[slot] for slot in members}
    children: dict[int, list[int]] = defaultdict(list)
    # In reverse, since the stack below takes the last child first. Without the top, which wrong data may place below.
    for slot in sorted(parent_of.keys() - {top}, reverse=True):
        children[parent_of[slot]].append(slot)
    order: list[int] = []
    ahead = [top]
    while ahead:
        slot = ahead.pop()
        order.append(slot)
        ahead += children[slot]
    weight = dict.fromkeys(order, 1)
    # From the end, since the weight of a provider is known after those of all its descendants.
    for slot in reversed(order[1:]):
        weight[parent_of[slot]] += weight[slot]
    return [(slot, number + weight[slot]) for number, slot in enumerate(order)]


class _Trees:
    """The trees of several providers in a whole forest, level by level, as `_preorder` orders each.

    ``tops`` are their roots, ascending; ``members`` has the providers of one tree after the other, and ``ends`` their
    ends there. ``position`` and ``weight`` are by slot.
    """

    def __init__(self, parents: NDArray[np.int32], roots: NDArray[np.int32]) -> None:
        below = np.flatnonzero((roots != NO_SLOT) & (roots != np.arange(len(roots))))
        self.tops = np.unique(roots[below])
        self._tree = roots.copy()
        self._tree[self.tops] = self.tops
        self._levels = self._by_level(below[self._tree[below] != below], parents)
        self.weight = np.ones(len(roots), np.int32)
        # From the lowest level, since the weight of a provider is known after those of its children.
        for level in reversed(self._levels[1:]):
            np.add.at(self.weight, parents[level], self.weight[level])
        self.position = np.zeros(len(roots), np.int32)
        for level in self._levels[1:]:
            siblings = level[np.argsort(parents[level], kind="stable")]
            above, weight = parents[siblings], self.weight[siblings]
            before = np.cumsum(weight, dtype=np.int32) - weight
            self.position[siblings] = self.position[above] + 1 + before - before[np.searchsorted(above, above)]
        self.ends = np.cumsum(self.weight[self.tops], dtype=np.int32)
        self.members = self.in_order(np.arange(len(roots), dtype=np.int32))

    def _by_level(self, below: NDArray[np.int64], parents: NDArray[np.int32]) -> list[NDArray[np.int64]]:
        levels = [self.tops.astype(np.int64)]
        is_placed = np.zeros(len(parents), np.bool_)
        while len(levels[-1]):
            is_placed[levels[-1]] = True
            above = parents[below]
            reached = (above != NO_SLOT) & is_placed[above] & (self._tree[above] == self._tree[below])
            levels.append(below[reached])
            below = below[~reached]
        return levels

    def in_order(self, values: NDArray[np.int32]) -> NDArray[np.int32]:
        """The values of all members, which are by slot, in the order of ``members``."""
        slots = np.concatenate(self._levels)
        ordered = np.empty(len(slots), np.int32)
        starts = self.ends - self.weight[self.tops]
        ordered[starts[np.searchsorted(self.tops, self._tree[slots])] + self.position[slots]] = values[slots]
        return ordered


# Sharing providers, and the trees they serve: those with a provider in one of their aggregates.
#
# The anchors of a sharing provider are its own root and the roots of all providers in one of its own aggregates.


class Sharing:
    """What follows from a forest with its traits and aggregates; immutable, computed on first use."""

    def __init__(
        self,
        forest: Forest,
        traits: Memberships,
        aggregates: Memberships,
        sharing_trait: int | None,
        masks: Masks,
    ) -> None:
        """Nothing is computed yet. *sharing_trait* is the id of the trait of sharing providers."""
        self._forest = forest
        self._traits = traits
        self._aggregates = aggregates
        self._sharing_trait = sharing_trait
        self._masks = masks
        self._roots: dict[int, NDArray[np.int64]] = {}

    def still_holds(self, forest: Forest, traits: Memberships, aggregates: Memberships, trait: int | None) -> bool:
        """Whether it was computed from exactly these objects."""
        same = self._forest is forest and self._traits is traits and self._aggregates is aggregates
        return same and self._sharing_trait == trait

    @property
    def mask(self) -> NDArray[np.bool_]:
        """Mask of the slots with a sharing provider; read-only."""
        if self._sharing_trait is None:
            return np.zeros(self._forest.size, np.bool_)
        return self._traits.passing([(self._sharing_trait,)], (), self._masks)

    @cached_property
    def providers(self) -> NDArray[np.int64]:
        """Slots of all sharing providers, ascending."""
        return np.flatnonzero(self.mask)

    def anchors(self, slot: int) -> NDArray[np.int64]:
        """Roots of the trees that a sharing provider serves, ascending."""
        aggregates = self._aggregates.of(slot)
        if not aggregates:
            return np.array([self._forest.root[slot]], np.int64)
        # The provider's own root is among them, since it is in these aggregates itself. Not cached for each set of
        # aggregates: there may be many sets of a few large aggregates.
        return np.unique(np.concatenate([*map(self._roots_of, aggregates)]))

    def served(self, slots: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Mask of the roots of the trees that any of these sharing providers serves."""
        roots = np.zeros(self._forest.size, np.bool_)
        numbers = self._aggregates.set_of.at(slots)
        roots[self._forest.root.at(slots[numbers == 0])] = True
        # Each aggregate once: many providers are in the same ones.
        each_set = slots[np.unique(numbers, return_index=True)[1]].tolist()
        for aggregate in set().union(*map(self._aggregates.of, each_set)):
            roots[self._roots_of(aggregate)] = True
        return roots

    def _roots_of(self, aggregate: int) -> NDArray[np.int64]:
        """Roots of all providers in an aggregate."""
        roots = self._roots.get(aggregate)
        if roots is None:
            members = np.flatnonzero(self._aggregates.passing([(aggregate,)], (), self._masks))
            roots = self._roots[aggregate] = np.unique(self._forest.root.at(members)).astype(np.int64)
        return roots

    def reaching(self, anchor: int) -> Sequence[Slot]:
        """Sharing providers of other trees that serve the tree of *anchor*, ascending."""
        return self.circles[int(self.circle[anchor])]

    @property
    def circle(self) -> NDArray[np.int32]:
        """By slot of a root, the number of the set in :attr:`circles` that serves its tree, shape ``(slots,)``."""
        return self._reach[0]

    @property
    def circles(self) -> Sequence[tuple[Slot, ...]]:
        """The distinct sets of sharing providers that serve a tree from outside, each ascending."""
        return self._reach[1]

    @cached_property
    def _reach(self) -> tuple[NDArray[np.int32], Circles]:
        circle = np.zeros(self._forest.size, np.int32)
        # All providers with the same aggregates serve the same trees, so they are added to a set together.
        alike: dict[int, list[Slot]] = defaultdict(list)
        for slot, number in zip(self.providers.tolist(), self._aggregates.set_of.at(self.providers), strict=True):
            if number:  # without aggregates, it serves its own tree alone
                alike[int(number)].append(Slot(slot))
        steps: list[tuple[int, Sequence[Slot]]] = [(0, ())]
        for slots in alike.values():
            anchors = self.anchors(slots[0])
            # Trees with the same set so far get the same new one, so equal sets have one number.
            before, place = np.unique(circle[anchors], return_inverse=True)
            circle[anchors] = len(steps) + place
            steps += [(number, slots) for number in before.tolist()]
        own: dict[int, list[Slot]] = defaultdict(list)
        for slot in itertools.chain.from_iterable(alike.values()):
            own[self._forest.root[slot]].append(slot)
        circles = Circles(steps, [])
        for root, slots in own.items():
            circle[root] = circles.without(int(circle[root]), slots)
        return circle, circles


class Circles(Sequence[tuple[Slot, ...]]):
    """Sets of sharing providers, by number; number 0 is the empty set. Each is made when it is read.

    In an aggregate of many sharing providers, each one's own tree has a set of its own: all others. So to hold them all
    would take the square of their number.
    """

    def __init__(self, steps: Sequence[tuple[int, Sequence[Slot]]], lacking: list[tuple[int, Sequence[Slot]]]) -> None:
        """Begin with sets, each of which is the set of an earlier number and further slots.

        Args:
            lacking: further sets, each the set of a number without some of its slots.
        """
        self._steps = steps
        self._lacking = lacking
        self._sizes = [0]
        for number, slots in steps[1:]:
            self._sizes.append(self._sizes[number] + len(slots))

    def without(self, number: int, slots: Sequence[Slot]) -> int:
        """The number of a new set: that of *number* without *slots*, which are all in it."""
        if self._sizes[number] == len(slots):
            return 0
        self._lacking.append((number, slots))
        return len(self) - 1

    def __len__(self) -> int:
        return len(self._steps) + len(self._lacking)

    @overload
    def __getitem__(self, number: int) -> tuple[Slot, ...]: ...

    @overload
    def __getitem__(self, number: slice) -> Sequence[tuple[Slot, ...]]: ...

    def __getitem__(self, number: int | slice) -> tuple[Slot, ...] | Sequence[tuple[Slot, ...]]:
        """The slots of a set, ascending."""
        if isinstance(number, slice):
            return [self[each] for each in range(*number.indices(len(self)))]
        lacking: Sequence[Slot] = ()
        if number >= len(self._steps):
            number, lacking = self._lacking[number - len(self._steps)]
        slots: set[Slot] = set()
        while number:
            number, added = self._steps[number]
            slots.update(added)
        return tuple(sorted(slots.difference(lacking)))
