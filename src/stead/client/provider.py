"""Resource providers and their trees, what consumers have of them, and how they change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, overload

from stead.printing import in_class_order

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rich.console import RenderableType


# How values look in terminals and notebooks: both are drawn by Rich, which is loaded when the first one is shown.


HTML_COLUMNS = 100
"""Width of a drawing in a notebook, in characters."""

_HTML = '<pre style="line-height: 1.3; white-space: pre">{code}</pre>'


class Displayed:
    """A value that Rich can draw. Notebooks show the same drawing."""

    __slots__ = ()

    def __rich__(self) -> RenderableType:
        raise NotImplementedError  # each subclass has its own

    def _repr_html_(self) -> str:
        from io import StringIO

        from rich.console import Console

        console = Console(record=True, file=StringIO(), width=HTML_COLUMNS, force_jupyter=False)
        console.print(self)
        return console.export_html(inline_styles=True, code_format=_HTML)


def table_of(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> RenderableType:
    """A table under its title."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None)  # its own title would be wrapped to its width
    for column in columns:
        table.add_column(column)
    for row in rows:
        table.add_row(*map(Text, row))
    return Group(Text(title), table)


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
        try:
            return cls(**record)
        except TypeError:
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
        rows = [
            (name, str(room.capacity), str(room.used), str(room.free))
            for name, room in in_class_order(self.rooms).items()
        ]
        return table_of(f"{self.name}  {self.uuid}", ("class", "capacity", "used", "free"), rows)


@dataclass(frozen=True, slots=True, repr=False)
class Tree(Displayed, Sequence[Provider]):
    """All providers of one tree, parents before their children; with ``depth``, those of the first levels.

    Attributes:
        provider_count: number of all providers of the tree.
        totals: the sums of all its providers by class; None if they were not requested.
    """

    providers: tuple[Provider, ...]
    provider_count: int = 0
    totals: Mapping[str, Total] | None = field(default=None, hash=False)

    @classmethod
    def of(cls, record: Json) -> Tree:
        """That of an entry of GET ``/provider_trees``."""
        providers = tuple(_detailed(provider, record["root_provider_uuid"]) for provider in record["providers"])
        totals = record.get("totals")
        return cls(
            providers,
            record.get("provider_count", len(providers)),
            None if totals is None else {name: Total.of(amounts) for name, amounts in totals.items()},
        )

    @property
    def root(self) -> Provider:
        """The provider that has no parent."""
        return self.providers[0]

    def find(self, name_or_uuid: str) -> Provider | None:
        """The provider with this name or uuid."""
        return next((each for each in self.providers if name_or_uuid in (each.uuid, each.name)), None)

    def below(self, provider: Provider) -> list[Provider]:
        """*provider* and all below it, parents before their children."""
        uuids = {provider.uuid}
        for each in self.providers:
            if each.parent in uuids:
                uuids.add(each.uuid)
        return [each for each in self.providers if each.uuid in uuids]

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
        return f"<Tree of {self.root.name}: {counted(len(self), 'provider')}>"

    def __rich__(self) -> RenderableType:
        from rich.text import Text
        from rich.tree import Tree as Picture

        pictures: dict[str, Picture] = {}
        for provider in self.providers:
            rooms = "  ".join(
                f"{name} {room.used}/{room.capacity}" for name, room in in_class_order(provider.rooms).items()
            )
            disabled = f"  disabled: {provider.disabled.reason}" if provider.disabled else ""
            label = Text(f"{provider.name}  {rooms}".rstrip() + disabled)
            above = pictures.get(provider.parent or "")
            pictures[provider.uuid] = Picture(label) if above is None else above.add(label)
        return pictures[self.root.uuid]


@dataclass(frozen=True, slots=True)
class Place:
    """The name of a provider, and that of the root of its tree."""

    name: str
    host: str


def _detailed(record: Json, root: str) -> Provider:
    inventories, traits, aggregates = map(record.get, ("inventories", "traits", "aggregates"))
    return Provider(
        record.get("uuid", ""),
        record["name"],
        record.get("generation", 0),
        record.get("parent_provider_uuid"),
        root,
        None if inventories is None else {name: Inventory.of(inventory) for name, inventory in inventories.items()},
        record.get("usages"),
        None if traits is None else frozenset(traits),
        None if aggregates is None else frozenset(aggregates),
        disabled_of(record),
    )


def parents_first(records: Sequence[Json]) -> list[Json]:
    """The entries of GET ``/resource_providers``, tree by tree in the order of their roots' uuids."""
    above = {record["uuid"]: record["parent_provider_uuid"] for record in records}

    def depth(record: Json) -> int:
        levels, parent = 0, record["parent_provider_uuid"]
        while parent is not None:
            levels, parent = levels + 1, above.get(parent)
        return levels

    return sorted(records, key=lambda record: (record["root_provider_uuid"], depth(record)))


def disabled_of(record: Json) -> Disabled | None:
    """The state of a provider in *record*; None if it is enabled, or if an older server does not tell."""
    state = record.get("disabled")
    if state is None:
        return None
    return Disabled(state["reason"], state["since"], state["until"], state["provider_uuid"])


# Amounts of resource classes, and how much of them there is: parts of most responses.


Json = dict[str, Any]
Amounts = Mapping[str, int]


