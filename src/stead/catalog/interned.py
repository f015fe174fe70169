"""Interned values: a cloud has many providers of few kinds, so each distinct value is stored once, by number."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Generic, TypeVar, cast

import numpy as np

from stead.catalog.blocks import Blocks, Sparse

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Self

    from numpy.typing import NDArray

T = TypeVar("T")

Numbers = TypeVar("Numbers", bound=Blocks[np.int32] | Sparse[np.int32])

_SPARE = 1024
"""The weight of values out of use that a column for many slots tolerates: to find them takes a pass over it."""

_SPARE_OF_FEW = 16
"""The same for a column for few slots."""


class Interned(Generic[T]):
    """Hashable values by number; number 0 is the first value, which means "none".

    All snapshots share one object. That is safe because it only grows: older snapshots never use later numbers.
    """

    def __init__(self, first: T) -> None:
        self.values: list[T] = [first]
        self.weight = 0
        """About the memory of the values: the sum of their weights, without the first one."""
        self._numbers: dict[T, int] = {first: 0}
        self._checked_up_to = 0
        self._adding = threading.Lock()

    def __len__(self) -> int:
        return len(self.values)

    def weight_of(self, value: T) -> int:
        """About the memory of a value, in multiples of that of a small one."""
        del value
        return 1

    def emptied(self) -> Self:
        """A new object with only the first value."""
        return type(self)(self.values[0])

    def numbers(self, values: Iterable[T]) -> list[int]:
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
