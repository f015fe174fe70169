"""``stead claim``: claim allocation candidates, for one consumer or for several."""

from __future__ import annotations

import uuid  # noqa: TC003  # Typer reads the annotations
from typing import Annotated, Any

import typer

from stead.cli.arguments import options
from stead.cli.claiming import Claimed, Owner, claim_gang, claim_place
from stead.cli.commands.candidates import Flavor, Query  # noqa: TC001  # Typer reads them
from stead.cli.errors import CommandError
from stead.cli.fetching.flavors import with_flavor
from stead.cli.server import connect
from stead.cli.terminal import line_width, print_json, show_lines
from stead.client.calls import OWN
from stead.client.consumers import DEFAULT_TYPE, names_of_gang, uuid_of
from stead.domain.names import printable

app = typer.Typer(add_completion=False)

_MOST_CLAIMS = 1000


@app.command()
def claim(
    project: Annotated[str, typer.Option(help="Project of the consumer.")],
    user: Annotated[str, typer.Option(help="User of the consumer.")],
    query: Query = None,
    flavor: Flavor = None,
    consumer: Annotated[
        uuid.UUID | None,
        typer.Option(metavar="UUID", help="UUID of the consumer. Default: a new UUID."),
    ] = None,
    consumer_name: Annotated[
        str | None,
        typer.Option(help="Name of the consumer, instead of a UUID. The same name is always the same consumer."),
    ] = None,
    consumer_type: Annotated[
        str | None,
        typer.Option("--type", help=f"The consumer's type; {DEFAULT_TYPE} for a new consumer.", show_default=False),
    ] = None,
    count: Annotated[
        int, typer.Option(min=1, max=_MOST_CLAIMS, help="Number of consumers; all get a place, or none.")
    ] = 1,
    distinct_hosts: Annotated[
        bool, typer.Option("--distinct-hosts", help="Place each of several consumers under another root.")
    ] = False,
    replace: Annotated[
        bool, typer.Option("--replace", help="Also claim for consumers with allocations, instead of those.")
    ] = False,
    wait: Annotated[
        float, typer.Option(min=0, help="Seconds to wait for room if nothing fits. Default 0: do not wait.")
    ] = 0,
) -> None:
    """Claim a place where a request fits: the best by its order_by, else a random one.

    The same claim can be repeated. Another claim for a consumer with allocations is refused. With --replace, it resizes
    the consumer: its allocations count as free. It stays in its tree if it fits there, unless the query has order_by or
    in_tree.
    """
    if consumer is not None and consumer_name is not None:
        raise CommandError("give either --consumer or --consumer-name")
    if consumer_name == "":
        raise CommandError("the value of --consumer-name is empty")
    requested = with_flavor(query, flavor)
    names = names_of_gang(consumer or consumer_name, count)
    owners = [Owner(uuid_of(name), project, user, consumer_type) for name in names]
    with connect() as api:

        def attempt() -> list[Claimed]:
            if count == 1:
                return [claim_place(api, requested, owners[0], replace=replace)]
            if not api.supports(OWN):
                raise CommandError("--count requires Stead: the server has no POST /claims")
            return claim_gang(api, requested, owners, distinct_roots=distinct_hosts, replace=replace)

        if wait:
            from stead.cli.waiting_for_room import until_it_fits

            claimed = until_it_fits(api, attempt, wait)
        else:
            claimed = attempt()
    report(owners, claimed, names if count > 1 or consumer_name is not None else None)


def report(owners: list[Owner], claimed: list[Claimed], names: list[str] | None = None) -> None:
    """Say what *owners* have now; *names* are theirs, if they have any."""
    titles = [owner.consumer for owner in owners]
    if names is not None:
        titles = [uuid if uuid == name else f"{uuid} ({name})" for uuid, name in zip(titles, names, strict=True)]
    if options().json:
        told = [_as_json(owner, each) for owner, each in zip(owners, claimed, strict=True)]
        if names is not None:
            told = [{"consumer_name": name, **each} for name, each in zip(names, told, strict=True)]
        print_json(told[0] if len(told) == 1 else {"claims": told})
        return
    from stead.cli.drawing.candidates import draw_claim

    for place, (title, each) in enumerate(zip(titles, claimed, strict=True)):
        again = f", at try {each.tries}" if each.tries > 1 else ""
        instead = ", in place of what it held" if each.replaced else ""
        print(f"{chr(10) if place else ''}claimed for consumer {printable(title)}{instead}{again}\n")
        show_lines(draw_claim(each.candidate, each.names, line_width()))


def _as_json(owner: Owner, claimed: Claimed) -> dict[str, Any]:
    from stead.cli.drawing.candidates import candidate_as_json

    return {
        "consumer": owner.consumer,
        "tries": claimed.tries,
        "replaced": claimed.replaced,
        **candidate_as_json(claimed.candidate, claimed.names),
    }
