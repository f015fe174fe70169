"""Draws flavors: all with their headroom or their queries, one with its query, and what an import does."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl

from rich.text import Text

from stead.cli.drawing.headroom import bar_of, bounds_of, reason_of
from stead.cli.terminal import GAP, beside, draw_list, lay_out, number, padded, widest, wrapped
from stead.domain.names import printable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from stead.cli.flavors.importing import Step

Json = dict[str, Any]

_HEADING = "flavor"
_NUMBER_HEADING = "fits"
_REASON_HEADING = "runs out first"
_MOST_BAR = 16
_LEAST_REASON = 20
_MOST_NAMED = 3


def draw_flavors(flavors: Sequence[Json], width: int) -> Iterator[Text]:
    """The lines of flavors with their headroom: how many times each fits, a bar, and what runs out first."""
    if not flavors:
        yield Text("no flavors", style="dim")
        return
    rows = [(printable(flavor["name"]), *_headroom(flavor["headroom"])) for flavor in flavors]
    numbers = widest([_NUMBER_HEADING, *(bounds for _, bounds, _, _ in rows)])
    reasons = min(widest([_REASON_HEADING, *(reason for _, _, _, reason in rows)]), _LEAST_REASON)
    columns = lay_out([widest([name]) for name, _, _, _ in rows], numbers + GAP + reasons, width, most_bar=_MOST_BAR)
    most = max(amount for _, _, amount, _ in rows)
    gap = Text(" " * GAP)

    def details(bounds: str, bar: str, reason: str) -> Text:
        bar_column = gap + padded(Text(bar, style="green"), columns.bar) if columns.bar else Text()
        line = Text(f"{bounds:>{numbers}}") + bar_column + gap + Text(reason)
        line.rstrip()
        return line

    for line in beside(Text(_HEADING), [details(_NUMBER_HEADING, "", _REASON_HEADING)], columns):
        line.stylize("bold")
        yield line
    for (name, bounds, amount, reason), flavor in zip(rows, flavors, strict=True):
        yield from beside(Text(name), [details(bounds, bar_of(amount, most, columns.bar), reason)], columns)
        if flavor["description"]:
            note = Text(f"{' ' * GAP}{printable(flavor['description'])}", style="dim")
            yield from wrapped(note, width, indent=GAP)


def draw_notes(notes: Sequence[tuple[str, str]], width: int) -> Iterator[Text]:
    """The lines of flavors and their descriptions, below a number of these flavors."""
    if notes:
        yield Text()
    for name, description in notes:
        yield from wrapped(Text(f"{printable(name)}: {printable(description)}", style="dim"), width, indent=GAP)


def _headroom(headroom: Json) -> tuple[str, int, str]:
    """The number as text and as a number, and the reason."""
    if "error" in headroom:
        return "–", 0, printable(headroom["error"])
    reasons = dict.fromkeys(reason_of(limit) for limit in headroom["limited_by"])
    words = ", ".join(reasons) if headroom["at_most"] else "nothing fits"
    return bounds_of(headroom), headroom["at_least"], words


def draw_queries(flavors: Sequence[Json], width: int) -> Iterator[Text]:
    """The lines of flavors with their queries."""
    if not flavors:
        yield Text("no flavors", style="dim")
        return
    rows = [(flavor["name"], flavor["query"], flavor["description"]) for flavor in flavors]
    shown = 3 if any(flavor["description"] for flavor in flavors) else 2
    headings = (_HEADING, "query", "description")[:shown]
    yield from draw_list(headings, [row[:shown] for row in rows], width)


def draw_flavor(flavor: Json, width: int) -> Iterator[Text]:
    """The lines of one flavor: its name, its description, and the parameters of its query."""
    title = Text(printable(flavor["name"]), style="bold")
    if flavor["description"]:
        title += Text(f"  {printable(flavor['description'])}", style="not bold")
    yield from wrapped(title, width, indent=GAP)
    for key, value in parse_qsl(flavor["query"], keep_blank_values=True):
        yield from wrapped(Text(f"{' ' * GAP}{printable(key)}={printable(value)}"), width, indent=2 * GAP)


_ACTIONS = {"create": "created", "replace": "replaced", "keep": "unchanged", "skip": "skipped"}


def draw_import(steps: Sequence[Step], width: int, *, dry_run: bool) -> Iterator[Text]:
    """The lines of an import: skipped flavors, ignored extra specs and sums; for a dry run also each change."""
    for line in _import_lines(steps, dry_run=dry_run):
        yield from wrapped(Text(printable(line)), width, indent=GAP)
    counts = Counter[str](step.action for step in steps)
    counted = [(number(len(steps)), "flavors described")]
    counted += [(number(counts[action]), words) for action, words in _ACTIONS.items() if counts[action]]
    numbers = widest(amount for amount, _ in counted)
    for amount, words in counted:
        yield Text(f"{amount:>{numbers}}  {words}")
    if dry_run:
        yield Text(" " * (numbers + GAP) + "(a dry run: nothing was done)")


def _import_lines(steps: Sequence[Step], *, dry_run: bool) -> Iterator[str]:
    for step in steps:
        if dry_run and step.action in ("create", "replace"):
            yield f"{step.action} {step.name}: {step.query}"
        if step.action == "skip":
            yield f"skipped {step.name}: {step.reason}"
    by_key: dict[str, list[str]] = {}
    for step in steps:
        for key in step.ignored:
            by_key.setdefault(key, []).append(step.name)
    for key, names in sorted(by_key.items()):
        more = f" and {len(names) - _MOST_NAMED:,} more" if len(names) > _MOST_NAMED else ""
        yield f"ignored {key} of {', '.join(names[:_MOST_NAMED])}{more}"
