"""``/resource_providers/{uuid}/inventories``, and the usages of providers and projects."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from stead.api.answers import (
    CONCURRENT_UPDATE,
    INVENTORY_IN_USE,
    NOW,
    UNKNOWN,
    Answer,
    answer,
    answer_nothing,
    answering,
    locate,
    newest,
    race,
)
from stead.api.bodies import (
    ALL_INVENTORIES,
    EXTERNAL_ID,
    GENERATION,
    INVENTORY_FIELDS,
    ONE_LINE,
    TOTAL,
    Body,
    Validator,
    build_inventories,
    build_inventory,
    read_body,
    show_inventory,
    strict_object,
)
from stead.api.query.candidates import Pairs
from stead.api.request import allowed, find_provider, json_answer, json_body, since
from stead.api.versions import V, Versioned
from stead.domain.errors import (
    InvalidQuery,
    InventoryInUse,
    InventoryNotFound,
    NoInventoryRecord,
    ProviderNotFound,
    ReservedTooLarge,
    ResourceClassNotFound,
    TooManyInventories,
    UnknownResourceClass,
)
from stead.domain.names import NAME_LENGTH, RESOURCE_CLASS_NAME
from stead.domain.provider import MOST_OF_PROVIDER
from stead.store import inventories, usages

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stead.api.request import Request, Response
    from stead.api.versions import Microversion
    from stead.domain.provider import Inventory
    from stead.service.service import Service
    from stead.store.usages import TypeUsage


_RESOURCE_CLASS = {"type": "string", "pattern": RESOURCE_CLASS_NAME, "format": ONE_LINE}

NOT_CREATED = Answer(400, text="Unable to create inventory for resource provider {uuid}: {error}")
_INVALID = "Invalid inventory for '{resource_class}' on resource provider '{uuid}'. {error.reason}"
RESERVE_NOT_CREATED = Answer(400, text=f"Unable to create inventory for resource provider {{uuid}}: {_INVALID}")
RESERVE_NOT_UPDATED = Answer(400, text=f"Unable to update inventory for resource provider {{uuid}}: {_INVALID}")


@dataclass(frozen=True, slots=True)
class NewInventory:
    """A new inventory of one class."""

    resource_class: str
    inventory: Inventory

    @classmethod
    def build(cls, body: dict[str, Any]) -> NewInventory:
        """Build it from the body of a POST."""
        return cls(body["resource_class"], build_inventory(body))


@dataclass(frozen=True, slots=True)
class AllInventories:
    """All inventories by class name, and the provider's generation as the client knows it."""

    inventories: dict[str, Inventory]
    expected: int

    @classmethod
    def build(cls, body: dict[str, Any]) -> AllInventories:
        """Build it from the body of a PUT of all inventories."""
        return cls(build_inventories(body["inventories"]), int(body["resource_provider_generation"]))


@dataclass(frozen=True, slots=True)
class OneInventory:
    """The inventory of one class, and the provider's generation as the client knows it."""

    inventory: Inventory
    expected: int

    @classmethod
    def build(cls, body: dict[str, Any]) -> OneInventory:
        """Build it from the body of a PUT of one inventory."""
        return cls(build_inventory(body), int(body["resource_provider_generation"]))


CREATE = Versioned(
    {V.INITIAL: Body(strict_object({**TOTAL, "resource_class": _RESOURCE_CLASS}, INVENTORY_FIELDS), NewInventory.build)}
)
REPLACE_ALL = Versioned({V.INITIAL: Body(ALL_INVENTORIES, AllInventories.build)})
REPLACE_ONE = Versioned(
    {
        V.INITIAL: Body(
            strict_object({**TOTAL, "resource_provider_generation": GENERATION}, INVENTORY_FIELDS), OneInventory.build
        )
    }
)
MAY_RESERVE_ALL = Versioned({V.INITIAL: False, V.RESERVE_ALL: True})
"""Whether the reserved amount may equal the total."""


def show_one(inventory: Inventory, generation: int) -> dict[str, object]:
    """The inventory of one class, with the provider's generation."""
    return {**show_inventory(inventory), "resource_provider_generation": generation}


def show_all(inventories: Mapping[str, Inventory], generation: int) -> dict[str, object]:
    """All inventories of a provider, with its generation."""
    shown = {name: show_inventory(inventory) for name, inventory in inventories.items()}
    return {"resource_provider_generation": generation, "inventories": shown}


NO_PROVIDER = Answer(404, text="No resource provider with uuid {uuid} found : {error}")
"""The words of the released service, with its space before the colon."""


