"""Cached masks: the slots that meet a condition, computed again only for blocks that changed."""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from stead.catalog.blocks import BLOCK

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from numpy.typing import NDArray

    from stead.catalog.blocks import Blocks

    Mask = NDArray[np.bool_]

MOST_BYTES = 32 << 20
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
            while self._bytes > MOST_BYTES and len(self._kept) > 1:
                oldest = next(iter(self._kept))
                self._bytes -= self._kept.pop(oldest).mask.nbytes
