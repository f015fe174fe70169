"""How values look in terminals and notebooks: both are drawn by Rich, which is loaded when the first one is shown."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import RenderableType

HTML_COLUMNS = 100
"""Width of a drawing in a notebook, in characters."""

_HTML = '<pre style="line-height: 1.3; white-space: pre">{code}</pre>'


class Displayed:
    """A value that Rich can draw. Notebooks show the same drawing."""

    __slots__ = ()

    def __rich__(self) -> RenderableType:
        raise NotImplementedError  # each subclass has its own

    def _repr_html_(self) -> str:
        from io import StringIO

        from rich.console import Console

        console = Console(record=True, file=StringIO(), width=HTML_COLUMNS, force_jupyter=False)
        console.print(self)
        return console.export_html(inline_styles=True, code_format=_HTML)


def table_of(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> RenderableType:
    """A table under its title."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None)  # its own title would be wrapped to its width
    for column in columns:
        table.add_column(column)
    for row in rows:
        table.add_row(*map(Text, row))
    return Group(Text(title), table)
