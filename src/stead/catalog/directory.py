"""Directories: immutable maps of a whole site, of which a copy with a few changed entries is cheap.

A directory has an index, which is compact and never changes, and what changed since the index was made, in maps of
Python.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

K = TypeVar("K")
V = TypeVar("V")
V_co = TypeVar("V_co", covariant=True)

BUCKETS = 1024

_NO_CHANGES: tuple[dict[Any, Any], ...] = ({},) * BUCKETS


class Index(Protocol[K, V_co]):
    """A map that never changes."""

    def __len__(self) -> int: ...

    def get(self, key: K, /) -> V_co | None:
        """The value of *key*; None if it has none."""

    def items(self) -> Iterator[tuple[K, V_co]]:
        """All entries, in any order."""


class Directory(Generic[K, V]):
    """A map in buckets by the hash of the key. A change copies only the buckets of the changed keys."""

    def __init__(
        self, index: Index[K, V], buckets: tuple[dict[K, V | None], ...] = _NO_CHANGES, size: int | None = None
    ) -> None:
        """The entries of *index*; use :meth:`replaced` to change entries.

        Args:
            buckets: entries that differ from those of *index*; None for a key that is gone.
            size: number of all entries; None for that of *index*.
        """
        self.index: Index[K, V] = index
        self._buckets: tuple[dict[K, V | None], ...] = buckets
        self._size = len(index) if size is None else size

    def __len__(self) -> int:
        return self._size

    def get(self, key: K) -> V | None:
        """The value of *key*; None if it has none."""
        bucket = self._buckets[hash(key) % BUCKETS]
        value = bucket.get(key)
        if value is None and key not in bucket:
            return self.index.get(key)
        return value

    @property
    def is_index(self) -> bool:
        """Whether all entries are those of the index."""
        return self._buckets is _NO_CHANGES

    def has_changed(self, key: K) -> bool:
        """Whether the value of *key* changed since the index was made."""
        return key in self._buckets[hash(key) % BUCKETS]

    def items(self) -> Iterator[tuple[K, V]]:
        """All entries, in any order."""
        for key, value in self.index.items():
            if not self.has_changed(key):
                yield key, value
        for key, new in itertools.chain.from_iterable(bucket.items() for bucket in self._buckets):
            if new is not None:
                yield key, new

    def replaced(self, gone: Iterable[K], new: Mapping[K, V]) -> Directory[K, V]:
        """A directory without the keys *gone*, which must exist, then with the entries of *new* added or replaced."""
        changes: dict[int, dict[K, V | None]] = defaultdict(dict)
        size = self._size
        for key in gone:
            changes[hash(key) % BUCKETS][key] = None
            size -= 1
        for key, value in new.items():
            of_bucket = changes[hash(key) % BUCKETS]
            size += (of_bucket[key] if key in of_bucket else self.get(key)) is None
            of_bucket[key] = value
        if not changes:
            return self
        buckets = list(self._buckets)
        for number, of_bucket in changes.items():
            bucket = buckets[number] | of_bucket
            # A key that is gone needs an entry only if the index has it.
            for key in [key for key, value in of_bucket.items() if value is None and self.index.get(key) is None]:
                del bucket[key]
            buckets[number] = bucket
        return Directory(self.index, tuple(buckets), size)
