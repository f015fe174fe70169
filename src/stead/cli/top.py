"""``stead top``: a live view of the fullest and the emptiest hosts, sums, claims per second and changes."""

from __future__ import annotations

import shutil
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stead.cli.arguments import options
from stead.cli.errors import CommandError
from stead.cli.forest import Amount, Provider, TreeGroup, amount_as_json, draw_groups, draw_sums, fill, natural, sums_of
from stead.cli.server import connect, summary
from stead.cli.terminal import console, in_words, line_width, print_json, shorten, show_lines, single_keys
from stead.cli.text import Text, is_terminal
from stead.cli.tree import EVERY_TREE, fetch_roots
from stead.cli.watch import lines_of
from stead.client.errors import Failed, Refused, StartOver, Unavailable, Unsupported
from stead.client.provider import CONSUMER
from stead.printing import class_order, in_class_order, printable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from stead import Changes, Site

app = typer.Typer(add_completion=False)

_KEPT_CHANGES = 50
_LINES = 50  # of one view without a terminal
_READ_CHANGES = 20  # changes of one response that are read with names and amounts


@app.command()
def top(
    interval: Annotated[
        float, typer.Option(min=0.2, max=3600, metavar="SECONDS", help="Seconds between two requests to the server.")
    ] = 2.0,
    pattern: Annotated[
        str, typer.Option("--filter", metavar="PATTERN", help="Only hosts whose names match, such as 'compute-1*'.")
    ] = "",
    resource_class: Annotated[
        str, typer.Option("--class", metavar="CLASS", help="Sort by this class. Default: by the fullest of each host.")
    ] = "",
    once: Annotated[bool, typer.Option("--once", help="Print one view and exit, as without a terminal.")] = False,
) -> None:
    """Watch the fullest and emptiest hosts, the sums, claims per second and changes, live.

    Keys: q quits, s sorts by use or by name, c sorts by another class, / filters by name.
    """
    view = View(pattern=pattern, resource_class=resource_class)
    with connect() as site:
        reader = Reader(site)
        reader.read()
        if options().json:
            print_json(frame_as_json(reader.frame, view))
        elif once or not (sys.stdout.isatty() and sys.stdin is not None and sys.stdin.isatty()):
            lines = shutil.get_terminal_size().lines if is_terminal(sys.stdout) else _LINES
            show_lines(draw_frame(reader.frame, view, line_width(), lines)[:-1])
        else:
            _live(reader, view, interval)


