"""``stead candidates``: where a request fits."""

from __future__ import annotations

from typing import Annotated

import typer

from stead.cli.arguments import options
from stead.cli.errors import Negative
from stead.cli.fetching.candidates import FLAVOR_HELP, QUERY_HELP, ask, names_of, query_string
from stead.cli.fetching.flavors import with_flavor
from stead.cli.fetching.providers import require_named
from stead.cli.server import connect
from stead.cli.terminal import line_width, print_json, show_lines

app = typer.Typer(add_completion=False)

_DEFAULT_LIMIT = 20

Query = Annotated[str | None, typer.Argument(help=QUERY_HELP, show_default=False)]
Flavor = Annotated[str | None, typer.Option(help=FLAVOR_HELP)]


@app.command()
def candidates(
    query: Query = None,
    flavor: Flavor = None,
    limit: Annotated[
        int, typer.Option(min=1, help="Maximum number of candidates. A limit in the query overrides it.")
    ] = _DEFAULT_LIMIT,
) -> None:
    """List allocation candidates, and what stays free after a claim."""
    requested = with_flavor(query, flavor)
    question = query_string(requested, limit)
    with connect() as api:
        shown = ask(api, question)
        if not shown:
            require_named(api, question)
        names = names_of(api, shown)
    if options().json:
        from stead.cli.drawing.candidates import candidate_as_json

        print_json({"candidates": [candidate_as_json(candidate, names) for candidate in shown]})
    if not shown:
        raise Negative("nothing fits; `stead explain` with the same query says why")
    if options().json:
        return
    from stead.cli.drawing.candidates import draw_candidates

    show_lines(draw_candidates(shown, names, line_width()))
    if len(shown) == limit and question != query_string(requested):
        print(f"The first {limit} are shown; --limit shows more.")
