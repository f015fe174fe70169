"""``stead who``: the consumers of a host."""

from __future__ import annotations

from typing import Annotated

import typer

from stead.cli.commands.consumers import show_consumers
from stead.cli.fetching.consumers import fetch_consumers_of_tree
from stead.cli.fetching.providers import fetch_provider
from stead.cli.server import connect

app = typer.Typer(add_completion=False)


@app.command()
def who(
    host: Annotated[
        str, typer.Argument(metavar="HOST", help="UUID or name of a host, or of another provider.", show_default=False)
    ],
) -> None:
    """List the consumers of a host: those with allocations from it or a provider below it."""
    with connect() as api:
        show_consumers(api, fetch_consumers_of_tree(api, fetch_provider(api, host).provider))
