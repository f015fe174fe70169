"""``/resource_providers/{uuid}/aggregates``: the aggregates of one provider."""

from __future__ import annotations

from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from stead.api.bodies import Body, Schema, read_body, strict_object
from stead.api.errors import CONCURRENT_UPDATE, Answer, answering
from stead.api.gates import allowed, json_answer, json_body, since
from stead.api.lookup import find_provider
from stead.api.representations import Field, Shape, answer, maker
from stead.api.shapes import GENERATION, UUID
from stead.api.versions import V, Versioned
from stead.domain.errors import GenerationConflict
from stead.domain.provider import MOST_OF_PROVIDER

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stead.api.request import Request, Response
    from stead.service.service import Service


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
