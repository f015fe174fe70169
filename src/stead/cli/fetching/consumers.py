"""Consumers with their allocations: all that match, those of one host, or a single one."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import datetime
from http import HTTPStatus
from itertools import chain
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from stead.cli.errors import CommandError
from stead.cli.forest import walk
from stead.client.calls import OWN, TREES
from stead.client.errors import Refused, Unsupported

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from stead import Site
    from stead.cli.forest import Provider

Amounts = dict[str, int]

_ASKERS = 8  # concurrent requests
_TREES_WORTH_ASKING_FOR = 50  # above it, one list of all providers is cheaper for client and server
_NO_TYPE = "unknown"


@dataclass(frozen=True, slots=True)
class Consumer:
    """A consumer. *allocations* are amounts by class, by the provider's UUID.

    *created_at* is None if the server does not send it.
    """

    uuid: str
    project: str
    user: str
    type: str
    generation: int | None
    allocations: dict[str, Amounts]
    created_at: datetime | None = None

    @property
    def amounts(self) -> Amounts:
        """The amounts of all providers together, by class."""
        return add_up(self.allocations.values())


@dataclass(frozen=True, slots=True)
class ConsumerFilter:
    """A filter of consumers; None does not restrict. The type ``unknown`` selects consumers without a type."""

    project: str | None = None
    user: str | None = None
    type: str | None = None

    @property
    def query(self) -> dict[str, str]:
        """The query parameters of the API."""
        pairs = {"project_id": self.project, "user_id": self.user, "consumer_type": self.type}
        return {name: value for name, value in pairs.items() if value is not None}

    def admits(self, consumer: Consumer) -> bool:
        """Whether *consumer* passes the filter."""
        pairs = ((self.project, consumer.project), (self.user, consumer.user), (self.type, consumer.type))
        return all(chosen in (None, own) for chosen, own in pairs)


@dataclass(frozen=True, slots=True)
class Place:
    """The name of a provider, and that of its root."""

    name: str
    root: str


def add_up(several: Iterable[Amounts]) -> Amounts:
    """The sums per class."""
    sums: Amounts = {}
    for amounts in several:
        for name, amount in amounts.items():
            sums[name] = sums.get(name, 0) + amount
    return sums


def fetch_consumers(
    api: Site, chosen: ConsumerFilter, advance: Callable[[int, int | None], object] = lambda _done, _all: None
) -> list[Consumer]:
    """The consumers that match, ordered by UUID.

    Args:
        advance: called with the number of consumers read so far, and None, after each page but the first.

    Raises:
        CommandError: the server does not list consumers.
    """
    consumers: list[Consumer] = []
    try:
        for page in _pages(api, chosen.query, OWN):
            if consumers:
                advance(len(consumers), None)
            consumers += page
    except Unsupported as error:
        if error.status != HTTPStatus.NOT_FOUND:
            raise
        raise CommandError("the server has no GET /consumers; this command requires Stead") from error
    return consumers


def fetch_consumers_of_tree(api: Site, top: Provider) -> list[Consumer]:
    """The consumers with allocations from *top* or a provider below it, with these allocations only."""
    if not api.supports(TREES):
        return _consumers_by_provider(api, top)
    below = {each.uuid for each in walk([top])}
    consumers = []
    pages = _pages(api, {"in_tree": top.uuid}, TREES)  # of the whole tree, in which top may be deep
    for consumer in chain.from_iterable(pages):
        allocations = {uuid: amounts for uuid, amounts in consumer.allocations.items() if uuid in below}
        if allocations:
            consumers.append(replace(consumer, allocations=allocations))
    return consumers


def _consumers_by_provider(api: Site, top: Provider) -> list[Consumer]:
    """`fetch_consumers_of_tree` from a server that only has the OpenStack Placement API."""
    providers = [each for each in walk([top]) if any(each.usages.values())]
    if not providers:
        return []
    with ThreadPoolExecutor(_ASKERS) as askers:
        paths = [f"/resource_providers/{each.uuid}/allocations" for each in providers]
        allocations_of: dict[str, dict[str, Amounts]] = {}
        for provider, answer in zip(providers, askers.map(lambda path: api.request("GET", path), paths), strict=True):
            for uuid, allocation in answer["allocations"].items():
                allocations_of.setdefault(uuid, {})[provider.uuid] = allocation["resources"]
        owners = dict(zip(allocations_of, askers.map(lambda uuid: _owner(api, uuid), allocations_of), strict=True))
    return [_consumer(uuid, owners[uuid], allocations_of[uuid]) for uuid in sorted(allocations_of)]


def fetch_consumer(api: Site, uuid: str) -> Consumer | None:
    """One consumer; None if it has no allocations."""
    record = _owner(api, uuid)
    if not record.get("allocations"):
        return None
    return _consumer(uuid, record)


def fetch_places(api: Site, uuids: Iterable[str]) -> dict[str, Place]:
    """The places of the providers with these UUIDs, without those that were deleted or may not be read."""
    chosen = sorted(set(uuids))
    try:
        if len(chosen) > _TREES_WORTH_ASKING_FOR:
            records = api.request("GET", "/resource_providers")["resource_providers"]
        else:
            with ThreadPoolExecutor(_ASKERS) as askers:
                answers = askers.map(lambda uuid: api.request("GET", "/resource_providers", in_tree=uuid), chosen)
                records = [each for answer in answers for each in answer["resource_providers"]]
    except Refused:
        return {}
    names = {each["uuid"]: each["name"] for each in records}
    return {
        each["uuid"]: Place(each["name"], names.get(each.get("root_provider_uuid"), each["name"])) for each in records
    }


def _pages(api: Site, query: dict[str, str], version: str) -> Iterator[list[Consumer]]:
    marker: dict[str, str] = {}
    while True:
        page = _page(api, {**query, **marker}, version)
        yield [_consumer(record["uuid"], record) for record in page["consumers"]]
        if not page["links"] or not page["consumers"]:
            return
        marker = {"marker": page["consumers"][-1]["uuid"]}


def _page(api: Site, query: dict[str, str], version: str) -> Any:
    """One page, in the newest form that the server supports."""
    path = f"/consumers?{urlencode(query)}" if query else "/consumers"
    try:
        return api.request("GET", path, stead=TREES)
    except Unsupported as error:
        if error.status != HTTPStatus.NOT_ACCEPTABLE:
            raise
        return api.request("GET", path, stead=version)


def _owner(api: Site, uuid: str) -> dict[str, Any]:
    record: dict[str, Any] = api.request("GET", f"/allocations/{quote(uuid, safe='')}")
    return record


def _consumer(uuid: str, record: dict[str, Any], allocations: dict[str, Amounts] | None = None) -> Consumer:
    """From a record of ``GET /consumers`` or ``GET /allocations/{uuid}``; some fields may be missing."""
    if allocations is None:
        allocations = {provider: each["resources"] for provider, each in record["allocations"].items()}
    created = record.get("created_at")
    return Consumer(
        uuid,
        record.get("project_id", "–"),
        record.get("user_id", "–"),
        record.get("consumer_type") or _NO_TYPE,
        record.get("consumer_generation"),
        allocations,
        None if created is None else datetime.fromisoformat(created),
    )
