"""``/advice``: which consumers to move, and where, so that a request fits more often."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stead.api.bodies import Schema, strict_object
from stead.api.errors import answering
from stead.api.gates import allowed, json_answer
from stead.api.query.advice import parse_advice
from stead.api.query.pairs import Pairs
from stead.api.representations import answer
from stead.api.resources.allocation_candidates import CUT, UNKNOWN_CLASSES, finder
from stead.api.resources.moves import MOVE, show_move
from stead.api.versions import S

if TYPE_CHECKING:
    from stead.api.limits import Limits
    from stead.api.request import Request, Response
    from stead.candidates.headroom.headroom import Headroom
    from stead.service.service import Service

Json = dict[str, Any]

IMPOSSIBLE, NOT_FOUND = "impossible", "not_found"
"""Why there is no plan: it is proved that none exists, or the search found none."""

_NUMBER: Schema = {"type": "integer"}
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
"""The schema of an advice. Source: "GET /advice", docs/api.md."""


class AdviceForRequest:
    """`/advice`: how to make room for a request. It changes nothing. Requires `stead` 1.1."""

    stead_since = S.PROVIDER_TREES

    def __init__(self, service: Service, limits: Limits) -> None:
        self._service = service
        self._limits = limits

    @json_answer
    @allowed("stead:advice:show")
    @answering(UNKNOWN_CLASSES)
    def on_get(self, req: Request, resp: Response) -> None:
        """Show which consumers to move so that a request fits a number of times."""
        parsed = parse_advice(Pairs.of(req), req.agreed, finder(self._service))
        self._limits.require_groups(parsed.request.groups)
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


def _bounds(headroom: Headroom) -> Json:
    return {"at_least": headroom.at_least, "at_most": headroom.at_most, "exact": headroom.is_exact}
