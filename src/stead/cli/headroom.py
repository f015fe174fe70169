"""``stead headroom``: how many times a request fits, in which trees, what runs out first, and what is stranded."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import parse_qsl

import typer

from stead.cli.arguments import options
from stead.cli.candidates import NOTHING_FITS, Flavor, Query, with_flavor
from stead.cli.errors import CommandError, Negative
from stead.cli.server import connect
from stead.cli.terminal import (
    FULL,
    GAP,
    amount_text,
    beside,
    draw_list,
    in_words,
    lay_out,
    line_width,
    print_json,
    show_lines,
    widest,
    wrapped,
)
from stead.cli.text import Text
from stead.client.candidate import limit_words
from stead.client.errors import Refused
from stead.printing import in_class_order, printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from stead import Site, Stranded

Json = dict[str, Any]

app = typer.Typer(add_completion=False)


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
    """Show how many times a request can be claimed until nothing fits, where, and what runs out first.

    Without a request, show what is free on the site, and how much of it its mix of flavors cannot use.
    """
    if query is None and mix is None and flavor is None:
        with connect() as site:
            stranded = site.stranded()
        if options().json:
            print_json(stranded.document)
        else:
            show_lines(draw_stranded(stranded, line_width()))
        return
    if mix is not None and flavor is not None:
        raise CommandError("use --flavor or --mix, not both")
    requested = (query or "") if mix is not None else with_flavor(query, flavor)
    with connect() as site:
        answer = site.headroom(requested) if mix is None else site.headroom_of_mix(mix, query)
        names = [flavor] if flavor is not None else [part.partition(":")[0] for part in (mix or "").split(",") if part]
        notes = [] if options().json else list(_notes(site, names))
    bounds = answer.document
    if options().json:
        print_json(bounds)
    elif mix is not None:
        show_lines([*draw_mix(bounds, line_width()), *draw_notes(notes, line_width())])
    elif bounds["at_most"]:
        is_ordered = any(key == "order_by" for key, _ in parse_qsl(requested))
        lines = draw_headroom(bounds, line_width(), top or None, is_ordered=is_ordered)
        show_lines([*lines, *draw_notes(notes, line_width())])
    else:
        show_lines(draw_notes(notes, line_width()))
    if not bounds["at_most"]:
        raise Negative(NOTHING_FITS)


def _notes(site: Site, names: Iterable[str]) -> Iterator[tuple[str, str]]:
    """The flavors of *names* that have descriptions, with these: an import writes there what the count leaves out."""
    for name in names:
        with suppress(Refused):  # it was deleted meanwhile, or this user may count flavors, but not read them
            flavor = site.flavor(name)
            if flavor.description:
                yield name, flavor.description


_MOST_BAR = 12


def draw_headroom(headroom: Json, width: int, top: int | None, *, is_ordered: bool) -> Iterator[Text]:
    """The lines for a body of ``GET /headroom``, none longer than *width* cells.

    Args:
        top: maximum number of trees; None shows all.
        is_ordered: the trees keep their order; otherwise those with most headroom come first.
    """
    for line in _lines(headroom, width, top, is_ordered=is_ordered):
        yield from wrapped(line, width, indent=2 * GAP) if line else [line]


def _lines(headroom: Json, width: int, top: int | None, *, is_ordered: bool) -> Iterator[Text]:
    if not headroom["at_most"]:
        yield Text("Nothing fits.")
        return
    yield Text(sentence(headroom))
    trees = (
        headroom["trees"]
        if is_ordered
        else sorted(headroom["trees"], key=lambda tree: (-tree["at_least"], tree["name"]))
    )
    shown = trees[:top]
    yield Text("")
    yield from _bars([(printable(tree["name"]), bounds_of(tree), tree["at_least"]) for tree in shown], width)
    if len(shown) < headroom["tree_count"]:
        yield Text(f"  and {_counted(headroom['tree_count'] - len(shown), 'more tree')}", style="dim")
    if headroom["limited_by"]:
        yield Text("")
        yield Text("Runs out first", style="bold")
        for limit in headroom["limited_by"]:
            yield Text(f"  {_counted(limit['trees'], 'tree')}: {printable(limit_words(limit))}")
    yield from _stranded(headroom)


def draw_mix(headroom: Json, width: int) -> Iterator[Text]:
    """The lines for a body of ``GET /headroom`` with a mix, none longer than *width* cells."""
    for line in _lines_of_mix(headroom, width):
        yield from wrapped(line, width, indent=2 * GAP) if line else [line]


def _lines_of_mix(headroom: Json, width: int) -> Iterator[Text]:
    mix = " and ".join(f"{part['weight']} {printable(part['flavor'])}" for part in headroom["mix"])
    if not headroom["at_most"]:
        yield Text(f"Not even {mix} fit together.")
    elif headroom["exact"]:
        yield Text(f"{mix} fit {_counted(headroom['at_least'], 'time')} together.")
    else:
        yield Text(f"{mix} fit between {headroom['at_least']:,} and {headroom['at_most']:,} times together.")
    yield Text("")
    yield Text("Each flavor alone", style="bold")
    yield from _bars(
        [(printable(part["flavor"]), bounds_of(part), part["at_least"]) for part in headroom["mix"]], width
    )
    if headroom["limited_by"]:
        yield Text("")
        yield Text("Runs out first", style="bold")
        for limit in headroom["limited_by"]:
            yield Text(
                "  " + printable(f"room for {limit['flavor']}" if "flavor" in limit else limit["resource_class"])
            )
    yield from _stranded(headroom)


def draw_stranded(stranded: Stranded, width: int) -> Iterator[Text]:
    """The lines for what the mix of the site cannot use, none longer than *width* cells."""
    if not stranded.stranded:
        yield Text("no flavors, or none that can be counted", style="dim")
        return
    rows = [
        [
            name,
            amount_text(name, stranded.free[name]),
            amount_text(name, amount),
            f"{100 * amount / (stranded.free[name] or 1):.1f} %",
        ]
        for name, amount in in_class_order(stranded.stranded).items()
    ]
    headings = ("class", "free", "stranded", "of it")
    yield from draw_list(headings, rows, width, headings[1:])
    counted, forms = stranded.document["counted"], stranded.document["forms"]
    if counted < forms or not stranded.is_complete:
        yield from wrapped(Text(f"{counted:,} of {forms:,} flavors were counted; the server reached a limit."), width)


def _stranded(headroom: Json) -> Iterator[Text]:
    stranded = {name: amount for name, amount in headroom["stranded"].items() if amount}
    if stranded:
        yield Text("")
        yield Text("Left over when full", style="bold")
        yield Text("  " + printable(in_words(stranded)))


def sentence(headroom: Json) -> str:
    """How many times a request fits, in a sentence."""
    if not headroom["at_most"]:
        return "Nothing fits."
    trees = _counted(headroom["tree_count"], "tree")
    if headroom["exact"]:
        return f"Fits {_counted(headroom['at_least'], 'time')} in {trees}."
    return f"Fits between {headroom['at_least']:,} and {headroom['at_most']:,} times in {trees}."


def bounds_of(headroom: Json) -> str:
    """``41``, or ``38 to 45`` if it is not known exactly."""
    if headroom["at_least"] == headroom["at_most"]:
        return f"{headroom['at_least']:,}"
    return f"{headroom['at_least']:,} to {headroom['at_most']:,}"


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _bars(rows: Sequence[tuple[str, str, int]], width: int) -> Iterator[Text]:
    """Lines of a name, a number and a bar, the longest bar for the greatest number."""
    numbers = widest(number for _, number, _ in rows)
    columns = lay_out([GAP + widest([name]) for name, _, _ in rows], numbers, width, most_bar=_MOST_BAR)
    most = max((amount for _, _, amount in rows), default=0)
    for name, number, amount in rows:
        details = Text(f"{number:>{numbers}}")
        if columns.bar:
            details += Text(" " * GAP) + Text(bar_of(amount, most, columns.bar), style="green")
        yield from beside(Text(" " * GAP + name), [details], columns)


def bar_of(amount: int, most: int, width: int) -> str:
    """A bar for *amount*, of *width* cells if it is *most*, and of at least one cell if it is not 0."""
    return FULL * max(round(amount / most * width), 1) if amount and width else ""


def draw_notes(notes: Sequence[tuple[str, str]], width: int) -> Iterator[Text]:
    """The lines of flavors and their descriptions, below a number of these flavors."""
    if notes:
        yield Text()
    for name, description in notes:
        yield from wrapped(Text(f"{printable(name)}: {printable(description)}", style="dim"), width, indent=GAP)
