"""The output of commands: JSON or text on stdout, progress on stderr, without terminal control characters."""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import sys
from contextlib import contextmanager, suppress
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from rich.console import Console, RenderableType
    from rich.text import Text

PIPE_WIDTH = 1000
"""Width of lines that are not for a terminal: longer than any name, so that programs get complete names."""

_USUAL_WIDTH = 80


_MACHINE_READABLE = "utf-8"


class _ReadOrNot(io.FileIO):
    """An output that may lose its reader: what follows is dropped."""

    def write(self, data: Any) -> int:
        try:
            return super().write(data) or 0
        except BrokenPipeError:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self.fileno())
            os.close(nowhere)
            return memoryview(data).nbytes


def outlive_reader() -> None:
    """Let the command finish what it does if the reader of its output is gone, as in ``stead release … | head -3``."""
    for name, descriptor in (("stdout", 1), ("stderr", 2)):
        present = getattr(sys, name)
        if not isinstance(present, io.TextIOWrapper) or _descriptor_of(present) != descriptor:
            continue  # a test or a program has replaced it
        present.flush()
        buffered = io.BufferedWriter(_ReadOrNot(descriptor, "w", closefd=False))
        lines = present.line_buffering or name == "stderr"
        through = present.write_through  # PYTHONUNBUFFERED
        again = io.TextIOWrapper(
            buffered, present.encoding, present.errors, line_buffering=lines, write_through=through
        )
        setattr(sys, name, again)


def _descriptor_of(stream: TextIO) -> int | None:
    with suppress(OSError):  # io.UnsupportedOperation is one
        return stream.fileno()
    return None


def machine_readable() -> TextIO:
    """Standard output for JSON, CSV and site files: UTF-8, whatever the locale, since a ``?`` would be another name."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding=_MACHINE_READABLE)
    return sys.stdout


def json_text(data: Any, *, indent: int | None = None) -> str:
    r"""*data* as JSON; characters that could control a terminal or reorder a line are written as ``\u202e``.

    Without *indent* it is one line without blanks between its parts.
    """
    separators = None if indent else (",", ":")
    return _OTHER.sub(_escaped, json.dumps(data, indent=indent, separators=separators, ensure_ascii=False))


_OTHER = re.compile("[^\n -~]")


def _escaped(match: re.Match[str]) -> str:
    return match[0] if match[0].isprintable() else json.dumps(match[0])[1:-1]


def print_json(data: Any) -> None:
    """Write *data* to stdout, indented."""
    print(json_text(data, indent=2), file=machine_readable())


def console(*, stderr: bool = False) -> Console:
    """The terminal, with its width or that of the environment variable COLUMNS; a pipe is wide enough for any name."""
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
    """The width of a line on stdout, in cells."""
    return console().width


def show(renderable: RenderableType) -> None:
    """Draw *renderable* on stdout."""
    console().print(renderable)


def show_lines(lines: Iterable[Text]) -> None:
    """Write *lines* unchanged to stdout; a command drew them for :func:`line_width`."""
    terminal = console()
    for line in lines:
        _write_line(terminal, line)


def _write_line(terminal: Console, line: Text) -> None:
    if terminal.color_system is None:
        terminal.file.write(f"{line.plain}\n")  # several times as fast, which matters for a site of 10,000 hosts
        return
    terminal.print(line, no_wrap=True, overflow="ignore", crop=False, soft_wrap=True)


def page_lines(lines: Iterable[Text]) -> None:
    """Like :func:`show_lines`; on a terminal, text longer than a screen goes through the pager.

    The pager is ``PAGER``, by default ``less``; an empty ``PAGER`` or ``cat`` uses none.
    """
    terminal = console()
    remaining = iter(lines)
    command = _pager(terminal)
    if command is None:
        show_lines(remaining)
        return
    screen = list(islice(remaining, terminal.height - 1))
    following = next(remaining, None)
    if following is None:
        show_lines(screen)
        return
    import subprocess

    environment = {"LESS": "FRX", **os.environ}  # colours, and the text stays on the terminal
    with (
        subprocess.Popen(
            command, shell=True, stdin=subprocess.PIPE, env=environment, text=True
        ) as pager,  # the user's own command
        suppress(BrokenPipeError),  # the reader has seen enough
    ):
        for line in chain(screen, [following], remaining):
            with terminal.capture() as written:
                terminal.print(line, no_wrap=True, overflow="ignore", crop=False, soft_wrap=True)
            pager.stdin.write(written.get())  # type: ignore[union-attr]  # it is a pipe
        pager.stdin.close()  # type: ignore[union-attr]  # it is a pipe


def _pager(terminal: Console) -> str | None:
    """The pager's command line; None if none is needed."""
    chosen = os.environ.get("PAGER", "less")
    if not (terminal.is_terminal and sys.stdout.isatty() and sys.stdin is not None and sys.stdin.isatty()):
        return None
    if chosen.strip() in ("", "cat") or shutil.which(chosen.split()[0]) is None:
        return None
    return chosen


@contextmanager
def progress(work: str) -> Iterator[Callable[[int, int | None], None]]:
    """A progress bar for *work* on stderr, if that is a terminal.

    The block calls the yielded function with the completed amount and the whole amount; None: it is not known yet.
    """
    terminal = console(stderr=True)
    if not terminal.is_terminal:
        yield lambda _done, _all: None
        return
    from rich.progress import Progress

    bar = Progress(console=terminal, transient=True)
    task = bar.add_task(work, total=None)

    def advance(done: int, total: int | None) -> None:
        if total is None or done < total:
            bar.start()  # only for work that takes more than one step
        bar.update(task, completed=done, total=total)

    try:
        yield advance
    finally:
        bar.stop()


def say(sentence: str, indent: int = 2) -> None:
    """Write *sentence* to stdout, wrapped to the terminal; lines after the first are indented."""
    from rich.text import Text

    from stead.cli.terminal.cells import wrapped

    show_lines(wrapped(Text(sentence), line_width(), indent))
