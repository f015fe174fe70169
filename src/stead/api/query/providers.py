"""The query of GET ``/resource_providers``.

Source: "GET /resource_providers", docs/api.md.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from stead.api.bodies import STRICT_UUIDS, Validator
from stead.api.query import pages
from stead.api.query.values import (
    PROVIDER_REFERENCE,
    parse_aggregates,
    parse_resources,
    parse_subtree,
    parse_traits,
    require_no_conflict,
)
from stead.api.versions import Agreed, S, V
from stead.domain.request import ProviderQuery, Terms

if TYPE_CHECKING:
    from stead.api.query.pairs import Pairs
    from stead.api.versions import Step

_UUID = {"type": "string", "format": "uuid"}

KEYS: dict[str, tuple[Step, dict[str, Any]]] = {
    "name": (V.INITIAL, {"type": "string"}),
    "uuid": (V.INITIAL, _UUID),
    "member_of": (V.LIST_MEMBER_OF, {"type": "string"}),
    "resources": (V.LIST_RESOURCES, {"type": "string"}),
    "in_tree": (V.NESTED_PROVIDERS, _UUID),
    "required": (V.LIST_REQUIRED, {"type": "string"}),
    "in_subtree": (S.OWN_FEATURES, {"type": "string"}),
    **pages.KEYS,
}
"""Each key with its first version and the schema of its last value."""

NAMED = {"in_tree": PROVIDER_REFERENCE}
"""The schemas that apply instead when requests may refer to providers by name."""


@cache
def validator(agreed: Agreed) -> Validator:
    """Validates the keys of these versions, and refuses others."""
    properties = {key: schema for key, (since, schema) in KEYS.items() if agreed.knows(since)}
    if agreed.knows(S.PROVIDER_TREES):
        properties |= NAMED
    return Validator({"type": "object", "additionalProperties": False, "properties": properties}, formats=STRICT_UUIDS)


def parse_provider_query(pairs: Pairs, agreed: Agreed) -> ProviderQuery:
    """The filters that *pairs* request.

    Raises:
        InvalidQuery: the first fault: keys before values, and last a trait that is both required and forbidden.
    """
    pairs.require(validator(agreed))
    aggregates = parse_aggregates(pairs.all("member_of"), agreed)
    traits = parse_traits(required, agreed) if (required := pairs.all("required")) else Terms()
    may_name = agreed.knows(S.PROVIDER_TREES)
    in_subtree = [parse_subtree(value, may_name=may_name) for value in pairs.all("in_subtree")]
    resources = pairs.last("resources")
    amounts = None if resources is None else parse_resources(resources)
    require_no_conflict({"required": traits})
    return ProviderQuery(
        name=pairs.last("name") or None,
        uuid=pairs.last("uuid"),
        in_tree=pairs.last("in_tree"),
        in_subtree=in_subtree[-1] if in_subtree else None,
        traits=traits,
        aggregates=aggregates,
        resources=amounts,
    )
