"""Bytes that all connections of a worker share. Safe under threads."""

from __future__ import annotations

import threading


class Budget:
    """So many bytes, and how many of them are in use."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._used = 0
        self._lock = threading.Lock()

    @property
    def used(self) -> int:
        """Bytes in use."""
        return self._used

    @property
    def is_exceeded(self) -> bool:
        """Whether more is in use than there is, which :meth:`add` allows."""
        return self._used > self._limit

    def take(self, size: int) -> bool:
        """Use *size* more bytes; False, and nothing is used, if there are not so many."""
        with self._lock:
            if self._used + size > self._limit:
                return False
            self._used += size
            return True

    def add(self, size: int) -> None:
        """Use *size* more bytes, whether or not there are so many."""
        with self._lock:
            self._used += size

    def give_back(self, size: int) -> None:
        """Use *size* bytes less."""
        if size:
            with self._lock:
                self._used -= size
