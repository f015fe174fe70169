"""How commands write: JSON or pictures on stdout, progress on stderr, and nothing that could steer the terminal."""

from __future__ import annotations

import json
import os
import re
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rich.console import Console, RenderableType
    from rich.text import Text

PIPE_WIDTH = 1000
"""Columns of a line that no terminal shows: longer than any name, so that programs find names whole."""

_USUAL_WIDTH = 80


def json_text(data: Any, *, indent: int | None = None) -> str:
    r"""*data* as JSON in which a character that could steer a terminal or reorder a line stands as ``\u202e``.

    Without *indent* it is one line without blanks between its parts.
    """
    separators = None if indent else (",", ":")
    return _OTHER.sub(_escaped, json.dumps(data, indent=indent, separators=separators, ensure_ascii=False))


_OTHER = re.compile("[^\n -~]")


def _escaped(found: re.Match[str]) -> str:
    return found[0] if found[0].isprintable() else json.dumps(found[0])[1:-1]


def print_json(data: Any) -> None:
    """Write *data* to stdout, indented."""
    print(json_text(data, indent=2))


def console(*, stderr: bool = False) -> Console:
    """The terminal, as wide as it is or as the environment variable COLUMNS says; a pipe has room for any name."""
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    return Console(file=stream, highlight=False, width=_width_of(stream))


def _width_of(stream: TextIO) -> int:
    chosen = os.environ.get("COLUMNS", "")
    if chosen.isascii() and chosen.isdigit() and len(chosen) < 6 and int(chosen) > 0:
        return int(chosen)
    if not stream.isatty():
        return PIPE_WIDTH
    with suppress(OSError):
        return os.get_terminal_size(stream.fileno()).columns or _USUAL_WIDTH
    return _USUAL_WIDTH


def line_width() -> int:
    """Cells of a line on stdout."""
    return console().width


def show(renderable: RenderableType) -> None:
    """Draw *renderable* on stdout."""
    console().print(renderable)


def show_lines(lines: Iterable[Text]) -> None:
    """Write *lines*, each as it is, to stdout; a command drew them for :func:`line_width`."""
    terminal = console()
    for line in lines:
        terminal.print(line, no_wrap=True, overflow="ignore", crop=False, soft_wrap=True)


def say(sentence: str, indent: int = 2) -> None:
    """Write *sentence* to stdout, broken into lines that fit a terminal; those after the first are indented."""
    from rich.text import Text

    from stead.cli.cells import wrapped

    show_lines(wrapped(Text(sentence), line_width(), indent))
