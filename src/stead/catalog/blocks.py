"""What a snapshot is made of: columns, texts and maps, stored so that a change of a few values copies little.

Snapshots are immutable, so a change makes a new column. It shares all blocks without a change with the old one. Each
block has a serial number, which caches use as a key for results computed from the block.

A column of which few slots have a value is `Sparse` instead: its memory follows these slots, not the whole site.
"""

from __future__ import annotations

import itertools
import threading
from bisect import bisect_left
from collections import defaultdict
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar, cast
from zlib import crc32

import numpy as np

from stead.domain.provider import Slot

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from typing import Self

    from numpy.typing import NDArray


T = TypeVar("T", bound="np.generic")

_SHIFT = 13

BLOCK = 1 << _SHIFT
"""Slots in one block: small enough to be copied in microseconds, large enough for vector operations."""

_FEW = 64
"""Up to this number of values, single look-ups are faster than joining the blocks."""

_FEW_CHANGED = 16
"""Up to this number of values, changing one by one is faster than the vector operations."""

_serials = itertools.count(1)


class Blocks(Generic[T]):
    """One value per slot; immutable."""

    def __init__(
        self, blocks: tuple[NDArray[T], ...], serials: tuple[int, ...], size: int, fill: Any, dtype: np.dtype[T]
    ) -> None:
        """Use :meth:`none` and :meth:`replaced`.

        Args:
            blocks: all but the last have ``BLOCK`` values.
            serials: a number for each block; blocks with the same number are identical.
            fill: the value of a slot that was not set.
        """
        self.blocks = blocks
        self.serials = serials
        self.size = size
        self._fill = fill
        self.dtype = dtype

    @classmethod
    def none(cls, dtype: type[T], fill: Any) -> Blocks[T]:
        """No slots at all."""
        return cls((), (), 0, fill, np.dtype(dtype))

    def holding(self, values: NDArray[T]) -> Blocks[T]:
        """A column of the same kind with exactly *values*, which must not change afterwards."""
        blocks = tuple([values[start : start + BLOCK] for start in range(0, len(values), BLOCK)])
        column = Blocks(blocks, tuple([next(_serials) for _ in blocks]), len(values), self._fill, self.dtype)
        column.__dict__["whole"] = values  # without a copy
        return column

    def only(self, slots: NDArray[np.integer]) -> Blocks[T]:
        """A column with the values at *slots* alone, in their order."""
        return self.holding(self.at(slots))

    def differing(self, other: Blocks[T]) -> NDArray[np.int64]:
        """The slots at which two columns have different values, or only one of them has any; ascending."""
        differing = []
        for number in range(max(len(self.blocks), len(other.blocks))):
            pair = [column.blocks[number] if number < len(column.blocks) else None for column in (self, other)]
            own, others = (np.empty(0, self.dtype) if block is None else block for block in pair)
            if own is others:
                continue
            both = min(len(own), len(others))
            start = number << _SHIFT
            differing.append(np.flatnonzero(own[:both] != others[:both]) + start)
            differing.append(np.arange(start + both, start + max(len(own), len(others))))
        return np.concatenate(differing) if differing else np.empty(0, np.int64)

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, slot: int) -> Any:
        """One value, as a Python object."""
        return self.blocks[slot >> _SHIFT].item(slot & (BLOCK - 1))

    @cached_property
    def whole(self) -> NDArray[T]:
        """All values, shape ``(size,)``."""
        if len(self.blocks) == 1:
            return self.blocks[0]
        return np.concatenate(self.blocks) if self.blocks else np.empty(0, self.dtype)

    def at(self, slots: NDArray[np.integer]) -> NDArray[T]:
        """The values at *slots*, which may have any shape."""
        # Once the blocks are joined, single look-ups save nothing.
        if len(self.blocks) > 1 and slots.size <= _FEW and "whole" not in self.__dict__:
            few = np.empty(slots.size, self.dtype)
            few[:] = [self[slot] for slot in slots.ravel().tolist()]
            return few.reshape(slots.shape)
        values: NDArray[T] = self.whole[slots]
        return values

    def replaced(self, slots: NDArray[np.int64], values: Any, size: int) -> Blocks[T]:
        """A column with *values* (one for all, or one for each) at *slots* (ascending), for at least *size* slots.

        Returns this object if nothing changes, so that callers can compare by identity.
        """
        if size <= self.size and len(slots) <= _FEW_CHANGED:
            return self._with_few(slots.tolist(), values)
        new = np.empty(len(slots), self.dtype)
        new[:] = values
        blocks, serials = self._grown(max(size, self.size))
        changed = size > self.size
        for number, here in by_block(slots):
            block, at, values_here = blocks[number], slots[here] & (BLOCK - 1), new[here]
            # A block that keeps its values keeps its serial, and so the masks computed from it stay valid.
            if not (block[at] == values_here).all():
                blocks[number] = block = block.copy()
                block[at] = values_here
                serials[number] = next(_serials)
                changed = True
        if not changed:
            return self
        return Blocks(tuple(blocks), tuple(serials), max(size, self.size), self._fill, self.dtype)

    def _with_few(self, slots: Sequence[int], values: Any) -> Blocks[T]:
        """`replaced` without new slots, value by value."""
        each = itertools.repeat(values) if isinstance(values, int) else values
        blocks, serials = list(self.blocks), list(self.serials)
        changed = False
        for slot, value in zip(slots, each, strict=False):
            number, at = slot >> _SHIFT, slot & (BLOCK - 1)
            block = blocks[number]
            if block.item(at) == value:
                continue
            if block is self.blocks[number]:
                block = blocks[number] = block.copy()
                serials[number] = next(_serials)
                changed = True
            block[at] = value
        return Blocks(tuple(blocks), tuple(serials), self.size, self._fill, self.dtype) if changed else self

    def distinct(self) -> NDArray[T]:
        """The values that occur, ascending; *fill* is among them if no slot has a value."""
        return np.unique(np.concatenate([np.array([self._fill], self.dtype), *map(np.unique, self.blocks)]))

    @property
    def number(self) -> int:
        """Number of slots that have another value than *fill*."""
        return sum(int(np.count_nonzero(block != self._fill)) for block in self.blocks)

    @property
    def nbytes(self) -> int:
        """Memory of the values, in bytes; blocks that all columns share do not count."""
        shared = _constant(self.dtype, self._fill)
        return sum(block.nbytes for block in self.blocks if block is not shared and block.base is not shared)

    def mapped(self, function: Callable[[NDArray[T]], NDArray[T]]) -> Blocks[T]:
        """The column with *function* applied to each block; its results have the same shape."""
        blocks = tuple(function(block) for block in self.blocks)
        return Blocks(blocks, tuple(next(_serials) for _ in blocks), self.size, self._fill, self.dtype)

    def _grown(self, size: int) -> tuple[list[NDArray[T]], list[int]]:
        blocks, serials = list(self.blocks), list(self.serials)
        if size == self.size:
            return blocks, serials
        if blocks and len(blocks[-1]) < BLOCK:
            start = len(blocks) - 1 << _SHIFT
            longer = np.full(min(size - start, BLOCK), self._fill, self.dtype)
            longer[: len(blocks[-1])] = blocks[-1]
            blocks[-1], serials[-1] = longer, next(_serials)
        while len(blocks) << _SHIFT < size:
            length = min(size - (len(blocks) << _SHIFT), BLOCK)
            blocks.append(_constant(self.dtype, self._fill)[:length])
            serials.append(next(_serials))
        return blocks, serials