class Inventories:
    """`/resource_providers/{uuid}/inventories`: all inventories of a resource provider."""

    def __init__(self, service: Service) -> None:
        self._service = service

    @json_answer
    @allowed("placement:resource_providers:inventories:list")
    @answering({ProviderNotFound: NO_PROVIDER})
    def on_get(self, req: Request, resp: Response, uuid: str) -> None:
        """List the inventories of a resource provider."""
        snapshot = self._service.snapshot()
        slot = find_provider(snapshot, uuid)
        stored = snapshot.inventories(slot)
        shown = show_all(
            {name: of_class.inventory for name, of_class in stored.items()}, snapshot.provider(slot).generation
        )
        answer(req, resp, shown, modified=newest((of_class.modified for of_class in stored.values()), UNKNOWN))

    @json_body
    @allowed("placement:resource_providers:inventories:create")
    @answering({ReservedTooLarge: RESERVE_NOT_CREATED, UnknownResourceClass: NOT_CREATED, **race("Update conflict")})
    def on_post(self, req: Request, resp: Response, uuid: str) -> None:
        """Create an inventory of a resource provider."""
        # Before the body is read, so that an unknown provider is 404 whatever the body is.
        snapshot = self._service.snapshot()
        slot = find_provider(snapshot, uuid)
        new = read_body(req, CREATE)
        if len(snapshot.inventories(slot)) >= MOST_OF_PROVIDER:
            raise TooManyInventories(MOST_OF_PROVIDER)
        generation = self._service.write(
            inventories.add, uuid, new.resource_class, new.inventory, may_reserve_all=MAY_RESERVE_ALL.at(req.version)
        )
        answer(req, resp, show_one(new.inventory, generation), status=201)
        locate(req, resp, f"/resource_providers/{uuid}/inventories/{new.resource_class}")

    @json_body
    @allowed("placement:resource_providers:inventories:update")
    @answering(
        {
            ReservedTooLarge: RESERVE_NOT_UPDATED,
            UnknownResourceClass: Answer(
                400, text="Unknown resource class in inventory for resource provider {uuid}: {error}"
            ),
            InventoryInUse: Answer(409, INVENTORY_IN_USE, "update conflict: {error}"),
            **race("update conflict"),
        }
    )
    def on_put(self, req: Request, resp: Response, uuid: str) -> None:
        """Replace the inventories of a resource provider."""
        # Before the body is read, so that an unknown provider is 404 whatever the body is.
        find_provider(self._service.snapshot(), uuid)
        replacement = read_body(req, REPLACE_ALL)
        generation = self._service.write(
            inventories.replace_all,
            uuid,
            replacement.inventories,
            replacement.expected,
            may_reserve_all=MAY_RESERVE_ALL.at(req.version),
        )
        modified = NOW if replacement.inventories else UNKNOWN
        answer(req, resp, show_all(replacement.inventories, generation), modified=modified)

    @since(V.DELETE_INVENTORIES, otherwise=405)
    @allowed("placement:resource_providers:inventories:delete")
    @answering(race("Unable to delete inventory"))
    def on_delete(self, _req: Request, resp: Response, uuid: str) -> None:
        """Delete the inventories of a resource provider."""
        self._service.write(inventories.delete_all, uuid)
        answer_nothing(resp)


class OneClass:
    """`/resource_providers/{uuid}/inventories/{resource_class}`: the inventory of one resource class."""

    def __init__(self, service: Service) -> None:
        self._service = service

    @json_answer
    @allowed("placement:resource_providers:inventories:show")
    @answering({ProviderNotFound: NO_PROVIDER})
    def on_get(self, req: Request, resp: Response, uuid: str, resource_class: str) -> None:
        """Show an inventory of a resource provider."""
        snapshot = self._service.snapshot()
        slot = find_provider(snapshot, uuid)
        stored = snapshot.inventories(slot).get(resource_class)
        if stored is None:
            raise InventoryNotFound(uuid, resource_class)
        answer(req, resp, show_one(stored.inventory, snapshot.provider(slot).generation), modified=stored.modified)

    @json_body
    @allowed("placement:resource_providers:inventories:update")
    @answering(
        {
            ReservedTooLarge: RESERVE_NOT_UPDATED,
            NoInventoryRecord: Answer(
                400,
                text="No inventory record with resource class for resource provider {uuid}: "
                "No inventory of class {resource_class} found.",
            ),
            **race("update conflict"),
        }
    )
    def on_put(self, req: Request, resp: Response, uuid: str, resource_class: str) -> None:
        """Update an inventory of a resource provider."""
        # Before the body is read, so that an unknown provider is 404 whatever the body is.
        find_provider(self._service.snapshot(), uuid)
        replacement = read_body(req, REPLACE_ONE)
        generation = self._service.write(
            inventories.replace_one,
            uuid,
            resource_class,
            replacement.inventory,
            replacement.expected,
            may_reserve_all=MAY_RESERVE_ALL.at(req.version),
        )
        answer(req, resp, show_one(replacement.inventory, generation))

    @allowed("placement:resource_providers:inventories:delete")
    @answering(
        {
            InventoryNotFound: Answer(
                404,
                text="No inventory of class {resource_class} found for delete: "
                "No inventory of class {resource_class} found for delete",
            ),
            ResourceClassNotFound: Answer(404, text="No inventory of class {resource_class} found for delete: {error}"),
            InventoryInUse: Answer(
                409, CONCURRENT_UPDATE, text="Unable to delete inventory of class {resource_class}: {error}"
            ),
            **race("Unable to delete inventory"),
        }
    )
    def on_delete(self, _req: Request, resp: Response, uuid: str, resource_class: str) -> None:
        """Delete an inventory of a resource provider."""
        self._service.write(inventories.delete_one, uuid, resource_class)
        answer_nothing(resp)


