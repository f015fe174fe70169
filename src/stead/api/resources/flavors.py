"""``/flavors`` and ``/flavors/{name}``: candidate queries by name; ``/mix``: the requests that the site is to serve."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, get_args

from stead.api.answers import answer, answer_nothing, answering, locate
from stead.api.bodies import LINKS, ONE_LINE, Body, Schema, Validator, read_body, strict_object
from stead.api.query import candidates
from stead.api.query.candidates import Pairs, parse_candidate_request, request_of, whole_number
from stead.api.request import MalformedBody, allowed, json_answer, json_body, require_groups
from stead.api.resources.headroom import LIMIT, show_limit
from stead.api.versions import S, V, Versioned
from stead.domain.errors import FlavorNotFound, InvalidQuery
from stead.domain.request import FLAVOR_NAME, FLAVOR_NAME_LENGTH, FLAVOR_QUERY_LENGTH, Flavor
from stead.service.mix import Source
from stead.store.extensions import flavors

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stead.api.request import Request, Response
    from stead.api.versions import Agreed, Step
    from stead.domain.limits import RequestLimits
    from stead.domain.request import CandidateRequest
    from stead.service.flavors import Found
    from stead.service.service import Service


Json = dict[str, Any]

MOST = 1_000
"""Maximum number of flavors in one page."""

DESCRIPTION_LENGTH = 255

HEAVIEST = 1_000_000_000
"""Maximum weight. A larger one would leave no significant digits to the others."""

KEYS: dict[str, tuple[Step, dict[str, Any]]] = {
    "headroom": (S.PROVIDER_TREES, {"type": "string", "enum": ["true", "false"]}),
    "limit": (S.PROVIDER_TREES, candidates.PAGE_KEYS["limit"][1]),
    "marker": (S.PROVIDER_TREES, candidates.NAME),
}
"""Each key with its first version and the schema of its value."""

_NUMBER: Schema = {"type": "integer"}
_TEXT: Schema = {"type": "string"}
HEADROOM: Schema = {
    "anyOf": [
        strict_object(
            {
                "at_least": _NUMBER,
                "at_most": _NUMBER,
                "exact": {"type": "boolean"},
                "complete": {"type": "boolean"},
                "limited_by": {"type": "array", "items": LIMIT},
            }
        ),
        strict_object({"error": _TEXT}),
    ]
}
_FLAVOR = {"name": _TEXT, "query": _TEXT, "description": _TEXT}
_WEIGHT: Schema = {"type": ["number", "null"], "minimum": 0, "maximum": HEAVIEST}
_SINCE_WEIGHTS = {"weight": {"type": ["number", "null"]}}
FLAVOR = strict_object(_FLAVOR, _SINCE_WEIGHTS)
FLAVORS = strict_object(
    {
        "flavors": {"type": "array", "items": strict_object(_FLAVOR, {"headroom": HEADROOM, **_SINCE_WEIGHTS})},
        "links": LINKS,
    },
    {"generation": {"type": ["string", "null"]}},
)


@dataclass(frozen=True, slots=True)
class NewFlavor:
    """The query and the description of a flavor; its weight, if the body *says_weight*."""

    query: str
    description: str
    weight: float | None
    says_weight: bool

    @classmethod
    def build(cls, body: Json) -> NewFlavor:
        """Build it from the body of a PUT."""
        return cls(body["query"], body.get("description", ""), body.get("weight"), "weight" in body)


_QUERY: Schema = {
    "type": "string",
    "minLength": 1,
    "maxLength": FLAVOR_QUERY_LENGTH,
    "pattern": "^[\\x21-\\x7e]*$",
    "format": ONE_LINE,
}
_DESCRIPTION: Schema = {
    "type": "string",
    "maxLength": DESCRIPTION_LENGTH,
    "pattern": "^[^\\x00-\\x1f\\x7f]*$",
    "format": ONE_LINE,
}
REPLACE = Versioned({V.INITIAL: Body(strict_object({"query": _QUERY}, {"description": _DESCRIPTION}), NewFlavor.build)})
REPLACE_WITH_WEIGHT = Versioned(
    {
        V.INITIAL: Body(
            strict_object({"query": _QUERY}, {"description": _DESCRIPTION, "weight": _WEIGHT}), NewFlavor.build
        )
    }
)

_NAME = Validator({"type": "object", "properties": {"name": candidates.NAME}})


@cache
def validator(agreed: Agreed) -> Validator:
    """Validates the keys of these versions, and refuses others."""
    properties = {key: schema for key, (since, schema) in KEYS.items() if agreed.knows(since)}
    return Validator({"type": "object", "additionalProperties": False, "properties": properties})


def show(flavor: Flavor, agreed: Agreed) -> Json:
    """The body of one flavor."""
    shown = {"name": flavor.name, "query": flavor.query, "description": flavor.description}
    return {**shown, "weight": flavor.weight} if agreed.knows(S.HEADROOM_ORDER) else shown


class Flavors:
    """`/flavors`: stored candidate queries, in pages. Requires `stead` 1.1."""

    stead_since = S.PROVIDER_TREES

    def __init__(self, service: Service) -> None:
        self._service = service

    @json_answer
    @allowed("stead:flavors:list")
    def on_get(self, req: Request, resp: Response) -> None:
        """List flavors, with how many times each fits."""
        pairs = Pairs.of(req)
        pairs.require(validator(req.agreed))
        pairs.require_single(KEYS)
        limit = pairs.last("limit")
        number = min((limit and whole_number(limit)) or MOST, MOST)
        # One more than shown tells whether another page follows.
        page = self._service.read(flavors.page_of, pairs.last("marker"), number + 1)
        shown = [show(flavor, req.agreed) for flavor in page[:number]]
        goes_on = len(page) > number
        body: Json = {}
        if pairs.last("headroom") == "true":
            body["generation"], fresh = self._with_headroom(page[:number], req.agreed)
            # The next page continues where the work of this request ended.
            goes_on |= len(fresh) < len(shown)
            shown = [each | {"headroom": headroom} for each, headroom in zip(shown, fresh, strict=False)]
        links = candidates.links(req, pairs, shown[-1]["name"] if goes_on else None)
        answer(req, resp, {"flavors": shown, "links": links, **body})

    def _with_headroom(self, page: list[Flavor], agreed: Agreed) -> tuple[str | None, list[Json]]:
        """The token of the moment, and the headroom of the first flavors, until the work of one request is spent."""
        faults: dict[str, Json] = {}
        requests: dict[str, CandidateRequest] = {}
        for flavor in page:
            try:
                request = request_of(flavor.query, agreed)
            except InvalidQuery as error:
                faults[flavor.name] = {"error": str(error)}
            else:
                requests[flavor.name] = request
        token, headrooms = self._service.headrooms(requests)
        shown: list[Json] = []
        for flavor in page:
            headroom = faults.get(flavor.name) or _shown(headrooms, flavor.name)
            if headroom is None:
                break
            shown.append(headroom)
        return token, shown


def _shown(headrooms: Mapping[str, Found], name: str) -> Json | None:
    headroom = headrooms.get(name)
    if headroom is None or isinstance(headroom, str):
        return None if headroom is None else {"error": headroom}
    return {
        "at_least": headroom.at_least,
        "at_most": headroom.at_most,
        "exact": headroom.is_exact,
        "complete": headroom.is_complete,
        "limited_by": [show_limit(limit) for limit in headroom.limited_by],
    }


class OneFlavor:
    """`/flavors/{name}`: one stored candidate query. Requires `stead` 1.1."""

    stead_since = S.PROVIDER_TREES

    def __init__(self, service: Service, limits: RequestLimits) -> None:
        self._service = service
        self._limits = limits

    @json_answer
    @allowed("stead:flavors:show")
    def on_get(self, req: Request, resp: Response, name: str) -> None:
        """Show a flavor."""
        flavor = self._service.read(flavors.find, name)
        if flavor is None:
            raise FlavorNotFound(name)
        answer(req, resp, show(flavor, req.agreed))

    @json_body
    @allowed("stead:flavors:update")
    @answering({})
    def on_put(self, req: Request, resp: Response, name: str) -> None:
        """Create or replace a flavor."""
        replacement = read_body(req, REPLACE_WITH_WEIGHT if req.agreed.knows(S.HEADROOM_ORDER) else REPLACE)
        if fault := _NAME.first_fault({"name": name}):
            raise MalformedBody(
                f"The name of the flavor is invalid: {fault} (it must match {FLAVOR_NAME}, "
                f"with at most {FLAVOR_NAME_LENGTH} characters)"
            )
        pairs = Pairs.read(replacement.query)
        candidates.require_storable(pairs)
        require_groups(self._limits, parse_candidate_request(pairs, req.agreed).groups)
        flavor = Flavor(name, replacement.query, replacement.description, replacement.weight)
        # Commands and clients that know no weights keep those that exist.
        stored, is_new = self._service.write(flavors.put, flavor, keeps_weight=not replacement.says_weight)
        self._service.forget_mix()
        answer(req, resp, show(stored, req.agreed), status=201 if is_new else 200)
        locate(req, resp, f"/flavors/{name}")

    @allowed("stead:flavors:delete")
    def on_delete(self, _req: Request, resp: Response, name: str) -> None:
        """Delete a flavor."""
        self._service.write(flavors.delete, name)
        self._service.forget_mix()
        answer_nothing(resp)


# ``/mix``: the requests that the site is to serve, which the order ``headroom`` leaves room for.


_FORM = strict_object(
    {"query": {"type": "string"}, "flavor": {"type": ["string", "null"]}, "share": {"type": "number"}}
)
MIX: Schema = strict_object(
    {
        "source": {"type": "string", "enum": list(get_args(Source))},
        "forms": {"type": "array", "items": _FORM},
    }
)

NO_KEYS = Validator({"type": "object", "additionalProperties": False, "properties": {}})
"""Validates that a query has no keys."""


class Mix:
    """`/mix`: the present mix, and the counts that it is learned from. Requires `stead` 1.2."""

    stead_since = S.HEADROOM_ORDER

    def __init__(self, service: Service) -> None:
        self._service = service

    @json_answer
    @allowed("stead:mix:show")
    def on_get(self, req: Request, resp: Response) -> None:
        """Show the mix that the order headroom leaves room for."""
        Pairs.of(req).require(NO_KEYS)
        source, parts = self._service.parts_of_mix()
        answer(req, resp, {"mix": {"source": source, "forms": [part._asdict() for part in parts]}})

    @allowed("stead:mix:delete")
    def on_delete(self, _req: Request, resp: Response) -> None:
        """Delete the counts that the mix is learned from."""
        self._service.forget_learned()
        answer_nothing(resp)
