"""Orders: which candidates are the best, as a request says.

Source: "Order", docs/api.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class Drawn:
    """None is better than another: they are drawn."""


@dataclass(frozen=True, slots=True)
class ByShare:
    """The best has the greatest sum of weights and free shares.

    ``weights`` are by class name, or one for every class that the request takes.
    """

    weights: Mapping[str, float] | float


@dataclass(frozen=True, slots=True)
class ByAmount:
    """The best has the least (-1) or the most (1) free of the first class by name; of equals, of the next."""

    directions: Mapping[str, int]


Order = Drawn | ByShare | ByAmount

PACK, SPREAD = ByShare(-1.0), ByShare(1.0)
