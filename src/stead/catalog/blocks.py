"""Columns in blocks: a value per slot, kept so that changing a few of them copies little.

A snapshot never changes, so a change makes the next column. Blocks that hold nothing new are shared with it, and each
block has a serial number of its own, by which what was worked out from it can be found again.
"""

from __future__ import annotations

import itertools
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

T = TypeVar("T", bound="np.generic")

_SHIFT = 13

BLOCK = 1 << _SHIFT
"""Slots in one block: small enough to be copied in microseconds, large enough for vector operations."""

_FEW = 64
"""So many values are looked up faster one by one than by joining the blocks."""

_serials = itertools.count(1)


class Blocks(Generic[T]):
    """One value per slot; never changes."""

    def __init__(
        self, blocks: tuple[NDArray[T], ...], serials: tuple[int, ...], size: int, fill: Any, dtype: np.dtype[T]
    ) -> None:
        """Use :meth:`none` and :meth:`replaced`.

        Args:
            blocks: all but the last have ``BLOCK`` values.
            serials: a number for each block; blocks with the same number are the same.
            fill: the value of a slot that was given none.
        """
        self.blocks = blocks
        self.serials = serials
        self.size = size
        self._fill = fill
        self._dtype = dtype

    @classmethod
    def none(cls, dtype: type[T], fill: Any) -> Blocks[T]:
        """No slots at all."""
        return cls((), (), 0, fill, np.dtype(dtype))

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
        return np.concatenate(self.blocks) if self.blocks else np.empty(0, self._dtype)

    def at(self, slots: NDArray[np.integer]) -> NDArray[T]:
        """The values at *slots*, of whatever shape."""
        if len(self.blocks) > 1 and slots.size <= _FEW and "whole" not in self.__dict__:
            some = np.empty(slots.size, self._dtype)
            some[:] = [self[slot] for slot in slots.ravel().tolist()]
            return some.reshape(slots.shape)
        found: NDArray[T] = self.whole[slots]
        return found

    def replaced(self, slots: NDArray[np.int64], values: Any, size: int) -> Blocks[T]:
        """The same with *values* (one for all, or one for each) at *slots* (ascending), for *size* slots or more.

        The very same object if that changes nothing.
        """
        new = np.empty(len(slots), self._dtype)
        new[:] = values
        blocks, serials = self._grown(max(size, self.size))
        changed = size > self.size
        for number, here in _by_block(slots):
            block, at, wanted = blocks[number], slots[here] & (BLOCK - 1), new[here]
            if not (block[at] == wanted).all():
                blocks[number] = block = block.copy()
                block[at] = wanted
                serials[number] = next(_serials)
                changed = True
        if not changed:
            return self
        return Blocks(tuple(blocks), tuple(serials), max(size, self.size), self._fill, self._dtype)

    def mapped(self, function: Callable[[NDArray[T]], NDArray[T]]) -> Blocks[T]:
        """The column of what *function* makes of each block, which has the same shape."""
        blocks = tuple(function(block) for block in self.blocks)
        return Blocks(blocks, tuple(next(_serials) for _ in blocks), self.size, self._fill, self._dtype)

    def _grown(self, size: int) -> tuple[list[NDArray[T]], list[int]]:
        blocks, serials = list(self.blocks), list(self.serials)
        if size == self.size:
            return blocks, serials
        if blocks and len(blocks[-1]) < BLOCK:
            start = len(blocks) - 1 << _SHIFT
            longer = np.full(min(size - start, BLOCK), self._fill, self._dtype)
            longer[: len(blocks[-1])] = blocks[-1]
            blocks[-1], serials[-1] = longer, next(_serials)
        while len(blocks) << _SHIFT < size:
            length = min(size - (len(blocks) << _SHIFT), BLOCK)
            blocks.append(_constant(self._dtype, self._fill)[:length])
            serials.append(next(_serials))
        return blocks, serials


@lru_cache
def _constant(dtype: np.dtype[T], fill: Any) -> NDArray[T]:
    """A block of nothing but *fill*, shared by all who have one."""
    block = np.full(BLOCK, fill, dtype)
    block.flags.writeable = False
    return block


def _by_block(slots: NDArray[np.int64]) -> Iterator[tuple[int, slice]]:
    """The numbers of the blocks in which *slots* (ascending) lie, each with where in *slots*."""
    if not len(slots):
        return
    numbers = slots >> _SHIFT
    if numbers[0] == numbers[-1]:
        yield int(numbers[0]), slice(None)
        return
    bounds = [0, *(np.flatnonzero(np.diff(numbers)) + 1).tolist(), len(slots)]
    for start, stop in itertools.pairwise(bounds):
        yield int(numbers[start]), slice(start, stop)
