"""Files that a command reads whole; ``-`` is standard input."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import BinaryIO

from stead.cli.errors import CommandError

_PIECE = 1024 * 1024  # bytes


def read_file(path: Path, limit: int, advice: str = "") -> bytes:
    """The whole file or stream; reads at most one piece beyond *limit* bytes.

    Args:
        advice: what to do about a file that is too large, for the error message.

    Raises:
        CommandError: it cannot be read, or is longer than *limit* bytes, as an endless device is.
    """
    try:
        if path != Path("-"):
            with path.open("rb") as file:
                return _up_to(limit, file, name_of(path), advice)
        if sys.stdin is None:  # for example after `<&-`
            raise CommandError("standard input is closed")
        return _up_to(limit, sys.stdin.buffer, name_of(path), advice)
    except OSError as error:
        raise CommandError(f"{name_of(path)}: {error.strerror or error}") from error


def _up_to(limit: int, stream: BinaryIO, name: str, advice: str) -> bytes:
    data = bytearray()
    while piece := stream.read(_PIECE):
        data += piece
        if len(data) > limit:
            raise CommandError(f"{name}: larger than {limit // 1024 // 1024} MiB{advice and f'; {advice}'}")
    return bytes(data)


def name_of(path: Path) -> str:
    """The name of the file in messages."""
    return "standard input" if path == Path("-") else str(path)
