"""Abbreviates many names: ``compute-[0001-0500]``, in the notation of cluster schedulers."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from rich.cells import cell_len

from stead.cli.forest import natural
from stead.cli.terminal.cells import ELLIPSIS, shorten
from stead.domain.printable import printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

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
    for number in numbers:
        if runs and int(number) == int(runs[-1][-1]) + 1 and _is_padded_alike(runs[-1][-1], number):
            runs[-1][1:] = [number]
        else:
            runs.append([number])
    return f"[{','.join('-'.join(run) for run in runs)}]"


def _is_padded_alike(number: str, following: str) -> bool:
    return len(number) == len(following) or not (number.startswith("0") or following.startswith("0"))