def shown_allocations(allocations: Mapping[str, Amounts], names: Mapping[str, str] = MappingProxyType({})) -> str:
    """Allocations as one line: amounts, then the provider, by its name if *names* has it."""
    return ", ".join(
        f"{shown_amounts(amounts)} of {names.get(provider, provider)}" for provider, amounts in allocations.items()
    )


def counted(number: int, noun: str) -> str:
    """``1 provider``, ``2 providers``."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def shown_amounts(amounts: Amounts) -> str:
    """Amounts as one line."""
    return " ".join(f"{name}:{amount}" for name, amount in in_class_order(amounts).items())


def add_up(several: Iterable[Amounts]) -> dict[str, int]:
    """The sums by class."""
    sums: dict[str, int] = {}
    for amounts in several:
        for name, amount in amounts.items():
            sums[name] = sums.get(name, 0) + amount
    return sums


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
class Total:
    """The sums of one class over several providers, in units of the class."""

    total: int
    reserved: int
    capacity: int
    used: int

    @classmethod
    def of(cls, record: Json) -> Total:
        """That of a record of the API."""
        return cls(record["total"], record["reserved"], record["capacity"], record["used"])


@dataclass(frozen=True, slots=True)
class Usage:
    """What the consumers of one type use together."""

    type: str
    consumers: int
    amounts: Amounts = field(hash=False)


# What one consumer has. It has a short ``repr``, and a drawing for Rich.


@dataclass(slots=True, repr=False, eq=False)
class Consumer(Displayed):
    """A consumer and what it has.

    Attributes:
        consumer: its uuid.
        type: ``unknown`` if it has none, as all of nova's.
        name: the name from which the uuid was made; None if only the uuid is known.
        created_at: when it got its first allocation; None if that was not read, or if the server does not tell.
        expires_at: when its lease ends, or ended; None if it has no end, or if that was not read.
        on_expiry: what happens then: ``release`` or ``mark``; None likewise.
        allocations: amounts by class, by uuid of the provider; empty after a release.
        mappings: uuids of the providers of each group, by its name; empty if they are unknown.
        generation: of the consumer; None after a release, or if the server's database has lost the consumer's row.
    """

    consumer: str
    project: str
    user: str
    type: str
    generation: int | None
    allocations: Mapping[str, Amounts]
    mappings: Mapping[str, Sequence[str]]
    name: str | None = None
    created_at: datetime | None = None
    expires_at: datetime | None = None
    on_expiry: str | None = None
    _names: Mapping[str, str] = field(default_factory=dict)

    @property
    def providers(self) -> tuple[str, ...]:
        """The uuids of all providers."""
        return tuple(self.allocations)

    @property
    def amounts(self) -> dict[str, int]:
        """The amounts of all providers together, by class."""
        return add_up(self.allocations.values())

    @property
    def shown(self) -> str:
        """The allocations as one line, with the names of the providers that the site has read."""
        return shown_allocations(self.allocations, self._names) or "nothing"

    def __repr__(self) -> str:
        return f"<Claim of {self.name or self.consumer} ({self.project}): {self.shown}>"

    def __rich__(self) -> RenderableType:
        groups = {provider: name for name, providers in self.mappings.items() for provider in providers}
        rows = [
            (self._names.get(provider, provider), groups.get(provider, ""), shown_amounts(amounts))
            for provider, amounts in self.allocations.items()
        ]
        title = f"{self.name or self.consumer}  {self.project}"
        return table_of(title, ("provider", "group", "allocations"), rows)


# Changes of a site, as :meth:`Site.watch` returns them.


CONSUMER = "consumer"


@dataclass(frozen=True, slots=True)
class Change:
    """Something that happened, as :meth:`Site.watch` tells it.

    Attributes:
        kind: ``provider`` or ``consumer`` changed; ``heartbeat``: nothing did for a while; ``start over``: some changes
            are lost, so everything must be read again.
        uuid: of the provider or consumer; empty for other kinds.
        generation: its present one; None if it does not exist any more.
        token: with ``watch(since=token)``, watching continues after this change and repeats at most its neighbours.
        name: of the provider; None if the server does not tell it.
        expires_at: the end of the consumer's lease; None if it has none, and of servers before Stead 1.2.
        lease_ended: whether the lease of the consumer has ended: it was released, or is overdue. Another client may
            have claimed for it since.
    """

    kind: Literal["provider", "consumer", "heartbeat", "start over"]
    token: str
    uuid: str = ""
    generation: int | None = None
    name: str | None = None
    expires_at: datetime | None = None
    lease_ended: bool = False

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
        ends = record.get("expires_at")
        yield Change(
            kind,
            token,
            record["uuid"],
            record["generation"],
            record.get("name"),
            None if ends is None else datetime.fromisoformat(ends),
            record.get("lease_ended", False),
        )


@dataclass(frozen=True, slots=True)
class Changes:
    """What :meth:`Site.changes` returns.

    Attributes:
        document: the response of GET ``/changes``.
        since: the token after which the changes happened.
    """

    document: Json = field(hash=False)
    since: str

    @property
    def token(self) -> str:
        """The token of the moment of the response."""
        return str(self.document["token"])

    @property
    def changes(self) -> list[Change]:
        """Those of providers, then those of consumers."""
        return list(changes_of(self.document, self.since))
