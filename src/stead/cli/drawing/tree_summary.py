"""Many provider trees in few lines: equal trees share one line with their count, as in Slurm's ``sinfo``.

::

    trees  names                  providers  MEMORY_MB  PCPU  VCPU
      500  compute-[0001-0500]            8       45 %  12 %     –
       12  gpu-[01-12]                   20       90 %  75 %     –
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rich.text import Text

from stead.cli.drawing.name_ranges import folded
from stead.cli.forest import Amount, add, amount_as_json, fill, natural
from stead.cli.terminal.bars import colour
from stead.cli.terminal.cells import number, padded, shorten, widest
from stead.cli.terminal.columns import GAP
from stead.domain.printable import printable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from stead.cli.forest import Provider

_LEAST_NAMES = 24
_HEADING = 16  # cells of the name of a class
_NONE = "–"
_TREES, _NAMES, _PROVIDERS, _STATE = "trees", "names", "providers", "state"


@dataclass(slots=True)
class TreeGroup:
    """Trees with equal capacities, number of providers and state; *sums* are over all of them."""

    provider_count: int
    is_disabled: bool
    names: list[str] = field(default_factory=list)
    sums: dict[str, Amount] = field(default_factory=dict)


def group_trees(roots: Sequence[Provider], order: str | None = None) -> list[TreeGroup]:
    """The *roots*, each with the sums of its tree, in groups of equal trees.

    Args:
        order: ``name``, ``used`` or ``free``, see :func:`stead.cli.forest.sort_trees`; None: the largest first.
    """
    groups: dict[Any, TreeGroup] = {}
    for root in roots:
        amounts = root.shown_amounts
        capacities = frozenset((name, amount.capacity, amount.reserved) for name, amount in amounts.items())
        key = capacities, root.hidden, root.is_disabled
        group = groups.setdefault(key, TreeGroup(root.hidden + 1, root.is_disabled))
        group.names.append(root.name)
        add(group.sums, amounts)
    for group in groups.values():
        group.names.sort(key=natural)
    # By name first: the second sort is stable, so equal groups stay in the order of names.
    ordered = sorted(groups.values(), key=lambda group: natural(group.names[0]))
    if order is None:
        ordered.sort(key=lambda group: len(group.names), reverse=True)
    elif order != "name":
        ordered.sort(key=lambda group: fill(group.sums.values()), reverse=order == "used")
    return ordered


def draw_groups(groups: Sequence[TreeGroup], width: int, *, of_hosts: bool = False) -> Iterator[Text]:
    """The lines of a table with one line for each group, none longer than *width* cells.

    With *of_hosts*, each group is one host, and its numbers of trees and providers are left out.

    If there is room, a cell has the amounts; otherwise the used share. If the table is still too wide, it leaves out
    classes: it keeps those that most trees have, and of these the ones with the shortest names.
    """
    left_columns = _left_columns(groups, of_hosts=of_hosts)
    taken = sum(widest([heading, *cells]) + GAP for heading, cells in left_columns)
    names = widest(folded(group.names, 10**6) for group in groups)
    least = min(max(names, len(_NAMES)), _LEAST_NAMES)
    classes, columns = _class_columns(groups, width - taken - least - GAP)
    room = width - taken - sum(widest([heading, *cells]) + GAP for heading, cells in columns) - GAP
    names = max(min(names, room), 1)
    shown = [folded(group.names, names) for group in groups]
    for row in range(-1, len(groups)):
        line = Text("", style="bold" if row < 0 else "")
        for heading, cells in left_columns[: 0 if of_hosts else 1]:
            line.append((heading if row < 0 else cells[row]).rjust(widest([heading, *cells])) + " " * GAP)
        line += padded(Text(shorten(_NAMES, names) if row < 0 else shown[row]), min(widest([_NAMES, *shown]), names))
        for heading, cells in left_columns[0 if of_hosts else 1 :]:
            line.append(" " * GAP + (heading if row < 0 else cells[row]).rjust(widest([heading, *cells])))
        for name, (heading, cells) in zip(classes, columns, strict=True):
            style = _colour(groups[row].sums.get(name)) if row >= 0 else ""
            text = (heading if row < 0 else cells[row]).rjust(widest([heading, *cells]))
            line.append(" " * GAP).append(text, style)
        line.rstrip()
        yield line
    missing = {name for group in groups for name in group.sums}.difference(classes)
    if missing:
        yield Text(shorten(f"not shown for want of width: {', '.join(sorted(missing))}", width), style="dim")


def groups_as_json(groups: Sequence[TreeGroup]) -> list[dict[str, Any]]:
    """The contents of the table, with all names."""
    return [
        {
            "trees": len(group.names),
            "providers_per_tree": group.provider_count,
            "disabled": group.is_disabled,
            "names": group.names,
            "sums": {name: amount_as_json(amount) for name, amount in sorted(group.sums.items())},
        }
        for group in groups
    ]


def _left_columns(groups: Sequence[TreeGroup], *, of_hosts: bool) -> list[tuple[str, list[str]]]:
    columns = [
        (_TREES, [number(len(group.names)) for group in groups]),
        (_PROVIDERS, [number(group.provider_count) for group in groups]),
    ]
    if of_hosts:
        columns = []
    if any(group.is_disabled for group in groups):
        columns.append((_STATE, ["disabled" if group.is_disabled else "enabled" for group in groups]))
    return columns


def _class_columns(groups: Sequence[TreeGroup], room: int) -> tuple[list[str], list[tuple[str, list[str]]]]:
    """The classes that fit into *room* cells, and their columns; amounts are left out before any class is."""
    trees = Counter[str]()
    for group in groups:
        trees.update(dict.fromkeys(group.sums, len(group.names)))
    shares, amounts = (
        {name: (shorten(printable(name), _HEADING), [cell(group.sums.get(name)) for group in groups]) for name in trees}
        for cell in (_share, _amounts)
    )
    for columns in (amounts, shares):
        if sum(_cells(column) for column in columns.values()) <= room:
            return sorted(trees), [columns[name] for name in sorted(trees)]
    classes = []
    for name in sorted(trees, key=lambda name: (-trees[name], len(name))):
        if _cells(shares[name]) <= room:
            classes.append(name)
            room -= _cells(shares[name])
    return sorted(classes), [shares[name] for name in sorted(classes)]


def _cells(column: tuple[str, list[str]]) -> int:
    heading, cells = column
    return widest([heading, *cells]) + GAP


def _amounts(amount: Amount | None) -> str:
    return _NONE if amount is None else f"{number(amount.used)} / {number(amount.capacity)} {_share(amount):>5}"


def _share(amount: Amount | None) -> str:
    if amount is None or amount.capacity <= 0:
        return _NONE
    return f"{number(100 * amount.used // amount.capacity)} %"


def _colour(amount: Amount | None) -> str:
    return "dim" if amount is None else colour(amount.used, amount.capacity)
