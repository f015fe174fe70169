"""A load: a snapshot of the complete state, from portions of columns.

Each portion becomes arrays at once, and its lists are freed. Slots are assigned after the last portion, in the order of
roots and ids, so that a tree has neighbouring slots. The tests compare loads with refreshes.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from heapq import nlargest
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np

from stead.catalog.blocks import Sparse, Texts, ValueTable
from stead.catalog.columns import NO_INVENTORY, Inventories, InventoryColumns, InventoryKinds, is_rare, rooms
from stead.catalog.refresh import new_version, only
from stead.catalog.snapshot import NO_SLOT, Forest, Identities, ServiceStates, Sharing
from stead.domain.provider import Slot

if TYPE_CHECKING:
    from collections.abc import Container, Sequence

    from numpy.typing import ArrayLike, NDArray

    from stead.catalog.columns import Members, Memberships, Numbers
    from stead.catalog.snapshot import Snapshot
    from stead.domain.changes import InventoriesByColumn, MembersByColumn, Portion, UsageByColumn
    from stead.domain.provider import Disabled

T = TypeVar("T", bound="np.generic")

_NO_ID = np.iinfo(np.int64).min
"""The parent's id of a root."""

_LARGEST_NAMED = 3
"""Providers that a load names if it does not fit into memory."""


