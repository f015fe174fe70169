"""Interned values: a cloud has many providers of few kinds, so each distinct value is stored once, by number."""

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
    """Hashable values by number; number 0 is the first value, which means "none".

    All snapshots share one object. That is safe because it only grows: older snapshots never use later numbers.
    """

    def __init__(self, first: T) -> None:
        self.values: list[T] = [first]
        self._numbers: dict[T, int] = {first: 0}

    def __len__(self) -> int:
        return len(self.values)

    def emptied(self) -> Self:
        """A new object with only the first value."""
        return type(self)(self.values[0])

    def numbers(self, values: Iterable[T]) -> list[int]:
        """The number of each of *values*; new ones get the next numbers."""
        given, number_of = list(values), self._numbers
        # Nearly all values of a load are known, and this is the fastest way to look them up.
        numbers = [number_of.get(value, -1) for value in given]
        if -1 in numbers:
            for place, value in enumerate(given):
                if numbers[place] == -1:
                    if value not in number_of:
                        number_of[value] = len(self.values)
                        self.values.append(value)
                    numbers[place] = number_of[value]
        return numbers

    def compacted(self, numbers: Blocks[np.int32]) -> tuple[Self, Blocks[np.int32]]:
        """These values and *numbers*, a column of them; renumbered if most values are no longer in use."""
        # A new object, because older snapshots still use the old numbers.
        if len(self) <= 2 * numbers.size + _SPARE:
            return self, numbers
        used = np.unique(np.concatenate([[0], *map(np.unique, numbers.blocks)]))
        fresh = self.emptied()
        renumbered: NDArray[np.int32] = np.zeros(len(self), np.int32)
        renumbered[used] = fresh.numbers(self.values[number] for number in used.tolist())
        return fresh, numbers.mapped(lambda block: renumbered[block])
