"""The output of commands: JSON or text on stdout, progress on stderr, without terminal control characters."""

from __future__ import annotations

import codecs
import io
import json
import os
import re
import select
import shutil
import sys
import termios
import time
import tty
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TextIO, TypeVar

from stead import aliases
from stead.aliases import named_in
from stead.cli.arguments import options
from stead.cli.errors import CommandError
from stead.cli.text import Text, cell_len, has_colors, is_terminal
from stead.printing import in_class_order, printable, short_amount, unit_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from rich.console import Console
    from rich.progress import Progress


PIPE_WIDTH = 1000
"""Width of lines that are not for a terminal: longer than any name, so that programs get complete names."""

_USUAL_WIDTH = 80
_USUAL_HEIGHT = 24
_YAML_WIDTH = 10_000  # a text stays on its line
_PER_STEP = 1_000  # items for which a progress bar moves
_UNSHOWN = 0.5  # seconds of work without a bar

T = TypeVar("T")


_MACHINE_READABLE = "utf-8"


_REPLACED = "stead-terminal"
"""The name of the error handler of outputs: what an encoding lacks is drawn with what it has, in as many cells."""

_PLAIN = {
    "█": "#", "▓": "+", "░": ".", "│": "|", "─": "-", "├": "|", "└": "`",
    "…": "~", "–": "-", "›": ">", "⊂": "<", "⇄": "=",
}  # fmt: skip


def _in_plain_characters(error: UnicodeError) -> tuple[str | bytes, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    missing = error.object[error.start : error.end]
    return "".join(_PLAIN.get(char, "?" * cell_len(char)) for char in missing), error.end


codecs.register_error(_REPLACED, _in_plain_characters)


def prepare_streams() -> None:
    """Let outputs replace what their encoding lacks, as in a locale that is not UTF-8, and never fail for it."""
    # Python has no stream for a descriptor that is closed, as after `>&-`.
    sys.stdout, sys.stderr = sys.stdout or _nowhere(), sys.stderr or _nowhere()
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors=_REPLACED)


def _nowhere() -> TextIO:
    return Path(os.devnull).open("w")  # it stays open as long as the process


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
        raw = _ReadOrNot(descriptor, "w", closefd=False)
        through = present.write_through  # PYTHONUNBUFFERED: a buffer would keep what Python passes on at once
        buffered: Any = raw if through else io.BufferedWriter(raw)
        lines = present.line_buffering or name == "stderr"
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


def print_json(data: Any, rows: Sequence[Mapping[str, Any]] | None = None) -> None:
    """Write *data* to stdout in the format that ``--output`` names: JSON, YAML, a CSV row for each item, or names.

    Args:
        rows: the items of *data*. Default: its first list of objects; *data* itself if there is none.
    """
    out = machine_readable()
    match options().output:
        case "yaml":
            out.write(_yaml_text(with_aliases(data)))
        case "csv":
            _write_csv(_rows_of(data) if rows is None else rows, out)
        case "name":
            for row in _rows_of(data) if rows is None else rows:
                print(printable(_name_of(row)), file=out)
        case _:
            print(json_text(with_aliases(data), indent=2), file=out)


def with_aliases(data: Any) -> Any:
    """*data* with ``aliases``: the names that ``stead alias`` has for UUIDs in it, if there are any."""
    if not isinstance(data, dict) or "aliases" in data:
        return data
    names = named_in(data, _aliases())
    return {**data, "aliases": names} if names else data


def _aliases() -> Mapping[str, str]:
    try:
        return aliases.read(aliases.file_of_user())
    except aliases.NoAliases as error:
        raise CommandError(str(error)) from error


