"""Draw: numbers in random order, one by one."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


def drawn(number: int) -> Iterator[int]:
    """All places below *number* in random order. The cost is that of the places drawn, not of *number*."""
    # A Fisher-Yates shuffle of a list that is never built: only entries that differ from their place are stored.
    moved: dict[int, int] = {}
    for remaining in range(number, 0, -1):
        place = random.randrange(remaining)
        yield moved.get(place, place)
        last = moved.pop(remaining - 1, remaining - 1)
        if place != remaining - 1:
            moved[place] = last