class Loading:
    """The portions that have arrived of one load."""

    def __init__(self, names: Snapshot) -> None:
        """Begin with a snapshot that has all *names* and no providers."""
        self._names = names
        self._number = 0
        self._ids = _Column(np.int64, NO_SLOT)
        self._parent_ids = _Column(np.int64, _NO_ID)
        self._root_ids = _Column(np.int64, NO_SLOT)
        self._generations = _Column(np.int64, 0)
        self._modified = _Column(np.int64, 0)
        self._uuids = _Column(np.object_, "")
        self._provider_names = _Column(np.object_, "")
        self._traits, self._aggregates = _Sets(), _Sets()
        self._kinds: ValueTable[tuple[int, *Numbers]] = ValueTable((NO_SLOT, *NO_INVENTORY))
        self._inventories: dict[int, _Inventories] = defaultdict(_Inventories)
        self._disabled: dict[int, Disabled] = {}
        self._largest: list[tuple[int, str]] = []
        """The number of rows and the uuid of the providers with the most, in descending order."""

    def add(self, portion: Portion) -> None:
        """Add a portion; the order of portions does not matter."""
        providers = portion.providers
        within = _Portion(self._number, np.array(providers.ids, np.int64))
        self._note_largest(within, portion)  # first, since adding this portion may be what does not fit
        self._number += len(providers.ids)
        parent_ids = [_NO_ID if id_ is None else id_ for id_ in providers.parent_ids]
        for column, values in (
            (self._ids, providers.ids),
            (self._parent_ids, parent_ids),
            (self._root_ids, providers.root_ids),
            (self._generations, providers.generations),
            (self._modified, providers.modified),
            (self._uuids, providers.uuids),
            (self._provider_names, providers.names),
        ):
            column.add(within, slice(None), values)
        self._add_inventories(within, portion.inventories, portion.used)
        self._traits.add(within, portion.traits_of, self._names.trait_names.by_id)
        self._aggregates.add(within, portion.aggregates_of, self._names.aggregate_uuids)
        self._disabled.update(portion.disabled)

    def size(self) -> str:
        """How much has arrived, and the names of the largest parts, for the log."""
        classes = len(self._names.class_names.rows)
        traits, aggregates = (max(map(len, sets.values()), default=0) for sets in (self._traits, self._aggregates))
        number = sum(columns.number for columns in self._inventories.values())
        largest = ", ".join(f"{uuid} ({rows:,})" for rows, uuid in self._largest)
        return (
            f"{self._number:,} providers arrived with {number:,} inventories of {len(self._inventories):,} of "
            f"{classes:,} resource classes; the largest sets have {traits:,} traits and {aggregates:,} aggregates"
            f"; the providers with the most inventories, traits and aggregates are {largest or 'not known'}"
        )

    def _note_largest(self, within: _Portion, portion: Portion) -> None:
        rows = np.zeros(within.size, np.int64)
        rows += np.bincount(within.of(portion.inventories.provider_ids)[1], minlength=within.size)
        for members in (portion.traits_of, portion.aggregates_of):
            indices, places = within.of(members.provider_ids)
            rows[places] += np.array([*map(len, members.members)], np.int64)[indices]
        uuids = portion.providers.uuids
        most = np.argsort(rows)[-_LARGEST_NAMED:].tolist()
        self._largest = nlargest(
            _LARGEST_NAMED, [*self._largest, *((int(rows[place]), uuids[place]) for place in most)]
        )

    def _add_inventories(self, within: _Portion, inventories: InventoriesByColumn, used: UsageByColumn) -> None:
        provider_ids, class_ids, *numbers, modified = inventories
        # A cloud has few kinds of hosts, so most rows are found among those that arrived before.
        kinds = np.array(self._kinds.numbers(zip(class_ids, *numbers, strict=True)), np.int32)
        rows, used_rows = within.rows(provider_ids, class_ids), within.rows(used.provider_ids, used.class_ids)
        times, sums = np.array(modified, np.int64), np.array(used.used, np.int64)
        for class_id, (indices, places) in rows.items():
            if class_id not in self._names.class_names.by_id:
                continue  # an inventory of a class that does not exist
            columns = self._inventories[class_id]
            columns.number += len(indices)
            columns.kind.add(within, places, kinds[indices])
            columns.modified.add(within, places, times[indices])
            if class_id in used_rows:
                indices, places = used_rows[class_id]
                columns.used.add(within, places, sums[indices])

    def snapshot(self) -> Snapshot:
        """The snapshot of all portions."""
        names = self._names
        # The last key is the most significant one.
        order = np.lexsort((self._ids.whole(self._number), self._root_ids.whole(self._number)))
        ids = self._ids.ordered(order)
        at = _Places(ids)
        parents, roots = (
            at.of(column.ordered(order)).astype(np.int32) for column in (self._parent_ids, self._root_ids)
        )
        # A root that does not exist: the provider is served as one.
        roots = np.where(roots == NO_SLOT, np.arange(len(roots), dtype=np.int32), roots)
        forest = Forest.of(parents, roots)
        disabled = {
            Slot(slot): state
            for slot, state in zip(at.of(list(self._disabled)).tolist(), self._disabled.values(), strict=True)
            if slot != NO_SLOT
        }
        traits, aggregates = (
            sets.memberships(empty, order)
            for sets, empty in ((self._traits, names.trait_sets), (self._aggregates, names.aggregate_sets))
        )
        return replace(
            names,
            identities=Identities.of(
                Texts.of(self._uuids.ordered(order).tolist()),
                Texts.of(self._provider_names.ordered(order).tolist()),
                names.identities.ids.holding(ids),
            ),
            generations=names.generations.holding(self._generations.ordered(order)),
            modified=names.modified.holding(self._modified.ordered(order)),
            versions=names.versions.holding(np.full(self._number, new_version(), np.int64)),
            forest=forest,
            inventory=self._inventory(order),
            trait_sets=traits,
            aggregate_sets=aggregates,
            sharing=Sharing(forest, traits, aggregates, names.sharing_trait, names.masks),
            service_states=ServiceStates(forest, disabled),
        )

    def _inventory(self, order: NDArray[np.int64]) -> Inventories:
        """The columns of each class."""
        rows = self._kinds.values
        of_class: dict[int, list[int]] = defaultdict(list)
        for number, row in enumerate(rows):
            of_class[row[0]].append(number)
        inventory, own_number = {}, np.zeros(len(rows), np.int32)
        slot_of = np.empty(len(order), np.int64)
        slot_of[order] = np.arange(len(order))
        for class_id in sorted(self._inventories):
            # Removed, so that the parts of a class are freed before the columns of the next one are made.
            columns = self._inventories.pop(class_id)
            kinds, numbers = InventoryKinds(), of_class[class_id]
            own_number[numbers] = kinds.numbers(rows[number][1:] for number in numbers)
            if is_rare(columns.number, len(order)):
                slots, kind_numbers, used, modified = columns.few(slot_of)
                kind = own_number[kind_numbers]
                room = rooms(kinds, kind, used)
                inventory[class_id] = InventoryColumns.of_few(kinds, slots, kind, room, modified, len(order))
            else:
                kind = own_number[columns.kind.ordered(order)]
                room = rooms(kinds, kind, columns.used.ordered(order))
                inventory[class_id] = InventoryColumns.holding(kinds, kind, room, columns.modified.ordered(order))
        return Inventories.of(inventory, len(order))


class _Places:
    """The places of ids in an array."""

    def __init__(self, ids: NDArray[np.int64]) -> None:
        self._order = ids.argsort(kind="stable")
        self._ascending = ids[self._order]

    def of(self, ids: ArrayLike) -> NDArray[np.int64]:
        """The place of each of *ids*; NO_SLOT for one that is not in the array."""
        asked = np.asarray(ids, np.int64)
        if not len(self._ascending):
            return np.full(len(asked), NO_SLOT, np.int64)
        near = np.minimum(np.searchsorted(self._ascending, asked), len(self._ascending) - 1)
        return np.where(self._ascending[near] == asked, self._order[near], NO_SLOT)


