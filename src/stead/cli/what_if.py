"""``stead whatif``: answers to a question as if planned changes were made."""

from __future__ import annotations

import re
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stead.cli.aliases import with_name
from stead.cli.arguments import InventoryText, copies, inventory, of_provider, options
from stead.cli.candidates import (
    QUERY_HELP,
    candidates_of,
    draw_candidates,
    draw_explanation,
    expanded,
    names_of,
    with_flavor,
)
from stead.cli.errors import CommandError, Negative
from stead.cli.forest import walk
from stead.cli.headroom import draw_headroom, sentence
from stead.cli.server import connect
from stead.cli.suggestions import no_provider
from stead.cli.terminal import (
    GAP,
    amount_text,
    beside,
    draw_list,
    in_words,
    lay_out,
    line_width,
    print_json,
    say,
    show_lines,
    widest,
    wrapped,
)
from stead.cli.text import Text
from stead.cli.tree import TreeFilter, fetch_names, fetch_trees, find, is_pattern, reference_to
from stead.client.calls import query_of
from stead.client.errors import NotFound
from stead.client.provider import add_up
from stead.client.what_if import (
    AddTrait,
    Copy,
    DeleteAggregate,
    Disable,
    Drain,
    RemoveInventory,
    RemoveTrait,
    SetInventory,
)
from stead.printing import in_class_order, printable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from stead import Move, Place, Site, Total, Unplaced, WhatIf
    from stead.client.provider import Amounts
    from stead.client.what_if import PlannedChange

app = typer.Typer(add_completion=False)

_MOST_TREES = 10
_MOST_CHANGES = 1_000
_NO_PROVIDER = re.compile(r"changes\[\d+\]\.provider: no provider (?:name:)?(.*)")
_LEAST_DETAILS = 28  # cells, if the terminal is wide enough
_MOST_HELP = 3


class Question(StrEnum):
    """What can be asked."""

    HEADROOM = "headroom"
    CANDIDATES = "candidates"
    EXPLAIN = "explain"
    TOTALS = "totals"


SameTraits = Annotated[
    bool, typer.Option("--same-traits", help="Consumers move only to providers with the traits of their present ones.")
]
SameAggregates = Annotated[
    bool,
    typer.Option(
        "--same-aggregates", help="Consumers move only to hosts that share an aggregate with their present ones."
    ),
]
Order = Annotated[
    str | None,
    typer.Option(
        "--order",
        metavar="ORDER",
        help="Which new places are the best, such as headroom or pack, as in `order_by` of a request.",
        show_default=False,
    ),
]
Several = list[str] | None


