"""Indexes: maps in sorted arrays, for the keys of a whole site. They are made at once, and do not change.

A map of Python takes about 100 bytes for an entry, an index 8 to 12. Its arrays can be mapped from a snapshot file.
"""

from __future__ import annotations

import itertools
from bisect import bisect_left
from typing import TYPE_CHECKING
from zlib import crc32

import numpy as np

from stead.catalog.texts import encode
from stead.domain.provider import Slot

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from stead.catalog.texts import Texts


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
