"""Columns of texts: a text per slot in UTF-8, stored in blocks as columns of numbers are.

A uuid takes 36 bytes and its end four. As an object of Python it would take 93, which no file could be mapped to.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from stead.catalog.blocks import BLOCK, by_block

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray

_FEW = 16
"""Up to this number of texts of a block, single texts are read or replaced faster than the whole block."""

_HEAD = 8
"""Bytes of a text that fit into a number."""

# Half of a surrogate pair is no text, but a database can hold one.
_SURROGATES = "surrogatepass"


class TextBlock:
    """The texts of ``BLOCK`` slots, or fewer in the last block; immutable."""

    def __init__(self, data: bytes | memoryview, ends: NDArray[np.int32]) -> None:
        """*data* has the texts one after the other; *ends* has the place after each of them."""
        self.data = data
        self.ends = ends

    @classmethod
    def of(cls, texts: Iterable[str]) -> TextBlock:
        """A block with these texts."""
        encoded = [encode(text) for text in texts]
        return cls(b"".join(encoded), np.cumsum([len(each) for each in encoded], dtype=np.int32))

    def __len__(self) -> int:
        return len(self.ends)

    @cached_property
    def _width(self) -> int | None:
        """The bytes of each text; None if they differ, or if there is no text."""
        width = self.ends.item(0) if len(self.ends) else 0
        return width if width and np.array_equal(self.ends, np.arange(1, len(self.ends) + 1) * width) else None

    def __getitem__(self, place: int) -> str:
        return _decode(self._encoded(place))

    def _encoded(self, place: int) -> bytes | memoryview:
        return self.data[self.ends.item(place - 1) if place else 0 : self.ends.item(place)]

    def at(self, places: Sequence[int]) -> list[str]:
        """The texts at *places*."""
        if len(places) <= _FEW:
            return [self[place] for place in places]
        ends, text = [*self.ends.tolist(), 0], _decode(self.data)
        # If all characters are ASCII, as in nearly all blocks, the places of bytes are those of characters.
        if len(text) == len(self.data):
            return [text[ends[place - 1] : ends[place]] for place in places]
        return [_decode(self.data[ends[place - 1] : ends[place]]) for place in places]

    def matrix(self, places: NDArray[np.integer], width: int) -> NDArray[np.uint8] | None:
        """The bytes of the texts at *places*, shape ``(places, width)``; None if one has not *width* bytes."""
        data = np.frombuffer(self.data, np.uint8)
        if self._width == width:
            rows: NDArray[np.uint8] = data.reshape(-1, width)[places]
            return rows
        starts = np.concatenate([np.zeros(1, np.int32), self.ends])[places]
        if (self.ends[places] - starts != width).any():
            return None
        gathered: NDArray[np.uint8] = data[starts[:, None] + np.arange(width)]
        return gathered

    def heads(self, places: NDArray[np.integer]) -> NDArray[np.uint64]:
        """The first bytes of the texts at *places* as numbers, see `Texts.heads`."""
        width = self._width
        if width is not None and width >= _HEAD:
            rows = np.frombuffer(self.data, np.uint8).reshape(-1, width)[places, :_HEAD]
        else:
            # Zeros behind the last text, so that the bytes of a shorter head exist.
            data = np.frombuffer(bytes(self.data) + bytes(_HEAD), np.uint8)
            starts, within = np.concatenate([np.zeros(1, np.int32), self.ends])[places], np.arange(_HEAD)
            lengths = self.ends[places] - starts
            rows = np.where(within < lengths[:, None], data[starts[:, None] + within], 0).astype(np.uint8)
        return np.ascontiguousarray(rows).view(">u8").ravel().astype(np.uint64)

    def replaced(self, places: Sequence[int], texts: Sequence[str]) -> TextBlock:
        """The block with *texts* at *places*; this object if it has them already."""
        if len(places) <= _FEW:
            block = self
            for place, text in zip(places, texts, strict=True):
                block = block._with(place, encode(text))
            return block
        before = self.at(range(len(self)))
        after = before.copy()
        for place, text in zip(places, texts, strict=True):
            after[place] = text
        return self if after == before else TextBlock.of(after)

    def _with(self, place: int, encoded: bytes) -> TextBlock:
        if self._encoded(place) == encoded:
            return self
        start, end = self.ends.item(place - 1) if place else 0, self.ends.item(place)
        ends = self.ends.copy()
        ends[place:] += len(encoded) - (end - start)
        return TextBlock(b"".join((self.data[:start], encoded, self.data[end:])), ends)

    def grown(self, size: int) -> TextBlock:
        """The block with empty texts behind its own, for *size* slots."""
        last = self.ends[-1:] if len(self.ends) else np.zeros(1, np.int32)
        return TextBlock(self.data, np.concatenate([self.ends, np.repeat(last, size - len(self.ends))]))


class Texts:
    """One text per slot; immutable. A slot that was not set has the empty text."""

    def __init__(self, blocks: tuple[TextBlock, ...] = ()) -> None:
        """All *blocks* but the last have ``BLOCK`` texts."""
        self.blocks = blocks
        self.size = (len(blocks) - 1) * BLOCK + len(blocks[-1]) if blocks else 0

    @classmethod
    def of(cls, texts: Sequence[str]) -> Texts:
        """A column with exactly *texts*."""
        return cls(tuple(TextBlock.of(texts[start : start + BLOCK]) for start in range(0, len(texts), BLOCK)))

    def only(self, slots: NDArray[np.integer]) -> Texts:
        """A column with the texts at *slots* alone, in their order."""
        return Texts.of(self.at(slots).tolist())

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, slot: int) -> str:
        return self.blocks[slot // BLOCK][slot % BLOCK]

    def at(self, slots: NDArray[np.integer]) -> NDArray[np.object_]:
        """The texts at *slots*, which may have any shape."""
        texts = np.empty(slots.size, np.object_)
        for block, where, places in self._parts(slots.ravel()):
            texts[where] = block.at(places.tolist())
        return texts.reshape(slots.shape)

    def matrix(self, slots: NDArray[np.integer], width: int) -> NDArray[np.uint8] | None:
        """The bytes of the texts at *slots*, in a last dimension of *width*; None if one has another length."""
        rows = np.empty((slots.size, width), np.uint8)
        for block, where, places in self._parts(slots.ravel()):
            of_block = block.matrix(places, width)
            if of_block is None:
                return None
            rows[where] = of_block
        return rows.reshape(*slots.shape, width)

    def heads(self, slots: NDArray[np.int64]) -> NDArray[np.uint64]:
        """The first eight bytes of the texts at *slots* as numbers.

        Of two texts, the lesser one has the lesser number, or both numbers are equal.
        """
        heads = np.empty(len(slots), np.uint64)
        for block, where, places in self._parts(slots):
            heads[where] = block.heads(places)
        return heads

    def _parts(
        self, slots: NDArray[np.integer]
    ) -> Iterator[tuple[TextBlock, NDArray[np.integer] | slice, NDArray[np.integer]]]:
        """Each block that has some of *slots*, where they are in *slots*, and their places in the block."""
        numbers = slots // BLOCK
        if not len(slots):
            return
        if (numbers == numbers[0]).all():
            yield self.blocks[numbers[0]], slice(None), slots % BLOCK
            return
        order = np.argsort(numbers, kind="stable")
        for number, here in by_block(slots[order]):
            yield self.blocks[number], order[here], slots[order[here]] % BLOCK

    def replaced(self, slots: NDArray[np.int64], texts: Sequence[str], size: int) -> Texts:
        """A column with *texts* at *slots* (ascending), for at least *size* slots; this object if nothing changes."""
        blocks = list(self._grown(size))
        for number, here in by_block(slots):
            blocks[number] = blocks[number].replaced((slots[here] % BLOCK).tolist(), texts[here])
        unchanged = len(blocks) == len(self.blocks) and all(map(lambda new, old: new is old, blocks, self.blocks))
        return self if unchanged else Texts(tuple(blocks))

    def _grown(self, size: int) -> Iterator[TextBlock]:
        number = 0
        for number, block in enumerate(self.blocks, 1):
            missing = min(size - (number - 1) * BLOCK, BLOCK) > len(block)
            yield block.grown(min(size - (number - 1) * BLOCK, BLOCK)) if missing else block
        for start in range(number * BLOCK, size, BLOCK):
            yield TextBlock(b"", np.zeros(min(size - start, BLOCK), np.int32))


def encode(text: str) -> bytes:
    """The bytes of a text in a column."""
    return text.encode("utf-8", _SURROGATES)


def _decode(data: bytes | memoryview) -> str:
    return str(data, "utf-8", _SURROGATES)
