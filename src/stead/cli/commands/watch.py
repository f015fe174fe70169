"""``stead watch``: prints changes of providers and consumers as they happen."""

from __future__ import annotations

import sys
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stead.cli.arguments import options
from stead.cli.fetching.changes import fetch_changes, fetch_details
from stead.cli.server import connect
from stead.cli.terminal import json_text, machine_readable, say
from stead.domain.names import one_line

if TYPE_CHECKING:
    from stead import Site

app = typer.Typer(add_completion=False)

_SECONDS = 30
_TIME = 9  # cells of "18:59:11 "


@app.command()
def watch(
    since: Annotated[
        str | None,
        typer.Option(
            metavar="TOKEN", help="Print changes after this token of --json. Default: from now on.", show_default=False
        ),
    ] = None,
    once: Annotated[
        bool, typer.Option("--once", help="End after the first response; without --since, it is a token.")
    ] = False,
    wait: Annotated[int, typer.Option(min=0, max=60, help="Seconds to wait for each response.")] = _SECONDS,
) -> None:
    """Print changes of providers and consumers, with the amounts, until you press Ctrl-C."""
    names: dict[str, str] = {}
    with connect() as api:
        for told in fetch_changes(api, since, wait, _lost):
            if options().json:
                print(json_text(told), file=machine_readable(), flush=True)
            else:
                _print_lines(api, told, names)
            if once:
                return


def _print_lines(api: Site, told: dict[str, Any], names: dict[str, str]) -> None:
    from stead.cli.drawing.changes import line_of

    now = datetime.now().astimezone()
    for change in fetch_details(api, told, names):
        say(line_of(change, now), indent=_TIME)
        sys.stdout.flush()


def _lost(reason: str) -> None:
    print(f"stead: {one_line(reason)}; trying again", file=sys.stderr, flush=True)
