"""The queries of GET ``/headroom`` and GET ``/advice``.

Source: "GET /headroom", docs/stead-api.md.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from stead.api.bodies import ONE_LINE, STRICT_UUIDS, Validator
from stead.api.query import candidates
from stead.api.query.candidates import BAD_VALUE, INVALID, Pairs, parse_candidate_request, whole_number
from stead.api.versions import S
from stead.candidates.mixing import Part
from stead.domain.errors import InvalidQuery
from stead.domain.request import Page

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stead.api.query.candidates import Flavors
    from stead.api.versions import Agreed, Step
    from stead.domain.request import CandidateRequest


# ``mix=NAME:WEIGHT,…`` of GET ``/headroom``: several flavors, and how many times one mix contains each.
#
# Source: "GET /headroom", docs/stead-api.md.


MOST_CLAIMS = 100
"""Maximum sum of the weights of a mix."""

MIX_KEYS: dict[str, tuple[Step, dict[str, Any]]] = {"mix": (S.PROVIDER_TREES, {"type": "string"})}
"""The key, with its first version and the schema of its value."""

_NOT_BESIDE = ("flavor", "limit", "marker", "order_by")
_FORM = "mix is a list like m1.small:3,m1.large:1, of flavors with whole weights"


def parse_mix(pairs: Pairs, agreed: Agreed, flavors: Flavors) -> dict[str, Part]:
    """The parts of the mix by the names of their flavors. Other *pairs* restrict every part, as beside ``flavor``.

    Raises:
        InvalidQuery: the first fault.
        UnknownFlavor
    """
    pairs.require_single(["mix"])
    for key in _NOT_BESIDE:
        if pairs.all(key):
            raise InvalidQuery(f"mix and {key} cannot be used together.", BAD_VALUE)
    weights = _weights(pairs.last("mix") or "")
    others = [pair for pair in pairs if pair[0] != "mix"]
    return {
        name: Part(parse_candidate_request(Pairs([("flavor", name), *others]), agreed, flavors), weight)
        for name, weight in weights.items()
    }


def _weights(value: str) -> Mapping[str, int]:
    weights: dict[str, int] = {}
    for item in value.split(","):
        name, _, digits = item.strip().rpartition(":")  # a name may have colons
        if not name or not (digits.isascii() and digits.isdigit()):
            raise InvalidQuery(f"{_FORM}; {item!r} is none.", BAD_VALUE)
        if name in weights:
            raise InvalidQuery(f"{name} occurs twice in mix.", BAD_VALUE)
        # The length first, because `int` rejects numbers with thousands of digits.
        if len(digits) > len(str(MOST_CLAIMS)) or not 1 <= int(digits) <= MOST_CLAIMS:
            raise InvalidQuery(f"The weight of {name} in mix must be from 1 to {MOST_CLAIMS}.", BAD_VALUE)
        weights[name] = int(digits)
    if sum(weights.values()) > MOST_CLAIMS:
        raise InvalidQuery(f"The weights in mix must not exceed {MOST_CLAIMS} together.", BAD_VALUE)
    return weights


HEADROOM_KEYS: dict[str, tuple[Step, dict[str, Any]]] = {
    "marker": (S.PROVIDER_TREES, candidates.PAGE_KEYS["marker"][1]),
    **MIX_KEYS,
}
"""Keys beyond those of a candidate query, each with its first version and the schema of its last value."""


@dataclass(frozen=True, slots=True)
class HeadroomQuery:
    """A request, whose order applies to the trees, and the page of trees to show."""

    request: CandidateRequest
    page: Page


@cache
def headroom_validator(agreed: Agreed) -> Validator:
    """Validates the keys of these versions, and refuses others."""
    schema = candidates.validator(agreed).schema
    properties = {
        **schema["properties"],
        **{key: value for key, (since, value) in HEADROOM_KEYS.items() if agreed.knows(since)},
    }
    return Validator({**schema, "properties": properties}, formats=STRICT_UUIDS)


def require_valid(pairs: Pairs, agreed: Agreed) -> None:
    """Refuse unknown keys and values of the wrong form.

    Raises:
        InvalidQuery: the first fault.
    """
    pairs.require(headroom_validator(agreed))
    pairs.require_single(("limit", "marker"))


def parse_headroom(pairs: Pairs, agreed: Agreed, flavors: Flavors | None = None) -> HeadroomQuery:
    """The request and the page that valid *pairs* without a mix describe.

    Raises:
        InvalidQuery: the first fault.
        UnknownFlavor
    """
    request = parse_candidate_request(Pairs([pair for pair in pairs if pair[0] not in HEADROOM_KEYS]), agreed, flavors)
    # Here, `limit` counts the trees of a page, not candidates.
    return HeadroomQuery(replace(request, limit=None), Page(request.limit, candidates.marker_of(pairs)))


# The query of GET ``/advice``: a candidate query, how often it must fit, and what new places must be like.
#
# Source: "GET /advice", docs/stead-api.md.


_FLAG = {"type": "string", "enum": ["true", "false"]}

ADVICE_KEYS: dict[str, tuple[Step, dict[str, Any]]] = {
    "make_room_for": (S.PROVIDER_TREES, {"type": "string", "pattern": "^[1-9][0-9]*$", "format": ONE_LINE}),
    "same_traits": (S.PROVIDER_TREES, _FLAG),
    "same_aggregates": (S.PROVIDER_TREES, _FLAG),
}
"""Keys beyond those of a candidate query, each with its first version and the schema of its last value."""

IMPROVEMENT_KEYS: dict[str, tuple[Step, dict[str, Any]]] = {
    "improve": (S.HEADROOM_ORDER, {"type": "string", "enum": ["mix"]}),
    "moves": (S.HEADROOM_ORDER, ADVICE_KEYS["make_room_for"][1]),
}
"""Keys that replace the request and ``make_room_for``, likewise."""

MOST = 1_000
"""Maximum of ``make_room_for`` and of ``moves``."""


@dataclass(frozen=True, slots=True)
class AdviceQuery:
    """A request that must fit ``number`` times; see `stead.candidates.draining.ConsumerHoldings` for the rest.

    The order of the request is that of new places.
    """

    request: CandidateRequest
    number: int
    same_traits: bool
    same_aggregates: bool


class ImprovementQuery(NamedTuple):
    """Up to ``number`` moves that raise the value of the site for its mix; likewise."""

    number: int
    same_traits: bool
    same_aggregates: bool


_WITH_IMPROVE = (*IMPROVEMENT_KEYS, "same_traits", "same_aggregates")


def parse_improvement(pairs: Pairs, agreed: Agreed) -> ImprovementQuery | None:
    """The query with ``improve``; None if this is the query of other advice.

    Raises:
        InvalidQuery: the first fault.
    """
    if not (agreed.knows(S.HEADROOM_ORDER) and pairs.all("improve")):
        return None
    pairs.require(advice_validator(agreed))
    pairs.require_single(_WITH_IMPROVE)
    for key, _ in pairs:
        if key not in _WITH_IMPROVE:
            raise InvalidQuery(f"improve and {key} cannot be used together.", BAD_VALUE)
    if not pairs.all("moves"):
        raise InvalidQuery("improve requires moves.", BAD_VALUE)
    number = whole_number(pairs.all("moves")[0])
    if number is None or number > MOST:
        raise InvalidQuery(f"moves is at most {MOST}.", BAD_VALUE)
    return ImprovementQuery(number, pairs.last("same_traits") == "true", pairs.last("same_aggregates") == "true")


@cache
def advice_validator(agreed: Agreed) -> Validator:
    """Validates the keys of these versions, and refuses others."""
    schema = candidates.validator(agreed).schema
    properties = {
        **schema["properties"],
        **{key: value for key, (since, value) in {**ADVICE_KEYS, **IMPROVEMENT_KEYS}.items() if agreed.knows(since)},
    }
    required = {} if agreed.knows(S.HEADROOM_ORDER) else {"required": ["make_room_for"]}
    return Validator({**schema, "properties": properties, **required})


def parse_advice(pairs: Pairs, agreed: Agreed, flavors: Flavors) -> AdviceQuery:
    """The request, and how often it must fit.

    Raises:
        InvalidQuery: the first fault.
        UnknownFlavor
    """
    pairs.require(advice_validator(agreed))
    pairs.require_single(ADVICE_KEYS)
    if not pairs.all("make_room_for"):
        raise InvalidQuery(f"{INVALID} 'make_room_for' is a required property")
    if pairs.all("moves"):
        raise InvalidQuery("moves requires improve=mix.", BAD_VALUE)
    request = parse_candidate_request(Pairs([pair for pair in pairs if pair[0] not in ADVICE_KEYS]), agreed, flavors)
    number = whole_number(pairs.all("make_room_for")[0])
    if number is None or number > MOST:
        raise InvalidQuery(f"make_room_for is at most {MOST}.", BAD_VALUE)
    if not agreed.knows(S.HEADROOM_ORDER):
        request = replace(request, order=None)
    return AdviceQuery(request, number, pairs.last("same_traits") == "true", pairs.last("same_aggregates") == "true")
