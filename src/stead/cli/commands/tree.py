"""``stead tree``: provider trees with what is used and what is free, or a summary of many trees."""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stead.class_order import in_class_order
from stead.cli.arguments import options
from stead.cli.errors import Negative
from stead.cli.fetching.providers import find_provider
from stead.cli.fetching.trees import TreeFilter, fetch_names, fetch_roots, fetch_trees, is_pattern
from stead.cli.forest import (
    amount_as_json,
    as_json,
    draw_groups,
    group_trees,
    groups_as_json,
    prune,
    sort_trees,
    sums_of,
)
from stead.cli.server import connect
from stead.cli.suggestions import no_provider
from stead.cli.terminal import line_width, page_lines, print_json, progress

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.text import Text

    from stead import Site
    from stead.cli.forest import Provider

app = typer.Typer(add_completion=False)

SUMMARY_ABOVE = 50
"""Above this number of trees, a summary is shown."""


class Order(StrEnum):
    """Sort orders of trees."""

    USED = "used"
    FREE = "free"
    NAME = "name"


@app.command()
def tree(
    root: Annotated[
        str | None,
        typer.Argument(
            help="Show only this provider and what is below it: a UUID, a name, or a pattern such as 'compute-1*'.",
            metavar="PROVIDER",
            show_default=False,
        ),
    ] = None,
    name: Annotated[
        str | None, typer.Option("--filter", metavar="PATTERN", help="Only trees with a provider whose name matches.")
    ] = None,
    trait: Annotated[
        list[str] | None, typer.Option(help="Only trees with a provider that has the trait; repeatable.")
    ] = None,
    aggregate: Annotated[
        list[str] | None,
        typer.Option(metavar="UUID", help="Only trees with a provider in the aggregate; repeatable."),
    ] = None,
    sort: Annotated[
        Order | None,
        typer.Option(metavar="used|free|name", help="Fullest or emptiest trees first, or by name. Default: name."),
    ] = None,
    depth: Annotated[
        int | None,
        typer.Option(
            min=0,
            metavar="LEVELS",
            help="Number of levels to show below the roots, with the sums of the rest. 0: only roots. Default: all.",
        ),
    ] = None,
    traits: Annotated[bool, typer.Option("--traits", help="Show the traits of each provider.")] = False,
    everything: Annotated[
        bool, typer.Option("--all", help=f"Show every tree, not a summary, above {SUMMARY_ABOVE} trees.")
    ] = False,
    summary: Annotated[bool, typer.Option("--summary", help="Show a summary of any number of trees.")] = False,
) -> None:
    """Show provider trees with their usage; above 50 trees, a summary with equal trees on one line."""
    chosen = TreeFilter(None, name, tuple(trait or ()), tuple(aggregate or ()))
    may_summarise = not (everything or depth is not None or options().json or (root and not is_pattern(root)))
    with connect() as api:
        if root is not None and not is_pattern(root):
            tops = _named(api, chosen, root, depth)
        elif summary or depth == 0 or may_summarise:
            tops = _roots_or_trees(api, chosen, root, depth, most=0 if summary or depth is not None else SUMMARY_ABOVE)
        else:
            tops = _trees(api, chosen, root, depth)
    sort_trees(tops, (sort or Order.NAME).value)
    is_summary = summary or (may_summarise and len(tops) > SUMMARY_ABOVE)
    if options().json:
        print_json(summary_as_json(tops, sort) if is_summary else {"roots": [as_json(top) for top in tops]})
    elif is_summary:
        page_lines(draw_summary(tops, sort, line_width()))
    else:
        from stead.cli.forest import draw_forest

        page_lines(draw_forest(tops, line_width(), traits=traits))


def _named(api: Site, chosen: TreeFilter, root: str, depth: int | None) -> list[Provider]:
    """The provider *root*, by UUID or name, with its descendants.

    Raises:
        Negative: it does not exist, or its tree does not pass the filter.
    """
    located = find_provider(api, root, chosen)
    if located is None:
        raise no_provider(root, fetch_names(api).values())
    tops = [located.provider]
    if depth is not None:
        prune(tops, depth)
    return tops


def _roots_or_trees(api: Site, chosen: TreeFilter, root: str | None, depth: int | None, most: int) -> list[Provider]:
    """Whole trees up to the number *most*, else roots with the sums of their trees."""
    roots = fetch_roots(api, _of_roots(chosen, root))
    if roots is not None:
        roots = _matching(roots, root)
        return roots if len(roots) > most else _trees(api, chosen, root, depth)
    tops = _trees(api, chosen, root, depth)  # the server does not support sums
    if len(tops) > most:
        prune(tops, 0)
    return tops


def _trees(api: Site, chosen: TreeFilter, root: str | None, depth: int | None) -> list[Provider]:
    with progress("reading providers") as advance:
        tops = _matching(fetch_trees(api, _of_roots(chosen, root), advance), root)
    if depth is not None:
        prune(tops, depth)
    return tops


def _of_roots(chosen: TreeFilter, root: str | None) -> TreeFilter:
    """The filter with the pattern *root* added. The API accepts one pattern; :func:`_matching` applies the other."""
    return chosen if root is None or chosen.name is not None else replace(chosen, name=root)


def _matching(tops: list[Provider], root: str | None) -> list[Provider]:
    """The trees whose roots match the pattern *root*.

    Raises:
        Negative: there are none.
    """
    if root is None:
        return tops
    matching = [top for top in tops if fnmatchcase(top.name, root)]
    if not matching:
        raise Negative(f"no resource provider {root!r}")
    return matching


def summary_as_json(roots: list[Provider], order: Order | None) -> dict[str, Any]:
    """The summary: ``groups`` of equal trees, and ``totals``."""
    totals = {name: amount_as_json(amount) for name, amount in in_class_order(sums_of(roots)).items()}
    return {"trees": len(roots), "groups": groups_as_json(group_trees(roots, order)), "totals": totals}


def draw_summary(roots: list[Provider], order: Order | None, width: int) -> Iterator[Text]:
    """The lines of the summary, none longer than *width* cells."""
    from rich.text import Text

    from stead.cli.forest import draw_sums
    from stead.cli.terminal import wrapped

    providers = sum(root.hidden + 1 for root in roots)
    yield from draw_groups(group_trees(roots, order), width)
    yield Text()
    yield from draw_sums(f"all {len(roots):,} trees", sums_of(roots), width)
    yield Text()
    more = (
        f"{providers:,} providers. For more: `stead tree NAME`, `--filter PATTERN`, `--depth 0`, `--all`, `stead top`."
    )
    yield from wrapped(Text(more, style="dim"), width)
