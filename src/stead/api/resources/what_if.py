"""``/whatif``: the answers to questions as if planned changes were made."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import orjson

from stead.api import uuids
from stead.api.bodies import STORABLE, Body, Schema, mapping, read_body, strict_object
from stead.api.errors import Answer, Refused, Rows, answering
from stead.api.gates import allowed, json_body
from stead.api.query.candidates import request_of
from stead.api.representations import answer
from stead.api.resources import explanations
from stead.api.resources.allocation_candidates import CUT, UNKNOWN_CLASSES, finder, form_of
from stead.api.resources.headroom import HEADROOM, show_headroom
from stead.api.resources.moves import AMOUNTS, MOVE, show_amounts, show_move
from stead.api.shapes import INVENTORY_FIELDS, TOTAL, UUID
from stead.api.versions import S, V, Versioned
from stead.candidates.headroom.ordering import page_of
from stead.candidates.tree_totals import site_totals
from stead.domain.errors import InvalidQuery
from stead.domain.names import RESOURCE_CLASS_NAME
from stead.domain.pages import Page
from stead.domain.provider import BY_NAME
from stead.domain.what_if import BadChange, Copies, DeleteAggregate, Disable, Drain, SetInventory, SetTrait
from stead.service.what_if import Bounds, TooManyConsumers, TooManyProviders

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from stead.api.limits import Limits
    from stead.api.query.flavors import Flavors
    from stead.api.request import Request, Response
    from stead.candidates.draining import Stuck
    from stead.catalog.snapshot import Snapshot
    from stead.domain.request import CandidateRequest
    from stead.domain.what_if import Planned
    from stead.service.service import Service
    from stead.service.what_if import WhatIf

Json = dict[str, Any]

MOST_CHANGES = 1_000
"""Maximum number of changes in one request."""

MOST_CANDIDATES = 1_000
"""Maximum number of candidates in one answer, and of trees of a headroom."""

_NUMBER: Schema = {"type": "integer"}
_TEXT: Schema = {"type": "string", "minLength": 1, "maxLength": 300, "format": STORABLE}
_QUERY: Schema = {"type": "string", "minLength": 1}
_FLAG: Schema = {"type": "boolean"}
_INVENTORY = {name: field for name, field in {**TOTAL, **INVENTORY_FIELDS}.items() if not name.endswith("generation")}

FIELDS: Mapping[str, tuple[frozenset[str], frozenset[str]]] = {
    "drain": (frozenset({"provider"}), frozenset({"same_traits", "same_aggregates"})),
    "disable": (frozenset({"provider"}), frozenset()),
    "copy": (frozenset({"provider", "count"}), frozenset()),
    "set_inventory": (frozenset({"provider", "resource_class"}), frozenset(_INVENTORY)),
    "remove_inventory": (frozenset({"provider", "resource_class"}), frozenset()),
    "add_trait": (frozenset({"provider", "trait"}), frozenset()),
    "remove_trait": (frozenset({"provider", "trait"}), frozenset()),
    "delete_aggregate": (frozenset({"aggregate"}), frozenset()),
}
"""The required and the optional fields of each kind of change."""

CHANGE: Schema = strict_object(
    {"change": {"type": "string", "enum": list(FIELDS)}},
    {
        "provider": _TEXT,
        "resource_class": _TEXT,
        "trait": _TEXT,
        "aggregate": UUID,
        "count": {"type": "integer", "minimum": 1},
        "same_traits": _FLAG,
        "same_aggregates": _FLAG,
        **_INVENTORY,
    },
)
ASK = strict_object({}, {"candidates": _QUERY, "explain": _QUERY, "headroom": _QUERY, "totals": _FLAG})
STUCK = strict_object(
    {"consumer_uuid": UUID, "from": AMOUNTS, "gave_up": _FLAG}, {"explanation": explanations.EXPLANATION}
)
TOTALS = mapping(RESOURCE_CLASS_NAME, strict_object(dict.fromkeys(("total", "reserved", "capacity", "used"), _NUMBER)))
WHAT_IF = strict_object(
    {
        "moves": {"type": "array", "items": MOVE},
        "without_place": {"type": "array", "items": STUCK},
        "generation": {"type": ["string", "null"]},
    },
    {
        "candidates": {"type": "object"},
        "explanation": explanations.EXPLANATION,
        "headroom": HEADROOM,
        "totals": TOTALS,
    },
)
"""The schema of an answer. Source: "POST /whatif", docs/api.md."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """The body: the changes, and the questions."""

    changes: Sequence[Json]
    ask: Json

    @classmethod
    def build(cls, body: Json) -> Wanted:
        """Build it from a valid body."""
        return cls(body["changes"], body.get("ask", {}))


BODY = Versioned(
    {
        V.INITIAL: Body(
            strict_object({"changes": {"type": "array", "items": CHANGE}}, {"ask": ASK}), Wanted.build, placed=True
        )
    }
)

TOO_MUCH: Rows = {TooManyProviders: Answer(413), TooManyConsumers: Answer(413)}


class WhatIfs:
    """`/whatif`: questions about a site as if planned changes were made. It writes nothing. Requires `stead` 1.1."""

    stead_since = S.PROVIDER_TREES

    def __init__(self, service: Service, limits: Limits) -> None:
        self._service = service
        self._limits = limits

    @json_body
    @allowed("stead:whatif:show")
    @answering({**UNKNOWN_CLASSES, **TOO_MUCH})
    def on_post(self, req: Request, resp: Response) -> None:
        """Show what planned changes would lead to."""
        asked = read_body(req, BODY)
        if len(asked.changes) > MOST_CHANGES:
            raise Refused(413, f"The request has {len(asked.changes)} changes; at most {MOST_CHANGES} are accepted.")
        changes = [_planned(number, record) for number, record in enumerate(asked.changes)]
        find = finder(self._service)
        # Parsed before the changes are applied, so that a fault in a query costs no work.
        requests = {name: self._request(req, find, name, asked.ask[name]) for name in _QUERIES if name in asked.ask}
        bounds = Bounds(self._limits.tree_providers, self._limits.claims)
        outcome, token = self._service.what_if(changes, bounds)
        shown, is_cut = self._answers(req, outcome.snapshot, requests, token)
        if asked.ask.get("totals"):
            shown["totals"] = _totals(outcome.snapshot)
        explained = [explanations.shown(outcome.snapshot, why) for why in outcome.explanations]
        stuck = [_stuck(outcome, consumer) for consumer in outcome.stuck]
        for consumer, why in zip(stuck, explained, strict=False):
            consumer["explanation"] = why
        moves = [show_move(outcome.snapshot, outcome.allocations, move) for move in outcome.moves]
        body = {"moves": moves, "without_place": stuck, **shown, "generation": token}
        answer(req, resp, body, modified=None)
        if is_cut or not outcome.is_complete:
            resp.set_header(*CUT)

    def _request(self, req: Request, flavors: Flavors, name: str, query: str) -> CandidateRequest:
        self._limits.require_claims((), [query])
        try:
            request = request_of(query, req.agreed, flavors)
        except InvalidQuery as error:
            raise InvalidQuery(f"ask.{name}: {error}", error.code) from error
        self._limits.require_groups(request.groups)
        return request

    def _answers(
        self, req: Request, snapshot: Snapshot, requests: Mapping[str, CandidateRequest], token: str | None
    ) -> tuple[Json, bool]:
        """The answers to the queries, and whether one of them was cut."""
        shown, is_cut = Json(), False
        for name, request in requests.items():
            if name == "explain":
                shown["explanation"] = explanations.shown(snapshot, self._service.explain_in(snapshot, request))
                continue
            most = min(request.limit or MOST_CANDIDATES, MOST_CANDIDATES)
            if name == "candidates":
                limited = replace(request, limit=most)
                candidates = self._service.candidates_in(snapshot, limited, form_of(req.version))
                # The engine writes text, and here it becomes a part of another document.
                shown["candidates"] = orjson.loads(b"".join(candidates.body))
                is_cut |= candidates.is_cut
            else:
                headroom, why = self._service.headroom_in(snapshot, replace(request, limit=None))
                page = page_of(snapshot, headroom.roots, request, Page(most, None))
                places = page[0] if page else []
                shown["headroom"] = show_headroom(snapshot, headroom, places, token)
                if why is not None:
                    shown["headroom"]["explanation"] = explanations.shown(snapshot, why)
                is_cut |= not headroom.is_complete
        return shown, is_cut


_QUERIES = ("candidates", "explain", "headroom")


def _planned(number: int, record: Json) -> Planned:
    """The change of a valid record.

    Raises:
        BadChange: a field is missing, or does not belong to this kind of change.
    """
    kind = record["change"]
    required, optional = FIELDS[kind]
    given = record.keys() - {"change"}
    for field in sorted(required - given):
        raise BadChange(number, field, f"{kind} requires it")
    for field in sorted(given - required - optional):
        raise BadChange(number, field, f"{kind} does not accept it")
    return _BUILDERS[kind]({**record, **_normalised(record)})


def _normalised(record: Json) -> Json:
    """The uuids of a record in the form in which they are stored."""
    normalised = Json()
    provider = record.get("provider")
    if provider is not None and not provider.startswith(BY_NAME) and uuids.is_like(provider):
        normalised["provider"] = uuids.normalised(provider)
    if "aggregate" in record:
        normalised["aggregate"] = uuids.normalised(record["aggregate"])
    return normalised


def _fields(record: Json) -> dict[str, int | float]:
    whole = {name: int(record[name]) for name in _INVENTORY if name in record and name != "allocation_ratio"}
    ratio = {"allocation_ratio": float(record["allocation_ratio"])} if "allocation_ratio" in record else {}
    return {**whole, **ratio}


_BUILDERS: dict[str, Callable[[Json], Planned]] = {
    "drain": lambda record: Drain(
        record["provider"], record.get("same_traits", False), record.get("same_aggregates", False)
    ),
    "disable": lambda record: Disable(record["provider"]),
    "copy": lambda record: Copies(record["provider"], int(record["count"])),
    "set_inventory": lambda record: SetInventory(record["provider"], record["resource_class"], _fields(record)),
    "remove_inventory": lambda record: SetInventory(record["provider"], record["resource_class"], None),
    "add_trait": lambda record: SetTrait(record["provider"], record["trait"], has=True),
    "remove_trait": lambda record: SetTrait(record["provider"], record["trait"], has=False),
    "delete_aggregate": lambda record: DeleteAggregate(record["aggregate"]),
}


def _stuck(outcome: WhatIf, stuck: Stuck) -> Json:
    consumer = stuck.tenant.consumer
    return {
        "consumer_uuid": consumer,
        "from": show_amounts(outcome.allocations[consumer].amounts()),
        "gave_up": stuck.gave_up,
    }


def _totals(snapshot: Snapshot) -> Json:
    """The sums over all providers, by class."""
    return {
        totals.name: {
            "total": sum(totals.total),
            "reserved": sum(totals.reserved),
            "capacity": sum(totals.capacity),
            "used": sum(totals.used),
        }
        for totals in site_totals(snapshot)
    }
