"""The policy rules: their names, defaults and routes. Source: "Policy", docs/authentication.md."""

from __future__ import annotations

from typing import TYPE_CHECKING

from oslo_policy import policy

if TYPE_CHECKING:
    from collections.abc import Iterator

_SCOPE = ["project"]
_DEFAULT = "rule:admin_or_service_api"

_ADMIN_ALONE = policy.DeprecatedRule(
    name="rule:admin_api",
    check_str="role:admin",
    deprecated_reason="Roles other than admin have their own rules.",
    deprecated_since="W",
)

BASE_RULES: list[policy.RuleDefault] = [
    policy.RuleDefault("admin_api", "role:admin", "Default of rules for administrators.", scope_types=_SCOPE),
    policy.RuleDefault(
        "service_api",
        "role:service",
        "Default of rules for other services only.",
        deprecated_rule=_ADMIN_ALONE,
        scope_types=_SCOPE,
    ),
    policy.RuleDefault(
        "admin_or_service_api",
        "role:admin or role:service",
        "Default of most routes.",
        deprecated_rule=_ADMIN_ALONE,
        scope_types=_SCOPE,
    ),
    policy.RuleDefault(
        "project_reader_api",
        "role:reader and project_id:%(project_id)s",
        "Default of rules for readers of their own project.",
        deprecated_rule=_ADMIN_ALONE,
    ),
    policy.RuleDefault(
        "admin_or_project_reader_or_service_api",
        "role:admin or rule:project_reader_api or role:service",
        "Default of rules for readers of their own project, and for administrators and services of every project.",
        deprecated_rule=_ADMIN_ALONE,
        scope_types=_SCOPE,
    ),
]

_PROVIDERS = "/resource_providers"
_PROVIDER = f"{_PROVIDERS}/{{uuid}}"
_INVENTORIES = f"{_PROVIDER}/inventories"
_INVENTORY = f"{_INVENTORIES}/{{resource_class}}"
_CLASS = "/resource_classes/{name}"
_CONSUMER = "/allocations/{consumer_uuid}"

# name without "placement:", what it allows, routes
_ROUTE_RULES: list[tuple[str, str, list[str]]] = [
    ("resource_providers:list", "List resource providers.", [f"GET {_PROVIDERS}"]),
    ("resource_providers:create", "Create a resource provider.", [f"POST {_PROVIDERS}"]),
    ("resource_providers:show", "Show a resource provider.", [f"GET {_PROVIDER}"]),
    ("resource_providers:update", "Rename or move a resource provider.", [f"PUT {_PROVIDER}"]),
    ("resource_providers:delete", "Delete a resource provider.", [f"DELETE {_PROVIDER}"]),
    ("resource_classes:list", "List resource classes.", ["GET /resource_classes"]),
    ("resource_classes:create", "Create a resource class.", ["POST /resource_classes"]),
    ("resource_classes:show", "Show a resource class.", [f"GET {_CLASS}"]),
    ("resource_classes:update", "Create or rename a resource class.", [f"PUT {_CLASS}"]),
    ("resource_classes:delete", "Delete a resource class.", [f"DELETE {_CLASS}"]),
    ("resource_providers:inventories:list", "List a provider's inventories.", [f"GET {_INVENTORIES}"]),
    ("resource_providers:inventories:create", "Add an inventory to a provider.", [f"POST {_INVENTORIES}"]),
    ("resource_providers:inventories:show", "Show an inventory of a provider.", [f"GET {_INVENTORY}"]),
    (
        "resource_providers:inventories:update",
        "Replace inventories of a provider.",
        [f"PUT {_INVENTORIES}", f"PUT {_INVENTORY}"],
    ),
    (
        "resource_providers:inventories:delete",
        "Delete inventories of a provider.",
        [f"DELETE {_INVENTORIES}", f"DELETE {_INVENTORY}"],
    ),
    ("resource_providers:aggregates:list", "List a provider's aggregates.", [f"GET {_PROVIDER}/aggregates"]),
    ("resource_providers:aggregates:update", "Replace a provider's aggregates.", [f"PUT {_PROVIDER}/aggregates"]),
    ("resource_providers:usages", "Show how much of a provider is used.", [f"GET {_PROVIDER}/usages"]),
    ("usages", "Show how much a project uses.", ["GET /usages"]),
    ("traits:list", "List traits.", ["GET /traits"]),
    ("traits:show", "Show whether a trait exists.", ["GET /traits/{name}"]),
    ("traits:update", "Create a trait.", ["PUT /traits/{name}"]),
    ("traits:delete", "Delete a trait.", ["DELETE /traits/{name}"]),
    ("resource_providers:traits:list", "List a provider's traits.", [f"GET {_PROVIDER}/traits"]),
    ("resource_providers:traits:update", "Replace a provider's traits.", [f"PUT {_PROVIDER}/traits"]),
    ("resource_providers:traits:delete", "Remove all traits of a provider.", [f"DELETE {_PROVIDER}/traits"]),
    ("allocations:manage", "Write the allocations of several consumers at once.", ["POST /allocations"]),
    ("allocations:list", "List the allocations of a consumer.", [f"GET {_CONSUMER}"]),
    ("allocations:update", "Replace the allocations of a consumer.", [f"PUT {_CONSUMER}"]),
    ("allocations:delete", "Release all allocations of a consumer.", [f"DELETE {_CONSUMER}"]),
    ("resource_providers:allocations:list", "List the allocations from a provider.", [f"GET {_PROVIDER}/allocations"]),
    ("allocation_candidates:list", "List allocation candidates.", ["GET /allocation_candidates"]),
    ("reshaper:reshape", "Move inventories and allocations between providers.", ["POST /reshaper"]),
]

