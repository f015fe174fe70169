"""``/allocations`` with the allocations of one provider, ``/consumers``, ``/leases``, and ``/reshaper``."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from stead.api.answers import (
    INVENTORY_IN_USE,
    NOW,
    Answer,
    Field,
    Shape,
    answer,
    answer_nothing,
    answering,
    maker,
    newest,
    race,
)
from stead.api.bodies import (
    ALL_INVENTORIES,
    ALLOCATIONS,
    CONSUMER_CHANGES,
    EXTERNAL_ID,
    LEASE_OPTIONS,
    MOMENT,
    ONE_LINE,
    STRICT_UUIDS,
    UUID,
    UUID_KEY,
    AllocationsBody,
    Body,
    Schema,
    Validator,
    build_inventories,
    build_wanted,
    consumer,
    consumers,
    mapping,
    read_body,
    strict_object,
)
from stead.api.query import candidates
from stead.api.query.candidates import PROVIDER_REFERENCE, Pairs
from stead.api.request import (
    MalformedBody,
    Refused,
    allowed,
    json_answer,
    json_body,
    normalised_uuid,
    require_allocations,
    since,
)
from stead.api.resources.inventories import asked_project, project_of
from stead.api.versions import S, V, Versioned
from stead.domain.errors import AllocationRefused, InventoryInUse, ProviderNotFound, UnknownResourceClass
from stead.domain.moments import from_text, in_utc
from stead.domain.names import NAME_LENGTH
from stead.domain.provider import MAX_INT
from stead.process.runtime import sliced
from stead.store import allocations, consumer_listing
from stead.store.allocations import NewInventories
from stead.store.consumer_listing import ConsumerFilter
from stead.store.extensions import leases

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from stead.api.bodies import Owner
    from stead.api.request import Request, Response
    from stead.api.versions import Agreed, Microversion, Step
    from stead.domain.claim import Claim, HeldLease
    from stead.domain.limits import RequestLimits
    from stead.service.service import Service
    from stead.store.consumer_listing import HeldAllocations, ProjectTotals


CHANGED = race("Inventory and/or allocations changed while attempting to allocate")

NO_TYPE = "unknown"
"""How a consumer without a type is shown."""

CONSUMER_TYPE: Schema = {
    "type": "string",
    "pattern": "^[A-Z0-9_]+$|^unknown$",
    "minLength": 1,
    "maxLength": NAME_LENGTH,
    "format": ONE_LINE,
}
"""A consumer type, or :data:`NO_TYPE`."""


def show_held(allocations: HeldAllocations) -> dict[str, Any]:
    """The allocations of a consumer, by provider."""
    return {
        provider: {"generation": generation, "resources": resources}
        for provider, (generation, resources) in allocations.providers.items()
    }


def shown_end(lease: HeldLease | None) -> dict[str, str | None]:
    """The end of a claim, and what happens then; nulls without an end."""
    if lease is None:
        return {"expires_at": None, "on_expiry": None}
    return {"expires_at": in_utc(lease.expires_at), "on_expiry": lease.on_expiry.value}


ALLOCATIONS_OF_CONSUMER: Shape[HeldAllocations] = {
    "allocations": Field(V.INITIAL, show_held),
    "project_id": Field(V.ALLOCATIONS_BY_PROVIDER, attrgetter("project")),
    "user_id": Field(V.ALLOCATIONS_BY_PROVIDER, attrgetter("user")),
    "consumer_generation": Field(V.CONSUMER_GENERATION, attrgetter("generation")),
    "consumer_type": Field(V.CONSUMER_TYPES, lambda allocations: allocations.consumer_type or NO_TYPE),
    "expires_at": Field(S.HEADROOM_ORDER, lambda allocations: shown_end(allocations.lease)["expires_at"]),
    "on_expiry": Field(S.HEADROOM_ORDER, lambda allocations: shown_end(allocations.lease)["on_expiry"]),
}

ConsumerOfProvider = tuple[int | None, dict[str, int]]
"""Generation of a consumer, and its allocations from one provider."""

CONSUMER_OF_PROVIDER: Shape[ConsumerOfProvider] = {
    "resources": Field(V.INITIAL, lambda consumer: consumer[1]),
    "consumer_generation": Field(V.CONSUMER_GENERATION, lambda consumer: consumer[0]),
}


def build_several(body: dict[str, dict[str, Any]]) -> dict[str, AllocationsBody]:
    """The requested allocations of each consumer, by uuid."""
    return {uuid: build_wanted(record) for uuid, record in body.items()}


def _one(ends: Mapping[str, Schema] | None = None) -> Versioned[Body[AllocationsBody]]:
    return Versioned(
        {version: Body(consumer(version, ALLOCATIONS.at(version), ends), build_wanted) for version in CONSUMER_CHANGES}
    )


def _several(ends: Mapping[str, Schema] | None = None) -> Versioned[Body[dict[str, AllocationsBody]]]:
    return Versioned(
        {
            version: Body(consumers(version, ends, minProperties=1), build_several)
            for version in (V.POST_ALLOCATIONS, V.CONSUMER_GENERATION, V.MAPPINGS, V.CONSUMER_TYPES)
        }
    )


REPLACE_ONE, REPLACE_ONE_WITH_END = _one(), _one(LEASE_OPTIONS)
REPLACE_SEVERAL, REPLACE_SEVERAL_WITH_ENDS = _several(), _several(LEASE_OPTIONS)


def note_claims(req: Request, claims: Sequence[Claim]) -> None:
    """Report to the metrics what a request is about to write. Before the write, so that they count refusals, too."""
    releases = sum(not claim.allocations for claim in claims)
    req.note(claims=len(claims) - releases, releases=releases, asked=lambda: query_of(claims))


def query_of(claims: Sequence[Claim]) -> str:
    """What the first of *claims* asks for, as a query of candidates: one group for each of its providers.

    What distinguishes the providers is not known, so that the query may have places that the claim did not mean.
    """
    parts = [amounts for claim in claims[:1] for amounts in claim.allocations.values() if amounts]
    spelled = [",".join(f"{name}:{amount}" for name, amount in amounts.items()) for amounts in parts]
    query = "&".join(f"resources{f'_{place}' if place else ''}={text}" for place, text in enumerate(spelled))
    return f"{query}&group_policy=none" if len(spelled) > 2 else query


class Allocations:
    """`/allocations`: the allocations of several consumers."""

    def __init__(self, service: Service, incomplete: Owner, limits: RequestLimits) -> None:
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
        form = REPLACE_SEVERAL_WITH_ENDS if req.agreed.knows(S.HEADROOM_ORDER) else REPLACE_SEVERAL
        records = read_body(req, form)
        claims = [record.claim(uuid, self._incomplete, self._limits.lease) for uuid, record in records.items()]
        require_allocations(self._limits, claims)
        note_claims(req, claims)
        self._service.claim(claims)
        answer_nothing(resp)


class AllocationsOfConsumer:
    """`/allocations/{consumer_uuid}`: all allocations of one consumer."""

    def __init__(self, service: Service, incomplete: Owner, limits: RequestLimits) -> None:
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
        uuid = normalised_uuid(consumer_uuid)
        if uuid is None:
            raise Refused(400, f"Malformed consumer_uuid: {consumer_uuid}")
        record = read_body(req, REPLACE_ONE_WITH_END if req.agreed.knows(S.HEADROOM_ORDER) else REPLACE_ONE)
        claims = [record.claim(uuid, self._incomplete, self._limits.lease)]
        require_allocations(self._limits, claims)
        note_claims(req, claims)
        self._service.claim(claims)
        answer_nothing(resp)

    @allowed("placement:allocations:delete")
    def on_delete(self, req: Request, resp: Response, consumer_uuid: str) -> None:
        """Delete the allocations of a consumer."""
        req.note(releases=1)
        self._service.write(allocations.release, consumer_uuid)
        answer_nothing(resp)


class AllocationsOfProvider:
    """`/resource_providers/{uuid}/allocations`: the allocations from a resource provider, by consumer."""

    def __init__(self, service: Service) -> None:
        self._service = service

    @json_answer
    @allowed("placement:resource_providers:allocations:list")
    @answering({ProviderNotFound: Answer(404, text="Resource provider '{uuid}' not found: {error}")})
    def on_get(self, req: Request, resp: Response, uuid: str) -> None:
        """List the allocations of a resource provider."""
        allocations = self._service.read(consumer_listing.of_provider, uuid)
        show = maker(req, CONSUMER_OF_PROVIDER)
        body = {
            "resource_provider_generation": allocations.generation,
            "allocations": {consumer: show(resources) for consumer, resources in sliced(allocations.consumers.items())},
        }
        answer(req, resp, body, modified=NOW if allocations.modified is None else allocations.modified)


# ``/consumers``: consumers with allocations, in pages.


MOST = 1000
"""Maximum number of consumers in one page."""

KEYS: dict[str, tuple[Step, dict[str, Any]]] = {
    "project_id": (S.OWN_FEATURES, EXTERNAL_ID),
    "user_id": (S.OWN_FEATURES, EXTERNAL_ID),
    "consumer_type": (S.OWN_FEATURES, CONSUMER_TYPE),
    "provider": (S.PROVIDER_TREES, PROVIDER_REFERENCE),
    "in_tree": (S.PROVIDER_TREES, PROVIDER_REFERENCE),
    "totals": (S.PROVIDER_TREES, {"type": "string", "enum": ["true", "false"]}),
    "expires_before": (S.HEADROOM_ORDER, {"type": "string", "format": MOMENT}),
    **candidates.PAGE_KEYS,
}
"""Each key with its first version and the schema of its value."""


@cache
def validator(agreed: Agreed) -> Validator:
    """Validates the keys of these versions, and refuses others."""
    properties = {key: schema for key, (since, schema) in KEYS.items() if agreed.knows(since)}
    return Validator({"type": "object", "additionalProperties": False, "properties": properties}, formats=STRICT_UUIDS)


def show_totals(totals: ProjectTotals) -> dict[str, Any]:
    """The allocations of all consumers of one project."""
    return {"consumer_count": totals.consumer_count, "usages": totals.usages}


class Consumers:
    """`/consumers`: consumers by project, user and type, in pages. Requires `stead`."""

    stead_since = S.OWN_FEATURES

    def __init__(self, service: Service) -> None:
        self._service = service

    @json_answer
    @allowed("stead:consumers:list", target=asked_project)
    def on_get(self, req: Request, resp: Response) -> None:
        """List consumers with their allocations."""
        pairs = Pairs.of(req)
        pairs.require(validator(req.agreed))
        pairs.require_single(KEYS)
        before = pairs.last("expires_before")
        whose = ConsumerFilter(
            project_of(pairs),
            pairs.last("user_id"),
            pairs.last("consumer_type"),
            pairs.last("provider"),
            pairs.last("in_tree"),
            None if before is None else from_text(before),
        )
        page, with_totals = candidates.parse_page(pairs), pairs.last("totals") == "true"
        listing = self._service.read(consumer_listing.page_of, whose, page, MOST, with_totals=with_totals)
        show = maker(req, ALLOCATIONS_OF_CONSUMER)
        last = list(listing.allocations)[-1] if listing.goes_on else None
        shown: list[dict[str, Any]] = [
            {"uuid": uuid, **show(allocations)} for uuid, allocations in sliced(listing.allocations.items())
        ]
        if req.agreed.knows(S.PROVIDER_TREES):
            for consumer in shown:
                consumer["created_at"] = in_utc(listing.created[consumer["uuid"]])
        body: dict[str, Any] = {"consumers": shown, "links": candidates.links(req, pairs, last)}
        if listing.totals is not None:
            body["project_totals"] = {project: show_totals(totals) for project, totals in listing.totals.items()}
        answer(
            req,
            resp,
            body,
            modified=newest((allocations.modified for allocations in listing.allocations.values()), NOW),
        )


# ``/leases``: renewals of the leases of many consumers.


MOST_RENEWALS = 10_000
"""Maximum number of renewals in one request."""

RENEWALS = Versioned(
    {
        V.INITIAL: Body(
            strict_object(
                {
                    "leases": {
                        "type": "array",
                        "minItems": 1,
                        "items": strict_object(
                            {"consumer_uuid": UUID, "lease": {"type": "integer", "minimum": 1, "maximum": MAX_INT}},
                            {"consumer_generation": {"type": "integer", "minimum": 0, "maximum": MAX_INT}},
                        ),
                    }
                }
            ),
            lambda body: [{**each, "consumer_uuid": normalised_uuid(each["consumer_uuid"])} for each in body["leases"]],
            placed=True,
        )
    }
)


class Leases:
    """`/leases`: when the claims of many consumers end. Requires `stead` 1.2."""

    stead_since = S.HEADROOM_ORDER

    def __init__(self, service: Service, limits: RequestLimits) -> None:
        self._service = service
        self._longest = limits.lease

    @json_body
    @allowed("stead:leases:update")
    def on_put(self, req: Request, resp: Response) -> None:
        """Update the leases of consumers."""
        renewals = read_body(req, RENEWALS)
        if len(renewals) > MOST_RENEWALS:
            raise Refused(413, f"The request has {len(renewals)} renewals; at most {MOST_RENEWALS} are accepted.")
        seconds_of: dict[str, int] = {}
        known: dict[str, int] = {}
        for number, renewal in enumerate(renewals):
            uuid, seconds = str(renewal["consumer_uuid"]), int(renewal["lease"])
            if uuid in seconds_of:
                raise MalformedBody(f"JSON does not validate: leases[{number}] is of a consumer that occurs before")
            if self._longest and seconds > self._longest:
                most = f"at most {self._longest} s are accepted ([stead] max_lease)"
                raise Refused(400, f"leases[{number}].lease is {seconds}; {most}.")
            seconds_of[uuid] = seconds
            if "consumer_generation" in renewal:
                known[uuid] = int(renewal["consumer_generation"])
        renewed = self._service.write(leases.renew, seconds_of, known)
        answer(req, resp, renewed._asdict(), modified=None)


# ``/reshaper``: moves inventories and allocations between providers in one transaction.


@dataclass(frozen=True, slots=True)
class Reshape:
    """New inventories by provider, new allocations by consumer."""

    inventories: dict[str, NewInventories]
    consumers: dict[str, AllocationsBody]

    @classmethod
    def build(cls, body: dict[str, Any]) -> Reshape:
        """Build it from the body of a POST."""
        return cls(
            {
                uuid: NewInventories(int(new["resource_provider_generation"]), build_inventories(new["inventories"]))
                for uuid, new in body["inventories"].items()
            },
            {consumer: build_wanted(record) for consumer, record in body["allocations"].items()},
        )


def _schema(version: Microversion) -> Schema:
    return strict_object(
        {
            "inventories": mapping(UUID_KEY, ALL_INVENTORIES, minProperties=1),
            "allocations": consumers(version),
        }
    )


RESHAPE = Versioned(
    {version: Body(_schema(version), Reshape.build) for version in (V.RESHAPER, V.MAPPINGS, V.CONSUMER_TYPES)}
)


class Reshaper:
    """`/reshaper`: inventories and allocations, moved in one step."""

    def __init__(self, service: Service, incomplete: Owner, limits: RequestLimits) -> None:
        self._service = service
        self._incomplete = incomplete
        self._limits = limits

    @since(V.RESHAPER)
    @json_body
    @allowed("placement:reshaper:reshape")
    @answering(
        {
            UnknownResourceClass: Answer(400, text="malformed reshaper data: {error}"),
            InventoryInUse: Answer(409, INVENTORY_IN_USE, "update conflict: {error}"),
            AllocationRefused: Answer(409, text="Unable to allocate inventory: {error}"),
            **race("update conflict"),
        }
    )
    def on_post(self, req: Request, resp: Response) -> None:
        """Move inventories and allocations between resource providers."""
        reshape = read_body(req, RESHAPE)
        claims = [record.claim(uuid, self._incomplete) for uuid, record in reshape.consumers.items()]
        require_allocations(self._limits, claims)
        note_claims(req, claims)
        self._service.reshape(reshape.inventories, claims)
        answer_nothing(resp)
