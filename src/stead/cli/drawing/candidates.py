"""Candidates as tables and as JSON: the amounts of each provider and group, and what stays free.

::

    #  provider               group  takes            then          stays free
    ────────────────────────────────────────────────────────────────────────────
    1  host-1
         host-1-numa0         _A     8,192 MEMORY_MB  ▓▓░░░░░  57,344 of 65,536
                              _A         4 PCPU       ██▓▓░░░           8 of 16
         host-1-numa0-nic     _N         1 VF         ▓▓▓▓▓▓▓            0 of 1

A provider stands below the root of its tree.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any

from rich.text import Text

from stead.cli.terminal import GAP, Columns, bar, beside, colour, lay_out, name_width, number, padded, shorten, widest
from stead.domain.names import printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from stead.cli.fetching.candidates import Candidate, Row

_UNKNOWN = "–"
_BELOW = 2  # indentation of a provider below the root of its tree
_GROUP, _TAKES, _THEN, _FREE = "group", "takes", "then", "stays free"


@dataclass(frozen=True, slots=True)
class Layout:
    """Widths in cells, equal for all lines; *group* is 0 if only the unsuffixed group takes resources."""

    columns: Columns
    lead: int
    group: int
    amount: int
    name: int
    free: int


def draw_candidates(candidates: list[Candidate], names: dict[str, str], width: int) -> Iterator[Text]:
    """The lines of all candidates, one section each, numbered from 1; no line is longer than *width* cells."""
    yield from _draw(candidates, names, width, lead=len(str(len(candidates))) + GAP)


def draw_claim(candidate: Candidate, names: dict[str, str], width: int) -> Iterator[Text]:
    """The lines of the claimed candidate."""
    yield from _draw([candidate], names, width, lead=0)


def _draw(candidates: list[Candidate], names: dict[str, str], width: int, *, lead: int) -> Iterator[Text]:
    layout = _lay_out(candidates, names, width, lead)
    yield from _header(layout)
    for place, candidate in enumerate(candidates, start=1):
        if place > 1:
            yield Text()
        first = Text(str(place).rjust(lead - GAP) + " " * GAP, style="bold") if lead else Text()
        for provider, rows in _by_tree(candidate):
            indent = Text(" " * (layout.lead + (_BELOW if rows and provider != rows[0].root else 0)))
            tree_lines = first + indent[len(first.plain) :]
            yield from beside(
                tree_lines + _name(provider, names, layout, tree_lines), _details(rows, layout), layout.columns
            )
            first = Text()


def _by_tree(candidate: Candidate) -> Iterator[tuple[str, list[Row]]]:
    """The providers with their rows, grouped by tree, after the root; a root that gives nothing has no rows."""
    for root in candidate.roots:
        rows = [row for row in candidate.rows if row.root == root]
        given = [(provider, list(those)) for provider, those in groupby(rows, key=lambda row: row.provider)]
        yield from [tree for tree in given if tree[0] == root] or [(root, [])]
        yield from (tree for tree in given if tree[0] != root)


def _header(layout: Layout) -> Iterator[Text]:
    details = Text(_GROUP.ljust(layout.group + GAP) if layout.group else "")
    details.append(_TAKES.ljust(layout.amount + 1 + layout.name + GAP))
    if layout.columns.bar:
        details.append(_THEN.ljust(layout.columns.bar + GAP))
    details.append(_FREE.rjust(layout.free))
    title = Text(("#".rjust(layout.lead - GAP) + " " * GAP if layout.lead else "") + "provider")
    lines = list(beside(title, [details], layout.columns))
    for line in lines:
        line.stylize("bold")
        yield line
    yield Text("─" * max(line.cell_len for line in lines))


def _details(rows: Iterable[Row], layout: Layout) -> Iterator[Text]:
    for row in rows:
        line = Text()
        group, name = printable(row.group), printable(row.resource_class)
        for long, most in ((group, layout.group), (name, layout.name)):
            if len(long) > most:
                yield Text(shorten(long, layout.columns.right))
        if layout.group:
            line += padded(Text(group if len(group) <= layout.group else "", style="cyan"), layout.group + GAP)
        if not row.resource_class:
            yield line + Text(_UNKNOWN.rjust(layout.amount), style="dim")
            continue
        line.append(f"{number(row.amount).rjust(layout.amount)} ")
        line += padded(Text(name if len(name) <= layout.name else ""), layout.name + GAP)
        if layout.columns.bar:
            line += padded(_bar(row, layout.columns.bar), layout.columns.bar + GAP)
        free = _free(row)
        yield line + Text(" " * (layout.free - free.cell_len)) + free


def _bar(row: Row, width: int) -> Text:
    return Text() if row.capacity is None else bar(row.used, row.capacity, claimed=row.claimed, width=width)


def _free(row: Row) -> Text:
    """The free amount and the capacity."""
    if row.capacity is None or row.free_after is None:
        return Text(_UNKNOWN, style="dim")
    free = Text(number(row.free_after), style=colour(row.used + row.claimed, row.capacity))
    free.append(f" of {number(row.capacity)}", style="dim")
    return free


def _name(uuid: str, names: dict[str, str], layout: Layout, tree_lines: Text) -> Text:
    """The name, shortened only if it does not fit on a line of its own."""
    return Text(shorten(printable(names.get(uuid, uuid)), max(layout.columns.width - tree_lines.cell_len, 1)))


def _lay_out(candidates: list[Candidate], names: dict[str, str], width: int, lead: int) -> Layout:
    rows = [row for candidate in candidates for row in candidate.rows]
    giving = [row for row in rows if row.resource_class]
    titles = [
        lead
        + (_BELOW if row.provider != row.root else 0)
        + Text(printable(names.get(row.provider, row.provider))).cell_len
        for row in rows
    ]
    amount = widest(number(row.amount) for row in giving)
    free = max(widest(_free(row).plain for row in giving), len(_FREE))
    room = width - amount - 1 - GAP - free
    groups = {printable(row.group) for row in rows}
    group = max(name_width(groups, room - GAP, width // 2), len(_GROUP)) if any(groups) else 0
    classes = {printable(row.resource_class) for row in giving}
    name = max(name_width(classes, room - (group + GAP if group else 0), width), len(_TAKES) - amount - 1)
    details = (group + GAP if group else 0) + amount + 1 + name + GAP + free
    return Layout(lay_out(titles, details, width), lead, group, amount, name, free)


def candidate_as_json(candidate: Candidate, names: dict[str, str]) -> dict[str, Any]:
    """The contents of the table, with the service's own allocation request."""
    return {
        "providers": [
            {
                "uuid": row.provider,
                "name": names.get(row.provider),
                "root_uuid": row.root,
                "root_name": names.get(row.root),
                "group": row.group,
                "resources": _amounts_as_json(row) if row.resource_class else {},
            }
            for row in candidate.rows
        ],
        "allocation_request": candidate.allocation_request,
    }


def _amounts_as_json(row: Row) -> dict[str, dict[str, int | None]]:
    return {
        row.resource_class: {
            "amount": row.amount,
            "capacity": row.capacity,
            "used_before": None if row.capacity is None else row.used,
            "free_after": row.free_after,
        }
    }