class Reader:
    """Reads the server again and again, and keeps what the view shows."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._token = site.changes().token
        self._read_at: float | None = None
        self.frame = Frame()

    def read(self) -> None:
        """Read what changed since the last time, and the hosts if anything did.

        A server that restarts leaves the view as it is, and says so in its changes.
        """
        now = datetime.now().astimezone()
        self.frame.time = f"{now:%H:%M:%S}"
        try:
            self._read(now)
        except (Unavailable, Failed) as error:
            if self._read_at is None:
                raise
            if not (self.frame.changes and self.frame.changes[-1].endswith(_AGAIN)):
                self.frame.changes.append(f"{now:%H:%M:%S} {summary(error)}{_AGAIN}")

    def _read(self, now: datetime) -> None:
        moment = time.monotonic()
        is_first = self._read_at is None
        # The changes before the hosts: a change in between is read twice instead of never.
        changes = self._changes()
        if is_first or changes is None or changes.changes:
            roots = fetch_roots(self._site, EVERY_TREE)
            if roots is None:
                raise CommandError("the server has no GET /provider_trees; stead top requires Stead with `stead 1.1`")
            self.frame.roots = roots
            with suppress(Refused, Unsupported):  # an older server, or a user who may not count
                self.frame.stranded = self._site.stranded().stranded
        if changes is not None:
            self._token = changes.token
            consumers = [each for each in changes.changes if each.kind == CONSUMER]
            providers = [each for each in changes.changes if each.kind != CONSUMER]
            if self._read_at is not None:
                claims = sum(not each.is_deletion for each in consumers)
                self.frame.rate = claims / max(moment - self._read_at, 0.001)
            lines = lines_of(self._site, providers[:_READ_CHANGES] + consumers[:_READ_CHANGES], now)
            self.frame.changes = [*self.frame.changes, *lines][-_KEPT_CHANGES:]
        self._read_at = moment

    def _changes(self) -> Changes | None:
        """What changed since the last time; None if that is not available any more."""
        try:
            return self._site.changes(self._token)
        except StartOver:
            self._token = self._site.changes().token
            return None


_AGAIN = "; trying again"


def _live(reader: Reader, view: View, interval: float) -> None:
    from rich.console import Group
    from rich.live import Live

    terminal = console()
    next_reading = time.monotonic() + interval
    with single_keys() as next_key, Live(console=terminal, screen=True, auto_refresh=False) as live:
        while True:
            lines = draw_frame(reader.frame, view, terminal.width, terminal.height)
            live.update(Group(*lines), refresh=True)
            keys = next_key(max(next_reading - time.monotonic(), 0))
            classes = sorted({name for root in reader.frame.roots for name in root.shown_amounts}, key=class_order)
            for key in [keys] if keys.startswith("\x1b") else keys:  # an arrow is several characters
                if not press(view, key[:1], classes):
                    return
            if time.monotonic() >= next_reading:
                reader.read()
                next_reading = time.monotonic() + interval


# Drawing.


KEYS = "q quit   s sort   c class   / filter"
_LEAST_ROWS = 3
_MOST_CHANGES = 6
_LEAST_FRAME = 12  # lines


@dataclass(slots=True)
class View:
    """What the reader chose.

    Attributes:
        order: ``used``: the fullest and the emptiest hosts; ``name``: all hosts by name.
        resource_class: the class by which hosts are full; empty: the fullest of each host.
        pattern: only hosts with such names.
        typing: the pattern while it is typed, else None.
    """

    order: str = "used"
    resource_class: str = ""
    pattern: str = ""
    typing: str | None = None


@dataclass(slots=True)
class Frame:
    """What is shown: roots with the sums of their trees, claims per second, recent changes, what the mix cannot use."""

    roots: Sequence[Provider] = ()
    rate: float | None = None
    changes: list[str] = field(default_factory=list)
    time: str = ""
    stranded: Mapping[str, int] = field(default_factory=dict)


def visible(frame: Frame, view: View) -> list[Provider]:
    """The hosts that pass the filter; a filter without ``*`` matches a part of the name."""
    pattern = view.pattern if "*" in view.pattern else f"*{view.pattern}*"
    return [root for root in frame.roots if not view.pattern or fnmatchcase(root.name, pattern)]


def ordered(roots: Sequence[Provider], view: View) -> list[Provider]:
    """The hosts by name, or the fullest first."""
    by_name = sorted(roots, key=lambda root: natural(root.name))
    if view.order == "name":
        return by_name
    return sorted(by_name, key=lambda root: _fill(root, view), reverse=True)


def draw_frame(frame: Frame, view: View, width: int, height: int) -> list[Text]:
    """Up to *height* lines, none longer than *width* cells."""
    roots = visible(frame, view)
    sums = sums_of(roots)
    lines = [_title(frame, view, roots, width), Text()]
    lines += list(draw_sums(f"all {len(roots):,} hosts", sums, width))[: max(height // 3, 1)]
    stranded = {name: amount for name, amount in frame.stranded.items() if amount}
    if stranded:
        lines.append(Text(shorten(f"stranded for the flavors: {in_words(stranded)}", width)))
    changes = frame.changes[-_MOST_CHANGES:] if height > 2 * _LEAST_FRAME else []
    changes = changes[-max(height // 6, 1) :]
    below = [Text(), Text("changes", style="bold"), *(Text(shorten(printable(each), width)) for each in changes)]
    below = below if changes else []
    keys = Text(shorten(_prompt(view), width), style="dim")
    room = height - len(lines) - len(below) - 1
    lines += list(_hosts(ordered(roots, view), view, width, room))[: max(room, 0)]
    return [*lines, *below, keys][:height]


def _hosts(roots: list[Provider], view: View, width: int, room: int) -> Iterator[Text]:
    if view.order == "name" or len(roots) <= max(room - 3, _LEAST_ROWS):
        yield from _table("hosts", roots[: max(room - 3, _LEAST_ROWS)], width)
        return
    rows = max((room - 8) // 2, _LEAST_ROWS)
    yield from _table("fullest", roots[:rows], width)
    yield from _table("emptiest", roots[::-1][:rows], width)


def _table(title: str, roots: list[Provider], width: int) -> Iterator[Text]:
    yield Text()
    yield Text(title, style="bold")
    groups = [TreeGroup(1, root.is_disabled, [root.name], root.shown_amounts) for root in roots]
    if groups:
        yield from draw_groups(groups, width, of_hosts=True)


def _title(frame: Frame, view: View, roots: Sequence[Provider], width: int) -> Text:
    providers = sum(root.hidden + 1 for root in roots)
    rate = "" if frame.rate is None else f"   {frame.rate:.1f} claims/s"
    by = f" of {view.resource_class}" if view.resource_class else ""
    chosen = f"   sorted by {view.order}{by}" + (f"   filter {view.pattern}" if view.pattern else "")
    text = f"{frame.time} {len(roots):,} hosts, {providers:,} providers{rate}{chosen}"
    return Text(shorten(printable(text.strip()), width), style="bold")


def _prompt(view: View) -> str:
    return KEYS if view.typing is None else f"filter: {printable(view.typing)}"


def _fill(root: Provider, view: View) -> float:
    amounts = root.shown_amounts
    if view.resource_class:
        return fill([amounts[view.resource_class]]) if view.resource_class in amounts else -1.0
    return fill(amounts.values())


def press(view: View, key: str, classes: Sequence[str]) -> bool:
    """Change *view* as *key* says; returns whether the view goes on."""
    if view.typing is not None:
        _type(view, key)
        return True
    if key == "q":
        return False
    if key == "s":
        view.order = "name" if view.order == "used" else "used"
    elif key == "c":
        choices = ["", *classes]
        place = choices.index(view.resource_class) if view.resource_class in choices else -1
        view.resource_class = choices[(place + 1) % len(choices)]
    elif key == "/":
        view.typing = ""
    return True


def _type(view: View, key: str) -> None:
    text = view.typing or ""
    if key in ("\r", "\n"):
        view.pattern, view.typing = text, None
    elif key == "\x1b":
        view.typing = None
    elif key in ("\x7f", "\b"):
        view.typing = text[:-1]
    elif key.isprintable():
        view.typing = text + key


def frame_as_json(frame: Frame, view: View) -> dict[str, Any]:
    """One frame: all hosts in the order of the view."""
    roots = ordered(visible(frame, view), view)
    return {
        "claims_per_second": frame.rate,
        "totals": _amounts(sums_of(roots)),
        "stranded": in_class_order(frame.stranded),
        "hosts": [
            {"uuid": root.uuid, "name": root.name, "providers": root.hidden + 1, "sums": _amounts(root.shown_amounts)}
            for root in roots
        ],
    }


def _amounts(amounts: dict[str, Amount]) -> dict[str, dict[str, int]]:
    return {name: amount_as_json(amount) for name, amount in in_class_order(amounts).items()}
