"""The query of GET ``/advice``: a candidate query, how often it must fit, and what new places must be like.

Source: "GET /advice", docs/api.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from stead.api.bodies import ONE_LINE, Validator
from stead.api.query import candidates
from stead.api.query.candidates import parse_candidate_request
from stead.api.query.pairs import Pairs
from stead.api.query.values import BAD_VALUE, whole_number
from stead.api.versions import S
from stead.domain.errors import InvalidQuery

if TYPE_CHECKING:
    from stead.api.query.flavors import Flavors
    from stead.api.versions import Agreed, Step
    from stead.domain.request import CandidateRequest

_FLAG = {"type": "string", "enum": ["true", "false"]}

KEYS: dict[str, tuple[Step, dict[str, Any]]] = {
    "make_room_for": (S.PROVIDER_TREES, {"type": "string", "pattern": "^[1-9][0-9]*$", "format": ONE_LINE}),
    "same_traits": (S.PROVIDER_TREES, _FLAG),
    "same_aggregates": (S.PROVIDER_TREES, _FLAG),
}
"""Keys beyond those of a candidate query, each with its first version and the schema of its last value."""

MOST = 1_000
"""Maximum of ``make_room_for``."""


@dataclass(frozen=True, slots=True)
class AdviceWanted:
    """A request that must fit ``number`` times; see `stead.candidates.moving.Tenant` for the rest."""

    request: CandidateRequest
    number: int
    same_traits: bool
    same_aggregates: bool


@cache
def validator(agreed: Agreed) -> Validator:
    """Validates the keys of these versions, and refuses others."""
    schema = candidates.validator(agreed).schema
    properties = {**schema["properties"], **{key: value for key, (since, value) in KEYS.items() if agreed.knows(since)}}
    return Validator({**schema, "properties": properties, "required": ["make_room_for"]})


def parse_advice(pairs: Pairs, agreed: Agreed, flavors: Flavors) -> AdviceWanted:
    """The request, and how often it must fit.

    Raises:
        InvalidQuery: the first fault.
        UnknownFlavor
    """
    pairs.require(validator(agreed))
    pairs.require_single(KEYS)
    request = parse_candidate_request(Pairs([pair for pair in pairs if pair[0] not in KEYS]), agreed, flavors)
    number = whole_number(pairs.all("make_room_for")[0])
    if number is None or number > MOST:
        raise InvalidQuery(f"make_room_for is at most {MOST}.", BAD_VALUE)
    return AdviceWanted(request, number, pairs.last("same_traits") == "true", pairs.last("same_aggregates") == "true")
