"""What every provider has, in columns by slot: inventories with the room that remains, traits and aggregates.

A common class has arrays over all slots, which are fastest to search. A rare class, which few providers have, takes
memory for these providers alone: a site may have tens of thousands of such classes, for example one per reservation.

Source: docs/decisions/0057-columns-of-rare-classes.md.
"""

from __future__ import annotations

import threading
from array import array
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from stead.catalog.blocks import BLOCK, Blocks, Directory, Sparse, TreeIndex, ValueTable
from stead.domain.provider import HeldInventory, Inventory, exact_capacity, has_room, keeps_units

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence

    from numpy.typing import ArrayLike, NDArray

    Mask = NDArray[np.bool_]
    from collections.abc import Collection

    from numpy.typing import NDArray


Numbers = tuple[int, int, int, int, int, float]
"""An inventory: total, reserved, min_unit, max_unit, step_size, allocation_ratio."""

NO_INVENTORY: Numbers = (0, 0, 1, 0, 1, 0.0)
"""The numbers of a slot without inventory: no amount satisfies its units."""

_NO_ROOM = -1

_RARE, _COMMON = 5, 4
"""A common class becomes rare with at most 1/2**5 of the slots, a rare one common with more than 1/2**4.

Between them a class stays what it is, so that it does not change at every write.
"""

_FEW = 4
"""A class with up to this number of providers is rare on any site."""

# The float 2**63 itself does not fit into 64 bits with a sign.
_LEAST, _MOST = -(2.0**62), np.nextafter(2.0**63, 0)
"""Bounds of capacities in the columns. No sum of allocations reaches them, so clipping changes no decision."""

_GREAT = 2**62
"""More than all providers together have of a class, since each has at most an integer of the database."""


_NO_TABLE, _NO_CAPACITY = np.empty((6, 0)), np.empty(0, np.int64)


class InventoryKinds(ValueTable[Numbers]):
    """The distinct inventories of one class; number 0 means no inventory."""

    def __init__(self) -> None:
        super().__init__(NO_INVENTORY)
        self._table: NDArray[np.float64] = _NO_TABLE
        self._capacity: NDArray[np.int64] = _NO_CAPACITY

    def emptied(self) -> InventoryKinds:
        return InventoryKinds()

    def table(self) -> NDArray[np.float64]:
        """The numbers of all kinds, shape ``(6, kinds)`` or more."""
        # A local: another thread may extend the table at the same time, to the same values.
        table = self._table
        if table.shape[1] < len(self):
            new = np.array(self.values[table.shape[1] :], np.float64).T
            table = self._table = np.concatenate([table, new], axis=1)
        return table

    def capacities(self) -> NDArray[np.int64]:
        """Capacities in whole units, shape ``(kinds,)`` or more."""
        capacities = self._capacity
        if len(capacities) < len(self):
            total, reserved, *_, ratio = self.table()
            capacities = np.clip(np.trunc(exact_capacity(total, reserved, ratio)), _LEAST, _MOST).astype(np.int64)
            self._capacity = capacities
        # Not the attribute: another thread that counted fewer kinds may have replaced it just now.
        return capacities

    def shown(self, number: int) -> int:
        """The exact capacity of one kind, as the API returns it."""
        return Inventory(*self.values[number]).capacity


@dataclass(frozen=True, slots=True)
class Shares:
    """For every slot the amounts it could give of a class: from ``least`` in steps of ``step`` up to ``most``.

    Arrays of shape ``(slots,)``; ``most`` is 0 for slots that can give nothing.
    """

    least: NDArray[np.int64]
    most: NDArray[np.int64]
    step: NDArray[np.int64]

    @property
    def any(self) -> NDArray[np.bool_]:
        """Mask of the slots that can give something."""
        return self.most > 0


