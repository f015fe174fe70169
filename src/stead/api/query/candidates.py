"""The query of GET ``/allocation_candidates``: keys, request-wide values, then groups, and the values of both.

Lists of providers have values of the same forms, and parse them with the same functions.
Source: "Query grammar" of allocation candidates, docs/api.md.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from functools import cache
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote_to_bytes, urlencode

from stead.api.bodies import ONE_LINE, Validator
from stead.api.request import is_like, normalised_uuid
from stead.api.versions import ALL_FEATURES, Agreed, S, V, Versioned
from stead.domain.errors import InvalidQuery, UnknownFlavor
from stead.domain.names import RESOURCE_CLASS_NAME
from stead.domain.provider import BY_NAME
from stead.domain.request import (
    FLAVOR_NAME,
    FLAVOR_NAME_LENGTH,
    PACK,
    SPREAD,
    UNSUFFIXED,
    Apart,
    ByAmount,
    ByHeadroom,
    ByShare,
    CandidateRequest,
    Drawn,
    Page,
    RequestGroup,
    Terms,
)
from stead.process.runtime import cached_if_short
from stead.store.extensions.flavors import find as find_flavor

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from stead.api.versions import Step
    from stead.domain.request import Flavor, Order
    from stead.service.service import Service

    Flavors = Callable[[str], Flavor | None]
    """Finds a flavor by its name."""
    from collections.abc import Iterable, Iterator

    from stead.api.request import Request


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
    of_request = {key: schema for key, (since, schema) in (REQUEST_KEYS | KEYS).items() if agreed.knows(since)}
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


def usual_query(request: CandidateRequest) -> str | None:
    """The query of *request* in its usual spelling, so that equal requests have the same one at the newest versions.

    Without its order, its limit, and the rule of microversions before 1.29. None if it names a provider: then it is
    not a form that could be requested again elsewhere.
    """
    if any(group.in_tree is not None or group.in_subtree is not None for group in request.groups):
        return None
    pairs: list[tuple[str, str]] = []
    for group in sorted(request.groups, key=lambda group: group.suffix):
        if group.resources:
            amounts = ",".join(f"{name}:{amount}" for name, amount in sorted(group.resources.items()))
            pairs.append((f"resources{group.suffix}", amounts))
        pairs += [(f"required{group.suffix}", value) for value in _trait_values(group.traits)]
        pairs += [(f"member_of{group.suffix}", value) for value in _aggregate_values(group.aggregates)]
        if group.can_split:
            pairs.append(("can_split", ",".join(sorted(group.can_split))))
    pairs += [("root_required", value) for value in _trait_values(request.root_traits)]
    pairs += [("root_member_of", value) for value in _aggregate_values(request.root_aggregates)]
    if request.isolate:
        pairs.append(("group_policy", "isolate"))
    if request.isolated:
        pairs.append(("isolate", ",".join(sorted(request.isolated))))
    subtrees = [",".join(sorted(together)) for together in request.same_subtree]
    subtrees += [
        ",".join([*sorted(apart.together), *(f"!{suffix}" for suffix in sorted(apart.others))])
        for apart in request.apart
    ]
    pairs += [("same_subtree", value) for value in sorted(set(subtrees))]
    return urlencode(pairs, safe=":,!")


def _trait_values(terms: Terms) -> list[str]:
    """The values of ``required``: first the names, then the choices."""
    names = sorted(name for clause in terms.clauses if len(clause) == 1 for name in clause)
    names += [f"!{name}" for name in sorted(terms.forbidden)]
    choices = sorted(f"in:{','.join(sorted(clause))}" for clause in terms.clauses if len(clause) > 1)
    return [*([",".join(names)] if names else []), *choices]


def _aggregate_values(terms: Terms) -> list[str]:
    """The values of ``member_of``."""
    values = sorted(
        f"in:{','.join(sorted(clause))}" if len(clause) > 1 else "".join(clause) for clause in terms.clauses
    )
    return [*values, f"!in:{','.join(sorted(terms.forbidden))}"] if terms.forbidden else values


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
    order = parse_order(pairs.last("order_by"), agreed)
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


# Request groups: built from the pairs in order, then checked against each other.
#
# Source: "Group values" and "Cross checks" of allocation candidates, docs/api.md.


MISSING_VALUE = "placement.query.missing_value"

ANYTHING = Terms()


@dataclass(slots=True)
class _Draft:
    """A group under construction."""

    resources: dict[str, int] = field(default_factory=dict)
    traits: Terms = ANYTHING
    aggregates: Terms = ANYTHING
    in_tree: str | None = None
    in_subtree: str | None = None


def parse_groups(
    pairs: Pairs, agreed: Agreed, group_key: re.Pattern[str], *, may_name: bool = False
) -> tuple[RequestGroup, ...]:
    """The groups, in the order in which *pairs* first name them.

    Each pair is parsed at its position, so that the first faulty pair decides the error. Repeated values of one key are
    parsed together at the position of the first.

    Args:
        may_name: `in_tree` and `in_subtree` may refer to a provider by its name.

    Raises:
        InvalidQuery: a malformed value.
    """
    drafts: dict[str, _Draft] = {}
    seen: set[str] = set()
    for key, value in pairs:
        match = group_key.match(key)
        if match is None:
            continue
        word, suffix = match[1], match[2] or ""
        draft = drafts.setdefault(suffix, _Draft())
        if word == "resources":
            draft.resources = parse_resources(value)
        elif word == "in_tree":
            draft.in_tree = parse_tree(value, may_name=may_name)
        elif word == "in_subtree":
            draft.in_subtree = parse_subtree(value, may_name=may_name)
        elif key not in seen:
            _parse_terms(draft, word, suffix, pairs.all(key), agreed)
        seen.add(key)
    return tuple(
        RequestGroup(suffix, draft.resources, draft.traits, draft.aggregates, draft.in_tree, draft.in_subtree)
        for suffix, draft in drafts.items()
    )


def _parse_terms(draft: _Draft, word: str, suffix: str, values: Sequence[str], agreed: Agreed) -> None:
    if word == "required":
        draft.traits = parse_traits(values, agreed)
    else:
        draft.aggregates = parse_aggregates(values, agreed, suffix)


def require_sound_groups(
    groups: Sequence[RequestGroup],
    agreed: Agreed,
    same_subtree: Collection[frozenset[str]],
    isolated: frozenset[str] = frozenset(),
) -> None:
    """Refuse invalid groups and invalid combinations of groups.

    Args:
        same_subtree: the suffixes in each value of ``same_subtree``.
        isolated: the suffixes in all values of ``isolate``.

    Raises:
        InvalidQuery: the first fault.
    """
    if not agreed.knows(V.SAME_SUBTREE):
        _require_resources_everywhere(groups)
    else:
        named = frozenset().union(*same_subtree)
        _require_resources_somewhere(groups, named)
        _require_known(groups, named, "same_subtree")
        _require_known(groups, isolated, "isolate")
    require_no_conflict({f"required{group.suffix}": group.traits for group in groups})


def _require_resources_everywhere(groups: Sequence[RequestGroup]) -> None:
    """The rules before microversion 1.36, when every group needed resources."""
    lacking = [group for group in groups if not group.resources]
    traits = [f"required{group.suffix}" for group in lacking if group.traits.clauses]
    if traits:
        raise InvalidQuery(
            "All traits parameters must be associated with resources.  "
            f"Found the following orphaned traits keys: {', '.join(traits)}"
        )
    aggregates = [f"member_of{group.suffix}" for group in lacking if group.aggregates]
    if aggregates:
        raise InvalidQuery(
            "All member_of parameters must be associated with resources. "
            f"Found the following orphaned member_of keys: {', '.join(aggregates)}"
        )
    if lacking:
        raise InvalidQuery("All request groups must specify resources.")
    if not groups:
        raise InvalidQuery("At least one request group (`resources` or `resources{$S}`) is required.")


def _require_resources_somewhere(groups: Sequence[RequestGroup], named: frozenset[str]) -> None:
    if not any(group.resources for group in groups):
        raise InvalidQuery("There must be at least one resources or resources[$S] parameter.", MISSING_VALUE)
    bad = [group.suffix for group in groups if not group.resources and group.suffix not in named]
    if bad:
        raise InvalidQuery(
            "Resourceless suffixed group request should be specified in `same_subtree` query param: "
            f"bad group(s) - {bad}.",
            BAD_VALUE,
        )


def _require_known(groups: Sequence[RequestGroup], named: frozenset[str], parameter: str) -> None:
    suffixes = [group.suffix for group in groups]
    unknown = sorted(named.difference(suffixes))
    if unknown:
        raise InvalidQuery(
            f"Real suffixes should be specified in `{parameter}`: {unknown} not found in {suffixes}.", BAD_VALUE
        )


def with_own_meaning(groups: Sequence[RequestGroup], can_split: frozenset[str]) -> tuple[RequestGroup, ...]:
    """The groups with the meaning that requests for Stead's own features give them.

    Raises:
        InvalidQuery: *can_split* names a class that the unsuffixed group does not request.
    """
    asked = {name for group in groups if group.suffix == UNSUFFIXED for name in group.resources}
    unknown = sorted(can_split - asked)
    if unknown:
        raise InvalidQuery(
            f"can_split names resource classes that the unsuffixed group does not request: {unknown}", BAD_VALUE
        )
    return tuple(
        replace(group, can_split=can_split if group.suffix == UNSUFFIXED else group.can_split, like_any_other=True)
        for group in groups
    )


# ``order_by``: which candidates come first.
#
# Source: "Order", docs/stead-api.md.


HEAVIEST = 1_000_000
"""Maximum weight. A larger one would leave no significant digits to the others."""

_WORDS: dict[str, tuple[Step, Order]] = {
    "pack": (S.OWN_FEATURES, PACK),
    "spread": (S.OWN_FEATURES, SPREAD),
    "random": (S.OWN_FEATURES, Drawn()),
    "headroom": (S.HEADROOM_ORDER, ByHeadroom()),
}
_DIRECTIONS = {"asc": -1, "desc": 1}
_CLASS = re.compile(RESOURCE_CLASS_NAME)
_WEIGHT = re.compile(r"[+-]?([0-9]{1,20}(\.[0-9]{0,20})?|\.[0-9]{1,20})", re.ASCII)


def parse_order(value: str | None, agreed: Agreed) -> Order | None:
    """The order that the value of ``order_by`` states; None without a value.

    Raises:
        InvalidQuery: malformed.
    """
    if value is None:
        return None
    words = {word: order for word, (since, order) in _WORDS.items() if agreed.knows(since)}
    order = words.get(value) or _list(value)
    if order is None:
        raise InvalidQuery(
            f"Invalid query string parameters: Expected 'order_by' parameter to be {', '.join(words)}, "
            f"CLASS:asc,CLASS:desc or CLASS:WEIGHT,CLASS:WEIGHT. Got: {value}",
            BAD_VALUE,
        )
    return order


def _list(value: str) -> Order | None:
    """The order of a list of classes; None if it is malformed."""
    pairs = [element.strip().partition(":") for element in value.split(",")]
    names = [name for name, _, _ in pairs]
    if len(set(names)) < len(names) or not all(map(_CLASS.fullmatch, names)):
        return None
    said = [text for _, _, text in pairs]
    if all(text in _DIRECTIONS for text in said):
        return ByAmount({name: _DIRECTIONS[text] for name, text in zip(names, said, strict=True)})
    if not all(map(_WEIGHT.fullmatch, said)):
        return None
    weights = {name: float(text) for name, text in zip(names, said, strict=True)}
    return ByShare(weights) if all(0 < abs(weight) <= HEAVIEST for weight in weights.values()) else None


# ``flavor=NAME`` in a candidate query: the query that is stored under this name, and what restricts it further.
#
# Source: "Flavors", docs/stead-api.md.


NAME: dict[str, Any] = {
    "type": "string",
    "pattern": FLAVOR_NAME,
    "maxLength": FLAVOR_NAME_LENGTH,
    "format": ONE_LINE,
}
KEYS: dict[str, tuple[Step, dict[str, Any]]] = {"flavor": (S.PROVIDER_TREES, NAME)}
"""The key, with its first version and the schema of its value."""

RESTRICTING = frozenset({"required", "member_of", "root_member_of"})
"""Parameters that may be given beside a flavor, and in the flavor too: all of them must hold."""

BESIDE = RESTRICTING | {"root_required", "in_tree", "in_subtree", "order_by", "limit"}
"""Parameters that may be given beside a flavor. All others describe the request itself."""

NOT_STORED = ("flavor", "limit", "marker")
"""Parameters that a flavor cannot have."""


def finder(service: Service) -> Callable[[str], Flavor | None]:
    """Finds flavors by name in the database, each once for one request."""
    # Not a `cache`: to make one takes longer than the rest of a request that names no flavor.
    flavor_of: dict[str, Flavor | None] = {}

    def find(name: str) -> Flavor | None:
        if name not in flavor_of:
            flavor_of[name] = service.read(find_flavor, name)
        return flavor_of[name]

    return find


def with_flavor(pairs: Pairs, flavors: Flavors | None) -> Pairs:
    """*pairs* with the query of the flavor that they name in its place.

    Raises:
        InvalidQuery: a flavor cannot be given here, or not with another of the parameters.
        UnknownFlavor
    """
    names = pairs.all("flavor")
    if not names:
        return pairs
    pairs.require_single(["flavor"])
    if flavors is None:
        raise InvalidQuery("flavor cannot be used here.", BAD_VALUE)
    others = [pair for pair in pairs if pair[0] != "flavor"]
    for key, _ in others:
        if key not in BESIDE:
            raise InvalidQuery(f"flavor and {key} cannot be used together.", BAD_VALUE)
    flavor = flavors(names[0])
    if flavor is None:
        raise UnknownFlavor(names[0])
    stored = list(Pairs.read(flavor.query))
    for key in dict(others):
        if key not in RESTRICTING and any(key == stored_key for stored_key, _ in stored):
            raise InvalidQuery(f"{key} is given in the query and in flavor {flavor.name}.", BAD_VALUE)
    return Pairs([*stored, *others])


def require_storable(pairs: Pairs) -> None:
    """Refuse parameters that a flavor cannot have.

    Raises:
        InvalidQuery: names the first one.
    """
    for key in NOT_STORED:
        if pairs.all(key):
            raise InvalidQuery(f"{key} cannot be part of a flavor.", BAD_VALUE)


# Parsers of values that candidates and provider lists share: amounts, traits, aggregates, trees.


BAD_VALUE = "placement.query.bad_value"

BEYOND = 10**40
"""Replaces every amount that is too long for Python to parse: no provider can have either amount."""

_MANY_DIGITS = re.compile(r"\s*\+?\d{1000,}\s*")

PROVIDER_REFERENCE: dict[str, Any] = {
    "anyOf": [{"type": "string", "format": "uuid"}, {"type": "string", "pattern": f"^{BY_NAME}."}]
}
"""A provider by its uuid or, after ``name:``, by its name."""

ANY_FORM = "in:HW_CPU_X86_VMX,CUSTOM_MAGIC"


def parse_resources(value: str) -> dict[str, int]:
    """``CLASS:AMOUNT[,CLASS:AMOUNT…]`` as amounts by class; of a repeated class the last applies.

    Raises:
        InvalidQuery: malformed, or an amount below 1.
    """
    badly_formed = (
        "Badly formed resources parameter. Expected resources query string parameter in form: "
        "?resources=VCPU:2,MEMORY_MB:1024. Got: "
    )
    if not value.strip():
        raise InvalidQuery(f"{badly_formed}empty string.")
    amounts = {}
    for element in value.split(","):
        if element.count(":") != 1:
            raise InvalidQuery(f"{badly_formed}{element}.")
        name, _, text = element.partition(":")
        amounts[name] = _amount(name, text)
    return amounts


def _amount(name: str, text: str) -> int:
    amount = whole_number(text)
    if amount is None:
        raise InvalidQuery(f"Requested resource {name} expected positive integer amount. Got: {text}.")
    if amount < 1:
        raise InvalidQuery(f"Requested resource {name} requires amount >= 1. Got: {amount}.")
    return amount


def whole_number(text: str) -> int | None:
    """*text* as an integer in Python's syntax; None if it is not one."""
    try:
        return int(text)
    except ValueError:  # also for more digits than Python parses
        return BEYOND if _MANY_DIGITS.fullmatch(text) else None


