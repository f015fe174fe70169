"""The picture of a provider forest: names to the left, what they hold to the right, one bar below the other.

::

    compute-00  ⊂1                 VCPU          ██░░░░░░░░░░      12 / 128      9 %
    │                              COMPUTE_NODE CUSTOM_RACK_A
    ├── compute-00_numa0           MEMORY_MB     ██████░░░░░░  32,768 / 65,024  50 %
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
from stead.cli.forest import Amount, walk
from stead.cli.output import printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from stead.cli.forest import Provider

SHARING = "⇄"
MEMBER = "⊂"

_GUIDE = "bright_black"
_WIDEST_NAME = 0.5  # of the line
_NARROWEST_DETAIL = 24


@dataclass(frozen=True, slots=True)
class Layout:
    """Widths in cells, the same for every line of one picture."""

    left: int
    name: int
    used: int
    capacity: int
    width: int

    @property
    def detail(self) -> int:
        """What is left for the right side."""
        return max(self.width - self.left, _NARROWEST_DETAIL)


def draw_forest(tops: list[Provider], width: int) -> Iterator[Text]:
    """The lines of the picture, none longer than *width* where the names allow it."""
    numbers = _number_aggregates(tops)
    totals = _totals(tops)
    layout = _lay_out(tops, totals, numbers, width)
    for top in tops:
        yield from _draw(top, numbers, layout)
    if not tops:
        yield Text("no resource providers", style="dim")
    if len(tops) > 1:
        yield Text()
        yield from _beside(Text(f"all {len(tops)} trees", style="bold"), Text(), _bars(totals, layout), layout)
    yield from _legend(tops, numbers)


def _draw(top: Provider, numbers: dict[str, int], layout: Layout) -> Iterator[Text]:
    """The lines of *top* and all below it."""
    waiting = [(top, Text(), Text())]
    while waiting:
        provider, lead, below = waiting.pop()  # the first line begins with *lead*, the others with *below*
        children = provider.children
        trunk = below + Text("│   " if children else "", style=_GUIDE)
        details = [*_bars(provider.amounts, layout), *_traits(provider, layout)]
        yield from _beside(lead + _title(provider, numbers), trunk, details, layout)
        for child in reversed(children):
            branch, side = ("└── ", "    ") if child is children[-1] else ("├── ", "│   ")
            waiting.append((child, below + Text(branch, style=_GUIDE), below + Text(side, style=_GUIDE)))


def _title(provider: Provider, numbers: dict[str, int]) -> Text:
    title = Text.assemble((printable(provider.name), "bold" if provider.parent is None else ""))
    if provider.is_sharing:
        title.append(f" {SHARING}", style="bold magenta")
    if provider.aggregates:
        members = ",".join(str(number) for number in sorted(numbers[uuid] for uuid in provider.aggregates))
        title.append(f" {MEMBER}{members}", style="cyan")
    if provider.is_gone:
        title.append(" just deleted", style="red")
    if provider.hidden:
        title.append(f" +{provider.hidden} below", style="dim")
    return title


def _bars(amounts: dict[str, Amount], layout: Layout) -> Iterator[Text]:
    for name, amount in sorted(amounts.items()):
        yield Text.assemble(
            (name.ljust(layout.name), ""),
            "  ",
            bar(amount.used, amount.capacity),
            f"  {amount.used:>{layout.used},}",
            (f" / {amount.capacity:<{layout.capacity},}", "dim"),
            (f" {_percent(amount):>4} %", colour(amount.used, amount.capacity)),
        )


def _percent(amount: Amount) -> str:
    return f"{100 * amount.used // amount.capacity}" if amount.capacity > 0 else "–"


def _traits(provider: Provider, layout: Layout) -> Iterator[Text]:
    """The traits, as many to a line as fit."""
    line = ""
    for trait in sorted(provider.traits):
        if line and len(line) + 1 + len(trait) > layout.detail:
            yield Text(line, style="dim")
            line = ""
        line = f"{line} {trait}" if line else trait
    if line:
        yield Text(line, style="dim")


def _beside(title: Text, trunk: Text, details: Iterable[Text], layout: Layout) -> Iterator[Text]:
    """*details* to the right of *title*; a title that is too long has a line for itself."""
    left = title
    for detail in details:
        if left.cell_len > layout.left - 2:
            yield left
            left = trunk
        yield left + Text(" " * (layout.left - left.cell_len)) + detail
        left = trunk
    if left is title:
        yield title


def _lay_out(tops: list[Provider], totals: dict[str, Amount], numbers: dict[str, int], width: int) -> Layout:
    titles = [4 * depth + _title(provider, numbers).cell_len for provider, depth in _with_depth(tops)]
    fitting = [length for length in titles if length + 2 <= width * _WIDEST_NAME]
    return Layout(
        left=max([*fitting, len("all 9,999 trees")]) + 2,
        name=max((len(name) for name in totals), default=0),
        used=max((len(f"{amount.used:,}") for amount in totals.values()), default=0),
        capacity=max((len(f"{amount.capacity:,}") for amount in totals.values()), default=0),
        width=width,
    )


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
            so_far = totals.get(name, Amount(0, 0))
            totals[name] = Amount(so_far.capacity + amount.capacity, so_far.used + amount.used)
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
    for uuid, number in numbers.items():
        yield Text.assemble((f"{MEMBER}{number}", "cyan"), (f" aggregate {uuid}", "dim"))