@dataclass(frozen=True, slots=True)
class InventoryColumns:
    """All inventories of one class, by slot; immutable.

    ``kind`` is a number among ``kinds``. ``room`` is the free capacity in whole units, negative where allocations
    exceed the capacity. ``modified`` is in seconds since 1970 (UTC).
    """

    kinds: InventoryKinds
    kind: Blocks[np.int32] | Sparse[np.int32]
    room: Blocks[np.int64] | Sparse[np.int64]
    modified: Blocks[np.int64] | Sparse[np.int64]

    @classmethod
    def none(cls, size: int = 0) -> InventoryColumns:
        """No provider has inventory."""
        return cls.of_few(InventoryKinds(), np.empty(0, np.int64), *(np.empty(0, np.int64),) * 3, size)

    @classmethod
    def holding(
        cls,
        kinds: InventoryKinds,
        kind: NDArray[np.int32],
        room: NDArray[np.int64],
        modified: NDArray[np.int64],
    ) -> InventoryColumns:
        """The columns of a common class with exactly these kinds, rooms and times, by slot."""
        return cls(
            kinds,
            Blocks.none(np.int32, 0).holding(kind),
            Blocks.none(np.int64, _NO_ROOM).holding(room),
            Blocks.none(np.int64, 0).holding(modified),
        )

    @classmethod
    def of_few(
        cls,
        kinds: InventoryKinds,
        slots: NDArray[np.int64],
        kind: NDArray[np.integer],
        room: NDArray[np.int64],
        modified: NDArray[np.int64],
        size: int,
    ) -> InventoryColumns:
        """The columns of a rare class, which has inventory at *slots* (ascending), for *size* slots."""
        return cls(
            kinds,
            Sparse(slots, kind.astype(np.int32, copy=False), size, 0, np.dtype(np.int32)),
            Sparse(slots, room, size, _NO_ROOM, np.dtype(np.int64)),
            Sparse(slots, modified, size, 0, np.dtype(np.int64)),
        )

    @property
    def size(self) -> int:
        """Number of slots, those without inventory included."""
        return self.kind.size

    @property
    def is_rare(self) -> bool:
        """Whether the columns take memory only for the slots with inventory."""
        return isinstance(self.kind, Sparse)

    @property
    def nbytes(self) -> int:
        """Memory of the arrays, in bytes."""
        return self.kind.nbytes + self.room.nbytes + self.modified.nbytes

    @property
    def slots(self) -> NDArray[np.int64]:
        """The slots with inventory of the class, ascending; must not be changed."""
        return self.kind.slots if isinstance(self.kind, Sparse) else np.flatnonzero(self.kind.whole)

    @property
    def is_empty(self) -> bool:
        """Whether no provider has inventory of the class."""
        if isinstance(self.kind, Sparse):
            return not self.kind.number
        return not any(block.any() for block in self.kind.blocks)

    def places(self, slots: NDArray[np.int64]) -> NDArray[np.int64]:
        """The places in *slots* (ascending) of those with inventory of the class."""
        if isinstance(self.kind, Sparse):
            # From the side of the class, so that many rare classes at many slots cost what they have there.
            places = slots.searchsorted(own := self.kind.slots)
            return places[slots.take(places, mode="clip") == own] if len(slots) else np.empty(0, np.int64)
        return np.flatnonzero(self.kind.at(slots))

    def serving(self, amount: int) -> NDArray[np.bool_]:
        """Mask of the slots that can serve *amount* of the class alone."""
        if not isinstance(self.kind, Sparse):
            return self.able(amount)(self.kind.whole, self.room.whole)
        mask = np.zeros(self.size, np.bool_)
        mask[self.kind.slots] = self.able(amount)(self.kind.values, self.room.at(self.kind.slots))
        return mask

    def fitted(self) -> InventoryColumns:
        """The same columns as a rare class or a common one, by the number of slots with inventory."""
        kind, room, modified = self.kind, self.room, self.modified
        if isinstance(kind, Sparse) and is_rare(kind.number, self.size):
            return self
        if not isinstance(kind, Sparse) and not is_rare(kind.number, self.size, was_common=True):
            return self
        if isinstance(kind, Sparse):
            return InventoryColumns.holding(self.kinds, kind.whole, room.whole, modified.whole)
        slots = np.flatnonzero(kind.whole)
        return InventoryColumns.of_few(self.kinds, slots, kind.at(slots), room.at(slots), modified.at(slots), self.size)

    def having(self, slots: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Mask of those of *slots* with inventory of the class."""
        return self.kind.at(slots) > 0

    def replaced(
        self,
        slots: NDArray[np.int64],
        inventories: Sequence[Numbers | None],
        used: Sequence[int],
        modified: Sequence[int],
        size: int,
    ) -> InventoryColumns:
        """The columns with other inventories (None removes one) at *slots* (ascending), for *size* slots."""
        kind = np.array(
            self.kinds.numbers(NO_INVENTORY if inventory is None else inventory for inventory in inventories), np.int32
        )
        room = rooms(self.kinds, kind, used)
        kinds, kind_column = self.kinds.compacted(self.kind.replaced(slots, kind, size))
        return InventoryColumns(
            kinds, kind_column, self.room.replaced(slots, room, size), self.modified.replaced(slots, modified, size)
        )

    def grown(self, size: int) -> InventoryColumns:
        """The columns for *size* slots; the new slots have no inventory."""
        if size == self.size:
            return self
        grown = self.replaced(np.empty(0, np.int64), (), (), (), size)
        # Sites that grow make common classes rare. Each doubling is often enough, since a look takes a pass over them.
        return grown.fitted() if size.bit_length() != self.size.bit_length() else grown

    def taken(self, slots: NDArray[np.int64], used: Sequence[int]) -> InventoryColumns:
        """The same with other sums of allocations at *slots* (ascending); who has none of the class stays so."""
        kind, capacities = self.kind.at(slots).tolist(), self.kinds.capacities()
        # Without arrays: nearly always, this is the one provider of a claim.
        remaining = [
            capacities.item(number) - taken if number else _NO_ROOM for number, taken in zip(kind, used, strict=True)
        ]
        room = self.room.replaced(slots, remaining, self.room.size)
        return self if room is self.room else InventoryColumns(self.kinds, self.kind, room, self.modified)

    def only(self, slots: NDArray[np.int64]) -> InventoryColumns:
        """The inventories of *slots* alone, which are numbered by their places."""
        return InventoryColumns(self.kinds, self.kind.only(slots), self.room.only(slots), self.modified.only(slots))

    def lessened(self, slots: NDArray[np.int64], amounts: Sequence[int]) -> InventoryColumns:
        """The same with so much less room at *slots* (ascending); who has none of the class stays so."""
        room = np.where(self.kind.at(slots) > 0, self.room.at(slots) - np.asarray(amounts, np.int64), _NO_ROOM)
        return InventoryColumns(self.kinds, self.kind, self.room.replaced(slots, room, self.room.size), self.modified)

    def limited(self, slots: NDArray[np.int64], amounts: Sequence[int]) -> InventoryColumns:
        """The same with just so much room at *slots* (ascending), and none elsewhere."""
        room = np.where(self.kind.at(slots) > 0, np.asarray(amounts, np.int64), _NO_ROOM)
        nowhere = InventoryColumns.none(self.size).room if self.is_rare else Blocks.none(np.int64, _NO_ROOM)
        return InventoryColumns(self.kinds, self.kind, nowhere.replaced(slots, room, self.room.size), self.modified)

    def able(self, amount: int) -> Callable[[NDArray[np.int32], NDArray[np.int64]], NDArray[np.bool_]]:
        """Computes the mask of the providers with some kinds and rooms that can serve *amount* of the class alone."""
        units: list[tuple[NDArray[np.bool_], bool]] = []  # computed once for all blocks, and only if a block changed

        def serving(kind: NDArray[np.int32], room: NDArray[np.int64]) -> NDArray[np.bool_]:
            if not units:
                _, _, min_unit, max_unit, step_size, _ = self.kinds.table()
                keeping: NDArray[np.bool_] = keeps_units(amount, min_unit, max_unit, step_size)
                units.append((keeping, bool(keeping[1:].all())))
            with_room: NDArray[np.bool_] = has_room(amount, 0, room)
            # Slots without inventory have no room. So a look-up per slot is needed only if some kind does not admit it.
            kinds_keeping, is_kept_by_all = units[0]
            return with_room if is_kept_by_all else with_room & kinds_keeping.take(kind)

        return serving

    def fitting(self, amounts: NDArray[np.int64], slots: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Mask of the *slots*, of shape ``(rows, columns)``, that can serve *amounts*: ``(rows, amounts, columns)``."""
        _, _, min_unit, max_unit, step_size, _ = self.kinds.table()
        keeping: NDArray[np.bool_] = keeps_units(amounts[:, None], min_unit, max_unit, step_size)
        with_room: NDArray[np.bool_] = has_room(amounts[:, None], 0, self.room.at(slots)[:, None])
        # As in `able`: a look-up per slot is needed only if some kind does not admit some amount.
        if keeping[:, 1:].all():
            return with_room
        return with_room & keeping[:, self.kind.at(slots)].swapaxes(0, 1)

    def admitting(self, amount: int) -> NDArray[np.bool_]:
        """Mask of the slots whose units (min_unit, max_unit, step_size) admit *amount*, regardless of room."""
        _, _, min_unit, max_unit, step_size, _ = self.kinds.table()
        admitting: NDArray[np.bool_] = keeps_units(min(amount, _GREAT), min_unit, max_unit, step_size)[self.kind.whole]
        return admitting

    def shares(self, amount: int) -> Shares:
        """The part of *amount* that each provider could give."""
        table = self.kinds.table()
        min_unit, max_unit, step_size = (np.maximum(numbers, 1).astype(np.int64) for numbers in table[2:5])
        kind = self.kind.whole
        step = step_size[kind]
        # A part is a multiple of step_size, so the least part is min_unit rounded up to one.
        least = -(-min_unit[kind] // step) * step
        most = np.minimum(np.minimum(max_unit[kind], self.room.whole), min(amount, _GREAT)) // step * step
        has_step = table[4][kind] != 0  # see `keeps_units`
        return Shares(least, np.where((kind > 0) & has_step & (least <= most), most, 0), step)

    def left(self, slots: NDArray[np.int64]) -> NDArray[np.int64]:
        """How much one candidate may take at each of *slots* (any shape); negative where there is no inventory."""
        max_unit = self.kinds.table()[3].astype(np.int64)
        available: NDArray[np.int64] = np.minimum(self.room.at(slots), max_unit[self.kind.at(slots)])
        return available

    def amounts(self, slots: NDArray[np.int64]) -> tuple[list[int], list[int]]:
        """Exact capacity and usage at each of *slots*, which have inventory of the class."""
        kind = self.kind.at(slots)
        shown = {number: self.kinds.shown(number) for number in np.unique(kind).tolist()}
        return [shown[number] for number in kind.tolist()], self.used(slots).tolist()

    def used(self, slots: NDArray[np.int64]) -> NDArray[np.int64]:
        """The sum of allocations at each of *slots*, which have inventory of the class."""
        used: NDArray[np.int64] = self.kinds.capacities()[self.kind.at(slots)] - self.room.at(slots)
        return used

    def at(self, slot: int) -> HeldInventory | None:
        """The inventory at a slot, if it has one."""
        number = self.kind[slot]
        if not number:
            return None
        used = int(self.kinds.capacities()[number]) - self.room[slot]
        return HeldInventory(Inventory(*self.kinds.values[number]), used, self.modified[slot])


def is_rare(number: int, size: int, *, was_common: bool = False) -> bool:
    """Whether a class with inventory at *number* of *size* slots is rare."""
    return number <= max(size >> (_RARE if was_common else _COMMON), _FEW)


def rooms(kinds: InventoryKinds, kind: NDArray[np.int32], used: ArrayLike) -> NDArray[np.int64]:
    """The room of each of some slots, from the numbers of their kinds and their sums of allocations."""
    return np.where(kind > 0, kinds.capacities()[kind] - np.asarray(used, np.int64), _NO_ROOM)


# The inventories of all providers: the columns of each class, and the classes that a provider has.
#
# A snapshot may have tens of thousands of rare classes, and a refresh after a claim touches one provider. So what a
# refresh costs must follow the classes of the touched providers, not all classes.


class Inventories(Mapping[int, "InventoryColumns"]):
    """The columns of each class with inventory, by class id; immutable."""

    __slots__ = ("_columns", "_common", "_rare_at", "size")

    def __init__(
        self,
        columns: dict[int, InventoryColumns],
        common: tuple[int, ...],
        rare_at: Directory[int, tuple[int, ...]],
        size: int,
    ) -> None:
        """Use :meth:`of` and :meth:`replaced`.

        Args:
            columns: a rare class may have fewer than *size* slots here: no refresh touches all of them.
            common: the ids of common classes, ascending.
            rare_at: by slot, the ids of its rare classes, ascending.
        """
        self._columns = columns
        self._common = common
        self._rare_at = rare_at
        self.size = size

    @classmethod
    def of(cls, columns: Mapping[int, InventoryColumns], size: int) -> Inventories:
        """The inventories in *columns*, for *size* slots."""
        rare_at: dict[int, list[int]] = defaultdict(list)
        for class_id in sorted(columns):
            if columns[class_id].is_rare:
                for slot in columns[class_id].slots.tolist():
                    rare_at[slot].append(class_id)
        common = tuple(sorted(class_id for class_id, each in columns.items() if not each.is_rare))
        changed = {slot: tuple(class_ids) for slot, class_ids in rare_at.items()}
        return cls(dict(columns), common, _nowhere().replaced((), changed), size)

    def __len__(self) -> int:
        return len(self._columns)

    def __iter__(self) -> Iterator[int]:
        return iter(self._columns)

    def __contains__(self, class_id: object) -> bool:
        return class_id in self._columns

    def __getitem__(self, class_id: int) -> InventoryColumns:
        return self._columns[class_id].grown(self.size)

    def get(self, class_id: int, default: InventoryColumns | None = None) -> InventoryColumns | None:  # type: ignore[override]  # no caller has a default of another type
        """The columns of a class; *default* if no provider has inventory of it."""
        columns = self._columns.get(class_id)
        return default if columns is None else columns.grown(self.size)

    def at(self, slots: Iterable[int] | NDArray[np.int64]) -> Sequence[int]:
        """Ids, ascending, of all classes of which any of *slots* has inventory, and perhaps of others."""
        if not len(self._rare_at):
            return self._common
        places: Iterable[int] = slots.tolist() if isinstance(slots, np.ndarray) else slots
        rare = set().union(*(classes for slot in places if (classes := self._rare_at.get(slot)) is not None))
        return sorted(rare.union(self._common)) if rare else self._common

    def with_columns(self, changed: Mapping[int, InventoryColumns]) -> Inventories:
        """The inventories with other columns of some classes, which have inventory at the same slots as before."""
        return Inventories({**self._columns, **changed}, self._common, self._rare_at, self.size)

    def replaced(self, changed: Mapping[int, InventoryColumns], size: int) -> Inventories:
        """The inventories with *changed* columns, for *size* slots; a class without inventory is left out."""
        new = dict(changed)
        if size != self.size:
            # Rare classes grow when they are read. There are few common ones: each takes a good part of the slots.
            new |= {class_id: self._columns[class_id].grown(size) for class_id in self._common if class_id not in new}
        columns = {**self._columns, **new}
        moved: dict[int, tuple[set[int], set[int]]] = defaultdict(lambda: (set(), set()))
        common = set(self._common)
        for class_id, after in new.items():
            _note_rare_slots(class_id, self._columns.get(class_id), after, moved)
            if after.is_rare:
                common.discard(class_id)
            else:
                common.add(class_id)
            if after.is_empty:
                # A class without inventory may be deleted, so no column may refer to it any longer.
                del columns[class_id]
                common.discard(class_id)
        return Inventories(columns, tuple(sorted(common)), self._with_rare(moved), size)

    def _with_rare(self, moved: Mapping[int, tuple[set[int], set[int]]]) -> Directory[int, tuple[int, ...]]:
        """The rare classes of each slot, after it lost and gained some of them."""
        emptied, changed = [], {}
        for slot, (lost, gained) in moved.items():
            before = self._rare_at.get(slot)
            after = set(before or ()) - lost | gained
            if after:
                changed[slot] = tuple(sorted(after))
            elif before is not None:
                emptied.append(slot)
        return self._rare_at.replaced(emptied, changed) if moved else self._rare_at


def _note_rare_slots(
    class_id: int,
    before: InventoryColumns | None,
    after: InventoryColumns,
    moved: dict[int, tuple[set[int], set[int]]],
) -> None:
    """Add *class_id* to what slots lost and gained, for the slots at which the class is rare on one side only."""
    old = before.slots if before is not None and before.is_rare else None
    new = after.slots if after.is_rare else None
    if old is new:  # they share the array as long as the same slots have inventory
        return
    slots_before = set() if old is None else set(old.tolist())
    slots_after = set() if new is None else set(new.tolist())
    for slot in slots_before - slots_after:
        moved[slot][0].add(class_id)
    for slot in slots_after - slots_before:
        moved[slot][1].add(class_id)


def _nowhere() -> Directory[int, tuple[int, ...]]:
    """No slot has a rare class."""
    return Directory(TreeIndex.of({}))


# Cached masks: the slots that meet a condition, computed again only for blocks that changed.


MOST_BYTES_OF_MASKS = 32 << 20
"""Limit of the memory of all cached masks. The least recently computed ones are dropped first."""


class _Cached(NamedTuple):
    mask: Mask
    serials: tuple[tuple[int, ...], ...]
    """For each column from which it was computed the serials of its blocks."""


class Masks:
    """A bounded cache of masks, shared by all snapshots of one catalog; thread-safe."""

    def __init__(self) -> None:
        self._kept: dict[Hashable, _Cached] = {}
        self._bytes = 0
        self._lock = Lock()

    def get(self, condition: Hashable, columns: tuple[Blocks[Any], ...], meets: Callable[..., Mask]) -> Mask:
        """Mask of the slots that meet *condition*; read-only.

        Args:
            condition: identifies the mask, which must depend only on this and on the values of *columns*.
            columns: columns with the same number of slots.
            meets: computes the mask of one block, from a block of each column.
        """
        serials = tuple([column.serials for column in columns])
        # No lock here: entries are immutable, and the worst that a race costs is a mask computed twice.
        cached = self._kept.get(condition)
        if cached is not None and cached.serials == serials:
            return cached.mask
        mask = np.empty(columns[0].size, np.bool_)
        cached_blocks = list(zip(*cached.serials, strict=True)) if cached is not None else []
        for number, of_block in enumerate(zip(*serials, strict=True)):
            here = slice(number * BLOCK, (number + 1) * BLOCK)
            if cached is not None and number < len(cached_blocks) and cached_blocks[number] == of_block:
                mask[here] = cached.mask[here]
            else:
                mask[here] = meets(*(column.blocks[number] for column in columns))
        mask.flags.writeable = False
        self._keep(condition, _Cached(mask, serials))
        return mask

    def _keep(self, condition: Hashable, new: _Cached) -> None:
        with self._lock:
            old = self._kept.pop(condition, None)
            self._bytes += new.mask.nbytes - (old.mask.nbytes if old else 0)
            self._kept[condition] = new
            while self._bytes > MOST_BYTES_OF_MASKS and len(self._kept) > 1:
                oldest = next(iter(self._kept))
                self._bytes -= self._kept.pop(oldest).mask.nbytes


# The traits and aggregates of each slot.
#
# A cloud has many providers of few kinds. So a slot has the number of its set, and a condition on members is computed
# per set, then looked up for all slots at once. Each member has the numbers of its sets.


Members = tuple[int, ...]
"""A set of ids, ascending."""


class _Sets(ValueTable[Members]):
    """Sets by number, and for each member the numbers of the sets that have it; number 0 is the empty set."""

    def __init__(self, first: Members = ()) -> None:
        super().__init__(first)
        self._sets_with: dict[int, array[int]] = {}
        self._indexed = 0
        self._indexing = threading.Lock()

    def weight_of(self, value: Members) -> int:
        return 1 + len(value)

    def with_member(self, member: int, number: int) -> NDArray[np.int32]:
        """The numbers below *number* of the sets with *member*, ascending."""
        if self._indexed < number:
            with self._indexing:
                # A list per member, not a mask over the sets: all lists together take what the sets themselves do.
                for indexed in range(self._indexed, number):
                    for each in self.values[indexed]:
                        self._sets_with.setdefault(each, array("i")).append(indexed)
                self._indexed = max(self._indexed, number)
        # A copy: another thread may index further sets meanwhile, and no array grows while NumPy reads it.
        numbers = np.array(self._sets_with.get(member, ()), np.int32)
        return numbers[: numbers.searchsorted(number)]


class Memberships:
    """The set of members of every slot; immutable."""

    def __init__(self, what: str, sets: _Sets, set_of: Blocks[np.int32]) -> None:
        """Use :meth:`none` and :meth:`replaced`.

        Args:
            what: a word for the members; part of the key of cached masks.
            set_of: for each slot the number of its set in *sets*.
        """
        self._what = what
        self._sets = sets
        self.set_of = set_of

    @classmethod
    def none(cls, what: str) -> Memberships:
        """No slots at all."""
        return cls(what, _Sets(), Blocks.none(np.int32, 0))

    def replaced(self, slots: NDArray[np.int64], members: Iterable[Members], size: int) -> Memberships:
        """The memberships with other sets at *slots* (ascending), for *size* slots."""
        sets, set_of = self._sets.compacted(self.set_of.replaced(slots, self._sets.numbers(members), size))
        return self if set_of is self.set_of else Memberships(self._what, sets, set_of)

    def sets(self) -> list[Members]:
        """All sets, by number; some may not be in use."""
        return list(self._sets.values)

    def holding(self, sets: Iterable[Members], set_of: Blocks[np.int32]) -> Memberships:
        """Memberships of the same kind with these sets, by number, and for each slot the number of its set."""
        new = self._sets.emptied()
        new.numbers(sets)
        return Memberships(self._what, new, set_of)

    def only(self, slots: NDArray[np.int64]) -> Memberships:
        """The memberships of *slots* alone, which are numbered by their places."""
        return Memberships(self._what, self._sets, self.set_of.only(slots))

    def of(self, slot: int) -> Members:
        """The members of one slot."""
        number: int = self.set_of[slot]
        return self._sets.values[number]

    def passing(
        self, clauses: Collection[Collection[int]], forbidden: Collection[int], masks: Masks
    ) -> NDArray[np.bool_]:
        """Mask of the slots that have at least one member of every clause, and no forbidden member.

        Read-only, because it is cached in *masks*.
        """
        sets_that_meet: list[NDArray[np.bool_]] = []  # computed once, and only if some block changed

        def meets(block: NDArray[np.int32]) -> NDArray[np.bool_]:
            if not sets_that_meet:
                sets_that_meet.append(self.sets_passing(clauses, forbidden))
            return sets_that_meet[0].take(block)  # half the time of an index of 32 bits

        condition = (self._what, tuple(map(frozenset, clauses)), frozenset(forbidden))
        return masks.get(condition, (self.set_of,), meets)

    def sets_passing(self, clauses: Iterable[Collection[int]], forbidden: Iterable[int]) -> NDArray[np.bool_]:
        """Mask of the sets that meet these conditions, by number."""
        number = len(self._sets)
        passing = np.ones(number, np.bool_)
        for clause in clauses:
            meets = np.zeros(number, np.bool_)
            for member in clause:
                meets[self._sets.with_member(member, number)] = True
            passing &= meets
        for member in forbidden:
            passing[self._sets.with_member(member, number)] = False
        return passing

    def in_use(self) -> set[int]:
        """Members that at least one slot has."""
        numbers = set().union(*(np.unique(block).tolist() for block in self.set_of.blocks))
        return {member for number in numbers for member in self._sets.values[number]}
