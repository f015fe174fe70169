"""Columns in blocks: a value per slot, stored so that a change of a few values copies little.

Snapshots are immutable, so a change makes a new column. It shares all blocks without a change with the old one. Each
block has a serial number, which caches use as a key for results computed from the block.

A column of which few slots have a value is `Sparse` instead: its memory follows these slots, not the whole site.
"""

from __future__ import annotations

import itertools
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

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
