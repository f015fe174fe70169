"""An explanation as a picture: a funnel for each group and for the trees, who comes near, and what would help."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.console import Group
from rich.table import Table
from rich.text import Text

from stead.cli.bars import EMPTY, FULL
from stead.cli.output import printable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from rich.console import RenderableType

Json = dict[str, Any]

_WIDTH = 20
_CHECKS = {
    "inventory": "have any",
    "units": "in such units",
    "room": "have room",
    "part": "have room for a part",
    "sum": "all groups together",
}


def draw_explanation(explanation: Json) -> RenderableType:
    """The whole picture of a body of ``GET /allocation_candidates/explain``."""
    number = _number(explanation)
    parts: list[RenderableType] = [Text(number if explanation["candidates"] else "Nothing fits.")]
    if not explanation["complete"]:
        parts.append(Text("The service ended its work before all of this was looked at.", style="yellow"))
    roots = explanation["roots"]
    if roots["steps"]:
        parts += _funnel("roots", roots["in_play"], roots["steps"])
    for group in explanation["groups"]:
        for choice in group["choices"]:
            parts += _funnel(_title(group["suffix"], choice["resource_class"]), choice["in_play"], choice["steps"])
            parts += [Text(f"  {line}", style="dim") for line in _near(choice["nearest"])]
    trees = explanation["trees"]
    parts += _funnel("trees", trees["in_play"], trees["steps"])
    if trees["undecided"]:
        parts.append(Text(f"  {trees['undecided']:,} not decided", style="yellow"))
    if not explanation["candidates"]:
        parts += _help(explanation["relaxations"])
    return Group(*parts)


def _number(count: Mapping[str, Any]) -> str:
    number = count["candidates"]
    return f"{number:,}{'+' if count['more'] else ''} candidate{'' if number == 1 else 's'}"


def _title(suffix: str, resource_class: str | None) -> str:
    name = f"group {suffix}" if suffix else "the unsuffixed group"
    return printable(name if resource_class is None else f"{name}, {resource_class}")


def _funnel(title: str, in_play: int, steps: Sequence[Json]) -> list[RenderableType]:
    table = Table.grid(padding=(0, 2))
    table.add_column(overflow="fold")
    table.add_column(justify="right", no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(justify="right", no_wrap=True)
    table.add_row("  in play", f"{in_play:,}", _bar(in_play, in_play), "")
    for step in steps:
        removed = Text(f"−{step['removed']:,}", style="red") if step["removed"] else Text("")
        table.add_row(f"  {_words(step)}", f"{step['left']:,}", _bar(step["left"], in_play), removed)
    return [Text(""), Text(title, style="bold"), table]


def _bar(left: int, in_play: int) -> Text:
    cells = -(-left * _WIDTH // in_play) if in_play else 0
    return Text.assemble((FULL * cells, "green" if left else "red"), (EMPTY * (_WIDTH - cells), "bright_black"))


def _words(step: Mapping[str, Any]) -> str:
    if "parameter" not in step:
        return f"somebody for {_title(step['suffix'], step['resource_class'])}"
    return _constraint(step)


def _constraint(constraint: Mapping[str, Any]) -> str:
    """A constraint in the words of the query, and what of it is meant."""
    words = printable(f"{constraint['parameter']}={constraint['value']}")
    check = constraint.get("check")
    return words if check is None else f"{words}: {_CHECKS.get(check, printable(check))}"


def _near(misses: Sequence[Json]) -> Iterator[str]:
    """Who fails one constraint alone; where it is room, by how much."""
    for miss in misses:
        names = ", ".join(printable(example["name"]) for example in miss["examples"])
        if miss["lacking"]:
            name = printable(miss["value"].partition(":")[0])
            lacking = ", ".join(f"{_who(one, 'lack')} {one['amount']:,} {name}" for one in miss["lacking"])
            yield f"near: {lacking} ({names})"
        else:
            yield f"near: {_who(miss, 'fail')} only {_constraint(miss)} ({names})"


def _who(some: Mapping[str, Any], verb: str) -> str:
    number = some["providers"]
    return f"{number:,} {verb}{'s' if number == 1 else ''}"


def _help(relaxations: Sequence[Json]) -> Iterator[RenderableType]:
    yield Text("")
    if not relaxations:
        yield Text("No single change of the request was found that would help.", style="bold")
        return
    yield Text("What would help", style="bold")
    table = Table.grid(padding=(0, 2))
    table.add_column(overflow="fold")
    table.add_column(no_wrap=True)
    for relaxation in relaxations:
        table.add_row(f"  {_change(relaxation)}", _number(relaxation))
    yield table


def _change(relaxation: Mapping[str, Any]) -> str:
    without, instead = relaxation["without"], relaxation["with"]
    if without is None:
        return f"with {_constraint(instead)}"
    if instead is None:
        return f"without {_constraint(without)}"
    return f"with {_constraint(instead)} instead of {printable(without['value'])}"
