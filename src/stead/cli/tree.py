"""``stead tree``: provider trees with what is used and what is free, or a summary of many trees.

First the trees of a server and one provider in them, which other commands need too; then the command.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import parse_qsl
from uuid import UUID

import typer

from stead.cli.arguments import options
from stead.cli.errors import Negative
from stead.cli.forest import (
    amount_as_json,
    as_json,
    as_row,
    draw_forest,
    draw_groups,
    draw_hosts,
    draw_sums,
    group_trees,
    groups_as_json,
    plant,
    plant_root,
    prune,
    sort_trees,
    sums_of,
    walk,
)
from stead.cli.server import connect
from stead.cli.suggestions import no_provider
from stead.cli.terminal import line_width, page_lines, print_json, progress, wrapped
from stead.client import BY_NAME
from stead.printing import in_class_order

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from stead import Site, Tree
    from stead.cli.forest import Provider
    from stead.cli.text import Text

_PATTERN = re.compile(r"[*?\[]")
_PER_STEP = 50  # providers for which a progress bar moves


@dataclass(frozen=True, slots=True)
class TreeFilter:
    """A filter of trees: a tree passes if a single provider passes all conditions.

    Attributes:
        provider: a provider of the tree, as :func:`references` returns it.
        name: the name of a provider, or a pattern with ``*``, ``?`` and ``[…]``.
        traits: each is a trait, ``!`` and a trait, or ``in:`` and several.
        aggregates: each is the UUID of an aggregate, or ``in:`` and several.
    """

    provider: str | None = None
    name: str | None = None
    traits: tuple[str, ...] = ()
    aggregates: tuple[str, ...] = ()

    @property
    def filters(self) -> dict[str, Any]:
        """Those of :meth:`stead.Site.trees`. Their patterns support only ``*``, so they may match more than this."""
        filters: dict[str, Any] = {}
        if self.provider is not None:
            filters["in_tree"] = self.provider
        if self.name is not None:
            filters["name"] = re.sub(r"\?|\[.[^]]*\]", "*", self.name)
        if self.traits:
            filters["required"] = self.traits
        if self.aggregates:
            filters["member_of"] = self.aggregates
        return filters

    @property
    def needs_admission(self) -> bool:
        """Whether the API's pattern matches more than this one."""
        return self.name is not None and ("?" in self.name or "[" in self.name)

    def admits(self, tree: Provider) -> bool:
        """Whether one provider of *tree* passes all conditions."""
        providers = list(walk([tree]))
        if self.provider is not None and not any(is_called(self.provider, each) for each in providers):
            return False
        return any(self.passes(each) for each in providers)

    def passes(self, provider: Provider) -> bool:
        """Whether *provider* passes the conditions on names, traits and aggregates."""
        if self.name is not None and not fnmatchcase(provider.name, self.name):
            return False
        return all(_matches(value, provider.traits) for value in self.traits) and all(
            _matches(value, provider.aggregates) for value in self.aggregates
        )


EVERY_TREE = TreeFilter()


def uuid_of(text: str) -> str | None:
    """*text* as the API spells a UUID; None if it is not a UUID."""
    try:
        return str(UUID(text))
    except ValueError:
        return None


def references(called: str) -> list[str]:
    """What *called* may refer to, the first that exists: a UUID, or ``name:`` and a name that may look like one."""
    if called.startswith(BY_NAME):
        return [called]
    uuid = uuid_of(called)
    return [f"{BY_NAME}{called}"] if uuid is None else [uuid, f"{BY_NAME}{called}"]


def is_called(reference: str, provider: Provider) -> bool:
    """Whether *reference*, of :func:`references`, is to *provider*."""
    return reference in (provider.uuid, BY_NAME + provider.name)


def is_pattern(text: str) -> bool:
    """Whether *text* is a pattern for several names."""
    return _PATTERN.search(text) is not None


def _matches(value: str, names: list[str]) -> bool:
    """Whether *names* match one value of ``required`` or ``member_of``."""
    if value.startswith("in:"):
        return any(name in names for name in value[3:].split(","))
    if value.startswith("!in:"):
        return all(name not in names for name in value[4:].split(","))
    return all((name[1:] not in names) if name.startswith("!") else name in names for name in value.split(","))


def fetch_roots(site: Site, chosen: TreeFilter) -> list[Provider] | None:
    """The roots of the matching trees, each with the sums of its tree; None if the server cannot list roots alone.

    Raises:
        Refused: the server refused, for example an unknown trait.
    """
    from stead.client.calls import MOST_TREES
    from stead.client.errors import Unsupported

    if chosen.needs_admission:
        return None
    try:
        return [plant_root(tree) for tree in site.trees(**chosen.filters, depth=0, totals=True, limit=MOST_TREES)]
    except Unsupported:
        return None


def fetch_trees(
    site: Site, chosen: TreeFilter, advance: Callable[[int, int | None], object] = lambda _done, _all: None
) -> list[Provider]:
    """The matching trees, with all data of their providers.

    Args:
        advance: called with the number of providers read so far, and None.

    Raises:
        Refused: the server refused, for example an unknown trait.
    """
    from stead.client.errors import Unsupported

    try:
        tops = _planted(site.trees(**chosen.filters), advance)
        return [top for top in tops if chosen.admits(top)] if chosen.needs_admission else tops
    except Unsupported:
        # OpenStack Placement lists trees by one provider only, so the other conditions are applied here.
        filters = {} if chosen.provider is None else {"in_tree": chosen.provider}
        return [top for top in _planted(site.trees(**filters), advance) if chosen.admits(top)]


