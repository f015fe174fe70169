"""Interned values: a cloud has many providers and few kinds of them, so equal values are kept once, by number."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Self

    from numpy.typing import NDArray

    from stead.catalog.blocks import Blocks

T = TypeVar("T")

_SPARE = 1024


class Interned(Generic[T]):
    """Hashable values by their numbers; number 0 is that of the first, which stands for nothing.

    It only ever grows, so all snapshots share one: an older one never asks for a number that came later.
    """

    def __init__(self, first: T) -> None:
        self.values: list[T] = [first]
        self._numbers: dict[T, int] = {first: 0}

    def __len__(self) -> int:
        return len(self.values)

    def emptied(self) -> Self:
        """One with nothing but the first value."""
        return type(self)(self.values[0])

    def numbers(self, values: Iterable[T]) -> list[int]:
        """The number of each of *values*; new ones get the next numbers."""
        known, found = self._numbers, []
        for value in values:
            number = known.get(value)
            if number is None:
                self.values.append(value)
                number = known[value] = len(self.values) - 1
            found.append(number)
        return found

    def compacted(self, numbers: Blocks[np.int32]) -> tuple[Self, Blocks[np.int32]]:
        """The same values, and *numbers*, a column of them; anew if most values are nobody's any more."""
        if len(self) <= 2 * numbers.size + _SPARE:
            return self, numbers
        used = np.unique(np.concatenate([[0], *map(np.unique, numbers.blocks)]))
        fresh = self.emptied()
        renumbered: NDArray[np.int32] = np.zeros(len(self), np.int32)
        renumbered[used] = fresh.numbers(self.values[number] for number in used.tolist())
        return fresh, numbers.mapped(lambda block: renumbered[block])
