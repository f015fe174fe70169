"""Growing and changing arrays without touching those that a snapshot holds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

T = TypeVar("T", bound="np.generic")


def with_values(column: NDArray[T], places: NDArray[np.int64], values: Any, *, size: int, fill: Any) -> NDArray[T]:
    """*column* of length *size* with *values* at *places*; the very same array if that changes nothing."""
    new = np.asarray(values, dtype=column.dtype)
    if size == len(column) and bool((column[places] == new).all()):
        return column
    changed = np.full(size, fill, dtype=column.dtype)
    changed[: len(column)] = column
    changed[places] = new
    return changed


def places(slots: Sequence[int]) -> NDArray[np.int64]:
    """Slots as an index array."""
    return np.asarray(slots, dtype=np.int64)