class Sparse(Generic[T]):
    """One value per slot, of which few have another value than *fill*; immutable.

    A value takes its own memory and 8 bytes. A look-up searches, so it takes longer than in :class:`Blocks`.
    """

    __slots__ = ("_fill", "dtype", "size", "slots", "values")

    def __init__(self, slots: NDArray[np.int64], values: NDArray[T], size: int, fill: Any, dtype: np.dtype[T]) -> None:
        """The column with *values* at *slots* (ascending), and *fill* elsewhere.

        Columns of the same slots may share the array *slots*.
        """
        self.slots = slots
        self.values = values
        self.size = size
        self._fill = fill
        self.dtype = dtype

    @property
    def number(self) -> int:
        """Number of slots that have a value."""
        return len(self.slots)

    @property
    def nbytes(self) -> int:
        """Memory of the slots and values, in bytes."""
        return self.slots.nbytes + self.values.nbytes

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, slot: int) -> Any:
        """One value, as a Python object."""
        place = int(self.slots.searchsorted(slot))
        return self.values.item(place) if place < len(self.slots) and self.slots.item(place) == slot else self._fill

    @property
    def whole(self) -> NDArray[T]:
        """All values, shape ``(size,)``: made for this caller, and not kept."""
        whole = np.full(self.size, self._fill, self.dtype)
        whole[self.slots] = self.values
        return whole

    def at(self, slots: NDArray[np.integer]) -> NDArray[T]:
        """The values at *slots*, which may have any shape."""
        # Each look-up of a search costs about as much as four slots of a whole column.
        if slots.size > _FEW and slots.size * 4 > self.size:
            values: NDArray[T] = self.whole[slots]
            return values
        return self._searched(slots)

    def _searched(self, slots: NDArray[np.integer]) -> NDArray[T]:
        if not len(self.slots):
            return np.full(slots.shape, self._fill, self.dtype)
        places = self.slots.searchsorted(slots)
        values: NDArray[T] = self.values.take(places, mode="clip")
        values[self.slots.take(places, mode="clip") != slots] = self._fill
        return values

    def only(self, slots: NDArray[np.integer]) -> Blocks[T]:
        """A column with the values at *slots* alone, in their order."""
        return Blocks.none(self.dtype.type, self._fill).holding(self.at(slots))

    def replaced(self, slots: NDArray[np.int64], values: Any, size: int) -> Sparse[T]:
        """A column with *values* (one for all, or one for each) at *slots* (ascending), for at least *size* slots.

        Returns this object if nothing changes.
        """
        new = np.empty(len(slots), self.dtype)
        new[:] = values
        size = max(size, self.size)
        before = self._searched(slots)
        if (before == new).all():
            return self.grown(size)
        if not ((before == self._fill) | (new == self._fill)).any():
            # The same slots have values, so the new column shares their array.
            all_values = self.values.copy()
            all_values[self.slots.searchsorted(slots)] = new
            return Sparse(self.slots, all_values, size, self._fill, self.dtype)
        is_set = new != self._fill
        if not len(self.slots):
            return Sparse(slots[is_set], new[is_set], size, self._fill, self.dtype)
        stays = np.ones(len(self.slots), np.bool_)
        # Columns that share an array of slots may have *fill* among their values, so the slots decide.
        places = self.slots.searchsorted(slots)
        stays[places[self.slots.take(places, mode="clip") == slots]] = False
        all_slots = np.concatenate([self.slots[stays], slots[is_set]])
        order = np.argsort(all_slots)
        all_values = np.concatenate([self.values[stays], new[is_set]])[order]
        return Sparse(all_slots[order], all_values, size, self._fill, self.dtype)

    def grown(self, size: int) -> Sparse[T]:
        """The column for *size* slots; the new ones have no value."""
        return self if size == self.size else Sparse(self.slots, self.values, size, self._fill, self.dtype)

    def distinct(self) -> NDArray[T]:
        """The values that occur, and *fill*; ascending."""
        return np.unique(np.append(self.values, np.array([self._fill], self.dtype)))

    def mapped(self, function: Callable[[NDArray[T]], NDArray[T]]) -> Sparse[T]:
        """The column with *function* applied to its values; *fill* must not change."""
        return Sparse(self.slots, function(self.values), self.size, self._fill, self.dtype)


