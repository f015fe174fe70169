"""Directories: maps that never change, of which the next one, with a few entries more or fewer, costs little."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

K = TypeVar("K", str, int)
V = TypeVar("V")

BUCKETS = 1024


class Directory(Generic[K, V]):
    """A map in buckets, by the hash of the key; a change copies only the buckets that it concerns."""

    def __init__(self, buckets: tuple[dict[K, V], ...] = ({},) * BUCKETS, size: int = 0) -> None:
        """Empty if nothing is said; use :meth:`replaced` for more."""
        self._buckets: tuple[dict[K, V], ...] = buckets
        self._size = size

    def __len__(self) -> int:
        return self._size

    def get(self, key: K) -> V | None:
        """What stands for *key*; None if nothing."""
        return self._buckets[hash(key) % BUCKETS].get(key)

    def __getitem__(self, key: K) -> V:
        """What stands for *key*.

        Raises:
            KeyError: nothing does.
        """
        return self._buckets[hash(key) % BUCKETS][key]

    def replaced(self, gone: Iterable[K], new: Mapping[K, V]) -> Directory[K, V]:
        """The same without the keys *gone*, which must be there, and then with *new* in place of or beside the rest."""
        leaving: dict[int, list[K]] = defaultdict(list)
        coming: dict[int, dict[K, V]] = defaultdict(dict)
        for key in gone:
            leaving[hash(key) % BUCKETS].append(key)
        for key, value in new.items():
            coming[hash(key) % BUCKETS][key] = value
        if not (leaving or coming):
            return self
        buckets, size = list(self._buckets), self._size
        for number in leaving.keys() | coming.keys():
            bucket = dict(buckets[number])
            size -= len(bucket)
            for key in leaving.get(number, ()):
                del bucket[key]
            bucket.update(coming.get(number, ()))
            size += len(bucket)
            buckets[number] = bucket
        return Directory(tuple(buckets), size)
