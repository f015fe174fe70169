"""The output of commands: JSON or text on stdout, progress on stderr, without terminal control characters."""

from __future__ import annotations

import io
import json
import os
import re
import select
import shutil
import sys
import termios
import tty
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, TextIO, TypeVar

from rich.cells import cell_len
from rich.text import Text

from stead.class_order import in_class_order
from stead.domain.names import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from rich.console import Console, RenderableType


PIPE_WIDTH = 1000
"""Width of lines that are not for a terminal: longer than any name, so that programs get complete names."""

_USUAL_WIDTH = 80
_PER_STEP = 1_000  # items for which a progress bar moves

T = TypeVar("T")


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


def read_all(work: str, items: Iterable[T]) -> list[T]:
    """All *items*, which come from the server in pages, with a progress bar for *work*."""
    read: list[T] = []
    with progress(work) as advance:
        for item in items:
            read.append(item)
            if len(read) % _PER_STEP == 0:
                advance(len(read), None)
    return read


def say(sentence: str, indent: int = 2) -> None:
    """Write *sentence* to stdout, wrapped to the terminal; lines after the first are indented."""
    from rich.text import Text

    show_lines(wrapped(Text(sentence), line_width(), indent))


# Rows under headings; on a terminal that is too narrow, a paragraph for each row instead.


def draw_list(
    headings: Sequence[str], rows: Sequence[Sequence[str]], width: int, numbers: Collection[str] = ()
) -> Iterator[Text]:
    """The lines of *rows*, none longer than *width* cells; the first cell of a row is its name.

    Args:
        numbers: headings of right-aligned columns.
    """
    shown = [[printable(cell) for cell in row] for row in rows]
    widths = [widest(column) for column in zip(headings, *shown, strict=True)]
    if sum(widths) + GAP * (len(widths) - 1) > width:
        yield from _paragraphs(headings, shown, width)
        return
    for number, row in enumerate([list(headings), *shown]):
        line = Text("", style="bold" if number == 0 else "")
        for heading, cell, cells in zip(headings, row, widths, strict=True):
            blanks = " " * (cells - cell_len(cell)) if heading in numbers else ""
            line += padded(Text(blanks + cell), cells + GAP)
        line.rstrip()
        yield line