def _planted(trees: Iterable[Tree], advance: Callable[[int, int | None], object]) -> list[Provider]:
    tops: list[Provider] = []
    done = shown = 0
    for tree in trees:
        tops += plant(tree)
        done += len(tree)
        if done >= shown + _PER_STEP:
            advance(done, None)
            shown = done
    return tops


def fetch_names(site: Site) -> list[str]:
    """The names of all providers."""
    return [provider.name for provider in site.providers()]


@dataclass(frozen=True, slots=True)
class Located:
    """A provider and its ancestors, the root first."""

    provider: Provider
    above: tuple[Provider, ...]

    @property
    def path(self) -> list[str]:
        """The names from the root to the provider."""
        return [each.name for each in (*self.above, self.provider)]


def find(site: Site, called: str) -> Located:
    """The provider with this UUID or name, and all its descendants. ``name:`` before a name is accepted.

    Raises:
        Negative: it does not exist.
    """
    located = find_provider(site, called)
    if located is None:
        raise no_provider(called, fetch_names(site))
    return located


def find_provider(site: Site, called: str, chosen: TreeFilter = EVERY_TREE) -> Located | None:
    """Like :func:`find`; None if it does not exist, or its tree does not pass *chosen*."""
    for reference in references(called):
        for top in fetch_trees(site, replace(chosen, provider=reference)):
            by_uuid = {each.uuid: each for each in walk([top])}
            for each in by_uuid.values():
                if is_called(reference, each):
                    above: list[Provider] = []
                    parent = by_uuid.get(each.parent or "")
                    while parent is not None:
                        above.insert(0, parent)
                        parent = by_uuid.get(parent.parent or "")
                    return Located(each, tuple(above))
    return None


def reference_to(site: Site, called: str) -> str:
    """How the API refers to the provider with this UUID or name: a UUID, or ``name:`` and a name. It may not exist."""
    for reference in references(called)[:-1]:
        if _exists(site, uuid=reference):
            return reference
    return references(called)[-1]


def require_named(site: Site, query: str) -> None:
    """Check that the providers exist that a candidate *query* refers to (``in_tree=name:…``).

    Raises:
        Negative: the first that does not exist. For the API, nothing fits in the tree of such a provider.
    """
    for value in (value for key, value in parse_qsl(query) if key.startswith(("in_tree", "in_subtree"))):
        name = value.removeprefix(BY_NAME)
        if name != value:
            if not _exists(site, name=name):
                raise no_provider(name, fetch_names(site))
        elif not _exists(site, uuid=value):
            raise Negative(
                f"no resource provider has the uuid {value}"
                + (f"; one has it as its name: {BY_NAME}{value}" if _exists(site, name=value) else "")
            )


def _exists(site: Site, **filters: str) -> bool:
    return any(True for _ in site.providers(**filters))


# The command.


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
            help="Number of levels to show below the roots, with the sums of the rest. 0: a line for each root. "
            "Default: all.",
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
    with connect() as site:
        if root is not None and not is_pattern(root):
            tops = _named(site, chosen, root, depth)
        elif summary or depth == 0 or may_summarise:
            tops = _roots_or_trees(site, chosen, root, depth, most=0 if summary or depth is not None else SUMMARY_ABOVE)
        else:
            tops = _trees(site, chosen, root, depth)
    sort_trees(tops, (sort or Order.NAME).value)
    is_summary = summary or (may_summarise and len(tops) > SUMMARY_ABOVE)
    if options().json:
        if is_summary:
            print_json(summary_as_json(tops, sort))
        else:
            # A row for each provider, with its parent in the place of its children.
            rows = [as_row(provider) for provider in walk(tops)]
            print_json({"roots": [as_json(top) for top in tops]}, rows)
    elif is_summary:
        page_lines(draw_summary(tops, sort, line_width()))
    elif depth == 0 and not traits:
        page_lines(draw_hosts(tops, line_width()))
    else:
        page_lines(draw_forest(tops, line_width(), traits=traits))


def _named(site: Site, chosen: TreeFilter, root: str, depth: int | None) -> list[Provider]:
    """The provider *root*, by UUID or name, with its descendants.

    Raises:
        Negative: it does not exist, or its tree does not pass the filter.
    """
    located = find_provider(site, root, chosen)
    if located is None:
        raise no_provider(root, fetch_names(site))
    tops = [located.provider]
    if depth is not None:
        prune(tops, depth)
    return tops


def _roots_or_trees(site: Site, chosen: TreeFilter, root: str | None, depth: int | None, most: int) -> list[Provider]:
    """Whole trees up to the number *most*, else roots with the sums of their trees."""
    roots = fetch_roots(site, _of_roots(chosen, root))
    if roots is not None:
        roots = _matching(roots, root)
        return roots if len(roots) > most else _trees(site, chosen, root, depth)
    tops = _trees(site, chosen, root, depth)  # the server does not support sums
    if len(tops) > most:
        prune(tops, 0)
    return tops


def _trees(site: Site, chosen: TreeFilter, root: str | None, depth: int | None) -> list[Provider]:
    with progress("reading providers") as advance:
        tops = _matching(fetch_trees(site, _of_roots(chosen, root), advance), root)
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
    from stead.cli.text import Text

    providers = sum(root.hidden + 1 for root in roots)
    yield from draw_groups(group_trees(roots, order), width)
    yield Text()
    yield from draw_sums(f"all {len(roots):,} trees", sums_of(roots), width)
    yield Text()
    more = (
        f"{providers:,} providers. For more: `stead tree NAME`, `--filter PATTERN`, `--depth 0`, `--all`, `stead top`."
    )
    yield from wrapped(Text(more, style="dim"), width)
