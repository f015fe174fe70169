"""``/allocations``, ``/allocations/{consumer_uuid}`` and ``/resource_providers/{uuid}/allocations``."""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Any

from stead.api import uuids
from stead.api.bodies import Body, read_body
from stead.api.errors import Answer, Refused, answering, race
from stead.api.gates import allowed, json_answer, json_body, since
from stead.api.representations import NOW, Field, Shape, answer, answer_nothing, maker
from stead.api.shapes import ALLOCATIONS, CONSUMER_CHANGES, Wanted, build_wanted, consumer, consumers
from stead.api.versions import V, Versioned
from stead.domain.errors import AllocationRefused, UnknownResourceClass
from stead.process.slices import sliced
from stead.store import allocations, consumer_listing

if TYPE_CHECKING:
    from stead.api.limits import Limits
    from stead.api.request import Request, Response
    from stead.api.shapes import Owner
    from stead.service.service import Service
    from stead.store.consumer_listing import HeldAllocations

CHANGED = race("Inventory and/or allocations changed while attempting to allocate")

NO_TYPE = "unknown"
"""How a consumer without a type is shown."""


def show_held(allocations: HeldAllocations) -> dict[str, Any]:
    """The allocations of a consumer, by provider."""
    return {
        provider: {"generation": generation, "resources": resources}
        for provider, (generation, resources) in allocations.providers.items()
    }


ALLOCATIONS_OF_CONSUMER: Shape[HeldAllocations] = {
    "allocations": Field(V.INITIAL, show_held),
    "project_id": Field(V.ALLOCATIONS_BY_PROVIDER, attrgetter("project")),
    "user_id": Field(V.ALLOCATIONS_BY_PROVIDER, attrgetter("user")),
    "consumer_generation": Field(V.CONSUMER_GENERATION, attrgetter("generation")),
    "consumer_type": Field(V.CONSUMER_TYPES, lambda allocations: allocations.consumer_type or NO_TYPE),
}

ConsumerOfProvider = tuple[int, dict[str, int]]
"""Generation of a consumer, and its allocations from one provider."""

CONSUMER_OF_PROVIDER: Shape[ConsumerOfProvider] = {
    "resources": Field(V.INITIAL, lambda consumer: consumer[1]),
    "consumer_generation": Field(V.CONSUMER_GENERATION, lambda consumer: consumer[0]),
}


def build_several(body: dict[str, dict[str, Any]]) -> dict[str, Wanted]:
    """The requested allocations of each consumer, by uuid."""
    return {uuid: build_wanted(record) for uuid, record in body.items()}


REPLACE_ONE = Versioned(
    {version: Body(consumer(version, ALLOCATIONS.at(version)), build_wanted) for version in CONSUMER_CHANGES}
)
REPLACE_SEVERAL = Versioned(
    {
        version: Body(consumers(version, minProperties=1), build_several)
        for version in (V.POST_ALLOCATIONS, V.CONSUMER_GENERATION, V.MAPPINGS, V.CONSUMER_TYPES)
    }
)


class Allocations:
    """`/allocations`: the allocations of several consumers."""

    def __init__(self, service: Service, incomplete: Owner, limits: Limits) -> None:
        self._service = service
        self._incomplete = incomplete
        self._limits = limits

    @since(V.POST_ALLOCATIONS)
    @json_body
    @allowed("placement:allocations:manage")
    @answering(
        {
            UnknownResourceClass: Answer(400, text="Unable to allocate inventory {error}"),
            AllocationRefused: Answer(409, text="Unable to allocate inventory: {error}"),
            **CHANGED,
        }
    )
    def on_post(self, req: Request, resp: Response) -> None:
        """Replace the allocations of several consumers."""
        records = read_body(req, REPLACE_SEVERAL)
        claims = [record.claim(uuid, self._incomplete) for uuid, record in records.items()]
        self._limits.require_allocations(claims)
        # Before the write, so that the metrics count refused claims, too.
        req.note(claims=len(claims))
        self._service.claim(claims)
        answer_nothing(resp)


class AllocationsOfConsumer:
    """`/allocations/{consumer_uuid}`: all allocations of one consumer."""

    def __init__(self, service: Service, incomplete: Owner, limits: Limits) -> None:
        self._service = service
        self._incomplete = incomplete
        self._limits = limits

    @json_answer
    @allowed("placement:allocations:list")
    def on_get(self, req: Request, resp: Response, consumer_uuid: str) -> None:
        """List the allocations of a consumer."""
        allocations = self._service.read(consumer_listing.of_consumer, consumer_uuid)
        if allocations is None:
            answer(req, resp, {"allocations": {}})
        else:
            answer(req, resp, maker(req, ALLOCATIONS_OF_CONSUMER)(allocations), modified=allocations.modified)

    @json_body
    @allowed("placement:allocations:update")
    @answering(
        {
            UnknownResourceClass: Answer(
                400, text="Unable to allocate inventory for consumer {consumer_uuid}: {error}"
            ),
            AllocationRefused: Answer(409, text="Unable to allocate inventory: {error}"),
            **CHANGED,
        }
    )
    def on_put(self, req: Request, resp: Response, consumer_uuid: str) -> None:
        """Replace the allocations of a consumer."""
        uuid = uuids.normalised(consumer_uuid)
        if uuid is None:
            raise Refused(400, f"Malformed consumer_uuid: {consumer_uuid}")
        record = read_body(req, REPLACE_ONE)
        claims = [record.claim(uuid, self._incomplete)]
        self._limits.require_allocations(claims)
        req.note(claims=1)
        self._service.claim(claims)
        answer_nothing(resp)

    @allowed("placement:allocations:delete")
    def on_delete(self, _req: Request, resp: Response, consumer_uuid: str) -> None:
        """Delete the allocations of a consumer."""
        self._service.write(allocations.release, consumer_uuid)
        answer_nothing(resp)


class AllocationsOfProvider:
    """`/resource_providers/{uuid}/allocations`: the allocations from a resource provider, by consumer."""

    def __init__(self, service: Service) -> None:
        self._service = service

    @json_answer
    @allowed("placement:resource_providers:allocations:list")
    def on_get(self, req: Request, resp: Response, uuid: str) -> None:
        """List the allocations of a resource provider."""
        allocations = self._service.read(consumer_listing.of_provider, uuid)
        show = maker(req, CONSUMER_OF_PROVIDER)
        body = {
            "resource_provider_generation": allocations.generation,
            "allocations": {consumer: show(resources) for consumer, resources in sliced(allocations.consumers.items())},
        }
        answer(req, resp, body, modified=NOW if allocations.modified is None else allocations.modified)
