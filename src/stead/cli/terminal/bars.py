"""Bars that show usage."""

from __future__ import annotations

from rich.text import Text

FULL = "█"
CLAIMED = "▓"
EMPTY = "░"

_WARM = 0.6
_HOT = 0.85


def colour(used: int, capacity: int) -> str:
    """Green while there is room, yellow when little is left, red when almost nothing is left."""
    if capacity <= 0:
        return "red" if used else "bright_black"
    fill = used / capacity
    if fill > 1:
        return "bold red"
    if fill >= _HOT:
        return "red"
    return "yellow" if fill >= _WARM else "green"


def bar(used: int, capacity: int, *, claimed: int = 0, width: int = 12) -> Text:
    """*used* of *capacity* in *width* cells, followed by the part that would be *claimed*.

    A nonzero value has at least one cell, and a bar that is not full has at least one empty cell.
    """
    before = _cells(used, capacity, width)
    after = max(_cells(used + claimed, capacity, width), min(before + bool(claimed), width))
    if claimed and before == after:
        before -= 1
    style = colour(used + claimed, capacity)
    return Text.assemble(
        (FULL * before, style), (CLAIMED * (after - before), f"bold {style}"), (EMPTY * (width - after), "bright_black")
    )


def _cells(used: int, capacity: int, width: int) -> int:
    if used <= 0:
        return 0
    if used >= capacity:
        return width
    return min(max(round(width * used / capacity), 1), width - 1)