@app.command()
def whatif(
    question: Annotated[
        Question, typer.Argument(metavar="QUESTION", help="headroom, candidates, explain or totals.")
    ] = Question.TOTALS,
    query: Annotated[str | None, typer.Argument(help=QUERY_HELP, show_default=False)] = None,
    flavor: Annotated[
        str | None, typer.Option(help="Name of a flavor, whose query is requested. Give it before `--`.")
    ] = None,
    drain: Annotated[Several, typer.Option(metavar="HOST", help="Move the consumers of a host; repeatable.")] = None,
    disable: Annotated[Several, typer.Option(metavar="PROVIDER", help="Disable a provider; repeatable.")] = None,
    copy: Annotated[
        Several, typer.Option(metavar="HOST=COUNT", help="Add COUNT empty hosts like a host; repeatable.")
    ] = None,
    ratio: Annotated[
        Several,
        typer.Option(
            metavar="[PROVIDER:]CLASS=NUMBER",
            help="Set the allocation ratio of a class, of all providers, one, or those whose names match; repeatable.",
        ),
    ] = None,
    reserved: Annotated[
        Several, typer.Option(metavar="[PROVIDER:]CLASS=NUMBER", help="Set the reserved amount of a class, likewise.")
    ] = None,
    total: Annotated[
        Several,
        typer.Option(
            metavar="[PROVIDER:]CLASS=NUMBER", help="Set the total of a class, likewise, or add it to a provider."
        ),
    ] = None,
    remove_inventory: Annotated[
        Several, typer.Option(metavar="PROVIDER:CLASS", help="Remove an inventory that is not in use; repeatable.")
    ] = None,
    add_trait: Annotated[
        Several, typer.Option(metavar="PROVIDER:TRAIT", help="Add an existing trait to a provider; repeatable.")
    ] = None,
    remove_trait: Annotated[
        Several, typer.Option(metavar="PROVIDER:TRAIT", help="Remove a trait from a provider; repeatable.")
    ] = None,
    delete_aggregate: Annotated[
        Several, typer.Option(metavar="UUID", help="Remove all members of an aggregate; repeatable.")
    ] = None,
    same_traits: SameTraits = False,
    same_aggregates: SameAggregates = False,
    order: Order = None,
) -> None:
    """Answer a question as if planned changes were made. Nothing is written.

    The questions are those of the commands of these names, with the same query. `totals` needs none.
    """
    asks_totals = question is Question.TOTALS
    if asks_totals and (query is not None or flavor is not None):
        raise CommandError("totals has no query")
    requested = "" if asks_totals else query_of(with_flavor(query, flavor))
    of_inventories = [
        inventory(option, field, text)
        for option, field, texts in (
            ("--ratio", "allocation_ratio", ratio),
            ("--reserved", "reserved", reserved),
            ("--total", "total", total),
        )
        for text in texts or ()
    ]
    added = [copies("--copy", text) for text in copy or ()]
    removed = [of_provider("--remove-inventory", text, "CLASS") for text in remove_inventory or ()]
    gained = [of_provider("--add-trait", text, "TRAIT") for text in add_trait or ()]
    lost = [of_provider("--remove-trait", text, "TRAIT") for text in remove_trait or ()]
    with connect() as site:
        changes: list[PlannedChange] = [
            *(Disable(reference_to(site, provider)) for provider in disable or ()),
            *(Copy(reference_to(site, host), count) for host, count in added),
            *inventory_changes(site, of_inventories),
            *(RemoveInventory(reference_to(site, provider), name) for provider, name in removed),
            *(AddTrait(reference_to(site, provider), name) for provider, name in gained),
            *(RemoveTrait(reference_to(site, provider), name) for provider, name in lost),
            *(DeleteAggregate(aggregate) for aggregate in delete_aggregate or ()),
            *(Drain(reference_to(site, host), same_traits, same_aggregates, order) for host in drain or ()),
        ]
        answer = ask_what_if(site, changes, question, requested)
        if options().json:
            print_json(answer.document)
        else:
            _show(site, question, requested, answer, changes)
    if not _fits(question, answer.document):
        raise Negative("nothing fits; `stead whatif` with the question explain says why")


def _fits(question: Question, document: Mapping[str, Any]) -> bool:
    match question:
        case Question.CANDIDATES:
            return bool(document["candidates"]["allocation_requests"])
        case Question.HEADROOM:
            return bool(document["headroom"]["at_most"])
        case Question.EXPLAIN:
            return bool(document["explanation"]["candidates"])
        case Question.TOTALS:
            return True


def _show(site: Site, question: Question, query: str, answer: WhatIf, changes: Sequence[PlannedChange]) -> None:
    if answer.moves or answer.without_place:
        say(f"{plan_in_words(answer)} (`stead plan drain` lists them)")
        print()
    document, width = answer.document, line_width()
    match question:
        case Question.HEADROOM:
            show_lines(draw_headroom(document["headroom"], width, _MOST_TREES, is_ordered="order_by=" in query))
            if changes:
                print()
                now = sentence(ask_what_if(site, (), question, query).document["headroom"])
                say(f"Now: {now[0].lower()}{now[1:]}")
        case Question.CANDIDATES:
            if answer.candidates:
                candidates = candidates_of(answer.candidates, expanded(site, query))
                show_lines(draw_candidates(candidates, names_of(site, candidates), width))
        case Question.EXPLAIN:
            show_lines(draw_explanation(document["explanation"], width))
        case Question.TOTALS:
            before = ask_what_if(site, (), question).totals if changes else answer.totals
            show_lines(draw_totals(before or {}, answer.totals or {}, width))
    if not answer.is_complete:
        say("The server stopped at its limit of work; parts of the answer are not complete.")


def ask_what_if(
    site: Site, changes: Sequence[PlannedChange], question: Question | None = None, query: str = ""
) -> WhatIf:
    """The answer to *question* after *changes*.

    Raises:
        Negative: a provider does not exist.
    """
    asked = {str(question): query} if query else {}
    try:
        return site.what_if(*changes, totals=question is Question.TOTALS, **asked)
    except NotFound as error:
        if match := _NO_PROVIDER.match(error.detail):
            raise no_provider(match[1], fetch_names(site)) from error
        raise