def parse_traits(values: Sequence[str], agreed: Agreed) -> Terms:
    """The values of one ``required``: names, ``!names`` (1.22), ``in:any,of`` (1.39). Since 1.39 all values apply.

    Raises:
        InvalidQuery: malformed, or newer than these versions.
    """
    clauses: list[frozenset[str]] = []
    forbidden: set[str] = set()
    for value in values if agreed.knows(V.ANY_TRAITS) else values[-1:]:
        if value.startswith("in:") and agreed.knows(V.ANY_TRAITS):
            clauses.append(_any_of(value))
        else:
            required, unwanted = parse_names(value, agreed)
            clauses += [frozenset([name]) for name in required]
            forbidden |= unwanted
    return Terms(tuple(dict.fromkeys(clauses)), frozenset(forbidden))


def parse_names(value: str, agreed: Agreed) -> tuple[list[str], set[str]]:
    """Required and forbidden names of a comma-separated list without ``in:``.

    Raises:
        InvalidQuery: it has ``in:``, an empty name, or a ``!`` that these versions do not support.
    """
    if value.startswith("in:"):
        raise InvalidQuery(
            f"{INVALID} The format '{ANY_FORM}' only supported since microversion {V.ANY_TRAITS}. Got: {value}"
        )
    may_forbid = agreed.knows(V.FORBIDDEN_TRAITS)
    form = "HW_CPU_X86_VMX,!CUSTOM_MAGIC" if may_forbid else "HW_CPU_X86_VMX,CUSTOM_MAGIC"
    expected = f"{INVALID} Expected 'required' parameter value of the form: {form}. Got"
    names = [name.strip() for name in value.split(",")]
    if any(name in ("", "!") for name in names):
        raise InvalidQuery(f"{expected} an empty trait in: {value}")
    forbidden = {name.removeprefix("!") for name in names if name.startswith("!")}
    if forbidden and not may_forbid:
        raise InvalidQuery(f"{expected}: {value}")
    return [name for name in names if not name.startswith("!")], forbidden


