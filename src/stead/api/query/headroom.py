"""The query of GET ``/headroom``: a candidate query, and the page of its trees.

Source: "GET /headroom", docs/api.md.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any

from stead.api.bodies import STRICT_UUIDS, Validator
from stead.api.query import candidates, mix, pages
from stead.api.query.candidates import parse_candidate_request
from stead.api.query.pairs import Pairs
from stead.api.versions import S
from stead.domain.pages import Page

if TYPE_CHECKING:
    from stead.api.query.flavors import Flavors
    from stead.api.versions import Agreed, Step
    from stead.domain.request import CandidateRequest

KEYS: dict[str, tuple[Step, dict[str, Any]]] = {"marker": (S.PROVIDER_TREES, pages.KEYS["marker"][1]), **mix.KEYS}
"""Keys beyond those of a candidate query, each with its first version and the schema of its last value."""


@dataclass(frozen=True, slots=True)
class HeadroomWanted:
    """A request, whose order applies to the trees, and the page of trees to show."""

    request: CandidateRequest
    page: Page


@cache
def validator(agreed: Agreed) -> Validator:
    """Validates the keys of these versions, and refuses others."""
    schema = candidates.validator(agreed).schema
    properties = {**schema["properties"], **{key: value for key, (since, value) in KEYS.items() if agreed.knows(since)}}
    return Validator({**schema, "properties": properties}, formats=STRICT_UUIDS)


def require_valid(pairs: Pairs, agreed: Agreed) -> None:
    """Refuse unknown keys and values of the wrong form.

    Raises:
        InvalidQuery: the first fault.
    """
    pairs.require(validator(agreed))
    pairs.require_single(("limit", "marker"))


def parse_headroom(pairs: Pairs, agreed: Agreed, flavors: Flavors | None = None) -> HeadroomWanted:
    """The request and the page that valid *pairs* without a mix describe.

    Raises:
        InvalidQuery: the first fault.
        UnknownFlavor
    """
    request = parse_candidate_request(Pairs([pair for pair in pairs if pair[0] not in KEYS]), agreed, flavors)
    # Here, `limit` counts the trees of a page, not candidates.
    return HeadroomWanted(replace(request, limit=None), Page(request.limit, pages.marker_of(pairs)))
