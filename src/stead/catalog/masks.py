"""Masks that are kept: which slots meet a condition, worked out again only for blocks that changed since."""

from __future__ import annotations

from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np

from stead.catalog.blocks import BLOCK

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from numpy.typing import NDArray

    from stead.catalog.blocks import Blocks

    Mask = NDArray[np.bool_]

MOST_BYTES = 32 << 20
"""What all kept masks may take together; those not asked for longest go first."""


@dataclass(frozen=True, slots=True)
class _Kept:
    mask: Mask
    serials: tuple[tuple[int, ...], ...]
    """For each block of the mask the serials of the blocks it was worked out from."""


class Masks:
    """A bounded memory of masks, shared by all snapshots of one catalog; safe under threads."""

    def __init__(self) -> None:
        self._kept: dict[Hashable, _Kept] = {}
        self._bytes = 0
        self._lock = Lock()

    def get(self, condition: Hashable, columns: tuple[Blocks[Any], ...], meets: Callable[..., Mask]) -> Mask:
        """Which slots meet *condition*; not to be written to.

        Args:
            condition: names what is asked; the answer must follow from it and from the values of *columns* alone.
            columns: of the same number of slots each.
            meets: called with a block of every column, tells which of its slots do.
        """
        serials = tuple(zip(*(column.serials for column in columns), strict=True))
        kept = self._kept.get(condition)
        if kept is not None and kept.serials == serials:
            return kept.mask
        mask = np.empty(columns[0].size, np.bool_)
        known = kept.serials if kept is not None else ()
        for number, some in enumerate(serials):
            here = slice(number * BLOCK, (number + 1) * BLOCK)
            if kept is not None and number < len(known) and known[number] == some:
                mask[here] = kept.mask[here]
            else:
                mask[here] = meets(*(column.blocks[number] for column in columns))
        mask.flags.writeable = False
        self._keep(condition, _Kept(mask, serials))
        return mask

    def _keep(self, condition: Hashable, new: _Kept) -> None:
        with self._lock:
            old = self._kept.pop(condition, None)
            self._bytes += new.mask.nbytes - (old.mask.nbytes if old else 0)
            self._kept[condition] = new
            while self._bytes > MOST_BYTES and len(self._kept) > 1:
                oldest = next(iter(self._kept))
                self._bytes -= self._kept.pop(oldest).mask.nbytes
