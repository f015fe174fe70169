"""``stead explain``: why a request has its candidates, or none."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

import typer

from stead.cli.arguments import options
from stead.cli.commands.candidates import Flavor, Query  # noqa: TC001  # Typer reads them
from stead.cli.errors import CommandError
from stead.cli.fetching.candidates import query_string, version_for
from stead.cli.fetching.flavors import with_flavor
from stead.cli.server import connect
from stead.cli.terminal import line_width, print_json, show_lines
from stead.client.errors import Unsupported

app = typer.Typer(add_completion=False)

_ROUTE = "/allocation_candidates/explain"


@app.command()
def explain(query: Query = None, flavor: Flavor = None) -> None:
    """Explain what each constraint of a request excludes, which providers almost fit, and what would help."""
    requested = with_flavor(query, flavor)
    with connect() as api:
        try:
            route = f"{_ROUTE}?{query_string(requested)}"
            explanation: dict[str, Any] = api.request("GET", route, stead=version_for(requested))
        except Unsupported as error:
            if error.status == HTTPStatus.NOT_FOUND:
                raise CommandError(f"{api.url} has no explanations: it is no Stead, or an older one") from error
            raise
    if options().json:
        print_json(explanation)
        return
    from stead.cli.drawing.explanation import draw_explanation

    show_lines(draw_explanation(explanation, line_width()))
