"""``/resource_providers``, and the aggregates of one provider."""

from __future__ import annotations

from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from orjson import dumps

from stead.api.answers import (
    CONCURRENT_UPDATE,
    NOW,
    Answer,
    Field,
    ProviderForm,
    Shape,
    answer,
    answer_in_pieces,
    answer_nothing,
    answering,
    is_current,
    locate,
    maker,
)
from stead.api.bodies import GENERATION, STORABLE, UUID, Body, Schema, read_body, strict_object
from stead.api.query.candidates import Pairs, links, parse_page
from stead.api.query.providers import parse_provider_query
from stead.api.request import allowed, find_provider, json_answer, json_body, normalised_uuid, since
from stead.api.versions import S, V, Versioned
from stead.candidates.provider_trees import matching_providers, page_of_providers
from stead.domain.errors import GenerationConflict, UnknownResourceClass, UnknownTraits
from stead.domain.provider import MOST_OF_PROVIDER
from stead.process import runtime
from stead.process.runtime import Pieces
from stead.store import providers
from stead.store.providers import KEEP

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stead.api.request import Request, Response
    from stead.domain.limits import RequestLimits
    from stead.service.service import Service
    from stead.store.providers import Keep


NAME: Schema = {"type": "string", "maxLength": 200, "format": STORABLE}
PARENT: Schema = {"anyOf": [{"type": "string", "format": "uuid"}, {"type": "null"}]}


@dataclass(frozen=True, slots=True)
class NewProvider:
    """A provider to create; ``parent`` is compared in the client's spelling."""

    uuid: str
    name: str
    parent: str | None

    @classmethod
    def build(cls, body: dict[str, Any]) -> NewProvider:
        """Build it from the body of a POST; the server chooses a missing uuid."""
        uuid = normalised_uuid(body.get("uuid", "")) or str(uuid4())
        return cls(uuid, body["name"], body.get("parent_provider_uuid"))


@dataclass(frozen=True, slots=True)
class ProviderChange:
    """The new name and the new parent of a provider."""

    name: str
    parent: str | Keep | None

    @classmethod
    def build(cls, body: dict[str, Any]) -> ProviderChange:
        """Build it from the body of a PUT; without a stated parent, the parent stays."""
        return cls(body["name"], body.get("parent_provider_uuid", KEEP))


_NEW_NAME = {"name": {**NAME, "minLength": 1}}
CREATE = Versioned(
    {
        V.INITIAL: Body(strict_object(_NEW_NAME, {"uuid": UUID}), NewProvider.build),
        V.NESTED_PROVIDERS: Body(
            strict_object(_NEW_NAME, {"uuid": UUID, "parent_provider_uuid": PARENT}), NewProvider.build
        ),
    }
)
MAY_MOVE = Versioned({V.INITIAL: False, V.MOVING_PROVIDERS: True})
"""Whether a provider that has a parent may get another one, or become a root."""
UPDATE = Versioned(
    {
        V.INITIAL: Body(strict_object({"name": NAME}), ProviderChange.build),
        V.NESTED_PROVIDERS: Body(strict_object({"name": NAME}, {"parent_provider_uuid": PARENT}), ProviderChange.build),
    }
)


class Providers:
    """`/resource_providers`: all resource providers."""

    def __init__(self, service: Service, limits: RequestLimits) -> None:
        self._service = service
        self._limits = limits

    @json_answer
    @allowed("placement:resource_providers:list")
    @answering(
        {
            UnknownTraits: Answer(400, text='Invalid trait(s) in "required" parameter: {error}'),
            UnknownResourceClass: Answer(400, text="Invalid resource class in resources parameter: {error}"),
        }
    )
    def on_get(self, req: Request, resp: Response) -> None:
        """List resource providers."""
        pairs = Pairs.of(req)
        query = parse_provider_query(pairs, req.agreed)
        page = parse_page(pairs)
        snapshot, moment = self._service.view()
        if req.agreed.knows(S.PROVIDER_TREES) and is_current(req, resp, moment):
            return
        slots = matching_providers(snapshot, query)
        more = ""
        if page:
            slots, goes_on = page_of_providers(snapshot, slots, page)
            if page.limit is not None:
                more = (
                    f',"links":{dumps(links(req, pairs, snapshot.uuid(int(slots[-1])) if goes_on else None)).decode()}'
                )
        pieces = Pieces(runtime.give_way, self._limits.answer_size)
        pieces.add('{"resource_providers":[')
        for joined in ProviderForm.of(req).texts(snapshot, slots):
            pieces.add_joined(joined)
        pieces.add(f"]{more}}}")
        modified = snapshot.last_modified(slots) if len(slots) else NOW
        answer_in_pieces(req, resp, pieces.all(), modified=modified)

    @json_body
    @allowed("placement:resource_providers:create")
    def on_post(self, req: Request, resp: Response) -> None:
        """Create a resource provider."""
        new = read_body(req, CREATE)
        made = self._service.write(providers.create, new.uuid, new.name, new.parent)
        if req.version >= V.CREATED_PROVIDER:
            answer(req, resp, ProviderForm.of(req).text(made).encode())
        else:
            answer_nothing(resp, 201)
        locate(req, resp, f"/resource_providers/{made.uuid}")


