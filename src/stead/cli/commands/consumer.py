"""``stead consumer``: one consumer."""

from __future__ import annotations

from typing import Annotated

import typer

from stead.cli.arguments import options
from stead.cli.errors import Negative
from stead.cli.fetching.consumers import fetch_consumer, fetch_places
from stead.cli.server import connect
from stead.cli.terminal import line_width, page_lines, print_json
from stead.client.consumers import uuid_of

app = typer.Typer(add_completion=False, no_args_is_help=True, help="Show one consumer.")


@app.callback()
def family() -> None:
    """Show one consumer."""


@app.command()
def show(
    consumer: Annotated[str, typer.Argument(help="UUID or name of the consumer.", show_default=False)],
) -> None:
    """Show one consumer: its owner, and its allocations by provider."""
    from stead.cli.drawing.consumers import consumer_as_json, draw_consumer

    uuid = uuid_of(consumer or "–")
    with connect() as api:
        shown = fetch_consumer(api, uuid)
        if shown is None:
            called = "" if uuid == consumer else f" (consumer {uuid})"
            raise Negative(f"no allocations of {consumer!r}{called}")
        places = fetch_places(api, shown.allocations)
    if options().json:
        print_json(consumer_as_json(shown, places))
    else:
        page_lines(draw_consumer(shown, places, line_width()))
