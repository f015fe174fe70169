"""Templates: the text of arrangements with gaps for uuids, filled for many trees at a time.

Uuids nearly always have the same length, and then so have the texts of all trees. So they are the rows of a matrix of
bytes, and a gap is filled for all trees with one copy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from stead.catalog.texts import Texts

# JSON text contains this character only escaped, so a gap cannot be confused with content.
GAP = "\0"

_LENGTH = 36
"""Characters of a uuid in its usual form. Clients may also have sent other forms, which are stored as they are."""


class TreeUuids:
    """The uuids of the providers of some trees of one shape.

    Attributes:
        own: by position the uuid if there is one tree, otherwise a gap.
        bytes: the uuids in bytes, shape ``(trees, providers of each, 36)``; None if one has another length.
    """

    def __init__(self, uuids: Texts, trees: NDArray[np.int64]) -> None:
        """*trees* has the slots of their members, with the shape ``(trees, providers of each)``."""
        self._uuids = uuids
        self._trees = trees
        number, size = trees.shape
        self.own: list[str] = uuids.at(trees[0]).tolist() if number == 1 else [GAP] * size
        self.bytes = uuids.matrix(trees, _LENGTH) if number > 1 else None

    def texts(self, trees: slice) -> list[list[str]]:
        """The uuids of the providers of each of *trees*."""
        texts: list[list[str]] = self._uuids.at(self._trees[trees]).tolist()
        return texts


class Template:
    """A text with gaps for the uuids of a tree."""

    def __init__(self, text: str, gaps: Sequence[int]) -> None:
        """*gaps* has the position of the provider whose uuid belongs into each gap."""
        self._pieces = f",{text}".encode().split(GAP.encode())
        self._gaps = gaps

    @property
    def size(self) -> int:
        """Bytes of the text of one tree."""
        return sum(map(len, self._pieces)) + len(self._gaps) * _LENGTH

    def filled(self, uuids: TreeUuids, trees: slice) -> bytes:
        """The text for each of *trees*, with a comma before each."""
        if uuids.bytes is None:
            return b"".join([self._row(own) for own in uuids.texts(trees)])
        own_bytes = uuids.bytes[trees]
        row = (b" " * _LENGTH).join(self._pieces)
        rows = np.empty((len(own_bytes), len(row)), np.uint8)
        rows[:] = np.frombuffer(row, np.uint8)
        start = 0
        for piece, gap in zip(self._pieces[:-1], self._gaps, strict=True):
            start += len(piece)
            rows[:, start : start + _LENGTH] = own_bytes[:, gap]
            start += _LENGTH
        return rows.tobytes()

    def _row(self, own: Sequence[str]) -> bytes:
        filled = [self._pieces[0]]
        for gap, piece in zip(self._gaps, self._pieces[1:], strict=True):
            filled += own[gap].encode(), piece
        return b"".join(filled)