def _paragraphs(headings: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> Iterator[Text]:
    columns = Columns(width, 2 * GAP + widest(headings), 0)
    for place, (name, *cells) in enumerate(rows):
        if place:
            yield Text()
        yield from wrapped(Text(name, style="bold"), width)
        for heading, cell in zip(headings[1:], cells, strict=True):
            yield from beside(Text(" " * GAP + heading, style="dim"), [Text(cell)], columns)


# Two-column output: titles to the left, and the details of each title to the right, one per line.
#
# If the terminal is too narrow, this applies in order: bars become shorter, then disappear; a long name gets its own
# line; details wrap; a name longer than a line loses its middle. No line is longer than the terminal.


GAP = 2
"""Blanks between two columns."""

LEAST_LEFT = 17
"""Minimum width of the titles, if the details leave that much."""

_MOST_LEFT = 100
_LEAST_INDENT = 4
_LEAST_BAR = 4
_USUAL_BAR = 12
_MOST_BAR = 32


@dataclass(frozen=True, slots=True)
class Columns:
    """Widths in cells, equal for all lines: the line, its left side, the bars (0 for none)."""

    width: int
    left: int
    bar: int

    @property
    def right(self) -> int:
        """The width of the details."""
        return max(self.width - self.left, 1)


def lay_out(
    titles: Iterable[int], details: int, width: int, *, most_left: int = _MOST_LEFT, most_bar: int | None = None
) -> Columns:
    """Columns for titles of these widths, and for *details*, the width of the widest without its bar; all in cells."""
    most = min(most_left, width - details)
    left_width = max([title + GAP for title in titles if title + GAP <= most], default=0)
    left_width = min(max(left_width, LEAST_LEFT), max(width - details, _LEAST_INDENT))
    most_bar = most_bar or min(max(width // 7, _USUAL_BAR), _MOST_BAR)
    bar = width - left_width - details - GAP
    return Columns(width, left_width, min(bar, most_bar) if bar >= _LEAST_BAR else 0)


def name_width(names: Iterable[str], room: int, width: int) -> int:
    """The width of a column of names within the details; a name that is wider gets its own line.

    Args:
        room: the width of names, bars and titles together.
    """
    most = max(width // 4, room - LEAST_LEFT - GAP - _USUAL_BAR)
    return max((len(name) for name in names if len(name) <= most), default=0)


def beside(
    title: Text, details: Iterable[Text], columns: Columns, trunk: Text | None = None, indent: int = 0
) -> Iterator[Text]:
    """The lines of one title with *details* to its right; the further lines show *trunk* below the title.

    A title longer than a line continues after *indent* blanks.
    """
    trunk = (trunk or Text())[: max(columns.left - GAP, 0)]
    start = title
    for detail in details:
        for line in wrapped(detail, columns.right):
            if start.cell_len > columns.left - GAP:
                yield from wrapped(start, columns.width, indent)
                start = trunk
            yield padded(start, columns.left) + line
            start = trunk
    if start is title:
        yield from wrapped(title, columns.width, indent)


# Bars that show usage.


FULL = "█"
CLAIMED = "▓"
EMPTY = "░"

_WARM = 0.6
_HOT = 0.85


def colour(used: int, capacity: int) -> str:
    """Green while there is room, yellow when little is left, red when almost nothing is left."""
    if capacity <= 0:
        return "red" if used else "bright_black"
    fill = used / capacity
    if fill > 1:
        return "bold red"
    if fill >= _HOT:
        return "red"
    return "yellow" if fill >= _WARM else "green"


def bar(used: int, capacity: int, *, claimed: int = 0, width: int = 12) -> Text:
    """*used* of *capacity* in *width* cells, followed by the part that would be *claimed*.

    A nonzero value has at least one cell, and a bar that is not full has at least one empty cell.
    """
    before = _cells(used, capacity, width)
    after = max(_cells(used + claimed, capacity, width), min(before + bool(claimed), width))
    if claimed and before == after:
        before -= 1
    style = colour(used + claimed, capacity)
    return Text.assemble(
        (FULL * before, style), (CLAIMED * (after - before), f"bold {style}"), (EMPTY * (width - after), "bright_black")
    )


def _cells(used: int, capacity: int, width: int) -> int:
    if used <= 0:
        return 0
    if used >= capacity:
        return width
    return min(max(round(width * used / capacity), 1), width - 1)


# Measures text in terminal cells: shortens, pads and wraps it. A CJK character or an emoji takes two cells.


ELLIPSIS = "…"

_LONGEST_NUMBER = 10**15

_WITHIN_AMOUNT = re.compile(r"(?<=\d) (?=[A-Z][A-Z0-9_]+\b)|(?<=\d) (?=/ \d)|(?<=\d /) (?=\d)")
"""The blanks of ``3 / 16 VCPU``."""


def shorten(text: str, width: int) -> str:
    """*text* in at most *width* cells. Long text loses its middle, since names differ at their ends."""
    if cell_len(text) <= width:
        return text
    if width < 3:
        return ELLIPSIS[:width]
    head = text[: _fitting(text, width // 2)]
    room = width - 1 - cell_len(head)
    start = len(text) - 1
    while start > 0 and cell_len(text[start - 1 :]) <= room:
        start -= 1
    tail = text[start:]
    while tail and (cell_len(tail) > room or cell_len(tail[0]) == 0):  # a combining mark without its letter
        tail = tail[1:]
    return head + ELLIPSIS + tail


def padded(text: Text, width: int) -> Text:
    """*text* padded with blanks to at least *width* cells."""
    return text + Text(" " * (width - text.cell_len))


def wrapped(text: Text, width: int, indent: int = 0) -> Iterator[Text]:
    """Lines of at most *width* cells, broken at blanks if possible; lines after the first are indented.

    An amount and its class stay on one line if it has room for them.
    """
    plain, start, room = text.plain, 0, width
    breakable = _WITHIN_AMOUNT.sub("_", plain)
    while start < len(plain):
        end = start + max(_fitting(plain[start:], room), 1)
        if end < len(plain) and breakable[end] != " ":
            end = _last_blank(breakable, start, end) or _last_blank(plain, start, end + 1) or end
        line = text[start:end]
        line.rstrip()
        yield line if start == 0 else Text(" " * indent) + line
        room = max(width - indent, 1)
        start = end
        while start < len(plain) and plain[start] == " ":
            start += 1


def widest(texts: Iterable[str]) -> int:
    """The width of the widest of *texts*; 0 if there are none."""
    return max(map(cell_len, texts), default=0)


def in_words(amounts: Mapping[str, int]) -> str:
    """``512 MEMORY_MB, 3 VCPU``."""
    return ", ".join(f"{number(amount)} {name}" for name, amount in in_class_order(amounts).items())


def number(amount: int) -> str:
    """*amount* with commas; with more than 15 digits as ``1.2e+21``, so that columns stay narrow."""
    return f"{amount:,}" if abs(amount) < _LONGEST_NUMBER else f"{amount:.1e}"


def _last_blank(text: str, start: int, end: int) -> int:
    """The last blank between *start* and *end* that has a word before it; 0 if there is none."""
    blank = text.rfind(" ", start, end)
    return blank if text[start : max(blank, start)].strip() else 0


def _fitting(text: str, width: int) -> int:
    """The maximum number of leading characters of *text* that fit into *width* cells."""
    fitting, beyond = 0, len(text) + 1
    while beyond - fitting > 1:  # binary search: a longer prefix never has fewer cells
        middle = (fitting + beyond) // 2
        if cell_len(text[:middle]) <= width:
            fitting = middle
        else:
            beyond = middle
    return fitting


# Single keys from the terminal, without waiting for a line.


@contextmanager
def single_keys() -> Iterator[Callable[[float], str]]:
    """A function that waits for the next key up to some seconds; it returns an empty text if there is none.

    The terminal is as before when the block ends.
    """
    terminal = sys.stdin.fileno()
    before = termios.tcgetattr(terminal)
    tty.setcbreak(terminal)
    try:
        yield lambda seconds: _key(terminal, seconds)
    finally:
        termios.tcsetattr(terminal, termios.TCSADRAIN, before)


def _key(terminal: int, seconds: float) -> str:
    ready, _, _ = select.select([terminal], [], [], seconds)
    if not ready:
        return ""
    return os.read(terminal, 64).decode(errors="replace")