def _rows_of(data: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    lists = (value for value in data.values() if isinstance(value, list))
    items = next((value for value in lists if all(isinstance(each, dict) for each in value)), None)
    return [data] if items is None else items


_NAMES = ("name", "uuid", "consumer", "project", "user", "type", "query", "token", "url")
"""The keys whose values name an item, the first that it has."""


def _name_of(row: Mapping[str, Any]) -> str:
    return str(next((row[key] for key in _NAMES if row.get(key)), ""))


_ALIAS = ".alias"


def _write_csv(rows: Iterable[Mapping[str, Any]], out: TextIO) -> None:
    """A line for each of *rows*; a column with UUIDs that have a name is followed by one with the names."""
    import csv

    flat = [dict(_flat("", row)) for row in rows]
    columns = list(dict.fromkeys(chain.from_iterable(flat)))
    if names := _aliases():
        for row in flat:
            row.update(_names_beside(row, names))
        present = set(chain.from_iterable(flat))
        beside = chain.from_iterable((column, column + _ALIAS) for column in columns)
        columns = [column for column in dict.fromkeys(beside) if column in present]
    writer = csv.writer(out, lineterminator="\n")
    if columns:
        writer.writerow([printable(column) for column in columns])
    for row in flat:
        writer.writerow([printable(row.get(column, "")) for column in columns])


def _names_beside(row: Mapping[str, str], names: Mapping[str, str]) -> dict[str, str]:
    """The names of the UUIDs in the cells of a row that does not have them; a list, as of aggregates, has several."""
    texts = {column: " ".join(names[word] for word in cell.split() if word in names) for column, cell in row.items()}
    present = {"", *row.values()}
    return {column + _ALIAS: text for column, text in texts.items() if text not in present}


def _flat(prefix: str, value: Any) -> Iterator[tuple[str, str]]:
    """The cells of *value* by column: members of objects are columns such as ``resources.VCPU``."""
    if isinstance(value, dict):
        for key, member in value.items():
            yield from _flat(f"{prefix}.{key}" if prefix else str(key), member)
    elif isinstance(value, list):
        is_plain = all(isinstance(each, str) for each in value)
        yield prefix, " ".join(value) if is_plain else json_text(value)
    elif value is None or isinstance(value, bool):
        yield prefix, "" if value is None else str(value).lower()
    else:
        yield prefix, str(value)


def _yaml_text(data: Any) -> str:
    """*data* as YAML, like site files: if a character could control a terminal, all non-ASCII ones are escaped."""
    import yaml

    class Dumper(yaml.SafeDumper):
        def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002  # PyYAML's signature
            return True

    def dumped(*, allow_unicode: bool) -> str:
        text: str = yaml.dump(data, Dumper=Dumper, sort_keys=False, allow_unicode=allow_unicode, width=_YAML_WIDTH)
        return text

    text = dumped(allow_unicode=True)
    return text if text.replace("\n", "").isprintable() else dumped(allow_unicode=False)


def console(*, stderr: bool = False) -> Console:
    """Rich's view of the terminal, for what moves; a pipe is wide enough for any name."""
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    plain: dict[str, Any] = {} if _has_colors(stream) else {"color_system": None}
    return Console(file=stream, highlight=False, width=_width_of(stream), **plain)


def _has_colors(stream: TextIO) -> bool:
    return has_colors(stream) and not options().no_color


def _width_of(stream: TextIO) -> int:
    if options().output == "wide":
        return PIPE_WIDTH
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
    return _width_of(sys.stdout)


def show_lines(lines: Iterable[Text], *, stderr: bool = False) -> None:
    """Write *lines* unchanged to stdout or stderr; a command drew them for :func:`line_width`."""
    stream = sys.stderr if stderr else sys.stdout
    is_colored = _has_colors(stream)
    for line in lines:
        stream.write(f"{line.colored() if is_colored else line.plain}\n")


def page_lines(lines: Iterable[Text]) -> None:
    """Like :func:`show_lines`; on a terminal, text longer than a screen goes through the pager.

    The pager is ``PAGER``, by default ``less``; an empty ``PAGER`` or ``cat`` uses none.
    """
    remaining = iter(lines)
    command = _pager()
    if command is None:
        show_lines(remaining)
        return
    screen = list(islice(remaining, _height() - 1))
    following = next(remaining, None)
    if following is None:
        show_lines(screen)
        return
    import subprocess

    is_colored = _has_colors(sys.stdout)
    environment = {"LESS": "FRX", **os.environ}  # colours, and the text stays on the terminal
    with (
        subprocess.Popen(
            command, shell=True, stdin=subprocess.PIPE, env=environment, text=True
        ) as pager,  # the user's own command
        suppress(BrokenPipeError),  # the reader has seen enough
    ):
        for line in chain(screen, [following], remaining):
            pager.stdin.write(f"{line.colored() if is_colored else line.plain}\n")  # type: ignore[union-attr]  # it is a pipe
        pager.stdin.close()  # type: ignore[union-attr]  # it is a pipe


def _height() -> int:
    return shutil.get_terminal_size((_USUAL_WIDTH, _USUAL_HEIGHT)).lines


def _pager() -> str | None:
    """The pager's command line; None if none is needed."""
    chosen = os.environ.get("PAGER", "less")
    if not (sys.stdout.isatty() and sys.stdin is not None and sys.stdin.isatty()):
        return None
    if chosen.strip() in ("", "cat") or shutil.which(chosen.split()[0]) is None:
        return None
    return chosen


class Advance(Protocol):
    """Takes the completed amount and the whole amount (None: it is not known yet), and a new name of the work."""

    def __call__(self, done: int, total: int | None, work: str | None = None, /) -> None: ...


@contextmanager
def progress(work: str) -> Iterator[Advance]:
    """A progress bar for *work* on stderr, if that is a terminal and the work takes more than half a second."""
    begun = time.monotonic()
    bar: Progress | None = None

    def advance(done: int, total: int | None, now: str | None = None, /) -> None:
        nonlocal bar, work
        work = work if now is None else now
        if bar is None:
            if time.monotonic() - begun < _UNSHOWN or (total is not None and done >= total):
                return  # a bar that flashes says nothing
            from rich.progress import Progress

            bar = Progress(console=console(stderr=True), transient=True)
            bar.add_task(work, total=None)
            bar.start()
        bar.update(bar.task_ids[0], completed=done, total=total, description=work)

    if options().quiet or not is_terminal(sys.stderr):
        yield lambda _done, _all, _work=None, /: None
        return

    try:
        yield advance
    finally:
        if bar is not None:
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
    """Write *sentence* to stdout, wrapped to the terminal; lines after the first are indented. Not with ``--quiet``."""
    if options().quiet:
        return
    show_lines(wrapped(Text(sentence), line_width(), indent))


def agreed(question: str, action: str, listing: Iterable[Text]) -> bool:
    """Whether the operator says yes to *question*, which follows the *listing* on stderr; the end of the input is a no.

    Args:
        action: what several items need to have a terminal or ``--yes`` for, for the error message.

    Raises:
        CommandError: there is no terminal to ask on.
    """
    import typer

    if sys.stdin is None or not sys.stdin.isatty():
        raise CommandError(f"{action} without a terminal requires --yes (--dry-run lists them)")
    show_lines(listing, stderr=True)
    try:
        return typer.confirm(question, err=True)
    except typer.Abort:
        return False


def draw_counts(rows: Iterable[tuple[int | None, str]], width: int) -> Iterator[Text]:
    """A line for each number and its words, the numbers below each other; ``provider(s)`` has the ending it needs."""
    lines = [
        ("" if count is None else number(count), _ENDING.sub("" if count == 1 else r"\1", words))
        for count, words in rows
    ]
    cells = widest(count for count, _ in lines)
    for count, words in lines:
        yield from wrapped(Text(f"{count:>{cells}} {words}"), width, cells + 1)


_ENDING = re.compile(r"\((e?s)\)")

# Rows under headings; on a terminal that is too narrow, a paragraph for each row instead.


def draw_list(
    headings: Sequence[str],
    rows: Sequence[Sequence[str]],
    width: int,
    numbers: Collection[str] = (),
    *,
    least_last: int = 0,
) -> Iterator[Text]:
    """The lines of *rows*, none longer than *width* cells; the first cell of a row is its name.

    Args:
        numbers: headings of right-aligned columns.
        least_last: cells that are enough for the last column, in which long text wraps. Default: it does not wrap.
    """
    shown = [[printable(cell) for cell in row] for row in rows]
    widths = [widest(column) for column in zip(headings, *shown, strict=True)]
    last = width - sum(widths[:-1]) - GAP * (len(widths) - 1)
    if widths and widths[-1] > last:
        if not least_last or last < least_last:
            yield from _paragraphs(headings, shown, width)
            return
        widths[-1] = last
    for number, row in enumerate([list(headings), *shown]):
        line = Text("", style="bold" if number == 0 else "")
        for heading, cell, cells in zip(headings, row, widths, strict=True):
            blanks = " " * (cells - cell_len(cell)) if heading in numbers else ""
            line += padded(Text(blanks + cell), cells + GAP)
        line.rstrip()
        yield from wrapped(line, width, width - last) if line.cell_len > width else [line]


def _paragraphs(headings: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> Iterator[Text]:
    columns = Columns(width, 2 * GAP + widest(headings), 0)
    for place, (name, *cells) in enumerate(rows):
        if place:
            yield Text()
        yield from wrapped(Text(name, style="bold"), width)
        for heading, cell in zip(headings[1:], cells, strict=True):
            if not cell:
                continue
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
_FEW = 0.25
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
    widths = [title + GAP for title in titles]
    most = min(most_left, width - details)
    with_bars = min(most_left, width - details - GAP - _LEAST_BAR)
    # A few long titles get their own lines rather than cost all lines their bars.
    if sum(cells > with_bars for cells in widths) <= max(len(widths) * _FEW, 1):
        most = max(with_bars, min(most, LEAST_LEFT))
    left_width = max([cells for cells in widths if cells <= most], default=0)
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

_WITHIN_AMOUNT = re.compile(
    r"(?<=\d) (?=[MGTP]iB\b)|(?<=\d|B) (?=[A-Z][A-Z0-9_]+\b)|(?<=\d|B) (?=/ \d)|(?<=(?:\d|B) /) (?=\d)"
)
"""The blanks of ``3 / 16 VCPU`` and ``3 GiB / 16 GiB MEMORY_MB``."""

_COMMAND = re.compile("`[^`]*`")


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

    An amount and its class, and a command in backticks, stay on one line if it has room for them.
    """
    plain, start, room = text.plain, 0, width
    breakable = _COMMAND.sub(lambda command: command[0].replace(" ", "_"), _WITHIN_AMOUNT.sub("_", plain))
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
    """``3 VCPU, 512 MiB MEMORY_MB``."""
    return ", ".join(f"{amount_text(name, amount)} {name}" for name, amount in in_class_order(amounts).items())


def amount_text(resource_class: str, amount: int) -> str:
    """*amount* with commas; of memory and disk with a unit, ``1.5 TiB``, in about three digits, unless ``--raw``."""
    shown, unit = unit_of(resource_class, amount)
    return f"{short_amount(shown)} {unit}" if unit and not options().raw else number(amount)


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
