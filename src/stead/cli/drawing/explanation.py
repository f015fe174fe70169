"""Draws an explanation: a funnel for each group and for the trees, providers that almost fit, and what would help."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.text import Text

from stead.cli.terminal import EMPTY, FULL, GAP, Columns, beside, lay_out, widest, wrapped
from stead.domain.names import printable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

Json = dict[str, Any]

_MOST_BAR = 20
_INDENT = 2
_CHECKS = {
    "inventory": "have any",
    "units": "in such units",
    "room": "have room",
    "part": "have room for a part",
    "sum": "all groups together",
}


def draw_explanation(explanation: Json, width: int) -> Iterator[Text]:
    """The lines for a body of ``GET /allocation_candidates/explain``, none longer than *width* cells."""
    for line in _lines(explanation, width):
        yield from wrapped(line, width, indent=2 * _INDENT) if line else [line]


def _lines(explanation: Json, width: int) -> Iterator[Text]:
    yield Text(_number(explanation) if explanation["candidates"] else "Nothing fits.")
    if not explanation["complete"]:
        yield Text("The service reached its work limit before everything was checked.", style="yellow")
    roots = explanation["roots"]
    if roots["steps"]:
        yield from _funnel("roots", roots["in_play"], roots["steps"], width)
    for group in explanation["groups"]:
        for choice in group["choices"]:
            title = _title(group["suffix"], choice["resource_class"])
            yield from _funnel(title, choice["in_play"], choice["steps"], width)
            yield from (Text(f"  {line}", style="dim") for line in _near(choice["nearest"]))
    trees = explanation["trees"]
    yield from _funnel("trees", trees["in_play"], trees["steps"], width)
    if trees["undecided"]:
        yield Text(f"  {trees['undecided']:,} not decided", style="yellow")
    if not explanation["candidates"]:
        yield from _help(explanation["relaxations"], width)


def _number(count: Mapping[str, Any]) -> str:
    number = count["candidates"]
    return f"{number:,}{'+' if count['more'] else ''} candidate{'' if number == 1 else 's'}"


def _title(suffix: str, resource_class: str | None) -> str:
    name = f"group {suffix}" if suffix else "the unsuffixed group"
    return printable(name if resource_class is None else f"{name}, {resource_class}")


def _funnel(title: str, in_play: int, steps: Sequence[Json], width: int) -> Iterator[Text]:
    """The number of providers at the start, and how many each step keeps and removes."""
    yield Text()
    yield Text(title, style="bold")
    rows = [("in play", in_play, 0), *((_words(step), step["left"], step["removed"]) for step in steps)]
    count = widest(f"{remaining:,}" for _, remaining, _ in rows)
    gone = widest(f"−{removed:,}" for *_, removed in rows if removed)
    columns = lay_out(
        (_INDENT + Text(words).cell_len for words, *_ in rows),
        count + (GAP + gone if gone else 0),
        width,
        most_bar=_MOST_BAR,
    )
    for words, remaining, removed in rows:
        detail = Text(f"{remaining:,}".rjust(count))
        if columns.bar:
            detail += Text(" " * GAP) + _bar(remaining, in_play, columns.bar)
        if removed:
            detail.append(" " * GAP + f"−{removed:,}".rjust(gone), style="red")
        yield from _beside(words, [detail], columns)


def _bar(remaining: int, in_play: int, width: int) -> Text:
    cells = -(-remaining * width // in_play) if in_play else 0
    return Text.assemble((FULL * cells, "green" if remaining else "red"), (EMPTY * (width - cells), "bright_black"))


def _beside(title: str, details: list[Text], columns: Columns) -> Iterator[Text]:
    """One indented line; a title that does not fit beside its details is wrapped above them."""
    return beside(Text(" " * _INDENT + title), details, columns, indent=2 * _INDENT)


def _words(step: Mapping[str, Any]) -> str:
    if "parameter" not in step:
        return f"provider for {_title(step['suffix'], step['resource_class'])}"
    return _constraint(step)


def _constraint(constraint: Mapping[str, Any]) -> str:
    """A constraint in the syntax of the query, with the part that it concerns."""
    words = printable(f"{constraint['parameter']}={constraint['value']}")
    check = constraint.get("check")
    if check == "unknown":
        return f"{words}: no such {'aggregate' if 'member_of' in constraint['parameter'] else 'provider'}"
    return words if check is None else f"{words}: {_CHECKS.get(check, printable(check))}"


def _near(misses: Sequence[Json]) -> Iterator[str]:
    """Providers that fail exactly one constraint; for capacity, with the missing amount."""
    for miss in misses:
        names = ", ".join(printable(example["name"]) for example in miss["examples"])
        if miss["lacking"]:
            name = printable(miss["value"].partition(":")[0])
            lacking = ", ".join(f"{_who(lack, 'lack')} {lack['amount']:,} {name}" for lack in miss["lacking"])
            yield f"near: {lacking} ({names})"
        else:
            yield f"near: {_who(miss, 'fail')} only {_constraint(miss)} ({names})"


def _who(counted: Mapping[str, Any], verb: str) -> str:
    number = counted["providers"]
    return f"{number:,} {verb}{'s' if number == 1 else ''}"


def _help(relaxations: Sequence[Json], width: int) -> Iterator[Text]:
    yield Text()
    if not relaxations:
        yield Text("No single change of the request would help.", style="bold")
        return
    yield Text("Changes that would help", style="bold")
    rows = [(_change(relaxation), _number(relaxation)) for relaxation in relaxations]
    columns = lay_out(
        (_INDENT + Text(change).cell_len for change, _ in rows), widest(count for _, count in rows), width
    )
    for change, count in rows:
        yield from _beside(change, [Text(count)], columns)


def _change(relaxation: Mapping[str, Any]) -> str:
    without, instead = relaxation["without"], relaxation["with"]
    if without is None:
        return f"with {_constraint(instead)}"
    if instead is None:
        return f"without {_constraint(without)}"
    return f"with {_constraint(instead)} instead of {printable(without['value'])}"
