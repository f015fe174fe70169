"""The provider forest: built from records of the API, sorted, pruned, and converted to JSON."""

from __future__ import annotations

from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from stead.cli.errors import Negative

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

SHARES = "MISC_SHARES_VIA_AGGREGATE"
DISABLED = "COMPUTE_STATUS_DISABLED"
"""The trait of a provider that accepts no new allocations."""


@dataclass(frozen=True, slots=True)
class Amount:
    """Capacity and usage of one resource class, in the class's unit.

    The capacity is computed without the *reserved* amount, which is shown separately.
    """

    capacity: int
    used: int
    reserved: int = 0

    def __add__(self, other: Amount) -> Amount:
        """The sum of two amounts."""
        return Amount(self.capacity + other.capacity, self.used + other.used, self.reserved + other.reserved)

    @property
    def free(self) -> int:
        """The amount that can still be claimed; negative if the provider is over-committed."""
        return self.capacity - self.used


@dataclass(slots=True)
class Provider:
    """A provider and its descendants.

    *hidden* counts the descendants that are not in ``children``; *sums* then includes their amounts and its own.
    *inventories* are the API's records, by class. *is_gone*: it was deleted while the forest was read. *disabled* has
    the ``reason`` and ``until`` of a disabled provider, if the server sends them.
    """

    uuid: str
    name: str
    parent: str | None
    children: list[Provider] = field(default_factory=list)
    hidden: int = 0
    generation: int = 0
    inventories: dict[str, dict[str, Any]] = field(default_factory=dict)
    usages: dict[str, int] = field(default_factory=dict)
    traits: list[str] = field(default_factory=list)
    aggregates: list[str] = field(default_factory=list)
    is_gone: bool = False
    sums: dict[str, Amount] = field(default_factory=dict)
    disabled: dict[str, Any] | None = None

    @property
    def shown_amounts(self) -> dict[str, Amount]:
        """The amounts to show for the provider, including those of hidden descendants."""
        return self.sums or self.amounts

    @property
    def is_disabled(self) -> bool:
        """Whether it accepts no new allocations."""
        return self.disabled is not None or DISABLED in self.traits

    @property
    def amounts(self) -> dict[str, Amount]:
        """Capacity and usage of each class of the provider."""
        return {
            name: Amount(capacity(record), self.usages.get(name, 0), record["reserved"])
            for name, record in self.inventories.items()
        }

    @property
    def is_sharing(self) -> bool:
        """Whether it serves other trees in its aggregates."""
        return SHARES in self.traits


def capacity(inventory: dict[str, Any]) -> int:
    """``(total - reserved) * allocation_ratio``, cut to an integer as in provider summaries."""
    return int((inventory["total"] - inventory["reserved"]) * inventory["allocation_ratio"])


def plant(records: Iterable[dict[str, Any]]) -> list[Provider]:
    """The forest in a list of ``GET /resource_providers``, with siblings in natural order of their names.

    A provider whose parent is not in the list becomes a root.
    """
    providers = {
        record["uuid"]: Provider(record["uuid"], record["name"], record["parent_provider_uuid"])
        for record in sorted(records, key=lambda record: natural(record["name"]))
    }
    tops: list[Provider] = []
    for provider in providers.values():
        above = providers.get(provider.parent or "")
        (tops if above is None else above.children).append(provider)
    return tops


def natural(name: str) -> list[tuple[int, str]]:
    """A sort key that puts ``node-10`` after ``node-9``."""
    parts: list[tuple[int, str]] = []
    for char in name:
        if char.isdecimal() and parts and parts[-1][1] == "":
            parts[-1] = (parts[-1][0] * 10 + int(char), "")
        else:
            parts.append((int(char), "") if char.isdecimal() else (-1, char))
    return parts


def walk(tops: Iterable[Provider]) -> Iterator[Provider]:
    """Every provider of the forest, parents first."""
    waiting = list(tops)[::-1]
    while waiting:
        provider = waiting.pop()
        yield provider
        waiting.extend(provider.children[::-1])


def select(tops: list[Provider], reference: str) -> list[Provider]:
    """The provider *reference*, by UUID or name; or the roots whose names match it as a pattern (``*``, ``?``).

    Raises:
        Negative: there is none.
    """
    named = [provider for provider in walk(tops) if reference in (provider.name, provider.uuid)]
    chosen = named or [top for top in tops if fnmatchcase(top.name, reference)]
    if not chosen:
        raise Negative(f"no resource provider {reference!r}")
    return chosen


def prune(tops: Iterable[Provider], depth: int) -> None:
    """Cut the forest *depth* levels below its roots. Each cut counts the hidden providers and adds up their amounts."""
    level = list(tops)
    for _ in range(depth):
        level = [child for provider in level for child in provider.children]
    for provider in level:
        provider.hidden = sum(1 for _ in walk(provider.children))
        if provider.hidden:
            provider.sums = sums_of([provider])
        provider.children = []


def sums_of(tops: Iterable[Provider]) -> dict[str, Amount]:
    """The sums of all providers of the forest, by class."""
    sums: dict[str, Amount] = {}
    for provider in walk(tops):
        add(sums, provider.shown_amounts)
    return sums


def add(sums: dict[str, Amount], amounts: dict[str, Amount]) -> None:
    """Add *amounts* to *sums*, class by class."""
    for name, amount in amounts.items():
        sums[name] = sums[name] + amount if name in sums else amount


def fill(amounts: Iterable[Amount]) -> float:
    """The highest usage of *amounts*: used divided by capacity; 0 if there are none."""
    return max((amount.used / amount.capacity if amount.capacity > 0 else 1.0 for amount in amounts), default=0.0)


def sort_trees(tops: list[Provider], order: str) -> None:
    """Sort the trees: by ``name``, or by their fullest class, fullest first (``used``) or emptiest first (``free``)."""
    # By name first: the second sort is stable, so trees of equal use stay in the order of names.
    tops.sort(key=lambda top: natural(top.name))
    if order != "name":
        fills = {top.uuid: fill(sums_of([top]).values()) for top in tops}
        tops.sort(key=lambda top: fills[top.uuid], reverse=order == "used")


def as_json(provider: Provider) -> dict[str, Any]:
    """*provider* and all its descendants, nested by ``children``."""
    shown: dict[str, Any] = {
        "uuid": provider.uuid,
        "name": provider.name,
        "generation": provider.generation,
        "inventories": {
            name: {**record, "capacity": provider.amounts[name].capacity, "used": provider.amounts[name].used}
            for name, record in sorted(provider.inventories.items())
        },
        "traits": sorted(provider.traits),
        "aggregates": sorted(provider.aggregates),
        "children": [as_json(child) for child in provider.children],
    }
    if provider.is_gone:
        shown["gone"] = True
    if provider.is_disabled:
        shown["disabled"] = provider.disabled or {}
    if provider.hidden:
        shown["hidden"] = provider.hidden
        shown["sums"] = {name: amount_as_json(amount) for name, amount in sorted(provider.shown_amounts.items())}
    return shown


def amount_as_json(amount: Amount) -> dict[str, int]:
    """Capacity, usage and reserved amount."""
    return {"capacity": amount.capacity, "used": amount.used, "reserved": amount.reserved}
