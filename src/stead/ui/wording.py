"""How values look in text: numbers, amounts of units, moments."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stead.domain.moments import in_utc

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_LEVELS = 10
"""Steps of the scale of colours."""


def number(value: float) -> str:
    """A number with separated thousands; integers without a fraction."""
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:,.2f}"


def percent(part: float, whole: float) -> str:
    """*part* of *whole* in percent, without a fraction; a dash if there is nothing."""
    return f"{100 * part / whole:.0f}\u202f%" if whole > 0 else "–"


def fill(part: float, whole: float) -> float:
    """*part* of *whole* in percent, between 0 and 100, for the width of a bar."""
    return round(min(100.0, max(0.0, 100 * part / whole)), 2) if whole > 0 else 0.0


def level(part: float, whole: float) -> int:
    """The step of the scale of colours for *part* of *whole*: 0 is empty, 10 is full."""
    return round(fill(part, whole) * _LEVELS / 100)


def moment(seconds: float) -> str:
    """Seconds since 1970 as a time in UTC."""
    return in_utc(int(seconds))


_REASONS = {
    "capacity_exceeded": "Not enough free",
    "units_violated": "Amount does not fit the units of the inventory",
    "no_such_inventory": "The provider has no inventory of the class",
    "provider_disabled": "The provider is disabled",
    "nothing_fits": "No allocation candidates",
    "nothing_found": "No allocation candidates found within the limit of the search",
    "generation_conflict": "The provider changed first (generation)",
    "consumer_conflict": "The consumer changed first (generation)",
    "concurrent_update": "Other clients changed it first, until the time limit",
    "unavailable": "The database did not answer",
}


def reason(name: str) -> str:
    """The label of a metric, in words where a name is not enough; the label follows, since alerts have it."""
    return f"{_REASONS[name]}: {name}" if name in _REASONS else name


FILTERS: Mapping[str, Callable[..., object]] = {
    "number": number,
    "percent": percent,
    "fill": fill,
    "level": level,
    "moment": moment,
    "reason": reason,
}
