"""Schemas of the answers of the API at its newest microversion, for the OpenAPI document.

They are written from the shapes that produce the answers, where these exist. Tests validate real answers against them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stead.api import provider_text, tree_document, tree_outcome, tree_text
from stead.api.bodies import MOMENT, Schema, mapping, strict_object
from stead.api.resources import (
    aggregates,
    allocations,
    explanations,
    resource_classes,
)
from stead.api.shapes import (
    ALL_INVENTORIES,
    ALLOCATIONS_BY_PROVIDER,
    GENERATION,
    INVENTORY_FIELDS,
    RESOURCES,
    TOTAL,
    UUID,
    UUID_KEY,
    consumer,
)
from stead.api.versions import NEWEST
from stead.domain.names import RESOURCE_CLASS_NAME

if TYPE_CHECKING:
    from collections.abc import Iterable


def array(items: Schema) -> Schema:
    """The schema of an array."""
    return {"type": "array", "items": items}


TEXT: Schema = {"type": "string"}
MOMENT_TEXT: Schema = {"type": "string", "format": MOMENT}
AMOUNTS = mapping(RESOURCE_CLASS_NAME, {"type": "integer"})
LINKS = array(strict_object({"rel": TEXT, "href": TEXT}))
PARENT: Schema = {"type": ["string", "null"], "format": "uuid"}

FIELDS: dict[str, Schema] = {
    "uuid": UUID,
    "name": TEXT,
    "generation": GENERATION,
    "links": LINKS,
    "parent_provider_uuid": PARENT,
    "root_provider_uuid": UUID,
    "aggregates": array(UUID),
    "resource_provider_generation": GENERATION,
    "resources": AMOUNTS,
    "project_id": TEXT,
    "user_id": TEXT,
    "consumer_generation": GENERATION,
    "consumer_type": TEXT,
}
"""The schema of each key of an answer, wherever the key appears."""


def shown(names: Iterable[str], **more: Schema) -> Schema:
    """An object with exactly these keys. *more* gives the schemas of some, :data:`FIELDS` those of the others."""
    return strict_object({name: more.get(name) or FIELDS[name] for name in names})


def by_uuid(value: Schema) -> Schema:
    """An object whose keys are uuids."""
    return mapping(UUID_KEY, value)


INVENTORY = {
    **TOTAL,
    **{name: field for name, field in INVENTORY_FIELDS.items() if name != "resource_provider_generation"},
}
EXTENT = {"max_version": TEXT, "min_version": TEXT}
VERSIONS = strict_object(
    {
        "versions": array(
            strict_object({"id": TEXT, **EXTENT, "status": TEXT, "links": LINKS}, {"stead": strict_object(EXTENT)})
        )
    }
)
PROVIDER = shown(provider_text.FIELDS)
SHOWN_INVENTORY = strict_object(INVENTORY)
ONE_INVENTORY = shown([*INVENTORY, "resource_provider_generation"], **INVENTORY)
SHOWN_INVENTORIES = shown(
    ["resource_provider_generation", "inventories"], inventories=mapping(RESOURCE_CLASS_NAME, SHOWN_INVENTORY)
)
AGGREGATES = shown(aggregates.AGGREGATES_OF_PROVIDER)
PROVIDER_TRAITS = shown(["traits", "resource_provider_generation"], traits=array(TEXT))
PROVIDER_USAGES = shown(["resource_provider_generation", "usages"], usages=AMOUNTS)
PROVIDER_ALLOCATIONS = shown(
    ["resource_provider_generation", "allocations"],
    allocations=by_uuid(shown(allocations.CONSUMER_OF_PROVIDER)),
)
HELD = by_uuid(shown(["generation", "resources"]))
_SAID_OF_HOLDERS = {name: FIELDS[name] for name in allocations.ALLOCATIONS_OF_CONSUMER if name != "allocations"}
CONSUMER_ALLOCATIONS = strict_object({"allocations": HELD}, _SAID_OF_HOLDERS)
HOLDER = shown(["uuid", "allocations", *_SAID_OF_HOLDERS, "created_at"], allocations=HELD, created_at=MOMENT_TEXT)
PROJECT_TOTALS = strict_object({"consumer_count": {"type": "integer"}, "usages": AMOUNTS})
RESOURCE_CLASS = shown(resource_classes.RESOURCE_CLASS)
PROJECT_USAGES = shown(
    ["usages"],
    usages=mapping(
        "^[A-Z0-9_]+$|^all$|^unknown$",
        {"type": "object", "required": ["consumer_count"], "additionalProperties": {"type": "integer"}},
    ),
)
ALLOCATION_REQUEST = shown(
    ["allocations", "mappings"],
    allocations=by_uuid(shown(["resources"])),
    mappings=mapping("^([a-zA-Z0-9_-]{1,64})?$", array(UUID)),
)
GRANTED = shown(
    ["consumer_uuid", "consumer_generation", *ALLOCATION_REQUEST["properties"]],
    consumer_uuid=UUID,
    **ALLOCATION_REQUEST["properties"],
)
MOVED = strict_object({"uuid": UUID, "generation": {"type": ["integer", "null"]}})
CHANGED_PROVIDER = strict_object(
    {**MOVED["properties"], "name": {"type": ["string", "null"]}, "changes": array(TEXT)},
)
SUMMARY = shown(
    ["resources", "traits", "parent_provider_uuid", "root_provider_uuid"],
    resources=mapping(
        RESOURCE_CLASS_NAME, strict_object({"capacity": {"type": "integer"}, "used": {"type": "integer"}})
    ),
    traits=array(TEXT),
)
CANDIDATES = shown(
    ["allocation_requests", "provider_summaries"],
    allocation_requests=array(ALLOCATION_REQUEST),
    provider_summaries=by_uuid(SUMMARY),
)
SUMS = mapping(RESOURCE_CLASS_NAME, strict_object({name: {"type": "integer"} for name in tree_text.TOTALS}))
DISABLED: Schema = {
    **strict_object(
        {
            "reason": TEXT,
            "since": MOMENT_TEXT,
            "until": {"type": ["string", "null"], "format": MOMENT},
            "provider_uuid": UUID,
        }
    ),
    "type": ["object", "null"],
}
PROVIDER_IN_TREE = strict_object(
    {"uuid": UUID},
    {
        "name": TEXT,
        "parent_provider_uuid": PARENT,
        "generation": GENERATION,
        "inventories": mapping(RESOURCE_CLASS_NAME, SHOWN_INVENTORY),
        "usages": AMOUNTS,
        "traits": array(TEXT),
        "aggregates": array(UUID),
        "disabled": DISABLED,
    },
)
PROVIDER_STATE = strict_object({"uuid": UUID, "name": TEXT, "generation": GENERATION, "disabled": DISABLED})
PROVIDER_TREE = strict_object(
    {"root_provider_uuid": UUID, "provider_count": {"type": "integer"}, "providers": array(PROVIDER_IN_TREE)},
    {"totals": SUMS},
)
PROVIDER_TREES = strict_object(
    {
        "tree_count": {"type": "integer"},
        "provider_count": {"type": "integer"},
        "provider_trees": array(PROVIDER_TREE),
        "links": LINKS,
    },
    {"totals": SUMS},
)
NUMBERS = array({"type": "integer"})
_SETS = strict_object({"names": array(TEXT), "sets": array(NUMBERS), "set": NUMBERS})
PROVIDER_COLUMNS = strict_object(
    {"row_count": {"type": "integer"}},
    {
        "uuid": array(UUID),
        "name": array(TEXT),
        "parent_row": NUMBERS,
        "generation": NUMBERS,
        "inventories": mapping(
            RESOURCE_CLASS_NAME,
            strict_object(
                {"kinds": array(strict_object({**INVENTORY, "capacity": {"type": "integer"}})), "kind": NUMBERS},
                {"row": NUMBERS},
            ),
        ),
        "usages": mapping(RESOURCE_CLASS_NAME, strict_object({"used": NUMBERS}, {"row": NUMBERS})),
        "traits": _SETS,
        "aggregates": _SETS,
        "disabled": strict_object({"states": array(DISABLED), "state": NUMBERS}),
    },
)
TREE_COLUMNS = strict_object(
    {
        "token": TEXT,
        "tree_count": {"type": "integer"},
        "provider_count": {"type": "integer"},
        "trees": strict_object(
            {"row": NUMBERS, "provider_count": NUMBERS},
            {
                "totals": mapping(
                    RESOURCE_CLASS_NAME,
                    strict_object(dict.fromkeys(("provider_count", *tree_text.TOTALS), NUMBERS), {"tree": NUMBERS}),
                )
            },
        ),
        "providers": PROVIDER_COLUMNS,
    },
    {"totals": SUMS},
)
CHANGES = shown(
    ["token", "providers", "consumers"], token=TEXT, providers=array(CHANGED_PROVIDER), consumers=array(MOVED)
)
MERGED_CHANGES = strict_object(
    {
        "token": TEXT,
        "reload": {"type": "boolean"},
        "provider_count": {"type": "integer"},
        "consumer_count": {"type": "integer"},
        "trees": strict_object({"name": array(TEXT), "used": mapping(RESOURCE_CLASS_NAME, NUMBERS)}),
    }
)
ERRORS = strict_object(
    {
        "errors": array(
            strict_object(
                {"status": {"type": "integer"}, "title": TEXT, "detail": TEXT, "request_id": TEXT},
                {
                    "code": TEXT,
                    **EXTENT,
                    "claim": {"type": "integer"},
                    "explanation": {"anyOf": [explanations.EXPLANATION, {"type": "null"}]},
                    "in_use": array(tree_outcome.REMAINING),
                    "overcommitted": array(tree_outcome.OVERCOMMITTED),
                },
            )
        )
    }
)
STRANGER = strict_object({"message": TEXT, "code": TEXT, "title": TEXT})

SCHEMAS: dict[str, Schema] = {
    "Errors": ERRORS,
    "Stranger": STRANGER,
    "Links": LINKS,
    "Provider": PROVIDER,
    "RequestedInventories": ALL_INVENTORIES,
    "Inventory": SHOWN_INVENTORY,
    "Inventories": SHOWN_INVENTORIES,
    "OneInventory": ONE_INVENTORY,
    "Aggregates": AGGREGATES,
    "ProviderTraits": PROVIDER_TRAITS,
    "ResourceClass": RESOURCE_CLASS,
    "Resources": RESOURCES,
    "RequestedAllocations": ALLOCATIONS_BY_PROVIDER,
    "RequestedConsumer": consumer(NEWEST, ALLOCATIONS_BY_PROVIDER),
    "AllocationRequest": ALLOCATION_REQUEST,
    "Summary": SUMMARY,
    "Amounts": AMOUNTS,
    "Totals": SUMS,
    "ProviderInTree": PROVIDER_IN_TREE,
    "ProviderTree": PROVIDER_TREE,
    "DescribedProvider": tree_document.PROVIDER,
    "DescribedTree": tree_document.TREE,
    "RemainingInUse": tree_outcome.REMAINING,
    "Overcommitted": tree_outcome.OVERCOMMITTED,
}
"""Schemas with a name in the document. Every use of one becomes a reference."""
