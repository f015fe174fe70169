"""How commands write: JSON or pictures on stdout, progress on stderr, and nothing that could steer the terminal."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

_WIDTH_OF_A_PIPE = 160


def printable(text: str) -> str:
    r"""*text* with whatever could steer a terminal (escapes, line breaks) shown as ``\x1b`` instead of sent."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def one_line(text: str) -> str:
    """*text* as one printable line."""
    return printable(" ".join(text.split()))


def print_json(data: Any) -> None:
    """Write *data* to stdout, indented."""
    print(json.dumps(data, indent=2, ensure_ascii=False))


def console(*, stderr: bool = False) -> Console:
    """The terminal; a pipe gets lines that are wide enough for tables."""
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    return Console(file=stream, highlight=False, width=None if stream.isatty() else _WIDTH_OF_A_PIPE)


def show(renderable: RenderableType) -> None:
    """Draw *renderable* on stdout."""
    console().print(renderable)
