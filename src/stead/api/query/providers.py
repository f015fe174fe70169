"""The queries of GET ``/resource_providers`` and GET ``/provider_trees``.

Source: "GET /resource_providers", docs/api.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from stead.api.bodies import ONE_LINE, STRICT_UUIDS, Validator
from stead.api.query import candidates
from stead.api.query.candidates import (
    BAD_VALUE,
    INVALID,
    PROVIDER_REFERENCE,
    parse_aggregates,
    parse_resources,
    parse_root_aggregates,
    parse_root_traits,
    parse_subtree,
    parse_traits,
    require_no_conflict,
    whole_number,
)
from stead.api.tree_text import FIELDS
from stead.api.versions import ALL_FEATURES, Agreed, S, V
from stead.domain.errors import InvalidQuery
from stead.domain.names import NamePattern
from stead.domain.request import ProviderQuery, Terms, TreeQuery

if TYPE_CHECKING:
    from stead.api.query.candidates import Pairs
    from stead.api.versions import Step
    from stead.domain.request import Page


_UUID = {"type": "string", "format": "uuid"}

PROVIDER_KEYS: dict[str, tuple[Step, dict[str, Any]]] = {
    "name": (V.INITIAL, {"type": "string"}),
    "uuid": (V.INITIAL, _UUID),
    "member_of": (V.LIST_MEMBER_OF, {"type": "string"}),
    "resources": (V.LIST_RESOURCES, {"type": "string"}),
    "in_tree": (V.NESTED_PROVIDERS, _UUID),
    "required": (V.LIST_REQUIRED, {"type": "string"}),
    "in_subtree": (S.OWN_FEATURES, {"type": "string"}),
    **candidates.PAGE_KEYS,
}
"""Each key with its first version and the schema of its last value."""

NAMED = {"in_tree": PROVIDER_REFERENCE}
"""The schemas that apply instead when requests may refer to providers by name."""


@cache
def validator(agreed: Agreed) -> Validator:
    """Validates the keys of these versions, and refuses others."""
    properties = {key: schema for key, (since, schema) in PROVIDER_KEYS.items() if agreed.knows(since)}
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


# The query of GET ``/provider_trees``.
#
# Source: "GET /provider_trees", docs/stead-api.md.


TREE_KEYS: dict[str, tuple[Step, dict[str, Any]]] = {
    "in_tree": (S.PROVIDER_TREES, PROVIDER_REFERENCE),
    "name": (S.PROVIDER_TREES, {"type": "string", "minLength": 1}),
    "required": (S.PROVIDER_TREES, {"type": "string"}),
    "member_of": (S.PROVIDER_TREES, {"type": "string"}),
    "resources": (S.PROVIDER_TREES, {"type": "string"}),
    "root_required": (S.PROVIDER_TREES, {"type": "string"}),
    "root_member_of": (S.PROVIDER_TREES, {"type": "string"}),
    "fields": (S.PROVIDER_TREES, {"type": "string"}),
    "depth": (S.PROVIDER_TREES, {"type": "string", "pattern": "^(0|[1-9][0-9]*)$", "format": ONE_LINE}),
    "totals": (S.PROVIDER_TREES, {"type": "string", "enum": ["true", "false"]}),
    "columns": (S.PROVIDER_TREES, {"type": "string", "enum": ["true", "false"]}),
    **candidates.PAGE_KEYS,
}
"""Each key with its first version and the schema of its last value."""

REPEATED = frozenset({"required", "member_of", "root_member_of"})
"""Keys that may be repeated; all their values apply."""

QUERY = Validator(
    {
        "type": "object",
        "additionalProperties": False,
        "properties": {key: schema for key, (_, schema) in TREE_KEYS.items()},
    },
    formats=STRICT_UUIDS,
)


@dataclass(frozen=True, slots=True)
class TreesQuery:
    """A page of trees, and the fields to show; ``depth`` is in levels below the root, None for all.

    ``columns``: all trees as columns, instead of a page of objects.
    """

    query: TreeQuery
    page: Page
    fields: frozenset[str]
    depth: int | None
    totals: bool
    columns: bool


def parse_tree_query(pairs: Pairs) -> TreesQuery:
    """The page and the filters that *pairs* request.

    Raises:
        InvalidQuery: the first fault.
    """
    pairs.require(QUERY)
    pairs.require_single(key for key in TREE_KEYS if key not in REPEATED)
    name, resources, depth = pairs.last("name"), pairs.last("resources"), pairs.last("depth")
    required = pairs.all("required")
    traits = parse_traits(required, ALL_FEATURES) if required else Terms()
    require_no_conflict({"required": traits})
    columns = pairs.last("columns") == "true"
    if columns and (pairs.all("limit") or pairs.all("marker")):
        raise InvalidQuery(f"{INVALID} 'columns=true' returns all trees. Remove 'limit' and 'marker'.", BAD_VALUE)
    query = TreeQuery(
        in_tree=pairs.last("in_tree"),
        name=None if name is None else NamePattern(name),
        traits=traits,
        aggregates=parse_aggregates(pairs.all("member_of"), ALL_FEATURES),
        resources={} if resources is None else parse_resources(resources),
        root_traits=parse_root_traits(pairs.last("root_required"), ALL_FEATURES),
        root_aggregates=parse_root_aggregates(pairs.all("root_member_of")),
    )
    return TreesQuery(
        query,
        candidates.parse_page(pairs),
        _fields(pairs.last("fields")),
        None if depth is None else whole_number(depth),
        totals=pairs.last("totals") == "true",
        columns=columns,
    )


def _fields(value: str | None) -> frozenset[str]:
    if value is None:
        return frozenset(("uuid", *FIELDS))
    names = value.split(",")
    for name in names:
        if name not in ("uuid", *FIELDS):
            raise InvalidQuery(
                f"{INVALID} Unknown field {name!r} in 'fields'. Known fields: uuid, {', '.join(FIELDS)}", BAD_VALUE
            )
    return frozenset(names)
