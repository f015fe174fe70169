"""A provider forest written down plainly, for tests: names, numbers and sets, and nothing clever.

Providers are told apart by name; their uuids follow from the names. The real catalog is never used here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING
from uuid import UUID, uuid5

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_NAMES = UUID("5ead0000-0000-4000-8000-000000000000")


def uuid_of(name: str) -> str:
    """The uuid of the provider, or aggregate, of that name; the same in every run."""
    return str(uuid5(_NAMES, name))


@dataclass(frozen=True)
class PlainInventory:
    """One resource class of one provider, and how much of it all consumers together hold."""

    total: int
    reserved: int = 0
    min_unit: int = 1
    max_unit: int = 2147483647
    step_size: int = 1
    allocation_ratio: float = 1.0
    used: int = 0

    @property
    def capacity(self) -> int:
        return math.trunc((self.total - self.reserved) * self.allocation_ratio)


@dataclass(frozen=True)
class PlainProvider:
    """One provider; ``aggregates`` are letters or words, of which `uuid_of` makes uuids."""

    name: str
    parent: str | None = None
    inventories: Mapping[str, PlainInventory] = field(default_factory=dict)
    traits: frozenset[str] = frozenset()
    aggregates: frozenset[str] = frozenset()
    is_disabled: bool = False

    @cached_property
    def uuid(self) -> str:
        return uuid_of(self.name)

    @cached_property
    def aggregate_uuids(self) -> frozenset[str]:
        return frozenset(uuid_of(aggregate) for aggregate in self.aggregates)

    def __str__(self) -> str:
        words = [self.name, *(f"{name}={held}" for name, held in self.inventories.items())]
        words += [f"[{', '.join(sorted(self.traits))}]"] if self.traits else []
        words += [f"{{{', '.join(sorted(self.aggregates))}}}"] if self.aggregates else []
        words += ["disabled"] if self.is_disabled else []
        return "  ".join(words).replace("PlainInventory", "")


@dataclass(frozen=True)
class Forest:
    """All providers, parents before their children, and the names of classes and traits that exist at all."""

    providers: tuple[PlainProvider, ...]
    classes: frozenset[str]
    traits: frozenset[str]

    @cached_property
    def by_name(self) -> dict[str, PlainProvider]:
        return {provider.name: provider for provider in self.providers}

    @cached_property
    def by_uuid(self) -> dict[str, PlainProvider]:
        return {provider.uuid: provider for provider in self.providers}

    @cached_property
    def roots(self) -> tuple[PlainProvider, ...]:
        return tuple(provider for provider in self.providers if provider.parent is None)

    @cached_property
    def is_nested(self) -> bool:
        return any(provider.parent is not None for provider in self.providers)

    @cached_property
    def _lines(self) -> dict[str, tuple[str, ...]]:
        return {provider.name: tuple(self._climb(provider.name)) for provider in self.providers}

    def _climb(self, name: str | None) -> Iterator[str]:
        while name is not None:
            yield name
            name = self.by_name[name].parent

    def line(self, name: str) -> tuple[str, ...]:
        """The provider, its parent, and so on up to its root: all providers in whose subtree it is."""
        return self._lines[name]

    def root(self, name: str) -> str:
        return self._lines[name][-1]

    def is_enabled(self, name: str) -> bool:
        """Whether neither the provider nor any above it is disabled."""
        return not any(self.by_name[above].is_disabled for above in self.line(name))

    def __str__(self) -> str:
        rows = ["  " * (len(self.line(provider.name)) - 1) + str(provider) for provider in self.providers]
        return "\n".join(["", *rows])
