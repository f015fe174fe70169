"""``stead explain``: why a request fits where it fits, or nowhere."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated, Any

import typer

from stead.cli.client import connect
from stead.cli.errors import ApiError, CommandError
from stead.cli.options import options
from stead.cli.output import line_width, print_json, show_lines
from stead.cli.request import QUERY_HELP, query_string

app = typer.Typer(add_completion=False)

_ROUTE = "/allocation_candidates/explain"


@app.command()
def explain(query: Annotated[str, typer.Argument(help=QUERY_HELP, show_default=False)]) -> None:
    """Explain what each constraint of a request excludes, which providers almost fit, and what would help."""
    with connect() as api:
        try:
            explanation: dict[str, Any] = api.get_own(f"{_ROUTE}?{query_string(query)}")
        except ApiError as error:
            if error.status == HTTPStatus.NOT_FOUND:
                raise CommandError(f"{api.url} has no explanations: it is no Stead, or an older one") from error
            raise
    if options().json:
        print_json(explanation)
        return
    from stead.cli.funnel_picture import draw_explanation

    show_lines(draw_explanation(explanation, line_width()))