@lru_cache
def _constant(dtype: np.dtype[T], fill: Any) -> NDArray[T]:
    """A block with *fill* in every slot. All columns share it, so it is read-only."""
    block = np.full(BLOCK, fill, dtype)
    block.flags.writeable = False
    return block


def by_block(slots: NDArray[np.integer]) -> Iterator[tuple[int, slice]]:
    """The number of each block that has some of *slots* (ascending), and the part of *slots* in it."""
    if not len(slots):
        return
    numbers = slots >> _SHIFT
    if numbers[0] == numbers[-1]:
        yield int(numbers[0]), slice(None)
        return
    bounds = [0, *(np.flatnonzero(np.diff(numbers)) + 1).tolist(), len(slots)]
    for start, stop in itertools.pairwise(bounds):
        yield int(numbers[start]), slice(start, stop)


# Columns of texts: a text per slot in UTF-8, stored in blocks as columns of numbers are.
#
# A uuid takes 36 bytes and its end four. As an object of Python it would take 93, which no file could be mapped to.


_FEW_TEXTS = 16
"""Up to this number of texts of a block, single texts are read or replaced faster than the whole block."""

_HEAD = 8
"""Bytes of a text that fit into a number."""

# Half of a surrogate pair is no text, but a database can hold one.
_SURROGATES = "surrogatepass"


