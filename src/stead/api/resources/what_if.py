"""``/whatif`` and ``/advice``: answers as if planned changes were made, and moves that make room."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import orjson

from stead.api.answers import Answer, Rows, answer, answering
from stead.api.bodies import INVENTORY_FIELDS, STORABLE, TOTAL, UUID, Body, Schema, mapping, read_body, strict_object
from stead.api.query.candidates import INVALID, Pairs, finder, parse_order, request_of
from stead.api.query.headroom import parse_advice, parse_improvement
from stead.api.request import (
    Refused,
    allowed,
    is_like,
    json_answer,
    json_body,
    normalised_uuid,
    require_claims,
    require_groups,
)
from stead.api.resources import allocation_candidates
from stead.api.resources.allocation_candidates import CUT, UNKNOWN_CLASSES, form_of
from stead.api.resources.headroom import HEADROOM, show_headroom
from stead.api.versions import S, V, Versioned
from stead.candidates.headroom.headroom import page_of
from stead.candidates.provider_trees import site_totals
from stead.domain.errors import InvalidQuery
from stead.domain.names import RESOURCE_CLASS_NAME
from stead.domain.provider import BY_NAME
from stead.domain.request import Page
from stead.domain.what_if import BadChange, Copies, DeleteAggregate, Disable, Drain, SetInventory, SetTrait
from stead.service.what_if import Bounds, TooManyConsumers, TooManyProviders
from stead.store.usages import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from stead.api.query.candidates import Flavors
    from stead.api.query.headroom import ImprovementQuery
    from stead.api.request import Request, Response
    from stead.api.versions import Agreed
    from stead.candidates.draining import Move, UnplacedConsumer
    from stead.candidates.headroom.headroom import Headroom
    from stead.candidates.placing import Amounts
    from stead.catalog.snapshot import Snapshot
    from stead.domain.limits import RequestLimits
    from stead.domain.request import CandidateRequest
    from stead.domain.what_if import Planned
    from stead.service.service import Service
    from stead.service.what_if import WhatIf
    from stead.store.consumer_listing import HeldAllocations


# Moves of consumers as JSON. Each is a body of PUT ``/allocations/{consumer_uuid}``, and an entry of POST
# ``/claims``.
#
# Source: "POST /whatif", docs/stead-api.md.


Json = dict[str, Any]

AMOUNTS = mapping("^[0-9a-fA-F-]{36}$", strict_object({"resources": mapping(RESOURCE_CLASS_NAME, {"type": "integer"})}))
MOVE: Schema = strict_object(
    {
        "consumer_uuid": UUID,
        "consumer_generation": {"type": ["integer", "null"]},
        "project_id": {"type": "string"},
        "user_id": {"type": "string"},
        "consumer_type": {"type": "string"},
        "from": AMOUNTS,
        "allocations": AMOUNTS,
        "query": {"type": ["string", "null"]},
    }
)
"""The schema of a move."""


def show_move(snapshot: Snapshot, allocations: Mapping[str, HeldAllocations], move: Move) -> Json:
    """A move. *allocations* has the present allocations by consumer."""
    present, names = allocations[move.holdings.consumer], snapshot.class_names.by_id
    new = {
        snapshot.uuid(slot): {names[id_].name: n for id_, n in by_class.items()}
        for slot, by_class in move.amounts.items()
    }
    return {
        "consumer_uuid": move.holdings.consumer,
        "consumer_generation": present.generation,
        "project_id": present.project,
        "user_id": present.user,
        "consumer_type": present.consumer_type or UNKNOWN,
        "from": show_amounts(present.amounts()),
        "allocations": show_amounts(new),
        "query": _query(snapshot, move.amounts),
    }


def show_amounts(amounts: Mapping[str, Mapping[str, int]]) -> Json:
    """Amounts by provider uuid and class name, as in an allocation request."""
    return {uuid: {"resources": dict(resources)} for uuid, resources in amounts.items()}


def _query(snapshot: Snapshot, amounts: Amounts) -> str | None:
    """A candidate query for exactly these allocations: a group for each provider. None if no such query exists."""
    forest, sharing = snapshot.forest, snapshot.sharing.mask
    # A candidate is under one anchor, so it cannot use two trees.
    if len({forest.root[slot] for slot in amounts if not sharing[slot]}) > 1:
        return None
    pairs = []
    for number, (slot, by_class) in enumerate(sorted(amounts.items()), 1):
        # `in_subtree` also admits the providers below, and the query must have no other candidate.
        if any(_can_give(snapshot, other, by_class) for other in forest.subtree(slot)[1:]):
            return None
        resources = ",".join(f"{snapshot.class_names.by_id[class_id].name}:{n}" for class_id, n in by_class.items())
        pairs += [(f"resources{number}", resources), (f"in_subtree{number}", snapshot.uuid(slot))]
    if len(amounts) > 1:
        pairs.append(("group_policy", "none"))
    return urlencode(pairs, safe=":,")


def _can_give(snapshot: Snapshot, slot: int, classes: Mapping[int, int]) -> bool:
    return all(snapshot.inventory[class_id].kind[slot] > 0 for class_id in classes)


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
    "drain": (frozenset({"provider"}), frozenset({"same_traits", "same_aggregates", "order_by"})),
    "disable": (frozenset({"provider"}), frozenset()),
    "copy": (frozenset({"provider", "count"}), frozenset()),
    "set_inventory": (frozenset({"provider", "resource_class"}), frozenset(_INVENTORY)),
    "remove_inventory": (frozenset({"provider", "resource_class"}), frozenset()),
    "add_trait": (frozenset({"provider", "trait"}), frozenset()),
    "remove_trait": (frozenset({"provider", "trait"}), frozenset()),
    "delete_aggregate": (frozenset({"aggregate"}), frozenset()),
}
"""The required and the optional fields of each kind of change."""

_KIND: dict[str, Schema] = {"change": {"type": "string", "enum": list(FIELDS)}}
_OF_CHANGES: dict[str, Schema] = {
    "provider": _TEXT,
    "resource_class": _TEXT,
    "trait": _TEXT,
    "aggregate": UUID,
    "count": {"type": "integer", "minimum": 1},
    "same_traits": _FLAG,
    "same_aggregates": _FLAG,
    **_INVENTORY,
}
ASK = strict_object({}, {"candidates": _QUERY, "explain": _QUERY, "headroom": _QUERY, "totals": _FLAG})
STUCK = strict_object(
    {"consumer_uuid": UUID, "from": AMOUNTS, "gave_up": _FLAG}, {"explanation": allocation_candidates.EXPLANATION}
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
        "explanation": allocation_candidates.EXPLANATION,
        "headroom": HEADROOM,
        "totals": TOTALS,
    },
)
"""The schema of an answer. Source: "POST /whatif", docs/stead-api.md."""


@dataclass(frozen=True, slots=True)
class WhatIfBody:
    """The body: the changes, and the questions."""

    changes: Sequence[Json]
    ask: Json

    @classmethod
    def build(cls, body: Json) -> WhatIfBody:
        """Build it from a valid body."""
        return cls(body["changes"], body.get("ask", {}))


def _body(of_changes: Mapping[str, Schema]) -> Versioned[Body[WhatIfBody]]:
    changes = {"type": "array", "items": strict_object(_KIND, of_changes)}
    return Versioned(
        {V.INITIAL: Body(strict_object({"changes": changes}, {"ask": ASK}), WhatIfBody.build, placed=True)}
    )


BODY = _body(_OF_CHANGES)
BODY_WITH_ORDER = _body({**_OF_CHANGES, "order_by": _TEXT})

TOO_MUCH: Rows = {TooManyProviders: Answer(413), TooManyConsumers: Answer(413)}


class WhatIfs:
    """`/whatif`: questions about a site as if planned changes were made. It writes nothing. Requires `stead` 1.1."""

    stead_since = S.PROVIDER_TREES

    def __init__(self, service: Service, limits: RequestLimits) -> None:
        self._service = service
        self._limits = limits

    @json_body
    @allowed("stead:whatif:show")
    @answering({**UNKNOWN_CLASSES, **TOO_MUCH})
    def on_post(self, req: Request, resp: Response) -> None:
        """Show what planned changes would lead to."""
        asked = read_body(req, BODY_WITH_ORDER if req.agreed.knows(S.HEADROOM_ORDER) else BODY)
        if len(asked.changes) > MOST_CHANGES:
            raise Refused(413, f"The request has {len(asked.changes)} changes; at most {MOST_CHANGES} are accepted.")
        changes = [_planned(number, record, req.agreed) for number, record in enumerate(asked.changes)]
        find = finder(self._service)
        # Parsed before the changes are applied, so that a fault in a query costs no work.
        requests = {name: self._request(req, find, name, asked.ask[name]) for name in _QUERIES if name in asked.ask}
        bounds = Bounds(self._limits.tree_providers, self._limits.claims)
        outcome, token = self._service.what_if(changes, bounds)
        shown, is_cut = self._answers(req, outcome.snapshot, requests, token)
        if asked.ask.get("totals"):
            shown["totals"] = _totals(outcome.snapshot)
        explained = [allocation_candidates.shown(outcome.snapshot, why) for why in outcome.explanations]
        stuck = [_stuck(outcome, consumer) for consumer in outcome.stuck]
        for consumer, why in zip(stuck, explained, strict=False):
            consumer["explanation"] = why
        moves = [show_move(outcome.snapshot, outcome.allocations, move) for move in outcome.moves]
        body = {"moves": moves, "without_place": stuck, **shown, "generation": token}
        answer(req, resp, body, modified=None)
        if is_cut or not outcome.is_complete:
            resp.set_header(*CUT)

    def _request(self, req: Request, flavors: Flavors, name: str, query: str) -> CandidateRequest:
        require_claims(self._limits, (), [query])
        try:
            request = request_of(query, req.agreed, flavors)
        except InvalidQuery as error:
            raise InvalidQuery(f"ask.{name}: {error}", error.code) from error
        require_groups(self._limits, request.groups)
        return request

    def _answers(
        self, req: Request, snapshot: Snapshot, requests: Mapping[str, CandidateRequest], token: str | None
    ) -> tuple[Json, bool]:
        """The answers to the queries, and whether one of them was cut."""
        shown, is_cut = Json(), False
        for name, request in requests.items():
            if name == "explain":
                shown["explanation"] = allocation_candidates.shown(
                    snapshot, self._service.explain_in(snapshot, request)
                )
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
                page = page_of(snapshot, headroom.roots, request, Page(most, None), self._service.losses)
                places = page[0] if page else []
                shown["headroom"] = show_headroom(snapshot, headroom, places, token)
                if why is not None:
                    shown["headroom"]["explanation"] = allocation_candidates.shown(snapshot, why)
                is_cut |= not headroom.is_complete
        return shown, is_cut


_QUERIES = ("candidates", "explain", "headroom")


def _planned(number: int, record: Json, agreed: Agreed) -> Planned:
    """The change of a valid record.

    Raises:
        BadChange: a field is missing, or does not belong to this kind of change; or its order is malformed.
    """
    kind = record["change"]
    required, optional = FIELDS[kind]
    given = record.keys() - {"change"}
    for field in sorted(required - given):
        raise BadChange(number, field, f"{kind} requires it")
    for field in sorted(given - required - optional):
        raise BadChange(number, field, f"{kind} does not accept it")
    planned = _BUILDERS[kind]({**record, **_normalised(record)})
    if not isinstance(planned, Drain):
        return planned
    try:
        return replace(planned, order=parse_order(record.get("order_by"), agreed))
    except InvalidQuery as error:
        raise BadChange(number, "order_by", str(error).removeprefix(f"{INVALID} ")) from error


def _normalised(record: Json) -> Json:
    """The uuids of a record in the form in which they are stored."""
    normalised = Json()
    provider = record.get("provider")
    if provider is not None and not provider.startswith(BY_NAME) and is_like(provider):
        normalised["provider"] = normalised_uuid(provider)
    if "aggregate" in record:
        normalised["aggregate"] = normalised_uuid(record["aggregate"])
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


def _stuck(outcome: WhatIf, stuck: UnplacedConsumer) -> Json:
    consumer = stuck.holdings.consumer
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


# ``/advice``: which consumers to move, and where, so that a request fits more often.


IMPOSSIBLE, NOT_FOUND = "impossible", "not_found"
"""Why there is no plan: it is proved that none exists, or the search found none."""

_BOUNDS = strict_object({"at_least": _NUMBER, "at_most": _NUMBER, "exact": {"type": "boolean"}})
ADVICE = strict_object(
    {
        "make_room_for": _NUMBER,
        "moves": {"anyOf": [{"type": "array", "items": MOVE}, {"type": "null"}]},
        "fewest_moves": strict_object(
            {
                "at_least": {"type": ["integer", "null"]},
                "at_most": {"type": ["integer", "null"]},
                "exact": {"type": "boolean"},
            }
        ),
        "before": _BOUNDS,
        "after": {"anyOf": [_BOUNDS, {"type": "null"}]},
        "reason": {"enum": [None, IMPOSSIBLE, NOT_FOUND]},
        "generation": {"type": ["string", "null"]},
    }
)
"""The schema of an advice. Source: "GET /advice", docs/stead-api.md."""

NO_MIX = "no_mix"
"""Why there is no plan: without flavors, no place is better than another."""

_VALUE = strict_object({"value": {"type": "number"}})
_GAINING_MOVE = strict_object({**MOVE["properties"], "gain": {"type": "number"}})
IMPROVEMENT = strict_object(
    {
        "improve": {"const": "mix"},
        "moves": {"anyOf": [{"type": "array", "items": _GAINING_MOVE}, {"type": "null"}]},
        "before": _VALUE,
        "after": _VALUE,
        "reason": {"enum": [None, NO_MIX]},
        "generation": {"type": ["string", "null"]},
    }
)
"""The schema of an advice that improves the mix."""


class AdviceForRequest:
    """`/advice`: how to make room for a request. It changes nothing. Requires `stead` 1.1."""

    stead_since = S.PROVIDER_TREES

    def __init__(self, service: Service, limits: RequestLimits) -> None:
        self._service = service
        self._limits = limits

    @json_answer
    @allowed("stead:advice:show")
    @answering(UNKNOWN_CLASSES)
    def on_get(self, req: Request, resp: Response) -> None:
        """Show which consumers to move so that a request fits a number of times, or that the mix has the most room."""
        pairs = Pairs.of(req)
        improvement = parse_improvement(pairs, req.agreed)
        if improvement is not None:
            self._show_improvement(req, resp, improvement)
            return
        parsed = parse_advice(pairs, req.agreed, finder(self._service))
        require_groups(self._limits, parsed.request.groups)
        outcome, token = self._service.advice(
            parsed.request,
            parsed.number,
            same_traits=parsed.same_traits,
            same_aggregates=parsed.same_aggregates,
            most=self._limits.claims,
        )
        moves, at_least = outcome.advice.moves, outcome.advice.at_least
        shown = None if moves is None else [show_move(outcome.snapshot, outcome.allocations, move) for move in moves]
        at_most = None if moves is None else len(moves)
        body = {
            "make_room_for": parsed.number,
            "moves": shown,
            "fewest_moves": {"at_least": at_least, "at_most": at_most, "exact": at_least == at_most},
            "before": _bounds(outcome.before),
            "after": None if outcome.after is None else _bounds(outcome.after),
            "reason": None if moves is not None else IMPOSSIBLE if at_least is None else NOT_FOUND,
            "generation": token,
        }
        answer(req, resp, {"advice": body})
        if not outcome.is_complete:
            resp.set_header(*CUT)

    def _show_improvement(self, req: Request, resp: Response, query: ImprovementQuery) -> None:
        outcome, token = self._service.improvement(
            query.number,
            same_traits=query.same_traits,
            same_aggregates=query.same_aggregates,
            most=self._limits.claims,
        )
        found = outcome.improvement
        moves = None
        if found is not None:
            moves = [
                {**show_move(outcome.snapshot, outcome.allocations, move), "gain": round(gain, 6)}
                for move, gain in zip(found.moves, found.gains, strict=True)
            ]
        body = {
            "improve": "mix",
            "moves": moves,
            "before": {"value": round(outcome.before, 6)},
            "after": {"value": round(outcome.after, 6)},
            "reason": NO_MIX if found is None else None,
            "generation": token,
        }
        answer(req, resp, {"advice": body})
        if not outcome.is_complete:
            resp.set_header(*CUT)


def _bounds(headroom: Headroom) -> Json:
    return {"at_least": headroom.at_least, "at_most": headroom.at_most, "exact": headroom.is_exact}
