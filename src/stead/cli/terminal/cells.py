"""Measures text in terminal cells: shortens, pads and wraps it. A CJK character or an emoji takes two cells."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.text import Text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

ELLIPSIS = "…"

_LONGEST_NUMBER = 10**15

_WITHIN_AMOUNT = re.compile(r"(?<=\d) (?=[A-Z][A-Z0-9_]+\b)|(?<=\d) (?=/ \d)|(?<=\d /) (?=\d)")
"""The blanks of ``3 / 16 VCPU``."""


def shorten(text: str, width: int) -> str:
    """*text* in at most *width* cells. Long text loses its middle, since names differ at their ends."""
    if cell_len(text) <= width:
        return text
    if width < 3:
        return ELLIPSIS[:width]
    head = text[: _fitting(text, width // 2)]
    room = width - 1 - cell_len(head)
    start = len(text) - 1
    while start > 0 and cell_len(text[start - 1 :]) <= room:
        start -= 1
    tail = text[start:]
    while tail and (cell_len(tail) > room or cell_len(tail[0]) == 0):  # a combining mark without its letter
        tail = tail[1:]
    return head + ELLIPSIS + tail


def padded(text: Text, width: int) -> Text:
    """*text* padded with blanks to at least *width* cells."""
    return text + Text(" " * (width - text.cell_len))


def wrapped(text: Text, width: int, indent: int = 0) -> Iterator[Text]:
    """Lines of at most *width* cells, broken at blanks if possible; lines after the first are indented.

    An amount and its class stay on one line if it has room for them.
    """
    plain, start, room = text.plain, 0, width
    breakable = _WITHIN_AMOUNT.sub("_", plain)
    while start < len(plain):
        end = start + max(_fitting(plain[start:], room), 1)
        if end < len(plain) and breakable[end] != " ":
            end = _last_blank(breakable, start, end) or _last_blank(plain, start, end + 1) or end
        line = text[start:end]
        line.rstrip()
        yield line if start == 0 else Text(" " * indent) + line
        room = max(width - indent, 1)
        start = end
        while start < len(plain) and plain[start] == " ":
            start += 1


def widest(texts: Iterable[str]) -> int:
    """The width of the widest of *texts*; 0 if there are none."""
    return max(map(cell_len, texts), default=0)


def number(amount: int) -> str:
    """*amount* with commas; with more than 15 digits as ``1.2e+21``, so that columns stay narrow."""
    return f"{amount:,}" if abs(amount) < _LONGEST_NUMBER else f"{amount:.1e}"


def _last_blank(text: str, start: int, end: int) -> int:
    """The last blank between *start* and *end* that has a word before it; 0 if there is none."""
    blank = text.rfind(" ", start, end)
    return blank if text[start : max(blank, start)].strip() else 0


def _fitting(text: str, width: int) -> int:
    """The maximum number of leading characters of *text* that fit into *width* cells."""
    fitting, beyond = 0, len(text) + 1
    while beyond - fitting > 1:  # binary search: a longer prefix never has fewer cells
        middle = (fitting + beyond) // 2
        if cell_len(text[:middle]) <= width:
            fitting = middle
        else:
            beyond = middle
    return fitting
