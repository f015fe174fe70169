"""Draw: places in random order, one by one."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


def drawn(number: int) -> Iterator[int]:
    """All places below *number* in random order; drawing some of them costs as much as these, not as all."""
    moved: dict[int, int] = {}  # where a place was drawn, the one that was last then
    for left in range(number, 0, -1):
        place = random.randrange(left)
        yield moved.get(place, place)
        last = moved.pop(left - 1, left - 1)
        if place != left - 1:
            moved[place] = last
