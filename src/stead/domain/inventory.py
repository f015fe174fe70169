"""Inventory: how much of one resource class one provider has, and the rule that says whether an amount fits.

The rule is written with operators that work on a number and on a NumPy array alike, so the engine calls it with
columns and the claim with one row, and the two cannot disagree.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from stead.domain.errors import ReservedTooLarge

MAX_INT = 2147483647
"""Upper bound of every integer of an inventory, and of an amount that anything could hold."""

MAX_FLOAT = 3.40282e38
"""Upper bound of an allocation ratio."""


@dataclass(frozen=True, slots=True)
class Inventory:
    """What one provider has of one resource class, in units of that class; the ratio is a factor."""

    total: int
    reserved: int = 0
    min_unit: int = 1
    max_unit: int = MAX_INT
    step_size: int = 1
    allocation_ratio: float = 1.0

    @property
    def capacity(self) -> int:
        """The capacity as it is shown: truncated towards zero."""
        return int(capacity(self.total, self.reserved, self.allocation_ratio))


def capacity(total: Any, reserved: Any, ratio: Any) -> Any:
    """``(total - reserved) * ratio`` in IEEE double, not truncated."""
    return (total - reserved) * ratio


def has_room(amount: Any, used: Any, capacity: Any) -> Any:
    """Whether *amount* more can be taken where *used* of *capacity* is taken already."""
    return used + amount <= capacity


def keeps_units(amount: Any, min_unit: Any, max_unit: Any, step_size: Any) -> Any:
    """Whether one amount of one request group or allocation obeys min_unit, max_unit and step_size."""
    return (min_unit <= amount) & (amount <= max_unit) & (amount % step_size == 0)


def require_sane_reserve(inventories: dict[str, Inventory], *, may_reserve_all: bool) -> None:
    """Refuse inventories that reserve more than they have, or, unless *may_reserve_all*, all they have.

    Raises:
        ReservedTooLarge: naming the first such class. Nothing was changed.

    Source: "Reserved check", docs/api.md; *may_reserve_all* is the meaning since microversion 1.26.
    """
    for resource_class, inventory in inventories.items():
        shown = inventory.capacity
        if shown < 0 or (shown == 0 and not may_reserve_all):
            raise ReservedTooLarge(resource_class, may_reserve_all=may_reserve_all)
