"""Rows under headings; on a terminal that is too narrow, a paragraph for each row instead."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.text import Text

from stead.cli.terminal.cells import padded, widest, wrapped
from stead.cli.terminal.columns import GAP, Columns, beside
from stead.domain.printable import printable

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence


def draw_list(
    headings: Sequence[str], rows: Sequence[Sequence[str]], width: int, numbers: Collection[str] = ()
) -> Iterator[Text]:
    """The lines of *rows*, none longer than *width* cells; the first cell of a row is its name.

    Args:
        numbers: headings of right-aligned columns.
    """
    shown = [[printable(cell) for cell in row] for row in rows]
    widths = [widest(column) for column in zip(headings, *shown, strict=True)]
    if sum(widths) + GAP * (len(widths) - 1) > width:
        yield from _paragraphs(headings, shown, width)
        return
    for number, row in enumerate([list(headings), *shown]):
        line = Text("", style="bold" if number == 0 else "")
        for heading, cell, cells in zip(headings, row, widths, strict=True):
            blanks = " " * (cells - cell_len(cell)) if heading in numbers else ""
            line += padded(Text(blanks + cell), cells + GAP)
        line.rstrip()
        yield line


def _paragraphs(headings: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> Iterator[Text]:
    columns = Columns(width, 2 * GAP + widest(headings), 0)
    for place, (name, *cells) in enumerate(rows):
        if place:
            yield Text()
        yield from wrapped(Text(name, style="bold"), width)
        for heading, cell in zip(headings[1:], cells, strict=True):
            yield from beside(Text(" " * GAP + heading, style="dim"), [Text(cell)], columns)
