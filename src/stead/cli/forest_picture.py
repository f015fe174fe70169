"""The picture of a provider forest: names to the left, what they hold to the right, one bar below the other.

::

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

from stead.cli.bars import bar, colour
from stead.cli.cells import ELLIPSIS, number, padded, shorten, widest, wrapped
from stead.cli.columns import GAP, Columns, beside, lay_out, name_width
from stead.cli.forest import Amount, walk
from stead.domain.printable import printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from stead.cli.forest import Provider

SHARING = "⇄"
MEMBER = "⊂"

_GUIDE = "bright_black"
_LEVEL = 4  # cells of a guide for each level of the tree
_WIDEST_TITLE = 100
_WIDEST_TRAITS = 200


@dataclass(frozen=True, slots=True)
class Layout:
    """Widths in cells, the same for every line of one picture: the columns, and what the details consist of."""

    columns: Columns
    name: int
    used: int
    capacity: int
    reserved: int

    @property
    def guide(self) -> int:
        """What the guides of deep levels may take of a line."""
        return min(self.columns.width // 3, self.columns.left - GAP)


def draw_forest(tops: list[Provider], width: int) -> Iterator[Text]:
    """The lines of the picture, none longer than *width* cells."""
    numbers = _number_aggregates(tops)
    totals = _totals(tops)
    layout = _lay_out(tops, totals, numbers, width)
    for top in tops:
        yield from _draw(top, numbers, layout)
    if not tops:
        yield Text("no resource providers", style="dim")
    if len(tops) > 1:
        yield Text()
        title = Text(f"all {len(tops):,} trees", style="bold")
        yield from beside(title, _amounts(totals, layout), layout.columns)
    for line in _legend(tops, numbers):
        yield from wrapped(line, width) if line else [line]


def _draw(top: Provider, numbers: dict[str, int], layout: Layout) -> Iterator[Text]:
    """The lines of *top* and all below it."""
    waiting = [(top, Text(), Text())]
    while waiting:
        provider, lead, below = waiting.pop()  # the first line begins with *lead*, the others with *below*
        children = provider.children
        lead, trunk = _cut(lead, layout), _cut(below + Text("│   " if children else "", style=_GUIDE), layout)
        details = [*_amounts(provider.amounts, layout), *_traits(provider, layout)]
        yield from beside(lead + _title(provider, numbers, layout, lead.cell_len), details, layout.columns, trunk)
        for child in reversed(children):
            branch, side = ("└── ", "    ") if child is children[-1] else ("├── ", "│   ")
            waiting.append((child, below + Text(branch, style=_GUIDE), below + Text(side, style=_GUIDE)))


def _cut(guide: Text, layout: Layout) -> Text:
    """*guide* without its left end, if it takes too much of the line."""
    levels = max(layout.guide // _LEVEL, 1)
    if guide.cell_len <= levels * _LEVEL:
        return guide
    return Text(ELLIPSIS.ljust(_LEVEL), style=_GUIDE) + guide[-(levels - 1) * _LEVEL or len(guide) :]


def _title(provider: Provider, numbers: dict[str, int], layout: Layout | None = None, lead: int = 0) -> Text:
    """The name, shortened only if a line for itself is too short for it, and the marks."""
    name = printable(provider.name)
    if layout is not None:
        name = shorten(name, max(layout.columns.width - lead, 1))
    title = Text.assemble((name, "bold" if provider.parent is None else ""))
    if provider.is_sharing:
        title.append(f" {SHARING}", style="bold magenta")
    if provider.aggregates:
        members = ",".join(str(place) for place in sorted(numbers[uuid] for uuid in provider.aggregates))
        title.append(f" {MEMBER}{members}", style="cyan")
    if provider.is_gone:
        title.append(" just deleted", style="red")
    if provider.hidden:
        title.append(f" +{provider.hidden} below", style="dim")
    return title


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
    """The traits, as many to a line as fit."""
    room = min(layout.columns.right, _WIDEST_TRAITS)
    words = (shorten(printable(trait), room) for trait in sorted(provider.traits))
    yield from wrapped(Text(" ".join(words), style="dim"), room)


def _lay_out(tops: list[Provider], totals: dict[str, Amount], numbers: dict[str, int], width: int) -> Layout:
    titles = [_LEVEL * depth + _title(provider, numbers).cell_len for provider, depth in _with_depth(tops)]
    if len(tops) > 1:
        titles.append(len(f"all {len(tops):,} trees"))
    amounts = totals.values()
    used = widest(number(amount.used) for amount in amounts)
    capacity = widest(number(amount.capacity) for amount in amounts)
    reserved = widest(number(amount.reserved) for amount in amounts if amount.reserved)
    numeric = used + len(" / ") + capacity + _PERCENT + (GAP + reserved + len(_RESERVED) if reserved else 0)
    name = name_width(totals, width - GAP - numeric, width)
    details = name + GAP + numeric
    columns = lay_out(titles, details, width, most_left=min(width // 2, _WIDEST_TITLE))
    return Layout(columns, name, used, capacity, reserved)


def _with_depth(tops: Iterable[Provider]) -> Iterator[tuple[Provider, int]]:
    level, depth = list(tops), 0
    while level:
        for provider in level:
            yield provider, depth
        level, depth = [child for provider in level for child in provider.children], depth + 1


def _totals(tops: list[Provider]) -> dict[str, Amount]:
    """All providers together, by class."""
    totals: dict[str, Amount] = {}
    for provider in walk(tops):
        for name, amount in provider.amounts.items():
            totals[name] = totals.get(name, Amount(0, 0)) + amount
    return totals


def _number_aggregates(tops: list[Provider]) -> dict[str, int]:
    """A short number for each aggregate, in the order in which one meets them."""
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
