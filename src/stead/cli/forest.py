"""The provider forest: planted from providers, sorted, pruned, drawn, and converted to JSON."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from stead.cli.aliases import with_name
from stead.cli.terminal import (
    ELLIPSIS,
    GAP,
    LEAST_LEFT,
    PIPE_WIDTH,
    Columns,
    amount_text,
    bar,
    beside,
    colour,
    lay_out,
    name_width,
    number,
    padded,
    shorten,
    widest,
    wrapped,
)
from stead.cli.text import Text, cell_len
from stead.printing import class_order, in_class_order, printable

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    import stead


SHARES = "MISC_SHARES_VIA_AGGREGATE"
DISABLED = "COMPUTE_STATUS_DISABLED"
"""The trait of a provider that accepts no new allocations."""


@dataclass(frozen=True, slots=True)
class Amount:
    """Capacity and usage of one resource class, in the class's unit.

    The capacity is computed without the *reserved* amount, which is shown separately.
    """

    capacity: int
    used: int
    reserved: int = 0

    def __add__(self, other: Amount) -> Amount:
        """The sum of two amounts."""
        return Amount(self.capacity + other.capacity, self.used + other.used, self.reserved + other.reserved)

    @property
    def free(self) -> int:
        """The amount that can still be claimed; negative if the provider is over-committed."""
        return self.capacity - self.used


@dataclass(slots=True)
class Provider:
    """A provider and its descendants.

    *hidden* counts the descendants that are not in ``children``; *sums* then includes their amounts and its own.
    *inventories* are the API's records, by class. *is_gone*: it was deleted while the forest was read. *disabled* has
    the ``reason`` and ``until`` of a disabled provider, if the server sends them.
    """

    uuid: str
    name: str
    parent: str | None
    children: list[Provider] = field(default_factory=list)
    hidden: int = 0
    generation: int = 0
    inventories: dict[str, dict[str, Any]] = field(default_factory=dict)
    usages: dict[str, int] = field(default_factory=dict)
    traits: list[str] = field(default_factory=list)
    aggregates: list[str] = field(default_factory=list)
    is_gone: bool = False
    sums: dict[str, Amount] = field(default_factory=dict)
    disabled: dict[str, Any] | None = None

    @property
    def shown_amounts(self) -> dict[str, Amount]:
        """The amounts to show for the provider, including those of hidden descendants."""
        return self.sums or self.amounts

    @property
    def is_disabled(self) -> bool:
        """Whether it accepts no new allocations."""
        return self.disabled is not None or DISABLED in self.traits

    @property
    def amounts(self) -> dict[str, Amount]:
        """Capacity and usage of each class of the provider."""
        return {
            name: Amount(capacity(record), self.usages.get(name, 0), record["reserved"])
            for name, record in self.inventories.items()
        }

    @property
    def is_sharing(self) -> bool:
        """Whether it serves other trees in its aggregates."""
        return SHARES in self.traits


def capacity(inventory: dict[str, Any]) -> int:
    """``(total - reserved) * allocation_ratio``, cut to an integer as in provider summaries."""
    return int((inventory["total"] - inventory["reserved"]) * inventory["allocation_ratio"])


def plant(providers: Iterable[stead.Provider]) -> list[Provider]:
    """The forest of *providers*, with siblings in natural order of their names.

    A provider whose parent is not among them becomes a root.
    """
    planted = {
        each.uuid: Provider(
            each.uuid,
            each.name,
            each.parent,
            generation=each.generation,
            inventories={name: _record(inventory) for name, inventory in (each.inventories or {}).items()},
            usages=dict(each.usages or {}),
            traits=sorted(each.traits or ()),
            aggregates=sorted(each.aggregates or ()),
            is_gone=each.inventories is None,
            disabled=None if each.disabled is None else _state(each.disabled),
        )
        for each in sorted(providers, key=lambda each: natural(each.name))
    }
    tops: list[Provider] = []
    for provider in planted.values():
        above = planted.get(provider.parent or "")
        (tops if above is None else above.children).append(provider)
    return tops


def plant_root(tree: stead.Tree) -> Provider:
    """The root of *tree*, which was read alone, with the sums of the whole tree."""
    (root,) = plant(tree)
    root.hidden = tree.provider_count - 1
    if root.hidden:
        totals = (tree.totals or {}).items()
        root.sums = {name: Amount(total.capacity, total.used, total.reserved) for name, total in totals}
    return root


def _record(inventory: stead.Inventory) -> dict[str, Any]:
    return {name: getattr(inventory, name) for name in inventory.__slots__}


def _state(disabled: stead.Disabled) -> dict[str, Any]:
    return {
        "reason": disabled.reason,
        "since": disabled.since,
        "until": disabled.until,
        "provider_uuid": disabled.provider,
    }


def natural(name: str) -> list[tuple[int, str]]:
    """A sort key that puts ``node-10`` after ``node-9``."""
    parts: list[tuple[int, str]] = []
    for char in name:
        if char.isdecimal() and parts and parts[-1][1] == "":
            parts[-1] = (parts[-1][0] * 10 + int(char), "")
        else:
            parts.append((int(char), "") if char.isdecimal() else (-1, char))
    return parts


def walk(tops: Iterable[Provider]) -> Iterator[Provider]:
    """Every provider of the forest, parents first."""
    waiting = list(tops)[::-1]
    while waiting:
        provider = waiting.pop()
        yield provider
        waiting.extend(provider.children[::-1])


def prune(tops: Iterable[Provider], depth: int) -> None:
    """Cut the forest *depth* levels below its roots. Each cut counts the hidden providers and adds up their amounts."""
    level = list(tops)
    for _ in range(depth):
        level = [child for provider in level for child in provider.children]
    for provider in level:
        provider.hidden = sum(1 for _ in walk(provider.children))
        if provider.hidden:
            provider.sums = sums_of([provider])
        provider.children = []


def sums_of(tops: Iterable[Provider]) -> dict[str, Amount]:
    """The sums of all providers of the forest, by class."""
    sums: dict[str, Amount] = {}
    for provider in walk(tops):
        add(sums, provider.shown_amounts)
    return sums


def add(sums: dict[str, Amount], amounts: dict[str, Amount]) -> None:
    """Add *amounts* to *sums*, class by class."""
    for name, amount in amounts.items():
        sums[name] = sums[name] + amount if name in sums else amount


def fill(amounts: Iterable[Amount]) -> float:
    """The highest usage of *amounts*: used divided by capacity; 0 if there are none."""
    return max((amount.used / amount.capacity if amount.capacity > 0 else 1.0 for amount in amounts), default=0.0)


def sort_trees(tops: list[Provider], order: str) -> None:
    """Sort the trees: by ``name``, or by their fullest class, fullest first (``used``) or emptiest first (``free``)."""
    # By name first: the second sort is stable, so trees of equal use stay in the order of names.
    tops.sort(key=lambda top: natural(top.name))
    if order != "name":
        fills = {top.uuid: fill(sums_of([top]).values()) for top in tops}
        tops.sort(key=lambda top: fills[top.uuid], reverse=order == "used")


def as_json(provider: Provider) -> dict[str, Any]:
    """*provider* and all its descendants, nested by ``children``."""
    shown: dict[str, Any] = {
        "uuid": provider.uuid,
        "name": provider.name,
        "generation": provider.generation,
        "inventories": {
            name: {**record, "capacity": provider.amounts[name].capacity, "used": provider.amounts[name].used}
            for name, record in in_class_order(provider.inventories).items()
        },
        "traits": sorted(provider.traits),
        "aggregates": sorted(provider.aggregates),
        "children": [as_json(child) for child in provider.children],
    }
    if provider.is_gone:
        shown["gone"] = True
    if provider.is_disabled:
        shown["disabled"] = provider.disabled or {}
    if provider.hidden:
        shown["hidden"] = provider.hidden
        shown["sums"] = {
            name: amount_as_json(amount) for name, amount in in_class_order(provider.shown_amounts).items()
        }
    return shown


def as_row(provider: Provider) -> dict[str, Any]:
    """*provider* alone as a row of a table: its amounts by class, and the uuid of its parent."""
    return {
        "name": provider.name,
        "uuid": provider.uuid,
        "parent": provider.parent,
        "generation": provider.generation,
        "disabled": provider.is_disabled,
        **{name: amount_as_json(amount) for name, amount in in_class_order(provider.shown_amounts).items()},
        "traits": sorted(provider.traits),
        "aggregates": sorted(provider.aggregates),
    }


def amount_as_json(amount: Amount) -> dict[str, int]:
    """Capacity, usage and reserved amount."""
    return {"capacity": amount.capacity, "used": amount.used, "reserved": amount.reserved}


# Draws a provider forest: names to the left, their inventories to the right, with bars below each other.
#
# With traits::
#
#     compute-00  ⊂1                 VCPU          ██░░░░░░░░░░      12 / 128      9 %
#     │                              COMPUTE_NODE CUSTOM_RACK_A
#     ├── compute-00_numa0           MEMORY_MB     ██████░░░░░░  32,768 / 65,024  50 %  512 reserved
#     │   │                          PCPU          ████████████      16 / 16     100 %
#     │   │                          HW_CPU_X86_AVX2 HW_NUMA_ROOT
#     │   └── compute-00_numa0_eth0  SRIOV_NET_VF  ░░░░░░░░░░░░       0 / 8        0 %
#     └── …


SHARING = "⇄"
MEMBER = "⊂"

_GUIDE = "bright_black"
_LEVEL = 4  # cells of the guide for each level of the tree
_WIDEST_TITLE = 100
_LEAST_NAME = 16
_WIDEST_TRAITS = 200


@dataclass(frozen=True, slots=True)
class Layout:
    """Widths in cells, equal for all lines: the columns, and the parts of the details.

    *traits*: whether they are shown.
    """

    columns: Columns
    name: int
    used: int
    capacity: int
    reserved: int
    traits: bool = False

    @property
    def guide(self) -> int:
        """Maximum width of the guides of deep levels."""
        return min(self.columns.width // 3, self.columns.left - GAP)


def draw_forest(tops: list[Provider], width: int, *, traits: bool = False) -> Iterator[Text]:
    """The lines of the forest, none longer than *width* cells."""
    numbers = _number_aggregates(tops)
    totals = sums_of(tops)
    title = f"all {len(tops):,} trees" if len(tops) > 1 else ""
    titles = [_LEVEL * depth + _title(provider, numbers).cell_len for provider, depth in _with_depth(tops)]
    amounts = {pair for provider in walk(tops) for pair in provider.shown_amounts.items()} | set(totals.items())
    layout = _lay_out([*titles, len(title)], amounts, width, traits=traits)
    for top in tops:
        yield from _draw(top, numbers, layout)
    if not tops:
        yield Text("no resource providers", style="dim")
    if title:
        yield Text()
        yield from beside(Text.assemble((title, "bold")), _amounts(totals, layout), layout.columns)
    for line in _legend(tops, numbers):
        yield from wrapped(line, width) if line else [line]


def draw_sums(title: str, sums: dict[str, Amount], width: int) -> Iterator[Text]:
    """The lines of sums per class beside their *title*, none longer than *width* cells."""
    layout = _lay_out([len(title)], sums.items(), width)
    yield from beside(Text.assemble((title, "bold")), _amounts(sums, layout), layout.columns)


def _draw(top: Provider, numbers: dict[str, int], layout: Layout) -> Iterator[Text]:
    """The lines of *top* and all its descendants."""
    waiting = [(top, Text(), Text())]
    while waiting:
        provider, lead, below = waiting.pop()  # *lead* begins the first line, *below* the others
        children = provider.children
        lead, trunk = _cut(lead, layout), _cut(below + Text("│   " if children else "", style=_GUIDE), layout)
        details = [*_amounts(provider.shown_amounts, layout), *(_traits(provider, layout) if layout.traits else ())]
        yield from beside(lead + _title(provider, numbers, layout, lead.cell_len), details, layout.columns, trunk)
        for child in reversed(children):
            branch, side = ("└── ", "    ") if child is children[-1] else ("├── ", "│   ")
            waiting.append((child, below + Text(branch, style=_GUIDE), below + Text(side, style=_GUIDE)))


def _cut(guide: Text, layout: Layout) -> Text:
    """*guide* without its left end, if it is too wide for the line."""
    levels = max(layout.guide // _LEVEL, 1)
    if guide.cell_len <= levels * _LEVEL:
        return guide
    return Text(ELLIPSIS.ljust(_LEVEL), style=_GUIDE) + guide[-(levels - 1) * _LEVEL or len(guide) :]


def _title(provider: Provider, numbers: dict[str, int], layout: Layout | None = None, lead: int = 0) -> Text:
    """The name and the marks.

    A name that is longer than its column loses its middle. If too little would remain, as in a deep tree, the name gets
    its own line, and takes at most half of it.
    """
    title = Text()
    if provider.is_sharing:
        title.append(f" {SHARING}", style="bold magenta")
    if provider.aggregates:
        members = ",".join(str(place) for place in sorted(numbers[uuid] for uuid in provider.aggregates))
        title.append(f" {MEMBER}{members}", style="cyan")
    if provider.is_disabled:
        title.append(" disabled", style="red")
    if provider.is_gone:
        title.append(" just deleted", style="red")
    if provider.hidden:
        title.append(f" +{provider.hidden} below", style="dim")
    name = printable(provider.name)
    if layout is not None:
        width = layout.columns.width
        room = layout.columns.left - GAP - lead - title.cell_len
        if width >= PIPE_WIDTH:  # programs need complete names
            room = width - lead
        elif room < _LEAST_NAME:
            room = max(width // 2, _LEAST_NAME)
        name = shorten(name, max(min(room, width - lead), 1))
    return Text.assemble((name, "bold" if provider.parent is None else "")) + title


def _amounts(amounts: dict[str, Amount], layout: Layout) -> Iterator[Text]:
    for name, amount in in_class_order(amounts).items():
        if len(name) > layout.name:
            yield Text(shorten(name, layout.columns.right))
        line = padded(Text(name if len(name) <= layout.name else ""), layout.name + GAP)
        if layout.columns.bar:
            line += bar(amount.used, amount.capacity, width=layout.columns.bar) + Text(" " * GAP)
        line.append(amount_text(name, amount.used).rjust(layout.used))
        line.append(f" / {amount_text(name, amount.capacity).ljust(layout.capacity)}", style="dim")
        line.append(f" {_percent(amount):>4} %", style=colour(amount.used, amount.capacity))
        if amount.reserved and not layout.reserved:  # there is no column for it
            yield line
            line = Text(" " * (layout.name + GAP))
            line.append(f"{amount_text(name, amount.reserved)}{_RESERVED}", style="dim")
        elif amount.reserved:
            line.append(" " * GAP)
            line.append(f"{amount_text(name, amount.reserved).rjust(layout.reserved)}{_RESERVED}", style="dim")
        yield line


_PERCENT = len(" 1000 %")
_LEAST_BARS = 8  # cells, with the gap
_RESERVED = " reserved"


def _percent(amount: Amount) -> str:
    return number(100 * amount.used // amount.capacity) if amount.capacity > 0 else "–"


def _traits(provider: Provider, layout: Layout) -> Iterator[Text]:
    """The traits, wrapped to the width."""
    room = min(layout.columns.right, _WIDEST_TRAITS)
    words = (shorten(printable(trait), room) for trait in sorted(provider.traits))
    yield from wrapped(Text(" ".join(words), style="dim"), room)


def _lay_out(titles: list[int], amounts: Collection[tuple[str, Amount]], width: int, *, traits: bool = False) -> Layout:
    """Columns for *titles* of these widths, and for *amounts* with their classes.

    If there is no room for bars otherwise, reserved amounts get no column: a long line continues below.
    """
    used = widest({amount_text(name, amount.used) for name, amount in amounts})
    capacity = widest({amount_text(name, amount.capacity) for name, amount in amounts})
    reserved = widest({amount_text(name, amount.reserved) for name, amount in amounts if amount.reserved})
    classes = {name for name, _ in amounts}
    numeric = used + len(" / ") + capacity + _PERCENT
    beyond = GAP + reserved + len(_RESERVED) if reserved else 0
    if width - GAP - numeric - beyond - widest(classes) < LEAST_LEFT + _LEAST_BARS:
        beyond, reserved = 0, 0
    numeric += beyond
    name = name_width(classes, width - GAP - numeric, width)
    details = name + GAP + numeric
    most = min(width // 2, _WIDEST_TITLE) if width < PIPE_WIDTH else _WIDEST_TITLE
    room = width - details - _LEAST_BARS
    longest = max(min(most, room if room >= LEAST_LEFT else width - details) - GAP, 1)
    fitting = [min(title, longest) for title in titles]  # longer names are shortened in the middle
    columns = lay_out(fitting, details, width, most_left=most)
    return Layout(columns, name, used, capacity, reserved, traits)


def _with_depth(tops: Iterable[Provider]) -> Iterator[tuple[Provider, int]]:
    level, depth = list(tops), 0
    while level:
        for provider in level:
            yield provider, depth
        level, depth = [child for provider in level for child in provider.children], depth + 1


def _number_aggregates(tops: list[Provider]) -> dict[str, int]:
    """A short number for each aggregate, in the order of the output."""
    numbers: dict[str, int] = {}
    for provider in walk(tops):
        for uuid in sorted(provider.aggregates):
            numbers.setdefault(uuid, len(numbers) + 1)
    return numbers


def _legend(tops: list[Provider], numbers: dict[str, int]) -> Iterator[Text]:
    if not numbers:
        return
    yield Text()
    if any(provider.is_sharing for provider in walk(tops)):
        yield Text.assemble((SHARING, "bold magenta"), ("  shares with the trees of its aggregates", "dim"))
    for uuid, place in numbers.items():
        yield Text.assemble((f"{MEMBER}{place}", "cyan"), (f" aggregate {printable(with_name(uuid))}", "dim"))


# Abbreviates many names: ``compute-[0001-0500]``, in the notation of cluster schedulers.


_LEAST_ENDS = 6  # cells
_NUMBERS = re.compile(r"([0-9]{1,9})")

Pieces = tuple[str, ...]
"""A name, split at its numbers: text, number, text, …"""


def folded(names: Iterable[str], width: int) -> str:
    """*names* in at most *width* cells: as ranges, or else the first and the last one, each without its middle."""
    ordered = sorted((printable(name) for name in names), key=natural)
    if not ordered:
        return ""
    ranges = ",".join(all_ranges := _ranges(ordered))
    if cell_len(ranges) <= width or len(ordered) == 1:
        return shorten(ranges, width)
    if len(all_ranges) == 1 and "," not in ranges:
        before, bracket, after = ranges.partition("[")
        numbers, close, after = after.partition("]")
        numbers = bracket + numbers + close
        room = width - len(numbers)
        if room >= _LEAST_ENDS:
            tail = shorten(after, room // 2)
            return shorten(before, room - cell_len(tail)) + numbers + tail
    ends = f" {ELLIPSIS} "
    half = (width - len(ends)) // 2
    if half < len(ELLIPSIS):
        return shorten(ranges, width)
    return shorten(ordered[0], half) + ends + shorten(ordered[-1], half)


def _ranges(names: Sequence[str]) -> list[str]:
    """The names, with those that differ in one number combined; each name is in one of the results."""
    shapes: dict[Pieces, list[Pieces]] = {}
    for name in names:
        pieces = tuple(_NUMBERS.split(name))
        shapes.setdefault(pieces[::2], []).append(pieces)
    return [text for alike in shapes.values() for text in _folded_shape(alike)]


def _folded_shape(alike: list[Pieces]) -> list[str]:
    """Names of one shape, combined at the last number in which they differ."""
    places = [place for place in range(1, len(alike[0]), 2) if len({pieces[place] for pieces in alike}) > 1]
    if not places:
        return ["".join(alike[0])]
    place = places[-1]
    groups: dict[tuple[Pieces, Pieces], list[str]] = {}
    for pieces in alike:
        groups.setdefault((pieces[:place], pieces[place + 1 :]), []).append(pieces[place])
    return [f"{''.join(before)}{_listed(numbers)}{''.join(after)}" for (before, after), numbers in groups.items()]


def _listed(numbers: list[str]) -> str:
    """Ascending numbers as ``[1-3,7]``; numbers with different padding form no range."""
    if len(numbers) == 1:
        return numbers[0]
    runs: list[list[str]] = []
    for each in numbers:
        if runs and int(each) == int(runs[-1][-1]) + 1 and _is_padded_alike(runs[-1][-1], each):
            runs[-1][1:] = [each]
        else:
            runs.append([each])
    return f"[{','.join('-'.join(run) for run in runs)}]"


def _is_padded_alike(number: str, following: str) -> bool:
    return len(number) == len(following) or not (number.startswith("0") or following.startswith("0"))


# Many provider trees in few lines: equal trees share one line with their count, as in Slurm's ``sinfo``.
#
# ::
#
#     trees  names                  providers  MEMORY_MB  PCPU  VCPU
#       500  compute-[0001-0500]            8       45 %  12 %     –
#        12  gpu-[01-12]                   20       90 %  75 %     –


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
    taken = sum(_cells(column) for column in left_columns)
    names = widest(folded(group.names, 10**6) for group in groups)
    least = min(max(names, len(_NAMES)), _LEAST_NAMES)
    classes, columns = _class_columns(groups, width - taken - least - GAP)
    room = width - taken - sum(_cells(column) for column in columns) - GAP
    names = max(min(names, room), 1)
    shown = [folded(group.names, names) for group in groups]
    heading = "host" if of_hosts else _NAMES
    name_cells = min(widest([heading, *shown]), names)
    before = left_columns[: 0 if of_hosts else 1]
    after = left_columns[0 if of_hosts else 1 :]
    widths = {id(column): _cells(column) - GAP for column in (*before, *after, *columns)}
    for row in range(-1, len(groups)):
        line = Text("", style="bold" if row < 0 else "")
        for column in before:
            line.append(_cell(column, row).rjust(widths[id(column)]) + " " * GAP)
        line += padded(Text(shorten(heading, names) if row < 0 else shown[row]), name_cells)
        for column in after:
            line.append(" " * GAP + _cell(column, row).rjust(widths[id(column)]))
        for name, column in zip(classes, columns, strict=True):
            style = _colour(groups[row].sums.get(name)) if row >= 0 else ""
            line.append(" " * GAP).append(_cell(column, row).rjust(widths[id(column)]), style)
        line.rstrip()
        yield line
    missing = {name for group in groups for name in group.sums}.difference(classes)
    if missing:
        yield Text(shorten(f"not shown for want of width: {', '.join(sorted(missing))}", width), style="dim")


def draw_hosts(tops: Sequence[Provider], width: int) -> Iterator[Text]:
    """A table with one line for each of *tops*, with its sums, and the sums of all; no line is longer than *width*."""
    if not tops:
        yield Text("no resource providers", style="dim")
        return
    yield from draw_groups(
        [TreeGroup(1, top.is_disabled, [top.name], top.shown_amounts) for top in tops], width, of_hosts=True
    )
    if len(tops) > 1:
        yield Text()
        yield from draw_sums(f"all {len(tops):,} trees", sums_of(tops), width)


def groups_as_json(groups: Sequence[TreeGroup]) -> list[dict[str, Any]]:
    """The contents of the table, with all names."""
    return [
        {
            "trees": len(group.names),
            "providers_per_tree": group.provider_count,
            "disabled": group.is_disabled,
            "names": group.names,
            "sums": {name: amount_as_json(amount) for name, amount in in_class_order(group.sums).items()},
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
        {
            name: (shorten(printable(name), _HEADING), [cell(name, group.sums.get(name)) for group in groups])
            for name in sorted(trees, key=class_order)
        }
        for cell in (_share, _amounts_in_words)
    )
    for columns in (amounts, shares):
        if sum(_cells(column) for column in columns.values()) <= room:
            return list(columns), list(columns.values())
    classes = []
    for name in sorted(trees, key=lambda name: (-trees[name], len(name))):
        if _cells(shares[name]) <= room:
            classes.append(name)
            room -= _cells(shares[name])
    classes.sort(key=class_order)
    return classes, [shares[name] for name in classes]


def _cell(column: tuple[str, list[str]], row: int) -> str:
    heading, cells = column
    return heading if row < 0 else cells[row]


def _cells(column: tuple[str, list[str]]) -> int:
    heading, cells = column
    return widest([heading, *cells]) + GAP


def _amounts_in_words(name: str, amount: Amount | None) -> str:
    if amount is None:
        return _NONE
    return f"{amount_text(name, amount.used)} / {amount_text(name, amount.capacity)} {_share(name, amount):>5}"


def _share(_name: str, amount: Amount | None) -> str:
    if amount is None or amount.capacity <= 0:
        return _NONE
    return f"{number(100 * amount.used // amount.capacity)} %"


def _colour(amount: Amount | None) -> str:
    return "dim" if amount is None else colour(amount.used, amount.capacity)