# rules for Stead's own features; name without "stead:", what it allows, routes
_OWN_ROUTE_RULES: list[tuple[str, str, list[str]]] = [
    (
        "allocation_candidates:explain",
        "Explain the result of a candidate query.",
        ["GET /allocation_candidates/explain"],
    ),
    ("headroom:show", "Show how many times a request fits.", ["GET /headroom"]),
    (
        "advice:show",
        "Show which consumers to move so that a request fits a number of times.",
        ["GET /advice"],
    ),
    ("flavors:list", "List flavors, with how many times each fits.", ["GET /flavors"]),
    ("flavors:show", "Show a flavor.", ["GET /flavors/{name}"]),
    ("flavors:update", "Create or replace a flavor.", ["PUT /flavors/{name}"]),
    ("flavors:delete", "Delete a flavor.", ["DELETE /flavors/{name}"]),
    ("consumers:list", "List consumers with their allocations.", ["GET /consumers"]),
    (
        "provider_trees:list",
        "List provider trees with inventories, usages, traits and aggregates.",
        ["GET /provider_trees"],
    ),
    (
        "provider_trees:update",
        "Create, move, rename, change and delete providers of whole trees.",
        ["PUT /provider_trees"],
    ),
    ("provider_trees:disable", "Disable or enable a provider.", ["PATCH /provider_trees/{uuid}"]),
    ("claims:create", "Claim the best candidates for consumers.", ["POST /claims"]),
    ("whatif:show", "Show what planned changes would lead to.", ["POST /whatif"]),
    ("changes:list", "List changed providers and consumers.", ["GET /changes"]),
]

_OTHER_DEFAULTS = {
    "usages": "rule:admin_or_project_reader_or_service_api",
    "consumers:list": "rule:admin_or_project_reader_or_service_api",
    "provider_trees:disable": "rule:admin_api",
    "reshaper:reshape": "rule:service_api",
}


def list_rules() -> Iterator[policy.RuleDefault]:
    """All rules, base rules first: the entry point ``placement`` of ``oslo.policy.policies``."""
    yield from BASE_RULES
    for service, rows in (("placement", _ROUTE_RULES), ("stead", _OWN_ROUTE_RULES)):
        for name, description, routes in rows:
            yield policy.DocumentedRuleDefault(
                name=f"{service}:{name}",
                check_str=_OTHER_DEFAULTS.get(name, _DEFAULT),
                description=description,
                operations=[{"method": method, "path": path} for method, path in (route.split() for route in routes)],
                scope_types=_SCOPE,
            )
