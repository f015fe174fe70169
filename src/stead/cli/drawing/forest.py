"""Draws a provider forest: names to the left, their inventories to the right, with bars below each other.

With traits::

    compute-00  ⊂1                 VCPU          ██░░░░░░░░░░      12 / 128      9 %
    │                              COMPUTE_NODE CUSTOM_RACK_A
    ├── compute-00_numa0           MEMORY_MB     ██████░░░░░░  32,768 / 65,024  50 %  512 reserved
    │   │                          PCPU          ████████████      16 / 16     100 %
    │   │                          HW_CPU_X86_AVX2 HW_NUMA_ROOT
    │   └── compute-00_numa0_eth0  SRIOV_NET_VF  ░░░░░░░░░░░░       0 / 8        0 %
    └── …
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.text import Text

from stead.cli.forest import sums_of, walk
from stead.cli.terminal.bars import bar, colour
from stead.cli.terminal.cells import ELLIPSIS, number, padded, shorten, widest, wrapped
from stead.cli.terminal.columns import GAP, Columns, beside, lay_out, name_width
from stead.cli.terminal.output import PIPE_WIDTH
from stead.domain.printable import printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from stead.cli.forest import Amount, Provider

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
    layout = _lay_out([*titles, len(title)], totals, width, traits=traits)
    for top in tops:
        yield from _draw(top, numbers, layout)
    if not tops:
        yield Text("no resource providers", style="dim")
    if title:
        yield Text()
        yield from beside(Text(title, style="bold"), _amounts(totals, layout), layout.columns)
    for line in _legend(tops, numbers):
        yield from wrapped(line, width) if line else [line]


def draw_sums(title: str, sums: dict[str, Amount], width: int) -> Iterator[Text]:
    """The lines of sums per class beside their *title*, none longer than *width* cells."""
    layout = _lay_out([len(title)], sums, width)
    yield from beside(Text(title, style="bold"), _amounts(sums, layout), layout.columns)


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
    for name, amount in sorted(amounts.items()):
        if len(name) > layout.name:
            yield Text(shorten(name, layout.columns.right))
        line = padded(Text(name if len(name) <= layout.name else ""), layout.name + GAP)
        if layout.columns.bar:
            line += bar(amount.used, amount.capacity, width=layout.columns.bar) + Text(" " * GAP)
        line.append(number(amount.used).rjust(layout.used))
        line.append(f" / {number(amount.capacity).ljust(layout.capacity)}", style="dim")
        line.append(f" {_percent(amount):>4} %", style=colour(amount.used, amount.capacity))
        if amount.reserved:
            line.append(" " * GAP)
            line.append(f"{number(amount.reserved).rjust(layout.reserved)}{_RESERVED}", style="dim")
        yield line


_PERCENT = len(" 1000 %")
_RESERVED = " reserved"


def _percent(amount: Amount) -> str:
    return number(100 * amount.used // amount.capacity) if amount.capacity > 0 else "–"


def _traits(provider: Provider, layout: Layout) -> Iterator[Text]:
    """The traits, wrapped to the width."""
    room = min(layout.columns.right, _WIDEST_TRAITS)
    words = (shorten(printable(trait), room) for trait in sorted(provider.traits))
    yield from wrapped(Text(" ".join(words), style="dim"), room)


def _lay_out(titles: list[int], totals: dict[str, Amount], width: int, *, traits: bool = False) -> Layout:
    amounts = totals.values()
    used = widest(number(amount.used) for amount in amounts)
    capacity = widest(number(amount.capacity) for amount in amounts)
    reserved = widest(number(amount.reserved) for amount in amounts if amount.reserved)
    numeric = used + len(" / ") + capacity + _PERCENT + (GAP + reserved + len(_RESERVED) if reserved else 0)
    name = name_width(totals, width - GAP - numeric, width)
    details = name + GAP + numeric
    most = min(width // 2, _WIDEST_TITLE) if width < PIPE_WIDTH else _WIDEST_TITLE
    longest = max(min(most, width - details) - GAP, 1)
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
        yield Text.assemble((f"{MEMBER}{place}", "cyan"), (f" aggregate {uuid}", "dim"))
