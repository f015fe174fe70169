"""The steps that make a server match a site, as values that say what they do."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, TypeAlias

from stead.domain.inventory import Inventory, has_room

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


@dataclass(frozen=True, slots=True)
class CreateClass:
    """Create a custom resource class."""

    name: str

    def __str__(self) -> str:
        return f"create resource class {self.name}"


@dataclass(frozen=True, slots=True)
class CreateTrait:
    """Create a custom trait."""

    name: str

    def __str__(self) -> str:
        return f"create trait {self.name}"


@dataclass(frozen=True, slots=True)
class CreateProvider:
    """Create a provider without inventories; an earlier step creates its parent, given by name."""

    name: str
    uuid: str | None
    parent: str | None

    def __str__(self) -> str:
        return f"create provider {self.name}" + (f" below {self.parent}" if self.parent is not None else "")


@dataclass(frozen=True, slots=True)
class MoveProvider:
    """Give a provider another parent, by name, or make it a root."""

    name: str
    parent: str | None

    def __str__(self) -> str:
        return f"move provider {self.name} " + (f"below {self.parent}" if self.parent is not None else "to the top")


@dataclass(frozen=True, slots=True)
class RenameProvider:
    """Give a provider another name; a step of documents only, which find providers by uuid too."""

    name: str
    before: str

    def __str__(self) -> str:
        return f"rename provider {self.before} to {self.name}"


@dataclass(frozen=True, slots=True)
class InventoryChange:
    """The change of one inventory of a provider.

    Attributes:
        before: None if it is added.
        after: None if it is removed.
        used: the allocated amount when the provider was read.
    """

    resource_class: str
    before: Inventory | None
    after: Inventory | None
    used: int

    @property
    def overcommits(self) -> bool:
        """Whether the allocations exceed the new capacity."""
        if self.after is None:
            return self.used > 0
        return not has_room(0, self.used, self.after.capacity)

    @property
    def capacities(self) -> str:
        """The capacity before and after the change, ``16 -> 0``."""
        return _before_and_after(_capacity(self.before), _capacity(self.after))

    def __str__(self) -> str:
        sign = "+" if self.before is None else "-" if self.after is None else ""
        amounts = ", ".join(_amounts(self.before, self.after))
        return f"{sign}{self.resource_class} {amounts}" + (f", {self.used:,} used" if self.used else "")


@dataclass(frozen=True, slots=True)
class SetInventories:
    """Replace all inventories of one provider; *changes* has those that differ, by resource class."""

    name: str
    inventories: Mapping[str, Inventory]
    changes: tuple[InventoryChange, ...]

    def __str__(self) -> str:
        return f"set inventories of {self.name}: " + "; ".join(map(str, self.changes))


@dataclass(frozen=True, slots=True)
class SetTraits:
    """Replace all traits of one provider; *changes* describes the differences."""

    name: str
    traits: frozenset[str]
    changes: str

    def __str__(self) -> str:
        return f"set traits of {self.name}: {self.changes}"


@dataclass(frozen=True, slots=True)
class SetAggregates:
    """Replace all aggregates of one provider; *changes* describes the differences."""

    name: str
    aggregates: frozenset[str]
    changes: str

    def __str__(self) -> str:
        return f"set aggregates of {self.name}: {self.changes}"


@dataclass(frozen=True, slots=True)
class DeleteProvider:
    """Delete a provider; earlier steps delete its children, and it has no allocations."""

    name: str

    def __str__(self) -> str:
        return f"delete provider {self.name}"


Step: TypeAlias = (
    CreateClass
    | CreateTrait
    | CreateProvider
    | MoveProvider
    | RenameProvider
    | SetInventories
    | SetTraits
    | SetAggregates
    | DeleteProvider
)


def _amounts(before: Inventory | None, after: Inventory | None) -> Iterator[str]:
    """The fields as text: the total always, the others if they change or differ from the default."""
    usual = Inventory(total=0)
    for name in (field.name for field in fields(Inventory)):
        values = [getattr(inventory, name) for inventory in (before, after) if inventory is not None]
        if name == "total" or any(value != getattr(usual, name) for value in values):
            yield f"{name} {_before_and_after(*values)}"
    capacities = [_capacity(inventory) for inventory in (before, after) if inventory is not None]
    totals = [inventory.total for inventory in (before, after) if inventory is not None]
    if capacities != totals:
        yield f"capacity {_before_and_after(*capacities)}"


def _capacity(inventory: Inventory | None) -> int:
    return 0 if inventory is None else inventory.capacity


def _before_and_after(before: float, after: float | None = None) -> str:
    """``8 -> 9``; a single number if it does not change."""
    shown = [f"{value:,}" if isinstance(value, int) else str(value) for value in (before, after) if value is not None]
    return " -> ".join(dict.fromkeys(shown))
