"""``stead release``: release the allocations of one consumer, or of several that are listed first."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated
from urllib.parse import quote

import typer

from stead.cli.arguments import options
from stead.cli.claiming import describe
from stead.cli.commands.consumers import Project, Type, User  # noqa: TC001  # Typer reads them
from stead.cli.errors import NO, CommandError
from stead.cli.fetching.consumers import (
    Consumer,
    ConsumerFilter,
    fetch_consumer,
    fetch_consumers,
    fetch_consumers_of_tree,
    fetch_places,
)
from stead.cli.fetching.providers import fetch_provider
from stead.cli.server import connect, summary
from stead.cli.terminal import console, line_width, print_json, progress, say, show_lines
from stead.client import calls
from stead.client.consumers import uuid_of
from stead.client.errors import Refused, Unreachable
from stead.domain.names import one_line, printable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from stead import Site
    from stead.cli.fetching.consumers import Place

app = typer.Typer(add_completion=False)


@app.command()
def release(
    consumer: Annotated[
        str | None, typer.Argument(help="UUID or name of the consumer. Or give options.", show_default=False)
    ] = None,
    project: Project = None,
    user: User = None,
    consumer_type: Type = None,
    all_of: Annotated[
        str | None,
        typer.Option(
            metavar="HOST", help="Only consumers of a host. All their allocations are released, also elsewhere."
        ),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Release without asking.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="List the consumers without releasing anything.")] = False,
) -> None:
    """Release all allocations of a consumer, or of all consumers that options select."""
    chosen = ConsumerFilter(project, user, consumer_type)
    is_selected = bool(chosen.query) or all_of is not None
    if (consumer is None) != is_selected:
        raise CommandError(
            "give either a consumer, or --project, --user, --type or --all-of (see `stead release --help`)"
        )
    with connect() as api:
        if consumer is not None:
            _release_one(api, uuid_of(consumer or "–"), dry_run=dry_run)
            return
        with progress("reading consumers") as advance:
            listed = fetch_consumers(api, chosen, advance) if all_of is None else _of_host(api, all_of, chosen)
        _release_several(api, listed, yes=yes, dry_run=dry_run)


def _release_one(api: Site, uuid: str, *, dry_run: bool) -> None:
    path = f"/allocations/{quote(uuid, safe='')}"
    allocations = api.request("GET", path)["allocations"]
    if not dry_run:
        api.request("DELETE", path)
    if options().json:
        print_json({"consumer": uuid, "released": allocations, **({"dry_run": True} if dry_run else {})})
    else:
        say(f"{'would release' if dry_run else 'released'} {printable(uuid)}: {describe(allocations)}")


def _of_host(api: Site, host: str, chosen: ConsumerFilter) -> list[Consumer]:
    """The consumers of a host that pass, with all their allocations."""
    of_tree = fetch_consumers_of_tree(api, fetch_provider(api, host).provider)
    consumers = [fetch_consumer(api, each.uuid) for each in of_tree if chosen.admits(each)]
    return [each for each in consumers if each is not None]


def _release_several(api: Site, listed: Sequence[Consumer], *, yes: bool, dry_run: bool) -> None:
    """List, ask, and release each at the generation that was listed, so that a changed consumer stays."""
    from stead.cli.drawing.consumers import consumer_as_json, draw_consumers

    places = fetch_places(api, (provider for each in listed for provider in each.allocations))
    if not options().json:
        show_lines(draw_consumers(listed, places, line_width()))
    if listed and not (dry_run or yes or _agreed(listed, places)):
        raise CommandError("nothing was released")
    failures: dict[str, str] = {}
    for each in listed if not dry_run else ():
        try:
            _release_at_generation(api, each)
        except Unreachable:
            raise
        except Refused as error:
            failures[each.uuid] = summary(error)
    released = [each for each in listed if each.uuid not in failures]
    if options().json:
        print_json(
            {
                "dry_run": dry_run,
                "released": [consumer_as_json(each, places) for each in released],
                "failed": [{"uuid": uuid, "reason": reason} for uuid, reason in failures.items()],
            }
        )
    else:
        for uuid, reason in failures.items():
            say(one_line(f"not released: {uuid}: {reason}"))
        if listed and not dry_run:
            say(f"released {len(released):,} of {_consumers(len(listed))}")
    if failures:
        raise typer.Exit(NO)


def _agreed(listed: Sequence[Consumer], places: Mapping[str, Place]) -> bool:
    """Whether the operator says yes; an end of the input is a no.

    Raises:
        CommandError: there is no terminal to ask on.
    """
    if sys.stdin is None or not sys.stdin.isatty():
        raise CommandError("releasing several consumers without a terminal requires --yes (--dry-run lists them)")
    if options().json:  # the list belongs on the terminal, and JSON alone on stdout
        from stead.cli.drawing.consumers import draw_consumers

        terminal = console(stderr=True)
        for line in draw_consumers(listed, places, terminal.width):
            terminal.print(line, soft_wrap=True)
    try:
        return typer.confirm(f"Release all allocations of {_consumers(len(listed))}?", err=True)
    except typer.Abort:
        return False


def _consumers(count: int) -> str:
    return "1 consumer" if count == 1 else f"{count:,} consumers"


def _release_at_generation(api: Site, consumer: Consumer) -> None:
    call = calls.release(consumer.uuid, consumer.project, consumer.user, consumer.type, consumer.generation)
    api.request(call.method, call.target, call.body)
