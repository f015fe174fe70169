"""Pieces: the JSON text of a large answer, joined piece by piece.

So an answer needs its memory once, which is released piece by piece as a client reads, and no single call for a large
answer blocks all other threads. Members are encoded when they are made, so cached ones are never encoded again.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

PIECE = 64 * 1024
"""Bytes of a piece; one member may be longer."""

PORTION = 512
"""Members that are joined before other requests may run; to make them takes up to some milliseconds."""


class Pieces:
    """The text of one answer."""

    def __init__(self, give_way: Callable[[], object]) -> None:
        """*give_way* lets other requests run."""
        self._give_way = give_way
        self._pieces: list[bytes] = []
        self._parts: list[bytes] = []  # of the next piece
        self._size = 0
        self._has_members = False  # of the array or object that was begun last

    def add(self, text: str) -> None:
        """Add the beginning or the end of arrays or objects."""
        self._parts.append(text.encode())
        self._has_members = False

    def add_members(self, members: Iterable[bytes]) -> None:
        """Add members, with commas between them and after those that were added before."""
        each = iter(members)
        for first in each:
            self._give_way()
            # About one piece, if the others are as long as the first: the join holds the interpreter.
            portion = [first, *islice(each, min(PORTION, PIECE // len(first)))]
            # The comma is joined with the rest, since a part that is a whole piece is not copied again.
            self._add_part(b",".join([b"", *portion] if self._has_members else portion))

    def add_joined(self, members: bytes) -> None:
        """Add members that are joined already, with a comma before each."""
        self._add_part(members if self._has_members else members[1:])

    def _add_part(self, part: bytes) -> None:
        self._has_members = True
        self._parts.append(part)
        self._size += len(part)
        if self._size >= PIECE:
            self._end_piece()

    def all(self) -> list[bytes]:
        """The whole text."""
        self._end_piece()
        return self._pieces

    def _end_piece(self) -> None:
        self._pieces.append(b"".join(self._parts))
        self._parts.clear()
        self._size = 0
