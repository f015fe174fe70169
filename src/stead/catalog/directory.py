"""Directories: immutable maps. A copy with a few changed entries is cheap. A load fills a map that grows instead."""

from __future__ import annotations

import itertools
from collections import defaultdict
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from typing import Self

K = TypeVar("K", str, int)
V = TypeVar("V")

BUCKETS = 1024


class Directory(Generic[K, V]):
    """A map in buckets by the hash of the key. A change copies only the buckets of the changed keys."""

    def __init__(self, buckets: tuple[dict[K, V], ...] = ({},) * BUCKETS, size: int = 0) -> None:
        """Empty by default; use :meth:`replaced` to add entries."""
        self._buckets: tuple[dict[K, V], ...] = buckets
        self._size = size

    def __len__(self) -> int:
        return self._size

    def get(self, key: K) -> V | None:
        """The value of *key*; None if it has none."""
        return self._buckets[hash(key) % BUCKETS].get(key)

    def __getitem__(self, key: K) -> V:
        """The value of *key*.

        Raises:
            KeyError
        """
        return self._buckets[hash(key) % BUCKETS][key]

    def items(self) -> Iterator[tuple[K, V]]:
        """All entries, in any order."""
        return itertools.chain.from_iterable(bucket.items() for bucket in self._buckets)

    def replaced(self, gone: Iterable[K], new: Mapping[K, V]) -> Directory[K, V]:
        """A directory without the keys *gone*, which must exist, then with the entries of *new* added or replaced."""
        removed: dict[int, list[K]] = defaultdict(list)
        added: dict[int, dict[K, V]] = defaultdict(dict)
        for key in gone:
            removed[hash(key) % BUCKETS].append(key)
        for key, value in new.items():
            added[hash(key) % BUCKETS][key] = value
        if not (removed or added):
            return self
        buckets, size = list(self._buckets), self._size
        for number in removed.keys() | added.keys():
            bucket = dict(buckets[number])
            size -= len(bucket)
            for key in removed.get(number, ()):
                del bucket[key]
            bucket.update(added.get(number, ()))
            size += len(bucket)
            buckets[number] = bucket
        return Directory(tuple(buckets), size)

    def growing(self) -> Growing[K, V]:
        """A map with the same entries that is filled in place."""
        return Growing(tuple([dict(bucket) for bucket in self._buckets]), self._size)


class Growing(Directory[K, V]):
    """A map that a load fills portion by portion, before any reader has it.

    A portion has keys for nearly all buckets. Copying them for each portion would take time in the square of the
    number of providers.
    """

    def replaced(self, gone: Iterable[K], new: Mapping[K, V]) -> Self:
        """Remove the keys *gone*, which must exist, then add or replace the entries of *new*; returns this object."""
        buckets = self._buckets
        removed = list(gone)  # it may be computed from this map
        for key in removed:
            del buckets[hash(key) % BUCKETS][key]
        for key, value in new.items():
            buckets[hash(key) % BUCKETS][key] = value
        self._size = sum(map(len, buckets))
        return self

    def settled(self) -> Directory[K, V]:
        """The entries as an immutable map. This map must not be used any more."""
        return Directory(self._buckets, self._size)
