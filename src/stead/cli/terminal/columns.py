"""Two-column output: titles to the left, and the details of each title to the right, one per line.

If the terminal is too narrow, this applies in order: bars become shorter, then disappear; a long name gets its own
line; details wrap; a name longer than a line loses its middle. No line is longer than the terminal.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.text import Text

from stead.cli.terminal.cells import padded, wrapped

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

GAP = 2
"""Blanks between two columns."""

LEAST_LEFT = 17
"""Minimum width of the titles, if the details leave that much."""

_MOST_LEFT = 100
_LEAST_INDENT = 4
_LEAST_BAR = 4
_USUAL_BAR = 12
_MOST_BAR = 32


@dataclass(frozen=True, slots=True)
class Columns:
    """Widths in cells, equal for all lines: the line, its left side, the bars (0 for none)."""

    width: int
    left: int
    bar: int

    @property
    def right(self) -> int:
        """The width of the details."""
        return max(self.width - self.left, 1)


def lay_out(
    titles: Iterable[int], details: int, width: int, *, most_left: int = _MOST_LEFT, most_bar: int | None = None
) -> Columns:
    """Columns for titles of these widths, and for *details*, the width of the widest without its bar; all in cells."""
    most = min(most_left, width - details)
    left_width = max([title + GAP for title in titles if title + GAP <= most], default=0)
    left_width = min(max(left_width, LEAST_LEFT), max(width - details, _LEAST_INDENT))
    most_bar = most_bar or min(max(width // 7, _USUAL_BAR), _MOST_BAR)
    bar = width - left_width - details - GAP
    return Columns(width, left_width, min(bar, most_bar) if bar >= _LEAST_BAR else 0)


def name_width(names: Iterable[str], room: int, width: int) -> int:
    """The width of a column of names within the details; a name that is wider gets its own line.

    Args:
        room: the width of names, bars and titles together.
    """
    most = max(width // 4, room - LEAST_LEFT - GAP - _USUAL_BAR)
    return max((len(name) for name in names if len(name) <= most), default=0)


def beside(
    title: Text, details: Iterable[Text], columns: Columns, trunk: Text | None = None, indent: int = 0
) -> Iterator[Text]:
    """The lines of one title with *details* to its right; the further lines show *trunk* below the title.

    A title longer than a line continues after *indent* blanks.
    """
    trunk = (trunk or Text())[: max(columns.left - GAP, 0)]
    start = title
    for detail in details:
        for line in wrapped(detail, columns.right):
            if start.cell_len > columns.left - GAP:
                yield from wrapped(start, columns.width, indent)
                start = trunk
            yield padded(start, columns.left) + line
            start = trunk
    if start is title:
        yield from wrapped(title, columns.width, indent)
