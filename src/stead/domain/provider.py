"""A resource provider as clients see it, its inventories, and the rule that decides whether an amount fits."""

from __future__ import annotations

from dataclasses import dataclass, replace
from struct import pack, unpack
from typing import TYPE_CHECKING, Any, NamedTuple, NewType

from stead.domain.errors import ReservedTooLarge

if TYPE_CHECKING:
    from collections.abc import Mapping


MOST_OF_PROVIDER = 10_000
"""Maximum number of inventories, of traits, and of aggregates of one provider."""

BY_NAME = "name:"
"""Prefix of a reference to a provider by its name; every other reference is a uuid."""

Slot = NewType("Slot", int)
"""A provider's index in the arrays of one snapshot."""


@dataclass(frozen=True, slots=True)
class Provider:
    """One provider. ``modified`` is when it was last written, in whole seconds since 1970 (UTC)."""

    uuid: str
    name: str
    generation: int
    parent: str | None
    root: str
    modified: int


class Disabled(NamedTuple):
    """Why a provider accepts no new allocations, and since when; times are seconds since 1970 (UTC).

    After ``until`` the service enables the provider; None: it never does.
    """

    reason: str
    since: int
    until: int | None


class HeldInventory(NamedTuple):
    """An inventory with its usage (units) and when it was last written (seconds since 1970, UTC)."""

    inventory: Inventory
    used: int
    modified: int


# Inventory: how much of one resource class one provider has, and the rule that decides whether an amount fits.
#
# The rule uses only operators that work on numbers and on NumPy arrays alike. The engine calls it with columns and
# the claim with one row, so that the two cannot disagree.


MAX_INT = 2147483647
"""Upper bound of every integer of an inventory, and so of every amount that could fit."""

MAX_FLOAT = 3.40282e38
"""Upper bound of an allocation ratio."""


@dataclass(frozen=True, slots=True)
class Inventory:
    """The inventory of one resource class at one provider, in units of that class; the ratio is a factor."""

    total: int
    reserved: int = 0
    min_unit: int = 1
    max_unit: int = MAX_INT
    step_size: int = 1
    allocation_ratio: float = 1.0

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> Inventory:
        """That of a record of the API, which may have more fields if the server is newer."""
        return cls(**{name: record[name] for name in cls.__slots__ if name in record})

    def is_stored_as(self, other: Inventory) -> bool:
        """Whether a database that stores ratios in single precision, as MariaDB does, cannot tell the two apart."""
        return self == other or (
            replace(self, allocation_ratio=other.allocation_ratio) == other
            and _in_single_precision(self.allocation_ratio) == _in_single_precision(other.allocation_ratio)
        )

    @property
    def capacity(self) -> int:
        """The capacity as answers show it: truncated towards zero."""
        return int(exact_capacity(self.total, self.reserved, self.allocation_ratio))


def _in_single_precision(ratio: float) -> float:
    """A ratio as MariaDB returns it: stored in single precision, and shown with six digits."""
    (stored,) = unpack("f", pack("f", ratio))
    return float(f"{stored:.6g}")


def exact_capacity(total: Any, reserved: Any, ratio: Any) -> Any:
    """``(total - reserved) * ratio`` in IEEE double, not truncated."""
    return (total - reserved) * ratio


def has_room(amount: Any, used: Any, capacity: Any) -> Any:
    """Whether *amount* more fits if *used* of *capacity* is already allocated."""
    return used + amount <= capacity


def keeps_units(amount: Any, min_unit: Any, max_unit: Any, step_size: Any) -> Any:
    """Whether one amount of one request group or allocation obeys min_unit, max_unit and step_size."""
    # The API accepts no step of 0, but a database may have one: no amount obeys it.
    divisor = step_size + (step_size == 0)
    return (min_unit <= amount) & (amount <= max_unit) & (step_size != 0) & (amount % divisor == 0)


def require_sane_reserve(inventories: dict[str, Inventory], *, may_reserve_all: bool) -> None:
    """Refuse inventories that reserve more than their total, or, unless *may_reserve_all*, the whole total.

    Raises:
        ReservedTooLarge: names the first such class. Nothing was changed.

    Source: "Reserved check", docs/api.md; *may_reserve_all* applies since microversion 1.26.
    """
    for resource_class, inventory in inventories.items():
        shown = inventory.capacity
        if shown < 0 or (shown == 0 and not may_reserve_all):
            raise ReservedTooLarge(resource_class, may_reserve_all=may_reserve_all)


# Capacity of a site, for metrics: the inventories of its providers, and their sums.


@dataclass(frozen=True, slots=True)
class Sums:
    """Sums of one resource class over some providers; ``providers`` counts those that have inventory of it."""

    resource_class: str
    providers: int
    total: float
    reserved: float
    capacity: float
    used: float


@dataclass(frozen=True, slots=True)
class Inventories:
    """The inventories of one resource class. All lists are in the same order of providers, which are names."""

    resource_class: str
    providers: list[str]
    total: list[float]
    reserved: list[float]
    allocation_ratio: list[float]
    used: list[int]
