"""``stead whatif``: answers to a question as if planned changes were made."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stead.cli.arguments import copies, inventory, of_provider, options
from stead.cli.errors import CommandError, Negative
from stead.cli.fetching.candidates import QUERY_HELP, candidates_of, names_of, query_string
from stead.cli.fetching.flavors import expanded, with_flavor
from stead.cli.fetching.providers import reference_to
from stead.cli.fetching.what_if import ask_what_if, inventory_changes
from stead.cli.server import connect
from stead.cli.terminal import line_width, print_json, say, show_lines
from stead.client.what_if import AddTrait, Copy, DeleteAggregate, Disable, Drain, RemoveInventory, RemoveTrait

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stead import Site
    from stead.client.what_if import PlannedChange, WhatIf

app = typer.Typer(add_completion=False)

_MOST_TREES = 10


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
) -> None:
    """Answer a question as if planned changes were made. Nothing is written.

    The questions are those of the commands of these names, with the same query. `totals` needs none.
    """
    asks_totals = question is Question.TOTALS
    if asks_totals and (query is not None or flavor is not None):
        raise CommandError("totals has no query")
    requested = "" if asks_totals else query_string(with_flavor(query, flavor))
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
    with connect() as api:
        changes: list[PlannedChange] = [
            *(Disable(reference_to(api, provider)) for provider in disable or ()),
            *(Copy(reference_to(api, host), count) for host, count in added),
            *inventory_changes(api, of_inventories),
            *(RemoveInventory(reference_to(api, provider), name) for provider, name in removed),
            *(AddTrait(reference_to(api, provider), name) for provider, name in gained),
            *(RemoveTrait(reference_to(api, provider), name) for provider, name in lost),
            *(DeleteAggregate(aggregate) for aggregate in delete_aggregate or ()),
            *(Drain(reference_to(api, host), same_traits, same_aggregates) for host in drain or ()),
        ]
        ask: dict[str, Any] = {"totals": True} if asks_totals else {str(question): requested}
        answer = ask_what_if(api, changes, ask)
        if options().json:
            print_json(answer.document)
        else:
            _show(api, question, requested, answer, changes)
    if question is Question.CANDIDATES and not answer.document["candidates"]["allocation_requests"]:
        raise Negative("nothing fits; `stead whatif` with the question explain says why")


def _show(api: Site, question: Question, query: str, answer: WhatIf, changes: Sequence[PlannedChange]) -> None:
    from stead.cli.drawing.what_if import draw_totals, plan_in_words

    if answer.moves or answer.without_place:
        say(f"{plan_in_words(answer)} (`stead plan drain` lists them)")
        print()
    document, width = answer.document, line_width()
    match question:
        case Question.HEADROOM:
            from stead.cli.drawing.headroom import draw_headroom, sentence

            show_lines(draw_headroom(document["headroom"], width, _MOST_TREES, is_ordered="order_by=" in query))
            if changes:
                print()
                now = sentence(ask_what_if(api, (), {"headroom": query}).document["headroom"])
                say(f"Now: {now[0].lower()}{now[1:]}")
        case Question.CANDIDATES:
            from stead.cli.drawing.candidates import draw_candidates

            candidates = candidates_of(document["candidates"], expanded(api, query))
            if candidates:
                show_lines(draw_candidates(candidates, names_of(api, candidates), width))
        case Question.EXPLAIN:
            from stead.cli.drawing.explanation import draw_explanation

            show_lines(draw_explanation(document["explanation"], width))
        case Question.TOTALS:
            before = ask_what_if(api, (), {"totals": True}).totals if changes else answer.totals
            show_lines(draw_totals(before or {}, answer.totals or {}, width))
    if not answer.is_complete:
        say("The server stopped at its limit of work; parts of the answer are not complete.")
