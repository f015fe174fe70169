"""Candidates as a table and as JSON: who gives how much to which group, and what stays free there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich import box
from rich.table import Table
from rich.text import Text

from stead.cli.bars import bar, colour
from stead.cli.output import printable

if TYPE_CHECKING:
    from stead.cli.request import Candidate, Row


def draw_candidates(candidates: list[Candidate], names: dict[str, str]) -> Table:
    """A section for each candidate, numbered from 1, and a line for each amount in it."""
    table = _table(numbered=True)
    for number, candidate in enumerate(candidates, start=1):
        _add(table, candidate, names, number=str(number))
        table.add_section()
    return table


def draw_claim(candidate: Candidate, names: dict[str, str]) -> Table:
    """The one candidate that was claimed."""
    table = _table(numbered=False)
    _add(table, candidate, names)
    return table


def _table(*, numbered: bool) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, header_style="bold")
    if numbered:
        table.add_column("#", justify="right", style="bold", no_wrap=True)
    table.add_column("tree", style="dim", overflow="fold")
    table.add_column("provider", overflow="fold")
    table.add_column("group", style="cyan", overflow="fold")
    table.add_column("takes", justify="right", no_wrap=True)
    table.add_column("", overflow="fold")
    table.add_column("then", no_wrap=True)
    table.add_column("stays free", justify="right", no_wrap=True)
    return table


def _add(table: Table, candidate: Candidate, names: dict[str, str], *, number: str | None = None) -> None:
    before: Row | None = None
    for row in candidate.rows:
        is_new = before is None or before.provider != row.provider
        is_new_tree = before is None or before.root != row.root
        cells = [
            _name(row.root, names) if is_new_tree else "",
            _name(row.provider, names) if is_new else "",
            printable(row.group),
            *_amounts(row),
        ]
        table.add_row(*([] if number is None else [number if before is None else ""]), *cells)
        before = row


def _amounts(row: Row) -> tuple[str | Text, ...]:
    if not row.resource_class:
        return (Text("–", style="dim"), "", "", "")
    free = Text.assemble(
        (f"{row.free_after:,}", colour(row.used + row.claimed, row.capacity)), (f" of {row.capacity:,}", "dim")
    )
    return (
        f"{row.amount:,}",
        Text(printable(row.resource_class)),
        bar(row.used, row.capacity, claimed=row.claimed),
        free,
    )


def _name(uuid: str, names: dict[str, str]) -> Text:
    return Text(printable(names.get(uuid, uuid)))


def candidate_as_json(candidate: Candidate, names: dict[str, str]) -> dict[str, Any]:
    """What the table shows, and the service's own allocation request beside it."""
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


def _amounts_as_json(row: Row) -> dict[str, dict[str, int]]:
    return {
        row.resource_class: {
            "amount": row.amount,
            "capacity": row.capacity,
            "used_before": row.used,
            "free_after": row.free_after,
        }
    }
