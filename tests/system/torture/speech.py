"""The words of the model in the words of HTTP, and back."""

from __future__ import annotations

import http.client
import json
from functools import singledispatch
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit
from uuid import NAMESPACE_OID, uuid4, uuid5

from tests.system.api.client import NEWEST
from tests.system.torture.history import UNKNOWN, NotSent
from tests.system.torture.model import (
    DISABLED,
    DONE,
    FULL,
    NOTHING,
    OLD,
    Books,
    Claim,
    Document,
    Holding,
    Placed,
    Provider,
    ReadAllocations,
    ReadCandidates,
    ReadConsumer,
    ReadInventory,
    ReadProject,
    ReadState,
    ReadUsages,
    Release,
    Request,
    Resize,
    Seek,
    SetState,
    Wish,
)

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Hashable, Mapping, Sequence

CLASS, TYPE = "VCPU", "INSTANCE"
FIRST_UNIT = 1000
"""An inventory's mark is in ``max_unit``, from here on."""

PATIENCE_SECONDS = 15.0
HEADERS = {
    "X-Auth-Token": "admin",
    "OpenStack-API-Version": f"placement {NEWEST}, stead 1.1",
    "Content-Type": "application/json",
}
WITHOUT_GENERATION = {**HEADERS, "OpenStack-API-Version": "placement 1.18"}
"""At which the aggregates of a provider do not raise its generation."""


class World:
    """A project and providers of its own in a database where others may be; names stand for uuids."""

    def __init__(self) -> None:
        self.project = str(uuid4())
        self.aggregate = str(uuid4())
        self._names: dict[str, str] = {}

    def uuid(self, name: str) -> str:
        uuid = str(uuid5(NAMESPACE_OID, self.project + name))
        self._names[uuid] = name
        return uuid

    def name(self, uuid: str) -> str:
        return self._names[uuid]

    def is_ours(self, uuid: str) -> bool:
        return uuid in self._names


class Sent(NamedTuple):
    """One HTTP request, and what its successful answer means."""

    method: str
    path: str
    body: Any
    meaning: Callable[[Any], Hashable]


def done(_body: Any) -> Hashable:
    return DONE


@singledispatch
def words(request: Request, world: World) -> Sent:
    """How *request* is said."""
    raise TypeError(request)


@words.register
def _(request: Claim, world: World) -> Sent:
    records = {world.uuid(wish.consumer): _record(wish, request.mark, world) for wish in request.wishes}
    if len(records) > 1:
        return Sent("POST", "/allocations", records, done)
    ((consumer, record),) = records.items()
    return Sent("PUT", f"/allocations/{consumer}", record, done)


def _record(wish: Wish, mark: int, world: World) -> dict[str, Any]:
    return {
        "allocations": {world.uuid(name): {"resources": {CLASS: amount}} for name, amount in wish.amounts},
        "project_id": world.project,
        "user_id": str(mark),
        "consumer_generation": wish.expected,
        "consumer_type": TYPE,
    }


@words.register
def _(request: Seek, world: World) -> Sent:
    def meaning(told: Any) -> Hashable:
        return Placed(tuple(world.name(uuid) for one in told["claims"] for uuid in one["allocations"]))

    wanted = [
        {
            "consumer_uuid": world.uuid(want.consumer),
            "query": f"resources={CLASS}:{want.amount}&member_of={world.aggregate}",
            "project_id": world.project,
            "user_id": str(request.mark),
            "consumer_generation": want.expected,
            "consumer_type": TYPE,
        }
        for want in request.wants
    ]
    return Sent("POST", "/claims", {"claims": wanted, "distinct_roots": request.distinct}, meaning)


@words.register
def _(request: Release, world: World) -> Sent:
    return Sent("DELETE", f"/allocations/{world.uuid(request.consumer)}", None, done)


@words.register
def _(request: Resize, world: World) -> Sent:
    inventory = {"total": request.total, "max_unit": FIRST_UNIT + request.mark}
    body = {"resource_provider_generation": request.expected, "inventories": {CLASS: inventory}}
    path = f"/resource_providers/{world.uuid(request.provider)}/inventories"
    return Sent("PUT", path, body, lambda told: told["resource_provider_generation"])


@words.register
def _(request: SetState, world: World) -> Sent:
    body = {"disabled": {"reason": str(request.state)} if request.state else None}
    path = f"/provider_trees/{world.uuid(request.provider)}"
    return Sent("PATCH", path, body, lambda told: told["generation"])


@words.register
def _(request: ReadState, world: World) -> Sent:
    def meaning(told: Any) -> Hashable:
        [tree] = told["provider_trees"]
        [provider] = tree["providers"]
        return provider["generation"], int(provider["disabled"]["reason"]) if provider["disabled"] else 0

    path = f"/provider_trees?in_tree={world.uuid(request.provider)}&fields=generation,disabled"
    return Sent("GET", path, None, meaning)


@words.register
def _(request: Document, world: World) -> Sent:
    providers = []
    for size in request.sizes:
        inventory = {"total": size.total, "max_unit": FIRST_UNIT + request.mark}
        described = {"uuid": world.uuid(size.provider), "inventories": {CLASS: inventory}}
        providers.append(described if size.expected is None else {**described, "generation": size.expected})
    body = {"provider_trees": [{"providers": [described]} for described in providers]}

    def meaning(told: Any) -> Hashable:
        return tuple(provider["generation"] for provider in told["providers"])

    return Sent("PUT", "/provider_trees", body, meaning)