class _Portion:
    """The places of the providers of one portion among all that have arrived: from ``first`` on, ``size`` of them."""

    def __init__(self, first: int, ids: NDArray[np.int64]) -> None:
        self.first, self.size = first, len(ids)
        self._places = _Places(ids)

    def of(self, provider_ids: Sequence[int]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The indices of those of *provider_ids* that exist, and their places within the portion."""
        places = self._places.of(provider_ids)
        indices = np.flatnonzero(places != NO_SLOT)
        return indices, places[indices]

    def rows(
        self, provider_ids: Sequence[int], class_ids: Sequence[int]
    ) -> dict[int, tuple[NDArray[np.int64], NDArray[np.int64]]]:
        """By class the indices of its rows, and their places, as in `of`."""
        indices, places = self.of(provider_ids)
        class_of = np.array(class_ids, np.int64)[indices]
        # Sorted once: a portion may have as many classes as rows.
        order = np.argsort(class_of, kind="stable")
        present, starts = np.unique(class_of[order], return_index=True)
        parts = np.split(order, starts[1:])
        return {
            class_id: (indices[here], places[here]) for class_id, here in zip(present.tolist(), parts, strict=False)
        }


class _Column(Generic[T]):
    """A value for each provider that has arrived, in parts; a missing one is *fill*."""

    def __init__(self, dtype: type[T], fill: Any) -> None:
        self._dtype, self._fill = dtype, fill
        self._parts: list[tuple[NDArray[np.int64] | slice, NDArray[T]]] = []
        """Values, and the providers that have them, by the order of arrival."""

    def add(self, within: _Portion, places: NDArray[np.int64] | slice, values: ArrayLike) -> None:
        if not isinstance(places, slice) and is_rare(len(places), within.size):
            # Of a rare class, only its own values: a portion may have as many classes as providers.
            self._parts.append((within.first + places, np.array(values, self._dtype)))
            return
        part = np.full(within.size, self._fill, self._dtype)
        part[places] = values
        self._parts.append((slice(within.first, within.first + within.size), part))

    def whole(self, number: int) -> NDArray[T]:
        """The values of all *number* providers, in the order of arrival."""
        whole = np.full(number, self._fill, self._dtype)
        for where, part in self._parts:
            whole[where] = part
        return whole

    def ordered(self, order: NDArray[np.int64]) -> NDArray[T]:
        """The values in this order. This column must not be used any more."""
        whole = self.whole(len(order))
        self._parts.clear()
        ordered: NDArray[T] = whole[order]
        return ordered

    def few(self) -> tuple[NDArray[np.int64], NDArray[T]]:
        """The providers that have a value, by the order of arrival and ascending, and their values."""
        providers, values = [np.empty(0, np.int64)], [np.empty(0, self._dtype)]
        for where, part in self._parts:
            if isinstance(where, slice):
                places = np.flatnonzero(part != self._fill)
                providers.append(where.start + places)
                values.append(part[places])
            else:
                providers.append(where)
                values.append(part)
        together = np.concatenate(providers)
        order = np.argsort(together, kind="stable")
        return together[order], np.concatenate(values)[order]

    def few_at(self, providers: NDArray[np.int64], number: int) -> NDArray[T]:
        """The values of some of all *number* providers, of which few have one."""
        own, values = self.few()
        return Sparse(own, values, number, self._fill, np.dtype(self._dtype)).at(providers)


class _Sets:
    """The set of members of each provider, by number."""

    def __init__(self) -> None:
        self._sets: ValueTable[Members] = ValueTable(())
        self._set_of = _Column(np.int32, 0)

    def values(self) -> Sequence[Members]:
        """The distinct sets that have arrived."""
        return self._sets.values

    def add(self, within: _Portion, members: MembersByColumn, stored_ids: Container[int]) -> None:
        """Add the members that are among *stored_ids*."""
        indices, places = within.of(members.provider_ids)
        # A cloud has few different sets.
        existing = {ids: only(ids, stored_ids) for ids in set(members.members)}
        numbers = self._sets.numbers([existing[ids] for ids in members.members])
        self._set_of.add(within, places, np.array(numbers, np.int32)[indices])

    def memberships(self, empty: Memberships, order: NDArray[np.int64]) -> Memberships:
        return empty.holding(self._sets.values, empty.set_of.holding(self._set_of.ordered(order)))


class _Inventories:
    """The inventories of one class: of each provider the number of its kind among those of all classes."""

    def __init__(self) -> None:
        self.number = 0
        self.kind, self.used, self.modified = _Column(np.int32, 0), _Column(np.int64, 0), _Column(np.int64, 0)

    def few(
        self, slot_of: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int64], NDArray[np.int64]]:
        """The slots with inventory, ascending, with their kinds, sums of allocations and times.

        Args:
            slot_of: the slot of each provider, by the order of arrival.
        """
        providers, kind = self.kind.few()
        slots = slot_of[providers]
        order = np.argsort(slots)
        used, modified = (column.few_at(providers, len(slot_of)) for column in (self.used, self.modified))
        return slots[order], kind[order], used[order], modified[order]
