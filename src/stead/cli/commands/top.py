"""``stead top``: a live view of the fullest and the emptiest hosts, sums, claims per second and changes."""

from __future__ import annotations

import sys
import time
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stead.class_order import class_order
from stead.cli.arguments import options
from stead.cli.drawing.changes import line_of
from stead.cli.drawing.top import Frame, View, draw_frame, frame_as_json, press
from stead.cli.errors import CommandError
from stead.cli.fetching.changes import fetch_details, fetch_token
from stead.cli.fetching.trees import TreeFilter, fetch_roots
from stead.cli.server import connect, summary
from stead.cli.terminal import console, print_json, show_lines
from stead.client.calls import OWN
from stead.client.errors import Failed, StartOver, Unavailable

if TYPE_CHECKING:
    from stead import Site

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
    with connect() as api:
        reader = Reader(api)
        reader.read()
        if options().json:
            print_json(frame_as_json(reader.frame, view))
        elif once or not (sys.stdout.isatty() and sys.stdin is not None and sys.stdin.isatty()):
            terminal = console()
            lines = terminal.height if terminal.is_terminal else _LINES
            show_lines(draw_frame(reader.frame, view, terminal.width, lines)[:-1])
        else:
            _live(reader, view, interval)


class Reader:
    """Reads the server again and again, and keeps what the view shows."""

    def __init__(self, api: Site) -> None:
        self._api = api
        self._token = fetch_token(api)
        self._names: dict[str, str] = {}
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
        told = self._changes()
        if is_first or told is None or told["providers"] or told["consumers"]:
            roots = fetch_roots(self._api, TreeFilter())
            if roots is None:
                raise CommandError("the server has no GET /provider_trees; stead top requires Stead with `stead 1.1`")
            self.frame.roots = roots
        if told is not None:
            self._token = told["token"]
            if self._read_at is not None:
                claims = sum(consumer["generation"] is not None for consumer in told["consumers"])
                self.frame.rate = claims / max(moment - self._read_at, 0.001)
            few = {kind: told[kind][:_READ_CHANGES] for kind in ("providers", "consumers")}
            lines = [line_of(change, now) for change in fetch_details(self._api, few, self._names)]
            self.frame.changes = [*self.frame.changes, *lines][-_KEPT_CHANGES:]
        self._read_at = moment

    def _changes(self) -> dict[str, Any] | None:
        """What changed since the last time; None if that is not available any more."""
        try:
            told: dict[str, Any] = self._api.request("GET", "/changes", stead=OWN, since=self._token, timeout=0)
        except StartOver:
            self._token = fetch_token(self._api)
            return None
        return told


_AGAIN = "; trying again"


def _live(reader: Reader, view: View, interval: float) -> None:
    from rich.console import Group
    from rich.live import Live

    from stead.cli.terminal import single_keys

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
