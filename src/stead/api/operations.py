"""Parameters, bodies and answers of each route at the newest microversion, for the OpenAPI document.

Bodies and queries are the schemas that validate requests; `answer_schemas` has those of the answers.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from stead.api import tree_document, tree_outcome
from stead.api.answer_schemas import (
    AGGREGATES,
    CANDIDATES,
    CHANGES,
    CONSUMER_ALLOCATIONS,
    GRANTED,
    HOLDER,
    LINKS,
    MERGED_CHANGES,
    ONE_INVENTORY,
    PROJECT_TOTALS,
    PROJECT_USAGES,
    PROVIDER,
    PROVIDER_ALLOCATIONS,
    PROVIDER_STATE,
    PROVIDER_TRAITS,
    PROVIDER_TREES,
    PROVIDER_USAGES,
    RESOURCE_CLASS,
    SHOWN_INVENTORIES,
    TEXT,
    TREE_COLUMNS,
    VERSIONS,
    array,
    shown,
)
from stead.api.bodies import Schema, strict_object
from stead.api.query import advice, candidates, headroom, provider_trees, providers
from stead.api.query import flavors as flavor_query
from stead.api.query.groups import MISSING_VALUE
from stead.api.query.pairs import DUPLICATE_KEY
from stead.api.query.values import BAD_VALUE
from stead.api.resources import advice as advice_for_request
from stead.api.resources import (
    aggregates,
    allocations,
    changes,
    claims,
    consumers,
    explanations,
    flavors,
    inventories,
    provider_states,
    reshaper,
    resource_classes,
    resource_providers,
    traits,
    usages,
    what_if,
)
from stead.api.resources import headroom as headroom_of_request
from stead.api.versions import ALL_FEATURES, NEWEST, name_of
from stead.domain import errors as domain
from stead.domain.tree_document import (
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
    from collections.abc import Mapping


SOME_PROVIDER = "0c0ffee0-0000-4000-8000-000000000001"
SOME_CONSUMER = "0c0ffee0-0000-4000-8000-000000000002"
EXAMPLES = {"uuid": SOME_PROVIDER, "consumer_uuid": SOME_CONSUMER, "resource_class": "VCPU", "name": "CUSTOM_LAMP"}
"""A value for each parameter of a path."""


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
        since=_since(providers.KEYS),
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
        {200: AGGREGATES}, body=aggregates.REPLACE.at(NEWEST).schema, errors=(NO_PROVIDER, STALE)
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
        body=resource_classes.NAMED.at(NEWEST).schema,
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
        {204: None}, body=allocations.REPLACE_SEVERAL.at(NEWEST).schema, errors=CLAIM_ERRORS
    ),
    ("GET", "/allocations/{consumer_uuid}"): Operation({200: CONSUMER_ALLOCATIONS}),
    ("PUT", "/allocations/{consumer_uuid}"): Operation(
        {204: None}, body=allocations.REPLACE_ONE.at(NEWEST).schema, errors=CLAIM_ERRORS
    ),
    ("DELETE", "/allocations/{consumer_uuid}"): Operation(
        {204: None}, errors=(domain.AllocationsNotFound(SOME_CONSUMER),)
    ),
    ("GET", "/allocation_candidates"): Operation(
        {200: CANDIDATES},
        query=candidates.validator(ALL_FEATURES).schema,
        since=_since(candidates.REQUEST_KEYS, flavor_query.KEYS),
        repeated=frozenset({"same_subtree", "root_member_of", "isolate"}),
        errors=CANDIDATE_ERRORS,
    ),
    ("GET", "/allocation_candidates/explain"): Operation(
        {200: explanations.EXPLANATION},
        query=candidates.validator(ALL_FEATURES).schema,
        since=_since(candidates.REQUEST_KEYS, flavor_query.KEYS),
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
        body=flavors.REPLACE.at(NEWEST).schema,
        errors=(
            domain.InvalidQuery("limit cannot be part of a flavor.", BAD_VALUE),
            domain.InvalidQuery("There must be at least one resources or resources[$S] parameter.", MISSING_VALUE),
        ),
        located=True,
    ),
    ("DELETE", "/flavors/{name}"): Operation({204: None}, errors=(NO_FLAVOR,)),
    ("GET", "/headroom"): Operation(
        {
            200: strict_object(
                {"headroom": {"anyOf": [headroom_of_request.HEADROOM, headroom_of_request.MIX]}, "links": LINKS}
            )
        },
        query=headroom.validator(ALL_FEATURES).schema,
        since=_since(candidates.REQUEST_KEYS, flavor_query.KEYS, headroom.KEYS),
        repeated=frozenset({"same_subtree", "root_member_of", "isolate"}),
        errors=(*CANDIDATE_ERRORS, REPEATED_LIMIT),
    ),
    ("GET", "/advice"): Operation(
        {200: strict_object({"advice": advice_for_request.ADVICE})},
        query=advice.validator(ALL_FEATURES).schema,
        since=_since(candidates.REQUEST_KEYS, flavor_query.KEYS, advice.KEYS),
        repeated=frozenset({"same_subtree", "root_member_of", "isolate"}),
        errors=(
            *CANDIDATE_ERRORS,
            domain.InvalidQuery("Invalid query string parameters: 'make_room_for' is a required property"),
            domain.InvalidQuery("make_room_for is at most 1000.", BAD_VALUE),
        ),
    ),
    ("GET", "/usages"): Operation(
        {200: PROJECT_USAGES},
        query=usages.validator(NEWEST).schema,
        since=_since(usages.KEYS),
        errors=(domain.InvalidQuery("Invalid query string parameters: …"),),
    ),
    ("GET", "/consumers"): Operation(
        {
            200: strict_object(
                {"consumers": array(HOLDER), "links": LINKS},
                {"project_totals": {"type": "object", "additionalProperties": PROJECT_TOTALS}},
            )
        },
        query=consumers.validator(ALL_FEATURES).schema,
        since=_since(consumers.KEYS),
        errors=(domain.InvalidQuery("Invalid query string parameters: …"), REPEATED_PROJECT),
    ),
    ("GET", "/provider_trees"): Operation(
        {200: {"anyOf": [PROVIDER_TREES, TREE_COLUMNS]}, 304: None},
        query=provider_trees.QUERY.schema,
        since=_since(provider_trees.KEYS),
        repeated=provider_trees.REPEATED,
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
        {200: tree_outcome.OUTCOME},
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
        body=claims.CLAIMS.at(NEWEST).schema,
        errors=(
            domain.InvalidQuery("claims[0]: There must be at least one resources …", MISSING_VALUE),
            NO_CLASS,
            UNKNOWN_FLAVOR,
            domain.UnknownClassInOrder("CUSTOM_LAMP"),
            NO_TRAITS,
            domain.ConsumerConflict(SOME_CONSUMER, expected=2, actual=3),
            domain.NothingFits(0, SOME_CONSUMER),
            domain.NothingFound(0, SOME_CONSUMER),
            SAME_PROJECT,
            TOO_SLOW,
        ),
    ),
    ("POST", "/whatif"): Operation(
        {200: what_if.WHAT_IF},
        body=what_if.BODY.at(NEWEST).schema,
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
        body=reshaper.RESHAPE.at(NEWEST).schema,
        errors=(domain.UnknownProvider(SOME_PROVIDER, among="Inventory"), STALE, IN_USE, *CLAIM_ERRORS),
    ),
}
