"""Planned changes of a site, which exist in a snapshot only, and what is wrong with them.

Source: "POST /whatif", docs/stead-api.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from stead.domain.errors import BadRequest, NotFound

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stead.domain.request import Order


@dataclass(frozen=True, slots=True)
class Drain:
    """Disable the tree of a provider and move its consumers elsewhere.

    ``same_traits``: a new provider has all traits of the one that it replaces. ``same_aggregates``: the root of the new
    tree is in at least one aggregate of the root of the old one. ``order``: which new place is the best, None for any.
    """

    provider: str
    same_traits: bool = False
    same_aggregates: bool = False
    order: Order | None = None


@dataclass(frozen=True, slots=True)
class Disable:
    """Disable a provider, and so all providers below it."""

    provider: str


@dataclass(frozen=True, slots=True)
class Copies:
    """Add ``count`` trees like that of a provider, without allocations."""

    provider: str
    count: int


@dataclass(frozen=True, slots=True)
class SetInventory:
    """Give a provider an inventory, or change these fields of the one it has. None: remove it."""

    provider: str
    resource_class: str
    fields: Mapping[str, int | float] | None


@dataclass(frozen=True, slots=True)
class SetTrait:
    """Give a provider a trait, or remove it."""

    provider: str
    trait: str
    has: bool


@dataclass(frozen=True, slots=True)
class DeleteAggregate:
    """Remove all members of an aggregate."""

    aggregate: str


Planned = Drain | Disable | Copies | SetInventory | SetTrait | DeleteAggregate


@dataclass(eq=False)
class BadChange(BadRequest):
    """A planned change cannot be made; ``number`` counts from 0."""

    number: int
    field: str
    reason: str

    def __str__(self) -> str:
        return f"changes[{self.number}].{self.field}: {self.reason}"


@dataclass(eq=False)
class ChangedThingNotFound(NotFound):
    """A planned change names a provider or an aggregate that does not exist."""

    number: int
    field: str
    name: str

    def __str__(self) -> str:
        return f"changes[{self.number}].{self.field}: no {self.field} {self.name}"
