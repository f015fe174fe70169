"""``stead claim``: claim a place where a request fits."""

from __future__ import annotations

import uuid
from typing import Annotated

import typer

from stead.cli.claiming import DEFAULT_TYPE, Claimed, Owner, claim_place
from stead.cli.client import connect
from stead.cli.options import options
from stead.cli.output import line_width, print_json, show_lines
from stead.cli.request import QUERY_HELP
from stead.domain.printable import printable

app = typer.Typer(add_completion=False)


@app.command()
def claim(
    query: Annotated[str, typer.Argument(help=QUERY_HELP, show_default=False)],
    project: Annotated[str, typer.Option(help="Project of the consumer.")],
    user: Annotated[str, typer.Option(help="User of the consumer.")],
    consumer: Annotated[
        uuid.UUID | None,
        typer.Option(help="UUID of the consumer. The claim replaces its allocations. Default: a new UUID."),
    ] = None,
    consumer_type: Annotated[
        str | None,
        typer.Option("--type", help=f"The consumer's type; {DEFAULT_TYPE} for a new consumer.", show_default=False),
    ] = None,
) -> None:
    """Claim a place where a request fits: the best by its order_by, else a random one."""
    owner = Owner(str(consumer or uuid.uuid4()), project, user, consumer_type)
    with connect() as api:
        claimed = claim_place(api, query, owner)
    report(owner, claimed)


def report(owner: Owner, claimed: Claimed) -> None:
    """Say what *owner* holds now."""
    from stead.cli.candidate_table import candidate_as_json, draw_claim

    if options().json:
        print_json(
            {
                "consumer": owner.consumer,
                "tries": claimed.tries,
                "replaced": claimed.replaced,
                **candidate_as_json(claimed.candidate, claimed.names),
            }
        )
        return
    again = f", at try {claimed.tries}" if claimed.tries > 1 else ""
    instead = ", in place of what it held" if claimed.replaced else ""
    print(f"claimed for consumer {printable(owner.consumer)}{instead}{again}\n")
    show_lines(draw_claim(claimed.candidate, claimed.names, line_width()))
