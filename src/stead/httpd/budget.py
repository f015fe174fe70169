"""Bytes that all connections of a worker share. Thread-safe."""

from __future__ import annotations

import threading


class Budget:
    """A number of bytes, and how many of them are in use."""

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
        """Whether more bytes are in use than the budget has, which :meth:`add` allows."""
        return self._used > self._limit

    def is_exceeded_by(self, factor: int) -> bool:
        """Whether more than *factor* times the budget is in use."""
        return self._used > self._limit * factor

    def take(self, size: int) -> bool:
        """Use *size* more bytes. If fewer remain, return False and use none."""
        with self._lock:
            if self._used + size > self._limit:
                return False
            self._used += size
            return True

    def add(self, size: int) -> None:
        """Use *size* more bytes, even beyond the budget."""
        with self._lock:
            self._used += size

    def give_back(self, size: int) -> None:
        """Return *size* bytes to the budget."""
        if size:
            with self._lock:
                self._used -= size
