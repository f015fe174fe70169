"""What the API answers, as values. Each has a short ``repr``, and a drawing for Rich in terminals and notebooks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, overload

from stead.client.display import Displayed, table_of

if TYPE_CHECKING:
    from rich.console import RenderableType

Json = dict[str, Any]
Amounts = Mapping[str, int]

HEARTBEAT, START_OVER, PROVIDER, CONSUMER = "heartbeat", "start over", "provider", "consumer"


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
class Summary:
    """A provider beside candidates, as it was before they are claimed."""

    uuid: str
    root: str
    parent: str | None
    rooms: Mapping[str, Room]
    traits: frozenset[str]


@dataclass(frozen=True, slots=True, repr=False)
class Candidate:
    """One way to serve a request.

    Attributes:
        allocations: amounts by class, by uuid of the provider.
        mappings: uuids of the providers of each group, by its name.
    """

    allocations: Mapping[str, Amounts]
    mappings: Mapping[str, Sequence[str]]

    def __repr__(self) -> str:
        return f"<Candidate {shown_allocations(self.allocations)}>"


@dataclass(frozen=True, slots=True, repr=False)
class Candidates(Displayed, Sequence[Candidate]):
    """The candidates of a request, and the providers of their trees.

    Attributes:
        summaries: by uuid of the provider.
        is_complete: False if the server stopped the search at its limit of work.
    """

    _items: tuple[Candidate, ...]
    summaries: Mapping[str, Summary]
    is_complete: bool = True

    @classmethod
    def of(cls, body: Json, *, is_complete: bool) -> Candidates:
        """Those of the response *body*."""
        items = tuple(
            Candidate(
                {uuid: record["resources"] for uuid, record in request["allocations"].items()},
                request.get("mappings", {}),
            )
            for request in body["allocation_requests"]
        )
        summaries = {uuid: _summary(uuid, record) for uuid, record in body["provider_summaries"].items()}
        return cls(items, summaries, is_complete)

    def __len__(self) -> int:
        return len(self._items)

    @overload
    def __getitem__(self, place: int) -> Candidate: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[Candidate]: ...
    def __getitem__(self, place: int | slice) -> Candidate | Sequence[Candidate]:
        return self._items[place]

    def __repr__(self) -> str:
        cut = "" if self.is_complete else ", not complete"
        return f"<{len(self)} candidates of {len(self.summaries)} providers{cut}>"

    def __rich__(self) -> RenderableType:
        rows = [
            (str(number), provider, shown_amounts(amounts))
            for number, candidate in enumerate(self, 1)
            for provider, amounts in candidate.allocations.items()
        ]
        return table_of(repr(self).strip("<>"), ("", "provider", "allocations"), rows)


def _summary(uuid: str, record: Json) -> Summary:
    rooms = {name: Room(room["capacity"], room["used"]) for name, room in record["resources"].items()}
    root, parent = record["root_provider_uuid"], record["parent_provider_uuid"]
    return Summary(uuid, root, parent, rooms, frozenset(record["traits"]))


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
    """Why a provider gives no new allocations.

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


@dataclass(frozen=True, slots=True)
class Usage:
    """What the consumers of one type use together."""

    type: str
    consumers: int
    amounts: Amounts = field(hash=False)


@dataclass(frozen=True, slots=True)
class Change:
    """Something that happened, as :meth:`Site.watch` tells it.

    Attributes:
        kind: ``provider`` or ``consumer`` changed; ``heartbeat``: nothing did for a while; ``start over``: some changes
            are lost, so everything must be read again.
        uuid: of the provider or consumer; empty for other kinds.
        generation: its present one; None if it does not exist any more.
        token: with ``watch(since=token)``, watching continues after this change and repeats at most its neighbours.
    """

    kind: Literal["provider", "consumer", "heartbeat", "start over"]
    token: str
    uuid: str = ""
    generation: int | None = None

    @property
    def is_deletion(self) -> bool:
        """Whether the provider or consumer does not exist any more."""
        return bool(self.uuid) and self.generation is None


def changes_of(body: Json, before: str) -> Iterator[Change]:
    """The changes of a response of GET ``/changes`` to the token *before*, which all but the last carry."""
    kinds: tuple[tuple[Literal["provider", "consumer"], str], ...] = (
        ("provider", "providers"),
        ("consumer", "consumers"),
    )
    records = [(kind, record) for kind, key in kinds for record in body[key]]
    for number, (kind, record) in enumerate(records, 1):
        token = body["token"] if number == len(records) else before
        yield Change(kind, token, record["uuid"], record["generation"])


@dataclass(slots=True, repr=False, eq=False)
class Holding(Displayed):
    """What one consumer has.

    Attributes:
        consumer: its uuid.
        name: the name from which the uuid was made; None if only the uuid is known.
        allocations: amounts by class, by uuid of the provider; empty after a release.
        mappings: uuids of the providers of each group, by its name; empty if they are unknown.
        generation: the consumer's; None after a release.
    """

    consumer: str
    project: str
    user: str
    type: str
    generation: int | None
    allocations: Mapping[str, Amounts]
    mappings: Mapping[str, Sequence[str]]
    name: str | None = None

    @property
    def providers(self) -> tuple[str, ...]:
        """The uuids of all providers."""
        return tuple(self.allocations)

    def __repr__(self) -> str:
        allocations = shown_allocations(self.allocations) or "nothing"
        return f"<Claim of {self.name or self.consumer} ({self.project}): {allocations}>"

    def __rich__(self) -> RenderableType:
        groups = {provider: name for name, providers in self.mappings.items() for provider in providers}
        rows = [
            (provider, groups.get(provider, ""), shown_amounts(amounts))
            for provider, amounts in self.allocations.items()
        ]
        title = f"{self.name or self.consumer}  {self.project}"
        return table_of(title, ("provider", "group", "allocations"), rows)
