"""Pieces: the JSON text of a large answer, encoded piece by piece.

So an answer needs its memory once, which is released piece by piece as a client reads, and no single call for a large
answer blocks all other threads.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

PIECE = 64 * 1024
"""Characters of a piece; one member may be longer."""

PORTION = 512
"""Members that are joined before other requests may run; to make them takes up to some milliseconds."""


class Pieces:
    """The text of one answer."""

    def __init__(self, give_way: Callable[[], object]) -> None:
        """*give_way* lets other requests run."""
        self._give_way = give_way
        self._encoded: list[bytes] = []
        self._texts: list[str] = []
        self._size = 0
        self._has_members = False  # of the array or object that was begun last

    def add(self, text: str) -> None:
        """Add the beginning or the end of arrays or objects."""
        self._texts.append(text)
        self._has_members = False

    def add_members(self, texts: Iterable[str]) -> None:
        """Add members, with commas between them and after those that were added before."""
        each = iter(texts)
        for first in each:
            self._give_way()
            # About one piece, if the others are as long as the first: the join holds the interpreter.
            members = [first, *islice(each, min(PORTION, PIECE // len(first)))]
            if self._has_members:
                members.insert(0, "")  # for the comma before the first, with no other copy of the text
            self._has_members = True
            text = ",".join(members)
            self._texts.append(text)
            self._size += len(text)
            if self._size >= PIECE:
                self._encode()

    def encoded(self) -> list[bytes]:
        """The whole text."""
        self._encode()
        return self._encoded

    def _encode(self) -> None:
        self._encoded.append("".join(self._texts).encode())
        self._texts.clear()
        self._size = 0