def _any_of(value: str) -> frozenset[str]:
    names = [name.strip() for name in value.removeprefix("in:").split(",")]
    if not all(names):
        raise InvalidQuery(
            f"{INVALID} Expected 'required' parameter value of the form: {ANY_FORM}. Got an empty trait in: {value}"
        )
    if any(name.startswith("!") for name in names):
        raise InvalidQuery(f"{INVALID} The format '{ANY_FORM}' does not support forbidden traits. Got: {value}")
    return frozenset(names)


def parse_aggregates(values: Sequence[str], agreed: Agreed, suffix: str = "") -> Terms:
    """The values of one ``member_of``: ``uuid`` or ``in:any,of``; a ``!`` in front forbids them (1.32).

    Raises:
        InvalidQuery: malformed, repeated before 1.24, or forbidding before 1.32.
    """
    if len(values) > 1 and not agreed.knows(V.REPEATED_MEMBER_OF):
        raise InvalidQuery(f"Multiple member_of{suffix} parameters are not supported")
    clauses: list[frozenset[str]] = []
    forbidden: frozenset[str] = frozenset()
    for value in values:
        names = _uuids(value)
        if not value.startswith("!"):
            clauses.append(names)
        elif not agreed.knows(V.FORBIDDEN_AGGREGATES):
            raise InvalidQuery(
                f"Forbidden member_of{suffix} parameters are not supported in the specified microversion"
            )
        else:
            forbidden |= names
    return Terms(tuple(dict.fromkeys(clauses)), forbidden)