class TextBlock:
    """The texts of ``BLOCK`` slots, or fewer in the last block; immutable."""

    def __init__(self, data: bytes | memoryview, ends: NDArray[np.int32]) -> None:
        """*data* has the texts one after the other; *ends* has the place after each of them."""
        self.data = data
        self.ends = ends

    @classmethod
    def of(cls, texts: Iterable[str]) -> TextBlock:
        """A block with these texts."""
        encoded = [encode(text) for text in texts]
        return cls(b"".join(encoded), np.cumsum([len(each) for each in encoded], dtype=np.int32))

    def __len__(self) -> int:
        return len(self.ends)

    @cached_property
    def _width(self) -> int | None:
        """The bytes of each text; None if they differ, or if there is no text."""
        width = self.ends.item(0) if len(self.ends) else 0
        return width if width and np.array_equal(self.ends, np.arange(1, len(self.ends) + 1) * width) else None

    def __getitem__(self, place: int) -> str:
        return _decode(self._encoded(place))

    def _encoded(self, place: int) -> bytes | memoryview:
        return self.data[self.ends.item(place - 1) if place else 0 : self.ends.item(place)]

    def at(self, places: Sequence[int]) -> list[str]:
        """The texts at *places*."""
        if len(places) <= _FEW_TEXTS:
            return [self[place] for place in places]
        ends, text = [*self.ends.tolist(), 0], _decode(self.data)
        # If all characters are ASCII, as in nearly all blocks, the places of bytes are those of characters.
        if len(text) == len(self.data):
            return [text[ends[place - 1] : ends[place]] for place in places]
        return [_decode(self.data[ends[place - 1] : ends[place]]) for place in places]

    def matrix(self, places: NDArray[np.integer], width: int) -> NDArray[np.uint8] | None:
        """The bytes of the texts at *places*, shape ``(places, width)``; None if one has not *width* bytes."""
        data = np.frombuffer(self.data, np.uint8)
        if self._width == width:
            rows: NDArray[np.uint8] = data.reshape(-1, width)[places]
            return rows
        starts = np.concatenate([np.zeros(1, np.int32), self.ends])[places]
        if (self.ends[places] - starts != width).any():
            return None
        gathered: NDArray[np.uint8] = data[starts[:, None] + np.arange(width)]
        return gathered

    def heads(self, places: NDArray[np.integer]) -> NDArray[np.uint64]:
        """The first bytes of the texts at *places* as numbers, see `Texts.heads`."""
        width = self._width
        if width is not None and width >= _HEAD:
            rows = np.frombuffer(self.data, np.uint8).reshape(-1, width)[places, :_HEAD]
        else:
            # Zeros behind the last text, so that the bytes of a shorter head exist.
            data = np.frombuffer(bytes(self.data) + bytes(_HEAD), np.uint8)
            starts, within = np.concatenate([np.zeros(1, np.int32), self.ends])[places], np.arange(_HEAD)
            lengths = self.ends[places] - starts
            rows = np.where(within < lengths[:, None], data[starts[:, None] + within], 0).astype(np.uint8)
        return np.ascontiguousarray(rows).view(">u8").ravel().astype(np.uint64)

    def replaced(self, places: Sequence[int], texts: Sequence[str]) -> TextBlock:
        """The block with *texts* at *places*; this object if it has them already."""
        if len(places) <= _FEW_TEXTS:
            block = self
            for place, text in zip(places, texts, strict=True):
                block = block._with(place, encode(text))
            return block
        before = self.at(range(len(self)))
        after = before.copy()
        for place, text in zip(places, texts, strict=True):
            after[place] = text
        return self if after == before else TextBlock.of(after)

    def _with(self, place: int, encoded: bytes) -> TextBlock:
        if self._encoded(place) == encoded:
            return self
        start, end = self.ends.item(place - 1) if place else 0, self.ends.item(place)
        ends = self.ends.copy()
        ends[place:] += len(encoded) - (end - start)
        return TextBlock(b"".join((self.data[:start], encoded, self.data[end:])), ends)

    def grown(self, size: int) -> TextBlock:
        """The block with empty texts behind its own, for *size* slots."""
        last = self.ends[-1:] if len(self.ends) else np.zeros(1, np.int32)
        return TextBlock(self.data, np.concatenate([self.ends, np.repeat(last, size - len(self.ends))]))


