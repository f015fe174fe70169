"""A site as a table: one row per provider, one column per resource class.

For boards, lab devices and whatever else is listed in a spreadsheet. docs/topology.md describes the columns. A table is
read as the entries of a site file, so that the same rules hold and the same errors name the line.
"""

from __future__ import annotations

import csv
import re
from io import StringIO
from typing import TYPE_CHECKING

from stead.domain.names import NAME_LENGTH, RESOURCE_CLASS_NAME
from stead.topology.document import Node, site_of_nodes
from stead.topology.site import SiteError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from stead.topology.site import Site

_TEXTS = ("name", "parent", "uuid")
_LISTS = ("traits", "aggregates")
_SEPARATORS = ",;\t"
_CLASS = re.compile(RESOURCE_CLASS_NAME)
_WHOLE = re.compile(r"[0-9]{1,10}")


def load_table(text: str, source: str = "table") -> Site:
    """The site that *text* describes: a line of headings, then a provider in each row.

    The headings are ``name``, and in any order ``parent``, ``uuid``, ``traits``, ``aggregates`` and names of resource
    classes. Cells of ``traits`` and ``aggregates`` have several values between spaces. A cell of a class has the total
    of an inventory; an empty cell or 0, none. Commas, semicolons or tabs are between the cells, as in the first line.

    Args:
        source: the name of the text in error messages, such as a file name.

    Raises:
        SiteError: the text is no such table, or the providers are no site; the message names the line.
    """
    rows = _rows(text, source)
    headings_line, headings = next(rows, (1, []))
    _require_headings(headings, f"{source}:{headings_line}")
    entries = []
    for line, row in rows:
        if len(row) > len(headings):
            raise SiteError(f"{source}:{line}: {len(row)} cells below {len(headings)} headings")
        entries.append(_entry(dict(zip(headings, row, strict=False)), line))
    if not entries:
        raise SiteError(f"{source}: no row below the headings")
    return site_of_nodes([Node({"providers": Node(list(entries), headings_line)}, headings_line)], source)


def _rows(text: str, source: str) -> Iterator[tuple[int, list[str]]]:
    """The rows that have anything, without spaces around their cells, and the line in which each begins."""
    first = next((line for line in text.splitlines() if line.strip()), "")
    separator = max(_SEPARATORS, key=first.count)
    reader = csv.reader(StringIO(text, newline=""), delimiter=separator, strict=True)
    line = 1
    try:
        for cells in reader:
            row = [cell.strip() for cell in cells]
            if any(row):
                yield line, row
            line = reader.line_num + 1
    except csv.Error as error:
        raise SiteError(f"{source}:{max(line, reader.line_num)}: not a table: {error}") from error


def _require_headings(headings: Sequence[str], place: str) -> None:
    if "name" not in headings:
        raise SiteError(f"{place}: no heading `name`: the first line has the names of the columns")
    for heading in headings:
        if headings.count(heading) > 1:
            raise SiteError(f"{place}: two columns have the heading {heading!r}")
        is_class = _CLASS.fullmatch(heading) and len(heading) <= NAME_LENGTH
        if heading not in (*_TEXTS, *_LISTS) and not is_class:
            known = ", ".join((*_TEXTS, *_LISTS))
            raise SiteError(f"{place}: the heading {heading[:60]!r} is neither a resource class nor one of {known}")


def _entry(cells: dict[str, str], line: int) -> Node:
    """A provider as an entry of a site file."""
    fields = {key: Node(cells[key], line) for key in _TEXTS if cells.get(key)}
    for key in _LISTS:
        fields[key] = Node([Node(value, line) for value in cells.get(key, "").split()], line)
    fields["inventories"] = Node(
        {
            heading: Node(int(cell) if _WHOLE.fullmatch(cell) else cell, line)
            for heading, cell in cells.items()
            if heading not in (*_TEXTS, *_LISTS) and cell not in ("", "0")
        },
        line,
    )
    return Node(fields, line)
