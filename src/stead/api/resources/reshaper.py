"""``/reshaper``: moves inventories and allocations between providers in one transaction."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from stead.api.bodies import Body, Schema, mapping, read_body, strict_object
from stead.api.errors import INVENTORY_IN_USE, Answer, answering, race
from stead.api.gates import allowed, json_body, since
from stead.api.representations import answer_nothing
from stead.api.shapes import (
    ALL_INVENTORIES,
    UUID_KEY,
    Wanted,
    build_inventories,
    build_wanted,
    consumers,
)
from stead.api.versions import V, Versioned
from stead.domain.errors import AllocationRefused, InventoryInUse, UnknownResourceClass
from stead.store.reshape import NewInventories

if TYPE_CHECKING:
    from stead.api.limits import Limits
    from stead.api.request import Request, Response
    from stead.api.shapes import Owner
    from stead.api.versions import Microversion
    from stead.service.service import Service


@dataclass(frozen=True, slots=True)
class Reshape:
    """New inventories by provider, new allocations by consumer."""

    inventories: dict[str, NewInventories]
    consumers: dict[str, Wanted]

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

    def __init__(self, service: Service, incomplete: Owner, limits: Limits) -> None:
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
        self._limits.require_allocations(claims)
        # Before the write, so that the metrics count refused claims, too.
        req.note(claims=len(claims))
        self._service.reshape(reshape.inventories, claims)
        answer_nothing(resp)
