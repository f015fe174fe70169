"""``stead consumers``: lists consumers with their allocations."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from stead.cli.arguments import options, read_age
from stead.cli.errors import CommandError
from stead.cli.fetching.consumers import Consumer, ConsumerFilter, fetch_consumers, fetch_places
from stead.cli.server import connect
from stead.cli.terminal import line_width, page_lines, print_json, progress

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stead import Site

app = typer.Typer(add_completion=False)

Project = Annotated[str | None, typer.Option(help="Only consumers of this project.")]
User = Annotated[str | None, typer.Option(help="Only consumers of this user.")]
Type = Annotated[
    str | None, typer.Option("--type", metavar="TYPE", help="Only consumers of this type; unknown: those without one.")
]
OlderThan = Annotated[
    str | None, typer.Option(metavar="AGE", help="Only consumers that are older, such as 90s, 30m, 12h, 7d.")
]


@app.command()
def consumers(
    project: Project = None, user: User = None, consumer_type: Type = None, older_than: OlderThan = None
) -> None:
    """List consumers with their project, user, type, age, hosts and allocations, and the sums."""
    age = None if older_than is None else read_age("--older-than", older_than)
    with connect() as api:
        with progress("reading consumers") as advance:
            listed = fetch_consumers(api, ConsumerFilter(project, user, consumer_type), advance)
        if age is not None:
            listed = [each for each in listed if _created(each) <= datetime.now(UTC) - age]
        show_consumers(api, listed)


def show_consumers(api: Site, listed: Sequence[Consumer]) -> None:
    """Print *listed*, with the names of their hosts."""
    from stead.cli.drawing.consumers import consumers_as_json, draw_consumers

    places = fetch_places(api, (provider for each in listed for provider in each.allocations))
    if options().json:
        print_json(consumers_as_json(listed, places))
    else:
        page_lines(draw_consumers(listed, places, line_width()))


def _created(consumer: Consumer) -> datetime:
    if consumer.created_at is None:
        raise CommandError("the server does not tell the age of consumers; --older-than requires a newer Stead")
    return consumer.created_at
