"""The query of GET ``/allocation_candidates``: keys, request-wide values, then groups.

Source: "Query grammar" of allocation candidates, docs/api.md.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Any

from stead.api.bodies import Validator
from stead.api.query.flavors import KEYS as FLAVOR_KEYS
from stead.api.query.flavors import with_flavor
from stead.api.query.groups import parse_groups, require_sound_groups, with_own_meaning
from stead.api.query.order import parse_order
from stead.api.query.pairs import INVALID, Pairs
from stead.api.query.values import BAD_VALUE, parse_root_aggregates, parse_root_traits, whole_number
from stead.api.versions import ALL_FEATURES, Agreed, S, V, Versioned
from stead.domain.errors import InvalidQuery
from stead.domain.request import UNSUFFIXED, Apart, CandidateRequest
from stead.process.short_keys import cached_if_short

if TYPE_CHECKING:
    from stead.api.query.flavors import Flavors
    from stead.api.versions import Step

_EMPTY = "Empty string (unsuffixed group) can not be specified in `{}` "

_LIMIT = "^[1-9][0-9]*$"

REQUEST_KEYS: dict[str, tuple[Step, dict[str, Any]]] = {
    "limit": (V.LIMIT, {"type": "string", "pattern": _LIMIT}),
    "group_policy": (V.GROUPS, {"type": "string", "enum": ["none", "isolate"]}),
    "root_required": (V.ROOT_REQUIRED, {"type": "string"}),
    "same_subtree": (V.SAME_SUBTREE, {"type": "string"}),
    "root_member_of": (S.OWN_FEATURES, {"type": "string"}),
    "isolate": (S.OWN_FEATURES, {"type": "string"}),
    "can_split": (S.OWN_FEATURES, {"type": "string"}),
    "order_by": (S.OWN_FEATURES, {"type": "string"}),
}
"""Keys of the whole request, each with its first version and the schema of its last value."""

GROUP_KEYS: dict[str, Step] = {
    "resources": V.CANDIDATES,
    "required": V.CANDIDATE_REQUIRED,
    "member_of": V.CANDIDATE_MEMBER_OF,
    "in_tree": V.CANDIDATE_IN_TREE,
    "in_subtree": S.OWN_FEATURES,
}
"""Keys of a request group, to which its suffix is appended, each with its first version."""

SUFFIX = Versioned({V.GROUPS: "[1-9][0-9]*", V.STRING_SUFFIXES: "[a-zA-Z0-9_-]{1,64}"})
"""The form of a suffix. Before 1.10 only the unsuffixed group existed."""


@cache
def validator(agreed: Agreed) -> Validator:
    """Validates the keys of these versions, and refuses others."""
    of_request = {key: schema for key, (since, schema) in (REQUEST_KEYS | FLAVOR_KEYS).items() if agreed.knows(since)}
    words = [word for word, since in GROUP_KEYS.items() if agreed.knows(since)]
    schema: dict[str, Any] = {"type": "object"}
    if not agreed.knows(V.GROUPS):
        schema["required"] = ["resources"]
        schema["additionalProperties"] = False
        schema["properties"] = of_request | {word: {"type": "string"} for word in words}
    else:
        schema["additionalProperties"] = False
        schema["properties"] = of_request
        schema["patternProperties"] = {
            f"^{word}({SUFFIX.at(agreed.placement)})?$": {"type": "string"} for word in words
        }
    return Validator(schema)


@cache
def group_key(agreed: Agreed) -> re.Pattern[str]:
    """Splits a key of a request group into its name and its suffix (absent if unsuffixed)."""
    words = "|".join(word for word, since in GROUP_KEYS.items() if agreed.knows(since))
    suffix = f"({SUFFIX.at(agreed.placement)})?" if agreed.knows(V.GROUPS) else "()"
    return re.compile(f"^({words}){suffix}$")


def stored_request(query: str) -> CandidateRequest:
    """The request of the query of a flavor, at the newest versions.

    Raises:
        InvalidQuery: it was valid when it was stored, perhaps by an older release.
    """
    return request_of(query, ALL_FEATURES)


def request_of(query: str, agreed: Agreed, flavors: Flavors | None = None) -> CandidateRequest:
    """The request that a query string describes at these versions.

    Clients repeat queries, since a deployment has few flavors. So the requests of recent queries are cached, but not
    those of queries with ``flavor``, whose own query can change.

    Args:
        flavors: as of :func:`parse_candidate_request`.

    Raises:
        InvalidQuery, UnknownFlavor: as :func:`parse_candidate_request`.
    """
    return without_flavor(query, agreed) or parse_candidate_request(Pairs.read(query), agreed, flavors)


@cached_if_short(512)
def without_flavor(query: str, agreed: Agreed) -> CandidateRequest | None:
    """The request that *query* alone describes at these versions; None if it names a flavor.

    Raises:
        InvalidQuery
    """
    pairs = Pairs.read(query)
    return None if pairs.all("flavor") else parse_candidate_request(pairs, agreed)


def parse_candidate_request(pairs: Pairs, agreed: Agreed, flavors: Flavors | None = None) -> CandidateRequest:
    """The request that *pairs* describe at these versions.

    Args:
        flavors: finds the flavor that *pairs* name; None: they must not name one.

    Raises:
        InvalidQuery: the first fault, in the order of the grammar.
        UnknownFlavor
    """
    pairs.require(validator(agreed))
    if pairs.all("flavor"):
        pairs = with_flavor(pairs, flavors)
        # Again, because the stored query can be from another release and have other keys.
        pairs.require(validator(agreed))
    limit = _limit(pairs.first("limit"))
    pairs.require_single(["root_required"])
    root_traits = parse_root_traits(pairs.last("root_required"), agreed)
    is_own = agreed.knows(S.OWN_FEATURES)
    subtrees = [_subtree(value, may_keep_apart=is_own) for value in pairs.all("same_subtree")]
    policy = pairs.first("group_policy")
    root_aggregates = parse_root_aggregates(pairs.all("root_member_of"))
    isolated = _isolated(pairs.all("isolate"), policy)
    pairs.require_single(["can_split", "order_by"])
    can_split = _can_split(pairs.last("can_split"))
    order = parse_order(pairs.last("order_by"))
    may_name = agreed.knows(S.PROVIDER_TREES)
    groups = parse_groups(pairs, agreed, group_key(agreed), may_name=may_name)
    require_sound_groups(groups, agreed, [together | others for together, others in subtrees], isolated)
    if policy is None and not is_own and sum(group.suffix != UNSUFFIXED for group in groups) > 1:
        raise InvalidQuery(
            'The "group_policy" parameter is required when specifying more than one "resources{N}" parameter.'
        )
    if is_own:
        groups = with_own_meaning(groups, can_split)
    return CandidateRequest(
        groups=groups,
        isolate=policy == "isolate",
        isolated=isolated,
        same_subtree=tuple(together for together, others in subtrees if not others),
        apart=tuple(Apart(together, others) for together, others in subtrees if others),
        root_traits=root_traits,
        root_aggregates=root_aggregates,
        order=order,
        limit=limit,
        one_provider_per_tree=not agreed.knows(V.NESTED_CANDIDATES),
    )


def _limit(value: str | None) -> int | None:
    # The schema has checked the last `limit` only, but the first one counts.
    if value is not None and not re.search(_LIMIT, value):
        raise InvalidQuery(f"{INVALID} {value!r} does not match {_LIMIT!r} Failed validating 'pattern'")
    return whole_number(value) if value else None


def _subtree(value: str, *, may_keep_apart: bool) -> tuple[frozenset[str], frozenset[str]]:
    """The suffixes of one value, and those after a ``!``, which is special only if *may_keep_apart*."""
    together = _suffixes(value, "same_subtree")
    if not may_keep_apart:
        return together, frozenset()
    negated = frozenset(suffix for suffix in together if suffix.startswith("!"))
    together, others = together - negated, frozenset(suffix.removeprefix("!") for suffix in negated)
    if "" in others:
        raise InvalidQuery(_EMPTY.format("same_subtree"), BAD_VALUE)
    if not together:
        raise InvalidQuery('same_subtree needs at least one suffix without "!".', BAD_VALUE)
    if both := sorted(together & others):
        raise InvalidQuery(f'{both[0]} is given both with and without "!" in `same_subtree`: {value}', BAD_VALUE)
    return together, others


def _suffixes(value: str, parameter: str) -> frozenset[str]:
    suffixes = frozenset(suffix.strip() for suffix in value.split(","))
    if "" in suffixes:
        raise InvalidQuery(_EMPTY.format(parameter), BAD_VALUE)
    return suffixes


def _isolated(values: list[str], policy: str | None) -> frozenset[str]:
    if values and policy is not None:
        raise InvalidQuery("isolate and group_policy cannot be used together.", BAD_VALUE)
    return frozenset().union(*(_suffixes(value, "isolate") for value in values))


def _can_split(value: str | None) -> frozenset[str]:
    return frozenset() if value is None else frozenset(name.strip() for name in value.split(","))
