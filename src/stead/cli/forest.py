"""The provider forest as the API tells it: asked for, put together, and turned into JSON."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from stead.cli.errors import ApiError, Negative

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from stead.cli.client import Api

SHARES = "MISC_SHARES_VIA_AGGREGATE"

_ASKERS = 8  # requests under way at a time


@dataclass(frozen=True, slots=True)
class Amount:
    """How much of one resource class there is and what is claimed of it, in the class's unit.

    *reserved* is not part of the capacity: it is what was subtracted from the total before.
    """

    capacity: int
    used: int
    reserved: int = 0

    def __add__(self, other: Amount) -> Amount:
        """What two providers have together."""
        return Amount(self.capacity + other.capacity, self.used + other.used, self.reserved + other.reserved)

    @property
    def free(self) -> int:
        """What can still be claimed; negative if the provider is over-committed."""
        return self.capacity - self.used


@dataclass(slots=True)
class Provider:
    """A provider and what hangs below it.

    *hidden* counts the providers below that were not asked for; *inventories* are the API's records, by class. One that
    *is_gone* was deleted while the forest was asked for.
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

    @property
    def amounts(self) -> dict[str, Amount]:
        """Capacity and use of each class that the provider has."""
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
    """The forest that a list of ``GET /resource_providers`` describes, siblings in natural order of their names.

    A provider whose parent is not in the list stands at the top.
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
    """A sort key under which ``node-10`` comes after ``node-9``."""
    parts: list[tuple[int, str]] = []
    for char in name:
        if char.isdecimal() and parts and parts[-1][1] == "":
            parts[-1] = (parts[-1][0] * 10 + int(char), "")
        else:
            parts.append((int(char), "") if char.isdecimal() else (-1, char))
    return parts


def walk(tops: Iterable[Provider]) -> Iterator[Provider]:
    """Every provider of the forest, each before what is below it."""
    waiting = list(tops)[::-1]
    while waiting:
        provider = waiting.pop()
        yield provider
        waiting.extend(provider.children[::-1])


def select(tops: list[Provider], wanted: str) -> list[Provider]:
    """The provider called *wanted*, by UUID or name; or the roots whose names match it as a pattern (``*``, ``?``).

    Raises:
        Negative: there is none.
    """
    named = [provider for provider in walk(tops) if wanted in (provider.name, provider.uuid)]
    chosen = named or [top for top in tops if fnmatchcase(top.name, wanted)]
    if not chosen:
        raise Negative(f"no resource provider {wanted!r}")
    return chosen


def prune(tops: Iterable[Provider], depth: int) -> None:
    """Cut the forest to *depth* levels, and count what was cut where it was."""
    level = list(tops)
    for _ in range(depth - 1):
        level = [child for provider in level for child in provider.children]
    for provider in level:
        provider.hidden = sum(1 for _ in walk(provider.children))
        provider.children = []


def furnish(api: Api, providers: list[Provider], advance: Callable[[], object]) -> None:
    """Ask for what each of *providers* has and gives; call *advance* after each, from the calling thread."""
    with ThreadPoolExecutor(_ASKERS) as askers:
        try:
            for _ in askers.map(lambda provider: _furnish(api, provider), providers):
                advance()
        except BaseException:
            askers.shutdown(wait=False, cancel_futures=True)
            raise


def _furnish(api: Api, provider: Provider) -> None:
    try:
        _ask_for(api, provider)
    except ApiError as error:
        if error.status != HTTPStatus.NOT_FOUND:
            raise
        provider.is_gone = True  # somebody deleted it after we had the list


def _ask_for(api: Api, provider: Provider) -> None:
    path = f"/resource_providers/{provider.uuid}"
    inventories = api.get(f"{path}/inventories")
    provider.generation = inventories["resource_provider_generation"]
    provider.inventories = inventories["inventories"]
    if provider.inventories:
        provider.usages = api.get(f"{path}/usages")["usages"]
    provider.traits = api.get(f"{path}/traits")["traits"]
    provider.aggregates = api.get(f"{path}/aggregates")["aggregates"]


def as_json(provider: Provider) -> dict[str, Any]:
    """*provider* and all below it, nested by ``children``."""
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
    if provider.hidden:
        shown["hidden"] = provider.hidden
    return shown