def parse_root_aggregates(values: Sequence[str]) -> Terms:
    """The values of ``root_member_of``, in the syntax of the newest ``member_of``.

    Raises:
        InvalidQuery: malformed.
    """
    names = [(value.startswith("!"), _uuids(value, "root_member_of", "", BAD_VALUE)) for value in values]
    clauses = dict.fromkeys(uuids for is_forbidden, uuids in names if not is_forbidden)
    return Terms(tuple(clauses), frozenset().union(*(uuids for is_forbidden, uuids in names if is_forbidden)))


def _uuids(
    value: str,
    parameter: str = "member_of",
    since: str = " using the valid microversion",
    code: str | None = None,
) -> frozenset[str]:
    bare = value.removeprefix("!")
    if bare.startswith("in:"):
        names = bare.removeprefix("in:").split(",")
    elif "," in bare:
        raise InvalidQuery(
            f"Multiple values for '{parameter}' must be prefixed with the 'in:' or '!in:' keyword{since}. Got: {value}",
            code,
        )
    else:
        names = [bare]
    for name in names:
        if not is_like(name):
            raise InvalidQuery(
                f"{INVALID} Expected '{parameter}' parameter to contain valid UUID(s). Got: {name}", code
            )
    return frozenset(names)


def parse_tree(value: str, *, may_name: bool = False) -> str:
    """The reference to a provider of a tree, as given: a uuid, or ``name:`` and a name if *may_name*.

    Raises:
        InvalidQuery: it is neither.
    """
    return _reference(value, "in_tree", may_name=may_name)


