"""Amounts of resource classes, and how much of them there is: parts of most responses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]
Amounts = Mapping[str, int]


def shown_allocations(allocations: Mapping[str, Amounts]) -> str:
    """Allocations as one line: amounts, then the provider."""
    return ", ".join(f"{shown_amounts(amounts)} of {provider}" for provider, amounts in allocations.items())


def shown_amounts(amounts: Amounts) -> str:
    """Amounts as one line."""
    return " ".join(f"{name}:{amount}" for name, amount in amounts.items())


@dataclass(frozen=True, slots=True)
class Room:
    """Capacity and usage of one class of a provider, in units of the class."""

    capacity: int
    used: int

    @property
    def free(self) -> int:
        """What can still be claimed; negative if the class is over-committed."""
        return self.capacity - self.used


@dataclass(frozen=True, slots=True)
class Usage:
    """What the consumers of one type use together."""

    type: str
    consumers: int
    amounts: Amounts = field(hash=False)
