"""The query of GET ``/allocation_candidates``: keys, request-wide values, then groups.

Source: "Query grammar" of allocation candidates, docs/api.md.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Any

from stead.api.bodies import Validator
from stead.api.query.groups import BAD_VALUE, parse_groups, require_sound_groups
from stead.api.query.pairs import INVALID
from stead.api.query.values import parse_names, whole_number
from stead.api.versions import V, Versioned
from stead.domain.errors import InvalidQuery
from stead.domain.request import UNSUFFIXED, CandidateRequest, Terms

if TYPE_CHECKING:
    from stead.api.query.pairs import Pairs
    from stead.api.versions import Microversion

DUPLICATE_KEY = "placement.query.duplicate_key"

_LIMIT = "^[1-9][0-9]*$"

REQUEST_KEYS: dict[str, tuple[Microversion, dict[str, Any]]] = {
    "limit": (V.LIMIT, {"type": "string", "pattern": _LIMIT}),
    "group_policy": (V.GROUPS, {"type": "string", "enum": ["none", "isolate"]}),
    "root_required": (V.ROOT_REQUIRED, {"type": "string"}),
    "same_subtree": (V.SAME_SUBTREE, {"type": "string"}),
}
"""Keys of the whole request, each with its first microversion and what its last value must look like."""

GROUP_KEYS = {
    "resources": V.CANDIDATES,
    "required": V.CANDIDATE_REQUIRED,
    "member_of": V.CANDIDATE_MEMBER_OF,
    "in_tree": V.CANDIDATE_IN_TREE,
}
"""Keys of a request group, to which its suffix is appended, each with its first microversion."""

SUFFIX = Versioned({V.GROUPS: "[1-9][0-9]*", V.STRING_SUFFIXES: "[a-zA-Z0-9_-]{1,64}"})
"""The form of a suffix; before there was any, only the unsuffixed group existed."""


@cache
def validator(version: Microversion) -> Validator:
    """The keys *version* knows, and no others."""
    of_request = {key: schema for key, (since, schema) in REQUEST_KEYS.items() if since <= version}
    words = [word for word, since in GROUP_KEYS.items() if since <= version]
    schema: dict[str, Any] = {"type": "object"}
    if version < V.GROUPS:
        schema["required"] = ["resources"]
        schema["additionalProperties"] = False
        schema["properties"] = of_request | {word: {"type": "string"} for word in words}
    else:
        schema["additionalProperties"] = False
        schema["properties"] = of_request
        schema["patternProperties"] = {f"^{word}({SUFFIX.at(version)})?$": {"type": "string"} for word in words}
    return Validator(schema)


@cache
def group_key(version: Microversion) -> re.Pattern[str]:
    """What takes a key of a request group apart into its word and its suffix (absent if unsuffixed)."""
    words = "|".join(word for word, since in GROUP_KEYS.items() if since <= version)
    suffix = f"({SUFFIX.at(version)})?" if version >= V.GROUPS else "()"
    return re.compile(f"^({words}){suffix}$")


def parse_candidate_request(pairs: Pairs, version: Microversion) -> CandidateRequest:
    """The request that *pairs* stand for at *version*.

    Raises:
        InvalidQuery: the first fault, in the order of the grammar.
    """
    pairs.require(validator(version))
    limit = _limit(pairs.first("limit"))
    root_traits = _root_traits(pairs.all("root_required"), version)
    same_subtree = tuple(map(_subtree, pairs.all("same_subtree")))
    groups = parse_groups(pairs, version, group_key(version))
    require_sound_groups(groups, version, same_subtree)
    policy = pairs.first("group_policy")
    if policy is None and sum(group.suffix != UNSUFFIXED for group in groups) > 1:
        raise InvalidQuery(
            'The "group_policy" parameter is required when specifying more than one "resources{N}" parameter.'
        )
    return CandidateRequest(
        groups=groups,
        isolate=policy == "isolate",
        same_subtree=same_subtree,
        root_traits=root_traits,
        limit=limit,
        one_provider_per_tree=version < V.NESTED_CANDIDATES,
    )


def _limit(value: str | None) -> int | None:
    if value is not None and not re.search(_LIMIT, value):
        raise InvalidQuery(f"{INVALID} {value!r} does not match {_LIMIT!r} Failed validating 'pattern'")
    return whole_number(value) if value else None


def _root_traits(values: list[str], version: Microversion) -> Terms:
    if len(values) > 1:
        raise InvalidQuery("Query parameter 'root_required' may be specified only once.", DUPLICATE_KEY)
    if not values:
        return Terms()
    wanted, unwanted = parse_names(values[0], version)
    conflicts = sorted(unwanted.intersection(wanted))
    if conflicts:
        raise InvalidQuery(
            f"Conflicting required and forbidden traits found in root_required: {', '.join(conflicts)}", BAD_VALUE
        )
    return Terms(tuple(dict.fromkeys(frozenset([name]) for name in wanted)), frozenset(unwanted))


def _subtree(value: str) -> frozenset[str]:
    suffixes = frozenset(suffix.strip() for suffix in value.split(","))
    if "" in suffixes:
        raise InvalidQuery("Empty string (unsuffixed group) can not be specified in `same_subtree` ", BAD_VALUE)
    return suffixes
