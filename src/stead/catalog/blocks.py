"""Columns in blocks: a value per slot, stored so that a change of a few values copies little.

Snapshots are immutable, so a change makes a new column. It shares all blocks without a change with the old one. Each
block has a serial number, which caches use as a key for results computed from the block.
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
