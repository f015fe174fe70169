"""Parameters, bodies and answers of each route at the newest microversion, for the OpenAPI document.

Bodies and queries are the schemas that validate requests; `answer_schemas` has those of the answers.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from stead.api import answers, tree_text
from stead.api.bodies import (
    ALL_INVENTORIES,
    ALLOCATIONS_BY_PROVIDER,
    GENERATION,
    INVENTORY_FIELDS,
    LEASE_OPTIONS,
    LINKS,
    MOMENT,
    RESOURCES,
    TOTAL,
    UUID,
    UUID_KEY,
    Schema,
    consumer,
    mapping,
    strict_object,
)
from stead.api.query import candidates, headroom, providers
from stead.api.query.candidates import BAD_VALUE, DUPLICATE_KEY, MISSING_VALUE
from stead.api.resources import (
    allocation_candidates,
    allocations,
    changes,
    claims,
    flavors,
    inventories,
    provider_trees,
    resource_providers,
    traits,
    what_if,
)
from stead.api.resources import headroom as headroom_of_request
from stead.api.resources import provider_trees as provider_states
from stead.api.resources import provider_trees as tree_document
from stead.api.resources import what_if as advice_for_request
from stead.api.resources.provider_trees import OUTCOME, OVERCOMMITTED, REMAINING
from stead.api.versions import ALL_FEATURES, NEWEST, name_of
from stead.domain import errors as domain
from stead.domain.names import NAME_LENGTH, RESOURCE_CLASS_NAME
from stead.domain.provider_trees import (
    CapacityBelowUse,
    DescribedProviderGone,
    DocumentFault,
    Overcommitment,
    Remaining,
    RemovedInUse,
)
from stead.domain.what_if import BadChange, ChangedThingNotFound
from stead.service.what_if import TooManyConsumers

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


# Schemas of the answers of the API at its newest microversion, for the OpenAPI document.
#
# They are written from the shapes that produce the answers, where these exist. Tests validate real answers against
# them.


def array(items: Schema) -> Schema:
    """The schema of an array."""
    return {"type": "array", "items": items}


TEXT: Schema = {"type": "string"}
MOMENT_TEXT: Schema = {"type": "string", "format": MOMENT}
AMOUNTS = mapping(RESOURCE_CLASS_NAME, {"type": "integer"})
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
    "consumer_generation": {"type": ["integer", "null"]},  # null: the consumer has no row
    "consumer_type": TEXT,
    "expires_at": {"type": ["string", "null"], "format": MOMENT},
    "on_expiry": {"type": ["string", "null"], "enum": ["release", "mark", None]},
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
PROVIDER = shown(answers.FIELDS)
SHOWN_INVENTORY = strict_object(INVENTORY)
ONE_INVENTORY = shown([*INVENTORY, "resource_provider_generation"], **INVENTORY)
SHOWN_INVENTORIES = shown(
    ["resource_provider_generation", "inventories"], inventories=mapping(RESOURCE_CLASS_NAME, SHOWN_INVENTORY)
)
AGGREGATES = shown(resource_providers.AGGREGATES_OF_PROVIDER)
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
RESOURCE_CLASS = shown(traits.RESOURCE_CLASS)
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
    ["consumer_uuid", "consumer_generation", *ALLOCATION_REQUEST["properties"], "expires_at", "on_expiry"],
    consumer_uuid=UUID,
    consumer_generation=GENERATION,
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
    ["token", "providers", "consumers"],
    token=TEXT,
    providers=array(CHANGED_PROVIDER),
    consumers=array(
        strict_object({**MOVED["properties"], "expires_at": FIELDS["expires_at"], "lease_ended": {"type": "boolean"}})
    ),
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
                    "explanation": {"anyOf": [allocation_candidates.EXPLANATION, {"type": "null"}]},
                    "in_use": array(REMAINING),
                    "overcommitted": array(OVERCOMMITTED),
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
    "RequestedConsumer": consumer(NEWEST, ALLOCATIONS_BY_PROVIDER, LEASE_OPTIONS),
    "AllocationRequest": ALLOCATION_REQUEST,
    "Summary": SUMMARY,
    "Amounts": AMOUNTS,
    "Totals": SUMS,
    "ProviderInTree": PROVIDER_IN_TREE,
    "ProviderTree": PROVIDER_TREE,
    "DescribedProvider": provider_trees.PROVIDER,
    "DescribedTree": provider_trees.TREE,
    "RemainingInUse": REMAINING,
    "Overcommitted": OVERCOMMITTED,
}
"""Schemas with a name in the document. Every use of one becomes a reference."""


SOME_PROVIDER = "0c0ffee0-0000-4000-8000-000000000001"
SOME_CONSUMER = "0c0ffee0-0000-4000-8000-000000000002"
EXAMPLES = {"uuid": SOME_PROVIDER, "consumer_uuid": SOME_CONSUMER, "resource_class": "VCPU", "name": "CUSTOM_LAMP"}
"""A value for each parameter of a path."""

PATH_PARAMETERS: dict[str, Schema] = {
    "uuid": UUID,
    "consumer_uuid": UUID,
    "resource_class": {"type": "string", "pattern": RESOURCE_CLASS_NAME, "maxLength": NAME_LENGTH},
    "name": {"type": "string", "pattern": RESOURCE_CLASS_NAME, "maxLength": NAME_LENGTH},
    "/flavors/{name}": candidates.NAME,
}
"""The schema of each parameter of a path, and of a path whose parameter differs from others of that name."""


@dataclass(frozen=True)
class Operation:
    """One method of one route, without what its gates and error rows say.

    ``answers``: body by status of success, None for no body. ``errors``: an example of each error that its handler
    may raise. ``since``: the first version of each parameter that is newer than the route. ``repeated``: the
    parameters that may be repeated.
    """

    answers: Mapping[int, Schema | None]
    body: Schema | None = None
    query: Schema | None = None
    errors: tuple[domain.SteadError, ...] = ()
    since: Mapping[str, str] = field(default_factory=dict)
    repeated: frozenset[str] = frozenset()
    located: bool = False


def _since(*tables: Mapping[str, Any]) -> dict[str, str]:
    """First versions by parameter, from tables whose rows begin with the version."""
    return {key: name_of(row[0]) for table in tables for key, row in table.items()}


NO_PROVIDER = domain.ProviderNotFound(SOME_PROVIDER)
NO_FLAVOR = domain.FlavorNotFound("m1.gpu")
UNKNOWN_FLAVOR = domain.UnknownFlavor("m1.gpu")
NO_CLASS = domain.UnknownResourceClass("CUSTOM_LAMP")
NO_TRAITS = domain.UnknownTraits(["CUSTOM_MAGIC"])
NO_RESOURCE_CLASS = domain.ResourceClassNotFound("CUSTOM_LAMP")
STALE = domain.GenerationConflict(SOME_PROVIDER, expected=3, actual=4)
TOO_SLOW = domain.ConcurrentUpdate("other clients changed it first, until the time limit")
RESERVED = domain.ReservedTooLarge("VCPU", may_reserve_all=True)
IN_USE = domain.InventoryInUse(SOME_PROVIDER, ["VCPU", "DISK_GB"])
NO_PARENT = domain.ParentRefused("parent provider UUID does not exist")
SAME_PROJECT = domain.IndistinctName("project", "P1", "p1")
CLAIM_ERRORS = (
    domain.UnknownProvider(SOME_PROVIDER),
    NO_CLASS,
    domain.ConsumerConflict(SOME_CONSUMER, expected=2, actual=3),
    domain.NoSuchInventory([SOME_PROVIDER], ["VCPU"]),
    domain.UnitsViolated(SOME_PROVIDER, "VCPU", 3),
    domain.CapacityExceeded(SOME_PROVIDER, "VCPU", 9),
    domain.ProviderDisabled(SOME_PROVIDER, "VCPU", SOME_PROVIDER, "broken fan"),
    SAME_PROJECT,
    TOO_SLOW,
)
LEASE_OVER = domain.LeaseRefused(
    f"expires_at of consumer {SOME_CONSUMER} is in the past: 2023-11-14T22:13:20Z", "2026-11-22T18:10:44Z"
)

REPEATED_PROJECT = domain.InvalidQuery("Query parameter 'project_id' may be specified only once.", DUPLICATE_KEY)
REPEATED_LIMIT = domain.InvalidQuery("Query parameter 'limit' may be specified only once.", DUPLICATE_KEY)
REPEATED_TOKEN = domain.InvalidQuery("Query parameter 'since' may be specified only once.", DUPLICATE_KEY)

CANDIDATE_ERRORS = (
    domain.InvalidQuery("Invalid query string parameters: …"),
    domain.InvalidQuery("Query parameter 'root_required' may be specified only once.", DUPLICATE_KEY),
    domain.InvalidQuery("Real suffixes should be specified in `same_subtree`: …", BAD_VALUE),
    domain.InvalidQuery("There must be at least one resources or resources[$S] parameter.", MISSING_VALUE),
    NO_CLASS,
    NO_TRAITS,
    UNKNOWN_FLAVOR,
)

_PROVIDER = "/resource_providers/{uuid}"
_ONE_CLASS = f"{_PROVIDER}/inventories/{{resource_class}}"

OPERATIONS: dict[tuple[str, str], Operation] = {
    ("GET", "/"): Operation({200: VERSIONS}),
    ("GET", "/openapi.json"): Operation({200: {"type": "object"}}),
    ("GET", "/resource_providers"): Operation(
        {200: strict_object({"resource_providers": array(PROVIDER)}, {"links": LINKS}), 304: None},
        query=providers.validator(ALL_FEATURES).schema,
        since=_since(providers.PROVIDER_KEYS),
        repeated=frozenset({"member_of", "required"}),
        errors=(domain.InvalidQuery("Invalid query string parameters: …"), REPEATED_LIMIT, NO_TRAITS, NO_CLASS),
    ),
    ("POST", "/resource_providers"): Operation(
        {200: PROVIDER},
        body=resource_providers.CREATE.at(NEWEST).schema,
        errors=(NO_PARENT, domain.DuplicateProvider("name: host-1")),
        located=True,
    ),
    ("GET", _PROVIDER): Operation({200: PROVIDER}, errors=(NO_PROVIDER,)),
    ("PUT", _PROVIDER): Operation(
        {200: PROVIDER},
        body=resource_providers.UPDATE.at(NEWEST).schema,
        errors=(NO_PROVIDER, NO_PARENT, domain.DuplicateProvider("host-1")),
    ),
    ("DELETE", _PROVIDER): Operation(
        {204: None},
        errors=(NO_PROVIDER, domain.ProviderHasChildren(SOME_PROVIDER), domain.ProviderInUse(SOME_PROVIDER)),
    ),
    ("GET", f"{_PROVIDER}/inventories"): Operation({200: SHOWN_INVENTORIES}, errors=(NO_PROVIDER,)),
    ("POST", f"{_PROVIDER}/inventories"): Operation(
        {201: ONE_INVENTORY},
        body=inventories.CREATE.at(NEWEST).schema,
        errors=(NO_PROVIDER, NO_CLASS, RESERVED, domain.InventoryExists(SOME_PROVIDER, "VCPU"), TOO_SLOW),
        located=True,
    ),
    ("PUT", f"{_PROVIDER}/inventories"): Operation(
        {200: SHOWN_INVENTORIES},
        body=inventories.REPLACE_ALL.at(NEWEST).schema,
        errors=(NO_PROVIDER, STALE, RESERVED, NO_CLASS, IN_USE, TOO_SLOW),
    ),
    ("DELETE", f"{_PROVIDER}/inventories"): Operation({204: None}, errors=(NO_PROVIDER, IN_USE, TOO_SLOW)),
    ("GET", _ONE_CLASS): Operation(
        {200: ONE_INVENTORY}, errors=(NO_PROVIDER, domain.InventoryNotFound(SOME_PROVIDER, "VCPU"))
    ),
    ("PUT", _ONE_CLASS): Operation(
        {200: ONE_INVENTORY},
        body=inventories.REPLACE_ONE.at(NEWEST).schema,
        errors=(NO_PROVIDER, STALE, RESERVED, NO_RESOURCE_CLASS, domain.NoInventoryRecord("VCPU"), TOO_SLOW),
    ),
    ("DELETE", _ONE_CLASS): Operation(
        {204: None}, errors=(NO_PROVIDER, domain.InventoryNotFound(SOME_PROVIDER, "VCPU"), IN_USE, TOO_SLOW)
    ),
    ("GET", f"{_PROVIDER}/usages"): Operation({200: PROVIDER_USAGES}, errors=(NO_PROVIDER,)),
    ("GET", f"{_PROVIDER}/aggregates"): Operation({200: AGGREGATES}, errors=(NO_PROVIDER,)),
    ("PUT", f"{_PROVIDER}/aggregates"): Operation(
        {200: AGGREGATES}, body=resource_providers.REPLACE.at(NEWEST).schema, errors=(NO_PROVIDER, STALE)
    ),
    ("GET", f"{_PROVIDER}/allocations"): Operation({200: PROVIDER_ALLOCATIONS}, errors=(NO_PROVIDER,)),
    ("GET", f"{_PROVIDER}/traits"): Operation({200: PROVIDER_TRAITS}, errors=(NO_PROVIDER,)),
    ("PUT", f"{_PROVIDER}/traits"): Operation(
        {200: PROVIDER_TRAITS}, body=traits.REPLACE.at(NEWEST).schema, errors=(NO_PROVIDER, STALE, NO_TRAITS, TOO_SLOW)
    ),
    ("DELETE", f"{_PROVIDER}/traits"): Operation({204: None}, errors=(NO_PROVIDER, TOO_SLOW)),
    ("GET", "/resource_classes"): Operation({200: shown(["resource_classes"], resource_classes=array(RESOURCE_CLASS))}),
    ("POST", "/resource_classes"): Operation(
        {201: None},
        body=traits.NAMED.at(NEWEST).schema,
        errors=(domain.ResourceClassExists("CUSTOM_LAMP"),),
        located=True,
    ),
    ("GET", "/resource_classes/{name}"): Operation({200: RESOURCE_CLASS}, errors=(NO_RESOURCE_CLASS,)),
    ("PUT", "/resource_classes/{name}"): Operation(
        {201: None, 204: None},
        errors=(domain.BadRequest("JSON does not validate: 'lamp' does not match '^CUSTOM_[A-Z0-9_]+$'"),),
        located=True,
    ),
    ("DELETE", "/resource_classes/{name}"): Operation(
        {204: None},
        errors=(NO_RESOURCE_CLASS, domain.StandardClass("VCPU", "delete"), domain.ResourceClassInUse("CUSTOM_LAMP")),
    ),
    ("GET", "/traits"): Operation(
        {200: shown(["traits"], traits=array(TEXT))},
        query=traits.LIST_QUERY.schema,
        errors=(domain.InvalidQuery('The query parameter "associated" only accepts "true" or "false"'),),
    ),
    ("GET", "/traits/{name}"): Operation({204: None}, errors=(domain.TraitNotFound("CUSTOM_MAGIC"),)),
    ("PUT", "/traits/{name}"): Operation(
        {201: None, 204: None}, errors=(domain.InvalidTraitName("magic"),), located=True
    ),
    ("DELETE", "/traits/{name}"): Operation(
        {204: None},
        errors=(
            domain.TraitNotFound("CUSTOM_MAGIC"),
            domain.StandardTrait("HW_CPU_X86_SHA"),
            domain.TraitInUse("CUSTOM_MAGIC"),
        ),
    ),
    ("POST", "/allocations"): Operation(
        {204: None},
        body=allocations.REPLACE_SEVERAL_WITH_ENDS.at(NEWEST).schema,
        errors=(*CLAIM_ERRORS, LEASE_OVER),
    ),
    ("GET", "/allocations/{consumer_uuid}"): Operation({200: CONSUMER_ALLOCATIONS}),
    ("PUT", "/allocations/{consumer_uuid}"): Operation(
        {204: None},
        body=allocations.REPLACE_ONE_WITH_END.at(NEWEST).schema,
        errors=(*CLAIM_ERRORS, LEASE_OVER),
    ),
    ("DELETE", "/allocations/{consumer_uuid}"): Operation(
        {204: None}, errors=(domain.AllocationsNotFound(SOME_CONSUMER),)
    ),
    ("GET", "/allocation_candidates"): Operation(
        {200: CANDIDATES},
        query=candidates.validator(ALL_FEATURES).schema,
        since=_since(candidates.REQUEST_KEYS, candidates.KEYS),
        repeated=frozenset({"same_subtree", "root_member_of", "isolate"}),
        errors=CANDIDATE_ERRORS,
    ),
    ("GET", "/allocation_candidates/explain"): Operation(
        {200: allocation_candidates.EXPLANATION},
        query=candidates.validator(ALL_FEATURES).schema,
        since=_since(candidates.REQUEST_KEYS, candidates.KEYS),
        repeated=frozenset({"same_subtree", "root_member_of", "isolate"}),
        errors=CANDIDATE_ERRORS,
    ),
    ("GET", "/flavors"): Operation(
        {200: flavors.FLAVORS},
        query=flavors.validator(ALL_FEATURES).schema,
        since=_since(flavors.KEYS),
        errors=(domain.InvalidQuery("Invalid query string parameters: …"), REPEATED_LIMIT),
    ),
    ("GET", "/flavors/{name}"): Operation({200: flavors.FLAVOR}, errors=(NO_FLAVOR,)),
    ("PUT", "/flavors/{name}"): Operation(
        {200: flavors.FLAVOR, 201: flavors.FLAVOR},
        body=flavors.REPLACE_WITH_WEIGHT.at(NEWEST).schema,
        errors=(
            domain.InvalidQuery("limit cannot be part of a flavor.", BAD_VALUE),
            domain.InvalidQuery("There must be at least one resources or resources[$S] parameter.", MISSING_VALUE),
        ),
        located=True,
    ),
    ("DELETE", "/flavors/{name}"): Operation({204: None}, errors=(NO_FLAVOR,)),
    ("GET", "/mix"): Operation(
        {200: strict_object({"mix": flavors.MIX})},
        query=flavors.NO_KEYS.schema,
        errors=(domain.InvalidQuery("Invalid query string parameters: …"),),
    ),
    ("DELETE", "/mix"): Operation({204: None}),
    ("GET", "/headroom"): Operation(
        {
            200: strict_object(
                {
                    "headroom": {
                        "anyOf": [headroom_of_request.HEADROOM, headroom_of_request.MIX, headroom_of_request.SITE]
                    },
                    "links": LINKS,
                }
            )
        },
        query=headroom.headroom_validator(ALL_FEATURES).schema,
        since=_since(candidates.REQUEST_KEYS, candidates.KEYS, headroom.HEADROOM_KEYS),
        repeated=frozenset({"same_subtree", "root_member_of", "isolate"}),
        errors=(*CANDIDATE_ERRORS, REPEATED_LIMIT),
    ),
    ("GET", "/advice"): Operation(
        {200: strict_object({"advice": {"anyOf": [advice_for_request.ADVICE, advice_for_request.IMPROVEMENT]}})},
        query=headroom.advice_validator(ALL_FEATURES).schema,
        since=_since(candidates.REQUEST_KEYS, candidates.KEYS, headroom.IMPROVEMENT_KEYS, headroom.ADVICE_KEYS),
        repeated=frozenset({"same_subtree", "root_member_of", "isolate"}),
        errors=(
            *CANDIDATE_ERRORS,
            domain.InvalidQuery("Invalid query string parameters: 'make_room_for' is a required property"),
            domain.InvalidQuery("make_room_for is at most 1000.", BAD_VALUE),
        ),
    ),
    ("GET", "/usages"): Operation(
        {200: PROJECT_USAGES},
        query=inventories.validator(NEWEST).schema,
        since=_since(inventories.KEYS),
        errors=(domain.InvalidQuery("Invalid query string parameters: …"),),
    ),
    ("GET", "/consumers"): Operation(
        {
            200: strict_object(
                {"consumers": array(HOLDER), "links": LINKS},
                {"project_totals": {"type": "object", "additionalProperties": PROJECT_TOTALS}},
            )
        },
        query=allocations.validator(ALL_FEATURES).schema,
        since=_since(allocations.KEYS),
        errors=(domain.InvalidQuery("Invalid query string parameters: …"), REPEATED_PROJECT),
    ),
    ("PUT", "/leases"): Operation(
        {200: strict_object({"gone": array(UUID), "without_lease": array(UUID)})},
        body=allocations.RENEWALS.at(NEWEST).schema,
        errors=(
            domain.BadRequest("JSON does not validate: leases[0].lease: 0 is less than the minimum of 1"),
            TOO_SLOW,
        ),
    ),
    ("GET", "/provider_trees"): Operation(
        {200: {"anyOf": [PROVIDER_TREES, TREE_COLUMNS]}, 304: None},
        query=providers.QUERY.schema,
        since=_since(providers.TREE_KEYS),
        repeated=providers.REPEATED,
        errors=(
            domain.InvalidQuery("Invalid query string parameters: …"),
            domain.InvalidQuery("Invalid query string parameters: Unknown field 'color' in 'fields'. …", BAD_VALUE),
            domain.InvalidQuery("Invalid query string parameters: 'columns=true' returns all trees. …", BAD_VALUE),
            REPEATED_LIMIT,
            NO_CLASS,
            NO_TRAITS,
        ),
    ),
    ("PUT", "/provider_trees"): Operation(
        {200: OUTCOME},
        body=tree_document.DOCUMENT.at(NEWEST).schema,
        errors=(
            DocumentFault("provider_trees[0].providers[3].traits", "unknown trait CUSTOM_MAGIC"),
            STALE,
            DescribedProviderGone("provider_trees[0].providers[3]", SOME_PROVIDER),
            domain.DuplicateProvider("name: host-1"),
            RemovedInUse([Remaining(SOME_PROVIDER, "host-1", None, 8, None)]),
            CapacityBelowUse([Overcommitment(SOME_PROVIDER, "host-1", "VCPU", 8, 16, 4)]),
            TOO_SLOW,
        ),
    ),
    ("PATCH", "/provider_trees/{uuid}"): Operation(
        {200: PROVIDER_STATE},
        body=provider_states.CHANGE.at(NEWEST).schema,
        errors=(NO_PROVIDER, domain.UntilPassed("2023-11-14T22:13:20Z", "2026-11-22T18:10:44Z"), TOO_SLOW),
    ),
    ("POST", "/claims"): Operation(
        {200: shown(["claims", "tries"], claims=array(GRANTED), tries={"type": "integer"})},
        body=claims.CLAIMS_WITH_ENDS.at(NEWEST).schema,
        errors=(
            domain.InvalidQuery("claims[0]: There must be at least one resources …", MISSING_VALUE),
            NO_CLASS,
            UNKNOWN_FLAVOR,
            domain.UnknownClassInOrder("CUSTOM_LAMP"),
            NO_TRAITS,
            domain.ConsumerConflict(SOME_CONSUMER, expected=2, actual=3),
            LEASE_OVER,
            domain.NothingFits(0, SOME_CONSUMER),
            domain.NothingFound(0, SOME_CONSUMER),
            SAME_PROJECT,
            TOO_SLOW,
        ),
    ),
    ("POST", "/whatif"): Operation(
        {200: what_if.WHAT_IF},
        body=what_if.BODY_WITH_ORDER.at(NEWEST).schema,
        errors=(
            BadChange(0, "count", "copy requires it"),
            domain.InvalidQuery("ask.headroom: There must be at least one resources …", MISSING_VALUE),
            NO_CLASS,
            UNKNOWN_FLAVOR,
            domain.UnknownClassInOrder("CUSTOM_LAMP"),
            NO_TRAITS,
            ChangedThingNotFound(0, "provider", "name:host1"),
            TOO_SLOW,
            TooManyConsumers(0, "provider", "the hosts to drain have more than 1000 consumers"),
        ),
    ),
    ("GET", "/changes"): Operation(
        {200: {"anyOf": [CHANGES, MERGED_CHANGES]}},
        query=changes.QUERY.schema,
        since=_since(changes.KEYS),
        errors=(
            domain.InvalidQuery("Invalid query string parameters: 'since' is no token of this service."),
            REPEATED_TOKEN,
            domain.StartOver(),
        ),
    ),
    ("POST", "/reshaper"): Operation(
        {204: None},
        body=allocations.RESHAPE.at(NEWEST).schema,
        errors=(domain.UnknownProvider(SOME_PROVIDER, among="Inventory"), STALE, IN_USE, *CLAIM_ERRORS),
    ),
}