def parse_subtree(value: str, *, may_name: bool = False) -> str:
    """The reference to the top of a subtree, as given: a uuid, or ``name:`` and a name if *may_name*.

    Raises:
        InvalidQuery: it is neither.
    """
    return _reference(value, "in_subtree", BAD_VALUE, may_name=may_name)


def _reference(value: str, parameter: str, code: str | None = None, *, may_name: bool) -> str:
    if may_name and value.startswith(BY_NAME) and value != BY_NAME:
        return value
    uuid = value.strip()
    if not is_like(uuid):
        form = f"a format of uuid, or {BY_NAME}NAME" if may_name else "a format of uuid"
        raise InvalidQuery(f"{INVALID} Expected '{parameter}' parameter to be {form}. Got: {value}", code)
    return uuid


def parse_root_traits(value: str | None, agreed: Agreed) -> Terms:
    """The value of ``root_required``: names and ``!names``.

    Raises:
        InvalidQuery: malformed, or a trait that is both required and forbidden.
    """
    if value is None:
        return Terms()
    required, forbidden = parse_names(value, agreed)
    conflicts = sorted(forbidden.intersection(required))
    if conflicts:
        raise InvalidQuery(
            f"Conflicting required and forbidden traits found in root_required: {', '.join(conflicts)}", BAD_VALUE
        )
    return Terms(tuple(dict.fromkeys(frozenset([name]) for name in required)), frozenset(forbidden))