class Texts:
    """One text per slot; immutable. A slot that was not set has the empty text."""

    def __init__(self, blocks: tuple[TextBlock, ...] = ()) -> None:
        """All *blocks* but the last have ``BLOCK`` texts."""
        self.blocks = blocks
        self.size = (len(blocks) - 1) * BLOCK + len(blocks[-1]) if blocks else 0

    @classmethod
    def of(cls, texts: Sequence[str]) -> Texts:
        """A column with exactly *texts*."""
        return cls(tuple(TextBlock.of(texts[start : start + BLOCK]) for start in range(0, len(texts), BLOCK)))

    def only(self, slots: NDArray[np.integer]) -> Texts:
        """A column with the texts at *slots* alone, in their order."""
        return Texts.of(self.at(slots).tolist())

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, slot: int) -> str:
        return self.blocks[slot // BLOCK][slot % BLOCK]

    def at(self, slots: NDArray[np.integer]) -> NDArray[np.object_]:
        """The texts at *slots*, which may have any shape."""
        texts = np.empty(slots.size, np.object_)
        for block, where, places in self._parts(slots.ravel()):
            texts[where] = block.at(places.tolist())
        return texts.reshape(slots.shape)

    def matrix(self, slots: NDArray[np.integer], width: int) -> NDArray[np.uint8] | None:
        """The bytes of the texts at *slots*, in a last dimension of *width*; None if one has another length."""
        rows = np.empty((slots.size, width), np.uint8)
        for block, where, places in self._parts(slots.ravel()):
            of_block = block.matrix(places, width)
            if of_block is None:
                return None
            rows[where] = of_block
        return rows.reshape(*slots.shape, width)

    def heads(self, slots: NDArray[np.int64]) -> NDArray[np.uint64]:
        """The first eight bytes of the texts at *slots* as numbers.

        Of two texts, the lesser one has the lesser number, or both numbers are equal.
        """
        heads = np.empty(len(slots), np.uint64)
        for block, where, places in self._parts(slots):
            heads[where] = block.heads(places)
        return heads

    def _parts(
        self, slots: NDArray[np.integer]
    ) -> Iterator[tuple[TextBlock, NDArray[np.integer] | slice, NDArray[np.integer]]]:
        """Each block that has some of *slots*, where they are in *slots*, and their places in the block."""
        numbers = slots // BLOCK
        if not len(slots):
            return
        if (numbers == numbers[0]).all():
            yield self.blocks[numbers[0]], slice(None), slots % BLOCK
            return
        order = np.argsort(numbers, kind="stable")
        for number, here in by_block(slots[order]):
            yield self.blocks[number], order[here], slots[order[here]] % BLOCK

    def replaced(self, slots: NDArray[np.int64], texts: Sequence[str], size: int) -> Texts:
        """A column with *texts* at *slots* (ascending), for at least *size* slots; this object if nothing changes."""
        blocks = list(self._grown(size))
        for number, here in by_block(slots):
            blocks[number] = blocks[number].replaced((slots[here] % BLOCK).tolist(), texts[here])
        unchanged = len(blocks) == len(self.blocks) and all(map(lambda new, old: new is old, blocks, self.blocks))
        return self if unchanged else Texts(tuple(blocks))

    def _grown(self, size: int) -> Iterator[TextBlock]:
        number = 0
        for number, block in enumerate(self.blocks, 1):
            missing = min(size - (number - 1) * BLOCK, BLOCK) > len(block)
            yield block.grown(min(size - (number - 1) * BLOCK, BLOCK)) if missing else block
        for start in range(number * BLOCK, size, BLOCK):
            yield TextBlock(b"", np.zeros(min(size - start, BLOCK), np.int32))


def encode(text: str) -> bytes:
    """The bytes of a text in a column."""
    return text.encode("utf-8", _SURROGATES)


def _decode(data: bytes | memoryview) -> str:
    return str(data, "utf-8", _SURROGATES)


# Interned values: a cloud has many providers of few kinds, so each distinct value is stored once, by number.


Value = TypeVar("Value")

Numbers = TypeVar("Numbers", bound=Blocks[np.int32] | Sparse[np.int32])

_SPARE = 1024
"""The weight of values out of use that a column for many slots tolerates: to find them takes a pass over it."""

_SPARE_OF_FEW = 16
"""The same for a column for few slots."""


class ValueTable(Generic[Value]):
    """Hashable values by number; number 0 is the first value, which means "none".

    All snapshots share one object. That is safe because it only grows: older snapshots never use later numbers.
    """

    def __init__(self, first: Value) -> None:
        self.values: list[Value] = [first]
        self.weight = 0
        """About the memory of the values: the sum of their weights, without the first one."""
        self._numbers: dict[Value, int] = {first: 0}
        self._checked_up_to = 0
        self._adding = threading.Lock()

    def __len__(self) -> int:
        return len(self.values)

    def weight_of(self, value: Value) -> int:
        """About the memory of a value, in multiples of that of a small one."""
        del value
        return 1

    def emptied(self) -> Self:
        """A new object with only the first value."""
        return type(self)(self.values[0])

    def numbers(self, values: Iterable[Value]) -> list[int]:
        """The number of each of *values*; new ones get the next numbers."""
        given, number_of = list(values), self._numbers
        # Nearly all values of a load are known, and this is the fastest way to look them up.
        numbers = [number_of.get(value, -1) for value in given]
        if -1 in numbers:
            # A what-if adds its values while a refresh adds others.
            with self._adding:
                for place, value in enumerate(given):
                    if numbers[place] == -1:
                        if value not in number_of:
                            # The value before its number: other threads look numbers up without the lock.
                            self.values.append(value)
                            self.weight += self.weight_of(value)
                            number_of[value] = len(self.values) - 1
                        numbers[place] = number_of[value]
        return numbers

    def compacted(self, numbers: Numbers) -> tuple[Self, Numbers]:
        """These values and *numbers*, a column of them; renumbered if most values are no longer in use."""
        # By weight, not by number: a provider whose 1,000 traits change 1,000 times leaves a million members behind.
        if self.weight <= max(_SPARE_OF_FEW if isinstance(numbers, Sparse) else _SPARE, self._checked_up_to):
            return self, numbers
        used: list[int] = numbers.distinct().tolist()
        used_weight = sum(self.weight_of(self.values[number]) for number in used if number)
        if 2 * used_weight >= self.weight:
            # The next pass is due when as much was added as is in use, so passes cost a constant time per added value.
            self._checked_up_to = self.weight + used_weight
            return self, numbers
        # A new object, because older snapshots still use the old numbers.
        fresh = self.emptied()
        renumbered: NDArray[np.int32] = np.zeros(len(self), np.int32)
        renumbered[used] = fresh.numbers(self.values[number] for number in used)
        return fresh, cast("Numbers", numbers.mapped(lambda block: renumbered[block]))


# Indexes: maps in sorted arrays, for the keys of a whole site. They are made at once, and do not change.
#
# A map of Python takes about 100 bytes for an entry, an index 8 to 12. Its arrays can be mapped from a snapshot file.


class IdIndex:
    """The slot of each id."""

    def __init__(self, ids: NDArray[np.int64], slots: NDArray[np.int32]) -> None:
        """*ids* are ascending, and *slots* has the slot of each."""
        self.ids = ids
        self.slots = slots
        self._ids = memoryview(ids.data)  # of which `bisect` reads a number in a third of the time

    @classmethod
    def of(cls, ids: NDArray[np.int64], slots: NDArray[np.int32]) -> IdIndex:
        """The index of *ids* in any order."""
        order = np.argsort(ids, kind="stable")
        return cls(ids[order], slots[order])

    def __len__(self) -> int:
        return len(self.ids)

    def get(self, id_: int) -> Slot | None:
        """The slot of *id_*; None if it has none."""
        place = bisect_left(self._ids, id_)
        return Slot(self.slots.item(place)) if place < len(self._ids) and self._ids[place] == id_ else None

    def items(self) -> Iterator[tuple[int, Slot]]:
        """All ids with their slots."""
        return zip(self.ids.tolist(), self.slots.tolist(), strict=True)


class TextIndex:
    """The slot of each text of a column."""

    def __init__(self, hashes: NDArray[np.uint32], slots: NDArray[np.int32], texts: Texts) -> None:
        """*hashes* are ascending, and *slots* has the slot of each in the column *texts*."""
        self.hashes = hashes
        self.slots = slots
        self._texts = texts
        self._hashes = memoryview(hashes.data)

    @classmethod
    def of(cls, texts: Texts, slots: NDArray[np.int32]) -> TextIndex:
        """The index of the texts at *slots*, which all differ."""
        hashes = np.concatenate([_hashes(block.data, block.ends) for block in texts.blocks] or [np.empty(0, np.uint32)])
        hashes = hashes[slots]
        order = np.argsort(hashes, kind="stable")
        return cls(hashes[order], slots[order], texts)

    def __len__(self) -> int:
        return len(self.slots)

    def get(self, text: str) -> Slot | None:
        """The slot of *text*; None if it has none."""
        hash_ = crc32(encode(text))
        for place in range(bisect_left(self._hashes, hash_), len(self._hashes)):
            if self._hashes[place] != hash_:
                return None
            slot = self.slots.item(place)
            if self._texts[slot] == text:
                return Slot(slot)
        return None

    def items(self) -> Iterator[tuple[str, Slot]]:
        """All texts with their slots."""
        return zip(self._texts.at(self.slots).tolist(), self.slots.tolist(), strict=True)


def _hashes(data: bytes | memoryview, ends: NDArray[np.int32]) -> NDArray[np.uint32]:
    bounds = itertools.pairwise([0, *ends.tolist()])
    return np.fromiter((crc32(data[start:end]) for start, end in bounds), np.uint32, len(ends))


class TreeIndex:
    """The members of each tree of several providers, by root."""

    def __init__(self, roots: NDArray[np.int32], ends: NDArray[np.int32], members: NDArray[np.int32]) -> None:
        """*roots* are ascending; *members* has those of all trees, one tree after the other; *ends* has their ends."""
        self.roots = roots
        self.ends = ends
        self.members = members
        self._roots = memoryview(roots.data)

    @classmethod
    def of(cls, trees: dict[int, tuple[Slot, ...]]) -> TreeIndex:
        """The index of the trees in a map."""
        roots = sorted(trees)
        ends = np.cumsum([len(trees[root]) for root in roots], dtype=np.int32)
        members = np.fromiter(itertools.chain.from_iterable(trees[root] for root in roots), np.int32)
        return cls(np.array(roots, np.int32), ends, members)

    def __len__(self) -> int:
        return len(self.roots)

    def get(self, root: int) -> tuple[Slot, ...] | None:
        """The members of the tree of *root*; None if it has no other."""
        place = bisect_left(self._roots, root)
        if place == len(self._roots) or self._roots[place] != root:
            return None
        return tuple(self.members[self.ends.item(place - 1) if place else 0 : self.ends.item(place)].tolist())

    def matrix(self, roots: NDArray[np.int64], size: int) -> NDArray[np.int64]:
        """The members of the trees of *roots*, which all have *size* of them, shape ``(roots, size)``."""
        ends = self.ends[np.searchsorted(self.roots, roots)]
        members: NDArray[np.int64] = self.members[ends[:, None] + np.arange(-size, 0)].astype(np.int64)
        return members

    def items(self) -> Iterator[tuple[int, tuple[Slot, ...]]]:
        """All roots with the members of their trees."""
        members, start = tuple(self.members.tolist()), 0
        for root, end in zip(self.roots.tolist(), self.ends.tolist(), strict=True):
            yield root, members[start:end]
            start = end


# Directories: immutable maps of a whole site, of which a copy with a few changed entries is cheap.
#
# A directory has an index, which is compact and never changes, and what changed since the index was made, in maps of
# Python.


K = TypeVar("K")
V = TypeVar("V")
V_co = TypeVar("V_co", covariant=True)

BUCKETS = 1024

_NO_CHANGES: tuple[dict[Any, Any], ...] = ({},) * BUCKETS


class Index(Protocol[K, V_co]):
    """A map that never changes."""

    def __len__(self) -> int: ...

    def get(self, key: K, /) -> V_co | None:
        """The value of *key*; None if it has none."""

    def items(self) -> Iterator[tuple[K, V_co]]:
        """All entries, in any order."""


class Directory(Generic[K, V]):
    """A map in buckets by the hash of the key. A change copies only the buckets of the changed keys."""

    def __init__(
        self, index: Index[K, V], buckets: tuple[dict[K, V | None], ...] = _NO_CHANGES, size: int | None = None
    ) -> None:
        """The entries of *index*; use :meth:`replaced` to change entries.

        Args:
            buckets: entries that differ from those of *index*; None for a key that is gone.
            size: number of all entries; None for that of *index*.
        """
        self.index: Index[K, V] = index
        self._buckets: tuple[dict[K, V | None], ...] = buckets
        self._size = len(index) if size is None else size

    def __len__(self) -> int:
        return self._size

    def get(self, key: K) -> V | None:
        """The value of *key*; None if it has none."""
        bucket = self._buckets[hash(key) % BUCKETS]
        value = bucket.get(key)
        if value is None and key not in bucket:
            return self.index.get(key)
        return value

    @property
    def is_index(self) -> bool:
        """Whether all entries are those of the index."""
        return self._buckets is _NO_CHANGES

    def has_changed(self, key: K) -> bool:
        """Whether the value of *key* changed since the index was made."""
        return key in self._buckets[hash(key) % BUCKETS]

    def items(self) -> Iterator[tuple[K, V]]:
        """All entries, in any order."""
        for key, value in self.index.items():
            if not self.has_changed(key):
                yield key, value
        for key, new in itertools.chain.from_iterable(bucket.items() for bucket in self._buckets):
            if new is not None:
                yield key, new

    def replaced(self, gone: Iterable[K], new: Mapping[K, V]) -> Directory[K, V]:
        """A directory without the keys *gone*, which must exist, then with the entries of *new* added or replaced."""
        changes: dict[int, dict[K, V | None]] = defaultdict(dict)
        size = self._size
        for key in gone:
            changes[hash(key) % BUCKETS][key] = None
            size -= 1
        for key, value in new.items():
            of_bucket = changes[hash(key) % BUCKETS]
            size += (of_bucket[key] if key in of_bucket else self.get(key)) is None
            of_bucket[key] = value
        if not changes:
            return self
        buckets = list(self._buckets)
        for number, of_bucket in changes.items():
            bucket = buckets[number] | of_bucket
            # A key that is gone needs an entry only if the index has it.
            for key in [key for key, value in of_bucket.items() if value is None and self.index.get(key) is None]:
                del bucket[key]
            buckets[number] = bucket
        return Directory(self.index, tuple(buckets), size)
