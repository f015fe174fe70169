"""Compares what Stead and other readers make of a stream."""

from __future__ import annotations

from ast import literal_eval
from pathlib import Path
from typing import TYPE_CHECKING

from tests.system.framing.readers import agree, stead

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tests.system.framing.readers import Reading

CORPUS = [literal_eval(line) for line in Path(__file__).with_name("corpus.txt").read_text().splitlines()]
"""Streams that a version of Stead read in another way than the readers beside it."""


def disagreement(stream: bytes, readers: Sequence[Callable[[bytes], Reading]]) -> str | None:
    """What is wrong with Stead's reading of *stream*; None if it is sound.

    Each message that Stead reads must be the one that the strictest reader reads at that place: the one that reads the
    fewest. Where Stead stops earlier or later than others, it must have refused the rest, or have the whole stream.
    """
    ours = stead([stream])
    readings = {reader.__name__: reader(stream) for reader in readers}
    strictest = min(readings.values(), key=lambda reading: len(reading.messages))
    if agree(ours.messages, strictest.messages):
        return None
    return f"{stream!r}\n  Stead: {ours}\n" + "".join(f"  {name}: {reading}\n" for name, reading in readings.items())
