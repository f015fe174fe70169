"""``stead tree``: the provider forest with what is used, what is free, and traits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from stead.cli.client import connect
from stead.cli.forest import as_json, furnish, plant, prune, select, walk
from stead.cli.options import options
from stead.cli.output import console, line_width, print_json, show_lines

if TYPE_CHECKING:
    from stead.cli.client import Api
    from stead.cli.forest import Provider

app = typer.Typer(add_completion=False)

_WORTH_A_PROGRESS_BAR = 50


@app.command()
def tree(
    root: Annotated[
        str | None,
        typer.Argument(
            help="Show only this provider and what is below it: a UUID, a name, or a pattern such as 'compute-1*'.",
            show_default=False,
        ),
    ] = None,
    depth: Annotated[int | None, typer.Option(min=1, help="Number of levels to show. Default: all.")] = None,
) -> None:
    """Show provider trees with their usage, traits and aggregates."""
    with connect() as api:
        forest = load(api, root, depth)
    if options().json:
        print_json({"roots": [as_json(top) for top in forest]})
        return
    from stead.cli.forest_picture import draw_forest

    show_lines(draw_forest(forest, line_width()))


def load(api: Api, root: str | None, depth: int | None) -> list[Provider]:
    """The forest, or the part of it that *root* and *depth* name, with all that the API tells about it."""
    forest = plant(api.get("/resource_providers")["resource_providers"])
    if root is not None:
        forest = select(forest, root)
    if depth is not None:
        prune(forest, depth)
    providers = list(walk(forest))
    if len(providers) < _WORTH_A_PROGRESS_BAR:
        furnish(api, providers, lambda: None)
        return forest
    from rich.progress import Progress

    terminal = console(stderr=True)
    with Progress(console=terminal, transient=True, disable=not terminal.is_terminal) as progress:
        asking = progress.add_task("asking for providers", total=len(providers))
        furnish(api, providers, lambda: progress.advance(asking))
    return forest