class OneProvider:
    """`/resource_providers/{uuid}`: one resource provider."""

    def __init__(self, service: Service) -> None:
        self._service = service

    @json_answer
    @allowed("placement:resource_providers:show")
    def on_get(self, req: Request, resp: Response, uuid: str) -> None:
        """Show a resource provider."""
        snapshot = self._service.snapshot()
        provider = snapshot.provider(find_provider(snapshot, uuid))
        answer(req, resp, ProviderForm.of(req).text(provider).encode(), modified=provider.modified)

    @json_body
    @allowed("placement:resource_providers:update")
    def on_put(self, req: Request, resp: Response, uuid: str) -> None:
        """Update the name and the parent of a resource provider."""
        # Before the body is read, so that an unknown provider is 404 whatever the body is.
        find_provider(self._service.snapshot(), uuid)
        change = read_body(req, UPDATE)
        provider = self._service.write(
            providers.update, uuid, change.name, change.parent, may_move=MAY_MOVE.at(req.version)
        )
        answer(req, resp, ProviderForm.of(req).text(provider).encode(), modified=provider.modified)

    @allowed("placement:resource_providers:delete")
    def on_delete(self, _req: Request, resp: Response, uuid: str) -> None:
        """Delete a resource provider."""
        self._service.write(providers.delete, uuid)
        answer_nothing(resp)


# ``/resource_providers/{uuid}/aggregates``: the aggregates of one provider.


@dataclass(frozen=True, slots=True)
class NewAggregates:
    """The new aggregates of a provider, in the stored spelling; ``expected`` None: do not check the generation."""

    aggregates: list[str]
    expected: int | None = None

    @classmethod
    def guarded(cls, body: dict[str, Any]) -> NewAggregates:
        """Build it from an object with the provider's generation as the client knows it."""
        return cls(body["aggregates"], int(body["resource_provider_generation"]))


@dataclass(frozen=True, slots=True)
class Membership:
    """The aggregates of a provider, with its generation."""

    aggregates: Sequence[str]
    generation: int


# The column cannot store longer spellings of a uuid.
UUIDS: Schema = {
    "type": "array",
    "items": {**UUID, "maxLength": 36},
    "maxItems": MOST_OF_PROVIDER,
    "uniqueItems": True,
}

REPLACE = Versioned(
    {
        V.AGGREGATES: Body(UUIDS, NewAggregates),
        V.AGGREGATE_GENERATION: Body(
            strict_object({"aggregates": UUIDS, "resource_provider_generation": GENERATION}), NewAggregates.guarded
        ),
    }
)

AGGREGATES_OF_PROVIDER: Shape[Membership] = {
    "aggregates": Field(V.AGGREGATES, attrgetter("aggregates")),
    "resource_provider_generation": Field(V.AGGREGATE_GENERATION, attrgetter("generation")),
}


class ProviderAggregates:
    """`/resource_providers/{uuid}/aggregates`: the aggregates of a resource provider."""

    def __init__(self, service: Service) -> None:
        self._service = service

    @json_answer
    @since(V.AGGREGATES)
    @allowed("placement:resource_providers:aggregates:list")
    def on_get(self, req: Request, resp: Response, uuid: str) -> None:
        """List the aggregates of a resource provider."""
        snapshot = self._service.snapshot()
        slot = find_provider(snapshot, uuid)
        membership = Membership(snapshot.aggregates(slot), snapshot.provider(slot).generation)
        answer(req, resp, maker(req, AGGREGATES_OF_PROVIDER)(membership))

    @json_body
    @since(V.AGGREGATES)
    @allowed("placement:resource_providers:aggregates:update")
    @answering(
        {
            GenerationConflict: Answer(
                409,
                CONCURRENT_UPDATE,
                "Resource provider's generation already changed. Please update the generation and try again.",
            )
        }
    )
    def on_put(self, req: Request, resp: Response, uuid: str) -> None:
        """Replace the aggregates of a resource provider."""
        # Before the body is read, so that an unknown provider is 404 whatever the body is.
        find_provider(self._service.snapshot(), uuid)
        replacement = read_body(req, REPLACE)
        generation = self._service.replace_aggregates(uuid, replacement.aggregates, replacement.expected)
        answer(req, resp, maker(req, AGGREGATES_OF_PROVIDER)(Membership(replacement.aggregates, generation)))
