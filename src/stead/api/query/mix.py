"""``mix=NAME:WEIGHT,…`` of GET ``/headroom``: several flavors, and how many times one mix contains each.

Source: "GET /headroom", docs/api.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stead.api.query.candidates import parse_candidate_request
from stead.api.query.pairs import Pairs
from stead.api.query.values import BAD_VALUE
from stead.api.versions import S
from stead.candidates.mixing import Part
from stead.domain.errors import InvalidQuery

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stead.api.query.flavors import Flavors
    from stead.api.versions import Agreed, Step

MOST_CLAIMS = 100
"""Maximum sum of the weights of a mix."""

KEYS: dict[str, tuple[Step, dict[str, Any]]] = {"mix": (S.PROVIDER_TREES, {"type": "string"})}
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
