"""Compares what this server and other readers make of a stream."""

from __future__ import annotations

from ast import literal_eval
from pathlib import Path
from typing import TYPE_CHECKING

from lanes_testing.readers import agree, by_this_server

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lanes_testing.readers import Reading

CORPUS = [literal_eval(line) for line in Path(__file__).with_name("corpus.txt").read_text().splitlines()]
"""Streams that a version of this server read in another way than the readers beside it."""


def disagreement(
    stream: bytes, readers: Sequence[Callable[[bytes], Reading]], servers: Sequence[Callable[[bytes], Reading]] = ()
) -> str | None:
    """What is wrong with this server's reading of *stream*; None if it is sound.

    Each message that it reads must be the one that the strictest reader reads at that place: the one that reads the
    fewest. It reads no more messages than that, and if it reads fewer, it has refused the rest. *servers* may read
    fewer for reasons of their own, but not other ones.
    """
    ours = by_this_server([stream])
    readings = {reader.__name__: reader(stream) for reader in (*readers, *servers)}
    strictest = min((readings[reader.__name__] for reader in readers), key=lambda reading: len(reading.messages))
    is_shorter = len(ours.messages) < len(strictest.messages)
    if (
        all(agree(ours.messages, readings[each.__name__].messages) for each in servers)
        and agree(ours.messages, strictest.messages)
        and len(ours.messages) <= len(strictest.messages)
        and (ours.has_refused or not is_shorter)
    ):
        return None
    return f"{stream!r}\n  this server: {ours}\n" + "".join(
        f"  {name}: {reading}\n" for name, reading in readings.items()
    )
