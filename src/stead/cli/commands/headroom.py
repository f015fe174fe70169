"""``stead headroom``: how many times a request fits."""

from __future__ import annotations

from contextlib import suppress
from http import HTTPStatus
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import parse_qsl, urlencode

import typer

from stead.cli.arguments import options
from stead.cli.commands.candidates import Flavor, Query  # noqa: TC001  # Typer reads them
from stead.cli.errors import CommandError
from stead.cli.fetching.candidates import query_string
from stead.cli.fetching.flavors import find_flavor, with_flavor
from stead.cli.server import connect
from stead.cli.terminal import line_width, print_json, show_lines
from stead.client.calls import TREES
from stead.client.errors import Refused, Unsupported

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from stead import Site

app = typer.Typer(add_completion=False)

_ROUTE = "/headroom"
_MOST_TREES = 10_000


@app.command()
def headroom(
    query: Query = None,
    flavor: Flavor = None,
    mix: Annotated[
        str | None,
        typer.Option(
            metavar="FLAVOR:WEIGHT,…",
            help="Count how many times several flavors fit together, such as m1.small:3,m1.large:1. "
            "QUERY can restrict all of them.",
        ),
    ] = None,
    top: Annotated[
        int, typer.Option(min=0, metavar="COUNT", help="Maximum number of trees to show. 0 shows all.")
    ] = 10,
) -> None:
    """Show how many times a request can be claimed until nothing fits, where, and what runs out first."""
    if mix is not None and flavor is not None:
        raise CommandError("use --flavor or --mix, not both")
    requested = with_flavor(query, flavor) if mix is None else _with_mix(query, mix)
    with connect() as api:
        try:
            question = query_string(requested, _MOST_TREES) if mix is None else requested
            answer = api.request("GET", f"{_ROUTE}?{question}", stead=TREES)
        except Unsupported as error:
            if error.status == HTTPStatus.NOT_FOUND:
                raise CommandError(f"{api.url} has no headroom: it is no Stead, or an older one") from error
            raise
        names = [flavor] if flavor is not None else [part.partition(":")[0] for part in (mix or "").split(",") if part]
        notes = [] if options().json else list(_notes(api, names))
    bounds: dict[str, Any] = answer["headroom"]
    if options().json:
        print_json(bounds)
        return
    from stead.cli.drawing.flavors import draw_notes
    from stead.cli.drawing.headroom import draw_headroom, draw_mix

    if mix is not None:
        show_lines([*draw_mix(bounds, line_width()), *draw_notes(notes, line_width())])
        return
    is_ordered = any(key == "order_by" for key, _ in parse_qsl(requested))
    lines = draw_headroom(bounds, line_width(), top or None, is_ordered=is_ordered)
    show_lines([*lines, *draw_notes(notes, line_width())])


def _notes(api: Site, names: Iterable[str]) -> Iterator[tuple[str, str]]:
    """The flavors of *names* that have descriptions, with these: an import writes there what the count leaves out."""
    for name in names:
        with suppress(Refused, CommandError):  # this user may count flavors, but not read them
            flavor = find_flavor(api, name)
            if flavor is not None and flavor["description"]:
                yield name, flavor["description"]


def _with_mix(query: str | None, mix: str) -> str:
    return "&".join([*([query_string(query)] if query else []), urlencode({"mix": mix}, safe=":,")])
