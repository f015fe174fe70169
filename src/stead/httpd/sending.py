"""The rest of an answer that its client has not read yet: what the socket did not accept at once."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from stead.httpd.budget import Budget

PART = 64 * 1024
"""Bytes of an answer that the transport receives at a time."""


class Sending:
    """The pieces that remain. Each is released once the transport has it.

    Attributes:
        size: bytes of the whole rest, when it began.
    """

    def __init__(self, pieces: Sequence[bytes], sent: int, budget: Budget) -> None:
        """*pieces* without their first *sent* bytes; the remaining bytes are counted in *budget*."""
        self.size = sum(map(len, pieces)) - sent
        self._pieces = deque[memoryview](memoryview(piece) for piece in pieces)
        self._skip(sent)
        self._remaining = self.size
        self._budget = budget
        budget.add(self.size)

    def _skip(self, size: int) -> None:
        pieces = self._pieces
        while pieces and len(pieces[0]) <= size:
            size -= len(pieces.popleft())
        if size:
            pieces[0] = pieces[0][size:]

    def write(self, write: Callable[[memoryview], object], may_write: Callable[[], bool]) -> bool:
        """Call *write* with parts while *may_write*. Returns whether nothing remains."""
        pieces = self._pieces
        while pieces and may_write():
            part = pieces.popleft()
            if len(part) > PART:
                pieces.appendleft(part[PART:])
                part = part[:PART]
            self._count(len(part))
            write(part)
        return not pieces

    def drop(self) -> None:
        """Release all that remains."""
        self._pieces.clear()
        self._count(self._remaining)

    def _count(self, size: int) -> None:
        self._remaining -= size
        self._budget.give_back(size)