@words.register
def _(request: ReadConsumer, world: World) -> Sent:
    def meaning(told: Any) -> Hashable:
        if not told["allocations"]:
            return NOTHING
        held = sorted((world.name(uuid), of) for uuid, of in told["allocations"].items())
        amounts = tuple((name, of["resources"][CLASS]) for name, of in held)
        generations = tuple(of["generation"] for _, of in held)
        return Holding(request.consumer, told["consumer_generation"], int(told["user_id"]), amounts), generations

    return Sent("GET", f"/allocations/{world.uuid(request.consumer)}", None, meaning)


@words.register
def _(request: ReadAllocations, world: World) -> Sent:
    def meaning(told: Any) -> Hashable:
        held = sorted(
            (world.name(uuid), of["consumer_generation"], of["resources"][CLASS])
            for uuid, of in told["allocations"].items()
        )
        return told["resource_provider_generation"], tuple(held)

    return Sent("GET", f"/resource_providers/{world.uuid(request.provider)}/allocations", None, meaning)


@words.register
def _(request: ReadUsages, world: World) -> Sent:
    path = f"/resource_providers/{world.uuid(request.provider)}/usages"
    return Sent("GET", path, None, lambda told: (told["resource_provider_generation"], told["usages"][CLASS]))


@words.register
def _(request: ReadInventory, world: World) -> Sent:
    def meaning(told: Any) -> Hashable:
        inventory = told["inventories"][CLASS]
        mark = inventory["max_unit"] - FIRST_UNIT
        return Provider(request.provider, told["resource_provider_generation"], inventory["total"], mark)

    return Sent("GET", f"/resource_providers/{world.uuid(request.provider)}/inventories", None, meaning)


@words.register
def _(_request: ReadProject, world: World) -> Sent:
    def meaning(told: Any) -> Hashable:
        usage = told["usages"].get(TYPE, {})
        return usage.get("consumer_count", 0), usage.get(CLASS, 0)

    return Sent("GET", f"/usages?project_id={world.project}", None, meaning)


@words.register
def _(request: ReadCandidates, world: World) -> Sent:
    def meaning(told: Any) -> Hashable:
        summaries = {
            world.name(uuid): summary["resources"][CLASS]
            for uuid, summary in told["provider_summaries"].items()
            if world.is_ours(uuid)
        }
        return tuple((name, of["capacity"], of["used"]) for name, of in sorted(summaries.items()))

    return Sent("GET", f"/allocation_candidates?resources={CLASS}:{request.amount}", None, meaning)


class Caller:
    """A client's connection to one of several services; another one after each failure, and now and then."""

    def __init__(self, world: World, urls: Sequence[str], chance: random.Random) -> None:
        self._world = world
        self._urls = urls
        self._chance = chance
        self._connection: http.client.HTTPConnection | None = None

    def ask(self, request: Request) -> Hashable:
        """The answer in the words of the model; UNKNOWN if it broke off or was a 5xx.

        Raises:
            NotSent: nobody listens, or the service gave up because others were faster every time. The model knows no
                such refusal, and if something was written all the same, nothing will explain it.
        """
        sent = words(request, self._world)
        status, body = self.call(sent.method, sent.path, sent.body)
        if status is None or status >= 500:
            return UNKNOWN
        if status < 300:
            return sent.meaning(body)
        return _refusal(status, body)

    def call(
        self, method: str, path: str, body: Any = None, headers: Mapping[str, str] = HEADERS
    ) -> tuple[int | None, Any]:
        """Status and JSON; no status if the answer did not come.

        Raises:
            NotSent
        """
        if self._connection is None or self._chance.random() < 0.05:
            self._connect()
        assert self._connection is not None
        try:
            self._connection.request(method, path, None if body is None else json.dumps(body), dict(headers))
            response = self._connection.getresponse()
            text = response.read()
        except (OSError, http.client.HTTPException):
            self.close()
            return None, None
        return response.status, json.loads(text) if text else None

    def _connect(self) -> None:
        self.close()
        where = urlsplit(self._chance.choice(self._urls))
        connection = http.client.HTTPConnection(where.hostname or "", where.port, timeout=PATIENCE_SECONDS)
        try:
            connection.connect()
        except OSError as error:
            raise NotSent from error
        self._connection = connection

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection = None


def _refusal(status: int, body: Any) -> Hashable:
    error = body["errors"][0]
    if status == 404 and "allocations" in error["detail"].lower():
        return NOTHING
    if status == 409 and "Another thread concurrently updated" in error["detail"]:
        raise NotSent
    if status == 409 and error["code"] in ("stead.nothing_fits", "stead.capacity_below_use"):
        return FULL
    if status == 409 and error["code"] == "stead.provider_disabled":
        return DISABLED
    if status == 409 and error["code"] == "placement.concurrent_update":
        return OLD
    if status == 409 and "Unable to allocate inventory" in error["detail"]:
        return FULL
    return status, error["detail"]  # which the model never answers


def set_up(caller: Caller, world: World, totals: dict[str, int]) -> Books:
    """Make the providers of a world; these are the books in which its history begins."""
    for name, total in totals.items():
        uuid = world.uuid(name)
        made, _ = caller.call("POST", "/resource_providers", {"name": uuid, "uuid": uuid})
        filled = caller.ask(Resize(name, total, 0, 0))
        path = f"/resource_providers/{uuid}/aggregates"
        grouped, _ = caller.call("PUT", path, [world.aggregate], WITHOUT_GENERATION)
        assert (made, filled, grouped) == (200, 1, 200), (made, filled, grouped)
    return Books(tuple(Provider(name, 1, total, 0) for name, total in sorted(totals.items())))
