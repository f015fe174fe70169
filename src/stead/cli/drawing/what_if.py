"""Draws what planned changes would lead to: moves of consumers as a table, and sums before and after."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from stead.class_order import in_class_order
from stead.cli.drawing.consumers import in_words
from stead.cli.fetching.consumers import add_up
from stead.cli.terminal import GAP, beside, draw_list, lay_out, widest, wrapped
from stead.cli.terminal import number as shown
from stead.domain.names import printable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from stead.cli.fetching.consumers import Place
    from stead.client.provider import Amounts
    from stead.client.what_if import Move, Total, Unplaced, WhatIf

_LEAST_DETAILS = 28  # cells, if the terminal is wide enough
_MOST_HELP = 3


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
    titles = [f"{number:>{numbers}}  {consumer}" for number, consumer, _ in rows]
    columns = lay_out([widest(titles)], _LEAST_DETAILS, width)
    for heading in beside(Text(f"{'move':>{numbers}}  consumer"), [Text("from → to")], columns):
        heading.stylize("bold")
        yield heading
    for title, (_, _, details) in zip(titles, rows, strict=True):
        yield from beside(Text(title), [Text(printable(details))], columns, indent=numbers + GAP)
    for each in without_place:
        for reason in _reasons(each):
            yield from wrapped(Text(f"{each.consumer} {printable(reason)}"), width, GAP)


def _reasons(stuck: Unplaced) -> list[str]:
    if stuck.gave_up:
        return ["may have a place; the search reached its limit"]
    return [
        f"would fit {change}" for change in (stuck.explanation.relaxations[:_MOST_HELP] if stuck.explanation else [])
    ]


def _hosts(allocations: Mapping[str, Amounts], other: Mapping[str, Amounts], places: Mapping[str, Place]) -> str:
    """The names of the hosts from which *allocations* take what *other* do not, such as a sharing provider."""
    providers = [provider for provider, amounts in allocations.items() if other.get(provider) != amounts]
    names = (places[provider].root if provider in places else provider for provider in providers or allocations)
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
            shown(before[name].capacity) if name in before else "–",
            shown(total.capacity),
            shown(total.used),
            shown(total.capacity - total.used),
        ]
        for name, total in in_class_order(after).items()
    ]
    headings = ("class", "capacity now", "capacity then", "used", "free then")
    if not rows:
        yield Text("no inventories", style="dim")
        return
    yield from draw_list(headings, rows, width, headings[1:])