def inventory_changes(site: Site, texts: Sequence[InventoryText]) -> list[SetInventory]:
    """The changes of inventories: one for each provider and class, with all its fields.

    Raises:
        Negative: a provider does not exist.
        CommandError: no provider has the class, or they are too many.
    """
    fields: dict[tuple[str, str], dict[str, int | float]] = {}
    for text in texts:
        for provider in _providers(site, text):
            fields.setdefault((provider, text.resource_class), {})[text.field] = text.value
    if len(fields) > _MOST_CHANGES:
        raise CommandError(f"{len(fields):,} inventories would change; a request can change {_MOST_CHANGES:,}")
    return [SetInventory(provider, name, **values) for (provider, name), values in fields.items()]  # type: ignore[arg-type]  # the keys are fields of it


def _providers(site: Site, text: InventoryText) -> list[str]:
    """The UUIDs of the provider that *text* names, or of all with the class whose names match."""
    if text.providers is not None and not is_pattern(text.providers):
        return [find(site, text.providers).provider.uuid]
    trees = fetch_trees(site, TreeFilter(name=text.providers))
    matching = [
        provider.uuid
        for provider in walk(trees)
        if text.resource_class in provider.inventories and fnmatchcase(provider.name, text.providers or "*")
    ]
    if not matching:
        raise CommandError(
            f"no provider{'' if text.providers is None else f' {text.providers}'} has {text.resource_class}"
        )
    return matching


# Drawing: moves as a table, and sums before and after.


def draw_plan(
    moves: Sequence[Move], without_place: Sequence[Unplaced], places: Mapping[str, Place], width: int
) -> Iterator[Text]:
    """The lines of *moves* in their order, and of the consumers without a place and what would help them.

    Args:
        places: names of providers, by UUID.
    """
    rows = [
        (
            f"{place:,}",
            move.consumer,
            f"{_hosts(move.before, move.allocations, places)} → {_hosts(move.allocations, move.before, places)}: "
            f"{_amounts(move.allocations)}",
        )
        for place, move in enumerate(moves, 1)
    ]
    rows += [
        ("–", each.consumer, f"{_hosts(each.allocations, {}, places)}, no place: {_amounts(each.allocations)}")
        for each in without_place
    ]
    if not rows:
        yield Text("no consumers", style="dim")
        return
    numbers = widest(["move", *(number for number, _, _ in rows)])
    titles = [f"{number:>{numbers}}  {printable(with_name(consumer))}" for number, consumer, _ in rows]
    columns = lay_out([widest(titles)], _LEAST_DETAILS, width)
    for heading in beside(Text(f"{'move':>{numbers}}  consumer"), [Text("from → to")], columns):
        heading.stylize("bold")
        yield heading
    for title, (_, _, details) in zip(titles, rows, strict=True):
        yield from beside(Text(title), [Text(printable(details))], columns, indent=numbers + GAP)
    for each in without_place:
        for reason in _reasons(each):
            yield from wrapped(Text(printable(f"{with_name(each.consumer)} {reason}")), width, GAP)


def _reasons(stuck: Unplaced) -> list[str]:
    if stuck.gave_up:
        return ["may have a place; the search reached its limit"]
    return [
        f"would fit {change}" for change in (stuck.explanation.relaxations[:_MOST_HELP] if stuck.explanation else [])
    ]


def _hosts(allocations: Mapping[str, Amounts], other: Mapping[str, Amounts], places: Mapping[str, Place]) -> str:
    """The names of the hosts from which *allocations* take what *other* do not, such as a sharing provider."""
    providers = [provider for provider, amounts in allocations.items() if other.get(provider) != amounts]
    names = (places[provider].host if provider in places else provider for provider in providers or allocations)
    return ", ".join(dict.fromkeys(names))


def _amounts(allocations: Mapping[str, Amounts]) -> str:
    return in_words(add_up(dict(amounts) for amounts in allocations.values()))


def plan_in_words(plan: WhatIf) -> str:
    """``3 consumers move, 1 has no place``."""
    moves, stuck = len(plan.moves), len(plan.without_place)
    text = f"{moves:,} consumer{' moves' if moves == 1 else 's move'}"
    return f"{text}, {stuck:,} {'has' if stuck == 1 else 'have'} no place" if stuck else text


def draw_totals(before: Mapping[str, Total], after: Mapping[str, Total], width: int) -> Iterator[Text]:
    """The lines of the sums by class, *before* and *after* the changes."""
    rows = [
        [
            name,
            amount_text(name, before[name].capacity) if name in before else "–",
            amount_text(name, total.capacity),
            amount_text(name, total.used),
            amount_text(name, total.capacity - total.used),
        ]
        for name, total in in_class_order(after).items()
    ]
    headings = ("class", "capacity now", "capacity then", "used", "free then")
    if not rows:
        yield Text("no inventories", style="dim")
        return
    yield from draw_list(headings, rows, width, headings[1:])
