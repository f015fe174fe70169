"""Orders: which candidates a request prefers.

Source: "Order", docs/api.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class Drawn:
    """No preference: candidates are drawn at random."""


@dataclass(frozen=True, slots=True)
class ByShare:
    """The best candidate has the greatest weighted sum of free shares.

    ``weights`` are by class name, or one for every class that the request takes.
    """

    weights: Mapping[str, float] | float


@dataclass(frozen=True, slots=True)
class ByAmount:
    """The best candidate has the least (-1) or the most (1) free of the first class; ties compare the next class."""

    directions: Mapping[str, int]


Order = Drawn | ByShare | ByAmount

PACK, SPREAD = ByShare(-1.0), ByShare(1.0)