def require_no_conflict(traits: dict[str, Terms]) -> None:
    """Refuse clauses all of whose traits are forbidden in the same place. The keys are the parameters.

    Raises:
        InvalidQuery: naming parameters and traits.
    """
    conflicts = []
    for key, terms in sorted(traits.items()):
        lost = [name for clause in terms.clauses if clause <= terms.forbidden for name in clause]
        if lost:
            conflicts.append(f"{key}: ({', '.join(sorted(set(lost)))})")
    if conflicts:
        raise InvalidQuery(
            f"Conflicting required and forbidden traits found in the following traits keys: {', '.join(conflicts)}"
        )


# The pairs of a query string, in order, and the schemas of keys and plain values.


INVALID = "Invalid query string parameters:"
DUPLICATE_KEY = "placement.query.duplicate_key"


class Pairs:
    """Keys and values as the client wrote them, decoded; a key may be repeated."""

    def __init__(self, pairs: list[tuple[str, str]]) -> None:
        self._pairs = pairs
        self._values: dict[str, list[str]] = {}
        for key, value in pairs:
            self._values.setdefault(key, []).append(value)

    @classmethod
    def of(cls, req: Request) -> Pairs:
        """The pairs of the request's query string.

        Raises:
            InvalidQuery: part of the string is not UTF-8.
        """
        return cls.read(req.query_string)

    @classmethod
    def read(cls, query: str) -> Pairs:
        """The pairs of a query string.

        Raises:
            InvalidQuery: part of the string is not UTF-8.
        """
        parts = [part.partition("=") for part in query.split("&") if part]
        if _is_plain(query):
            return cls([(key, value) for key, _, value in parts])
        try:
            return cls([(_text(key), _text(value)) for key, _, value in parts])
        except UnicodeError as error:
            raise InvalidQuery(f"{INVALID} {error}") from None

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return iter(self._pairs)

    def all(self, key: str) -> list[str]:
        """Every value of *key*."""
        return self._values.get(key, [])

    def first(self, key: str) -> str | None:
        """The first value of *key*."""
        return self._values[key][0] if key in self._values else None

    def last(self, key: str) -> str | None:
        """The last value of *key*."""
        return self._values[key][-1] if key in self._values else None

    def require_single(self, keys: Iterable[str]) -> None:
        """Refuse repetition of any of *keys*.

        Raises:
            InvalidQuery: names the first key that is repeated.
        """
        for key in keys:
            if len(self.all(key)) > 1:
                raise InvalidQuery(f"Query parameter '{key}' may be specified only once.", DUPLICATE_KEY)

    def require(self, validator: Validator) -> None:
        """Refuse keys and values that *validator* rejects. Of a repeated key it checks the last value.

        Raises:
            InvalidQuery: with the message of the first fault.
        """
        fault = validator.first_fault({key: values[-1] for key, values in self._values.items()})
        if fault is not None:
            raise InvalidQuery(f"{INVALID} {fault}")