# ``/usages`` and ``/resource_providers/{uuid}/usages``: allocated amounts.


ALL = "all"
"""The keyword that requests the sum over all types."""

KEYS: dict[str, tuple[Microversion, dict[str, Any]]] = {
    "project_id": (V.USAGES, EXTERNAL_ID),
    "user_id": (V.USAGES, EXTERNAL_ID),
    "consumer_type": (
        V.CONSUMER_TYPES,
        {
            "type": "string",
            "pattern": "^[A-Z0-9_]+$|^all|^unknown$",
            "minLength": 1,
            "maxLength": NAME_LENGTH,
            "format": ONE_LINE,
        },
    ),
}


@cache
def validator(version: Microversion) -> Validator:
    """Validates the keys of *version*, and refuses others."""
    properties = {key: schema for key, (since, schema) in KEYS.items() if since <= version}
    return Validator(
        {"type": "object", "required": ["project_id"], "additionalProperties": False, "properties": properties}
    )


def project_of(pairs: Pairs) -> str | None:
    """The project that a query names. The policy check and the query both use it, so that they cannot differ."""
    return pairs.last("project_id")


def asked_project(req: Request) -> dict[str, str | None]:
    """The target of the policy: the project that the query names, even if other parts of the query are invalid."""
    try:
        return {"project_id": project_of(Pairs.of(req))}
    except InvalidQuery:
        return {"project_id": None}


def show_type(usage: TypeUsage) -> dict[str, int]:
    """The usage of the consumers of one type, and their number."""
    return {"consumer_count": usage.consumer_count, **usage.resources}


class ProviderUsages:
    """`/resource_providers/{uuid}/usages`: the used amount of each inventory."""

    def __init__(self, service: Service) -> None:
        self._service = service

    @json_answer
    @allowed("placement:resource_providers:usages")
    @answering({ProviderNotFound: Answer(404, text="No resource provider with uuid {uuid} found: {error}")})
    def on_get(self, req: Request, resp: Response, uuid: str) -> None:
        """List the usages of a resource provider."""
        snapshot = self._service.snapshot()
        slot = find_provider(snapshot, uuid)
        used = {name: stored.used for name, stored in snapshot.inventories(slot).items()}
        generation = snapshot.provider(slot).generation
        answer(req, resp, {"resource_provider_generation": generation, "usages": used})


class Usages:
    """`/usages`: the usages of a project, from 1.38 by consumer type."""

    def __init__(self, service: Service) -> None:
        self._service = service

    @since(V.USAGES)
    @json_answer
    @allowed("placement:usages", target=asked_project)
    def on_get(self, req: Request, resp: Response) -> None:
        """List the usages of a project."""
        pairs = Pairs.of(req)
        pairs.require(validator(req.version))
        consumer_type = pairs.last("consumer_type")
        by_type = self._service.read(
            usages.of_project,
            project_of(pairs) or "",
            pairs.last("user_id"),
            None if consumer_type == ALL else consumer_type,
        )
        shown: dict[str, Any]
        if req.version < V.CONSUMER_TYPES:
            shown = usages.total(by_type).resources
        elif consumer_type == ALL and by_type:
            shown = {ALL: show_type(usages.total(by_type))}
        else:
            shown = {name: show_type(usage) for name, usage in by_type.items()}
        answer(req, resp, {"usages": shown})
