"""The query of GET ``/provider_trees``.

Source: "GET /provider_trees", docs/api.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from stead.api.bodies import ONE_LINE, STRICT_UUIDS, Validator
from stead.api.query import pages
from stead.api.query.pairs import INVALID
from stead.api.query.values import (
    BAD_VALUE,
    PROVIDER_REFERENCE,
    parse_aggregates,
    parse_resources,
    parse_root_aggregates,
    parse_root_traits,
    parse_traits,
    require_no_conflict,
    whole_number,
)
from stead.api.tree_text import FIELDS
from stead.api.versions import ALL_FEATURES, S
from stead.domain.errors import InvalidQuery
from stead.domain.name_pattern import NamePattern
from stead.domain.request import Terms, TreeQuery

if TYPE_CHECKING:
    from stead.api.query.pairs import Pairs
    from stead.api.versions import Step
    from stead.domain.pages import Page

KEYS: dict[str, tuple[Step, dict[str, Any]]] = {
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
    **pages.KEYS,
}
"""Each key with its first version and the schema of its last value."""

REPEATED = frozenset({"required", "member_of", "root_member_of"})
"""Keys that may be repeated; all their values apply."""

QUERY = Validator(
    {"type": "object", "additionalProperties": False, "properties": {key: schema for key, (_, schema) in KEYS.items()}},
    formats=STRICT_UUIDS,
)


@dataclass(frozen=True, slots=True)
class TreesWanted:
    """A page of trees, and the fields to show; ``depth`` is in levels below the root, None for all.

    ``columns``: all trees as columns, instead of a page of objects.
    """

    query: TreeQuery
    page: Page
    fields: frozenset[str]
    depth: int | None
    totals: bool
    columns: bool


def parse_tree_query(pairs: Pairs) -> TreesWanted:
    """The page and the filters that *pairs* request.

    Raises:
        InvalidQuery: the first fault.
    """
    pairs.require(QUERY)
    pairs.require_single(key for key in KEYS if key not in REPEATED)
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
    return TreesWanted(
        query,
        pages.parse_page(pairs),
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