def _is_plain(encoded: str) -> bool:
    """Whether it needs no decoding."""
    return encoded.isascii() and "%" not in encoded and "+" not in encoded


def _text(encoded: str) -> str:
    if _is_plain(encoded):
        return encoded
    # WSGI passes bytes decoded as Latin-1.
    return unquote_to_bytes(encoded.replace("+", " ").encode("latin-1")).decode("utf-8")


# Paging parameters that all paged lists share, and the link from one page to the next.
#
# Source: "Pages", docs/stead-api.md.


PAGE_KEYS: dict[str, tuple[Step, dict[str, str]]] = {
    "limit": (S.OWN_FEATURES, {"type": "string", "pattern": "^[1-9][0-9]*$", "format": ONE_LINE}),
    "marker": (S.OWN_FEATURES, {"type": "string", "format": "uuid"}),
}
"""Each key with its first version and the schema of its value."""


def parse_page(pairs: Pairs) -> Page:
    """The page that *pairs* request; the caller has validated the values.

    Raises:
        InvalidQuery: `limit` or `marker` is repeated.
    """
    pairs.require_single(PAGE_KEYS)
    limit = pairs.last("limit")
    return Page(None if limit is None else whole_number(limit), marker_of(pairs))


def marker_of(pairs: Pairs) -> str | None:
    """The uuid after which the page begins, as it is stored: lists compare it as a text."""
    marker = pairs.last("marker")
    return None if marker is None else normalised_uuid(marker)


def links(req: Request, pairs: Pairs, last: str | None) -> list[dict[str, str]]:
    """The links of a page: one to the next page, which begins after the uuid *last*; empty on the last page."""
    if last is None:
        return []
    asked = [(key, value) for key, value in pairs if key != "marker"]
    href = f"{req.root_path}{req.path}?{urlencode([*asked, ('marker', last)])}"
    return [{"rel": "next", "href": href}]
