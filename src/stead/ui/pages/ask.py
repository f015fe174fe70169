"""``/ui/ask``: candidates of a request, why it has them or none, and a claim."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING
from urllib.parse import urlencode
from uuid import uuid4

from stead.api import uuids
from stead.api.errors import Refused
from stead.api.query.candidates import parse_candidate_request
from stead.api.query.flavors import with_flavor
from stead.api.query.pairs import Pairs
from stead.api.resources.allocation_candidates import finder
from stead.api.versions import ALL_FEATURES
from stead.auth.credentials import Credentials
from stead.domain.claim import Claim
from stead.domain.errors import BadRequest, SteadError
from stead.store.extensions import flavors
from stead.ui.forms import read_own_form
from stead.ui.pages.access import may
from stead.ui.views import ask as view

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from stead.api.limits import Limits
    from stead.api.request import Request, Response
    from stead.domain.request import CandidateRequest
    from stead.service.service import Service
    from stead.ui.rendering import Rendering

_CANDIDATES = 20
"""Candidates in a page, if the query has no limit, or a higher one."""

_FLAVORS = 1_000
"""Flavors in the list of the form. If there are more, the form has a field for the name."""

_EXPLAIN = "explain"
_FLAVOR = "flavor"

_READABLE = ":,!/()"
"""Characters that the page shows as they are in the query of a request; all are allowed in a query."""


class Ask:
    """The page. Its query string is that of GET ``/allocation_candidates``, with ``flavor``, and ``explain``."""

    def __init__(self, service: Service, rendering: Rendering, limits: Limits) -> None:
        self._service = service
        self._rendering = rendering
        self._limits = limits

    def on_get(self, req: Request, resp: Response) -> None:
        """Show the form; with a query, also its candidates, or why it has none."""
        req.require("placement:allocation_candidates:list", None)
        given = [(key, value.strip()) for key, value in Pairs.of(req) if value.strip()]
        explained = any(key == _EXPLAIN for key, _ in given)
        given = [(key, value) for key, value in given if key not in (_EXPLAIN, "claimed")]
        values: dict[str, Any] = dict.fromkeys(("candidates", "why", "headroom", "flavor", "written_out"))
        values |= {"problem": "", "is_more": False}
        if given:
            try:
                values |= self._answer(req, given, explained=explained)
            except BadRequest as error:
                resp.status = "400 Bad Request"
                values["problem"] = str(error)
        self._rendering.show(
            req,
            resp,
            "ask",
            groups=view.groups_of(given),
            fields=view.request_fields(given),
            choice=self._choice_of_flavors(req, _chosen_flavor(given)),
            chosen=_chosen_flavor(given),
            query=urlencode(given),
            spelled=urlencode(given, safe=_READABLE),
            claimed=req.get_param("claimed") or "",
            may_explain=may(req, "stead:allocation_candidates:explain"),
            may_claim=self._rendering.writes and may(req, "placement:allocations:update"),
            # In the form, so that a form that is sent twice names one consumer, and the second claim conflicts.
            consumer=str(uuid4()),
            owner=Credentials.of(req.env),
            **values,
        )

    def _answer(self, req: Request, given: Sequence[tuple[str, str]], *, explained: bool) -> Mapping[str, Any]:
        find = finder(self._service)
        request = parse_candidate_request(Pairs(list(given)), ALL_FEATURES, find)
        chosen = _chosen_flavor(given)
        # An explanation changes single conditions of the query, so it needs the one that the flavor stands for.
        given = list(with_flavor(Pairs(list(given)), find))
        self._limits.require_groups(request.groups)
        most = min(request.limit or _CANDIDATES, _CANDIDATES)
        # One more than shown tells whether the page leaves out any.
        snapshot, candidates = self._service.find(replace(request, limit=most + 1))
        req.note(candidates=len(candidates))
        answer: dict[str, Any] = {
            "candidates": [view.shown(snapshot, candidate) for candidate in candidates[:most]],
            "is_more": len(candidates) > most,
            "flavor": find(chosen) if chosen and may(req, "stead:flavors:show") else None,
            "written_out": urlencode(given),
        }
        if explained or not candidates:
            answer["why"] = self._why(req, given, request)
        if candidates and may(req, "stead:headroom:show"):
            snapshot, _, room, _ = self._service.headroom(replace(request, limit=None))
            answer["headroom"] = view.room_for(snapshot, room)
        return answer

    def _choice_of_flavors(self, req: Request, chosen: str) -> view.Choice | None:
        """The flavors of the form; None if the policy does not list them to the caller."""
        if not may(req, "stead:flavors:list"):
            return None
        names = self._service.read(flavors.names, _FLAVORS + 1)
        return view.choice_of_flavors(names[:_FLAVORS], chosen, is_whole=len(names) <= _FLAVORS)

    def _why(self, req: Request, given: Sequence[tuple[str, str]], request: CandidateRequest) -> view.Why | None:
        if not may(req, "stead:allocation_candidates:explain"):
            return None
        snapshot, explanation = self._service.explain(request)
        return view.why(snapshot, explanation, given, request)

    def on_post(self, req: Request, resp: Response) -> None:
        """Claim one candidate for a new consumer.

        Raises:
            Refused: 403 if the web interface only reads, or the form is not from this session; 400 if it is malformed.
            Forbidden, AllocationRefused, ConsumerConflict, Unavailable
        """
        if not self._rendering.writes:
            raise Refused(403, "The web interface only reads ([stead] ui_writes).")
        form = read_own_form(req)
        req.require("placement:allocations:update", None)
        claim = _claim(form)
        self._limits.require_allocations([claim])
        req.note(claims=1)
        try:
            self._service.claim([claim])
        except SteadError as error:
            req.note(error=type(error).__name__)
            raise
        resp.status = "303 See Other"
        resp.set_header("location", f"{req.root_path}/ui/consumers?consumer={claim.consumer}")


def _chosen_flavor(given: Sequence[tuple[str, str]]) -> str:
    return next((value for key, value in given if key == _FLAVOR), "")


def _claim(form: Mapping[str, str]) -> Claim:
    """The claim in a form.

    Raises:
        Refused: 400
    """
    consumer = uuids.normalised(form.get("consumer", ""))
    project, user = form.get("project", "").strip(), form.get("user", "").strip()
    try:
        allocations = json.loads(form.get("allocations", ""))
    except ValueError:
        allocations = None
    if consumer is None or not (_is_name(project) and _is_name(user)) or not _are_allocations(allocations):
        raise Refused(400, "The form is incomplete: it needs a consumer, a project, a user and allocations.")
    consumer_type = form.get("consumer_type", "").strip() or "INSTANCE"
    if not (consumer_type.isascii() and consumer_type.replace("_", "").isalnum() and consumer_type.isupper()):
        raise Refused(400, "The type of a consumer has the characters A-Z, 0-9 and _.")
    return Claim(consumer, allocations, project, user, consumer_type[:255], None)


def _is_name(text: str) -> bool:
    return 0 < len(text) <= 255 and text.isprintable()  # 255: the length of the column


def _are_allocations(value: object) -> bool:
    return (
        isinstance(value, dict)
        and bool(value)
        and all(
            uuids.is_strict(uuid)
            and isinstance(amounts, dict)
            and bool(amounts)
            and all(type(amount) is int and 0 < amount < 2**31 for amount in amounts.values())
            for uuid, amounts in value.items()
        )
    )
