"""Resource providers and their trees. Each has a short ``repr``, and a drawing for Rich."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, overload

from stead.client.amounts import Room
from stead.client.display import Displayed, table_of

if TYPE_CHECKING:
    from rich.console import RenderableType

    from stead.client.amounts import Amounts, Json


@dataclass(frozen=True, slots=True)
class Inventory:
    """How much of one class a provider has, in units of the class."""

    total: int
    reserved: int = 0
    min_unit: int = 1
    max_unit: int = 2147483647
    step_size: int = 1
    allocation_ratio: float = 1.0

    @classmethod
    def of(cls, record: Json) -> Inventory:
        """That of a record of the API; fields of newer servers are left out."""
        return cls(**{name: value for name, value in record.items() if name in cls.__slots__})

    @property
    def capacity(self) -> int:
        """What can be allocated at most."""
        return int((self.total - self.reserved) * self.allocation_ratio)


@dataclass(frozen=True, slots=True)
class Disabled:
    """Why a provider accepts no new allocations.

    Attributes:
        reason: in the words of the operator.
        since, until: times in ISO 8601; *until* is None if it is for good.
        provider: the uuid of the provider that was disabled: itself, or one above it.
    """

    reason: str
    since: str
    until: str | None
    provider: str


@dataclass(frozen=True, slots=True, repr=False)
class Provider(Displayed):
    """A resource provider. ``inventories`` to ``disabled`` are None in lists that do not read them."""

    uuid: str
    name: str
    generation: int
    parent: str | None
    root: str
    inventories: Mapping[str, Inventory] | None = field(default=None, hash=False)
    usages: Amounts | None = field(default=None, hash=False)
    traits: frozenset[str] | None = None
    aggregates: frozenset[str] | None = None
    disabled: Disabled | None = None

    @classmethod
    def listed(cls, record: Json) -> Provider:
        """That of an entry of GET ``/resource_providers``."""
        root, parent = record["root_provider_uuid"], record["parent_provider_uuid"]
        return cls(record["uuid"], record["name"], record["generation"], parent, root)

    @property
    def rooms(self) -> dict[str, Room]:
        """Capacity and usage by class; empty if the inventories were not read."""
        usages = self.usages or {}
        return {name: Room(each.capacity, usages.get(name, 0)) for name, each in (self.inventories or {}).items()}

    def __repr__(self) -> str:
        disabled = f", disabled: {self.disabled.reason}" if self.disabled else ""
        return f"<Provider {self.name} {self.uuid}{disabled}>"

    def __rich__(self) -> RenderableType:
        rows = [(name, str(room.capacity), str(room.used), str(room.free)) for name, room in self.rooms.items()]
        return table_of(f"{self.name}  {self.uuid}", ("class", "capacity", "used", "free"), rows)


@dataclass(frozen=True, slots=True, repr=False)
class Tree(Displayed, Sequence[Provider]):
    """All providers of one tree, parents before their children."""

    providers: tuple[Provider, ...]

    @classmethod
    def of(cls, record: Json) -> Tree:
        """That of an entry of GET ``/provider_trees`` with all fields."""
        return cls(tuple(_detailed(provider, record["root_provider_uuid"]) for provider in record["providers"]))

    @property
    def root(self) -> Provider:
        """The provider that has no parent."""
        return self.providers[0]

    def find(self, name_or_uuid: str) -> Provider | None:
        """The provider with this name or uuid."""
        return next((each for each in self.providers if name_or_uuid in (each.uuid, each.name)), None)

    def children(self, provider: Provider) -> list[Provider]:
        """The children of *provider*, ordered by name."""
        return [each for each in self.providers if each.parent == provider.uuid]

    def __len__(self) -> int:
        return len(self.providers)

    @overload
    def __getitem__(self, place: int) -> Provider: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[Provider]: ...
    def __getitem__(self, place: int | slice) -> Provider | Sequence[Provider]:
        return self.providers[place]

    def __repr__(self) -> str:
        return f"<Tree of {self.root.name}: {len(self)} providers>"

    def __rich__(self) -> RenderableType:
        from rich.text import Text
        from rich.tree import Tree as Picture

        pictures: dict[str, Picture] = {}
        for provider in self.providers:
            rooms = "  ".join(f"{name} {room.used}/{room.capacity}" for name, room in provider.rooms.items())
            disabled = f"  disabled: {provider.disabled.reason}" if provider.disabled else ""
            label = Text(f"{provider.name}  {rooms}".rstrip() + disabled)
            above = pictures.get(provider.parent or "")
            pictures[provider.uuid] = Picture(label) if above is None else above.add(label)
        return pictures[self.root.uuid]


def _detailed(record: Json, root: str) -> Provider:
    return Provider(
        record["uuid"],
        record["name"],
        record["generation"],
        record["parent_provider_uuid"],
        root,
        {name: Inventory.of(inventory) for name, inventory in record["inventories"].items()},
        record["usages"],
        frozenset(record["traits"]),
        frozenset(record["aggregates"]),
        disabled_of(record),
    )


def disabled_of(record: Json) -> Disabled | None:
    """The state of a provider in *record*; None if it is enabled, or if an older server does not tell."""
    state = record.get("disabled")
    if state is None:
        return None
    return Disabled(state["reason"], state["since"], state["until"], state["provider_uuid"])
