"""``/allocation_candidates``: the allocations that would satisfy a request, and why there are any or none."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from stead.api.answers import Answer, Rows, answer, answer_in_pieces, answering
from stead.api.bodies import UUID, strict_object
from stead.api.query.candidates import finder, request_of, without_flavor
from stead.api.request import allowed, json_answer, require_groups, since
from stead.api.versions import S, V
from stead.candidates.explain import Constraint
from stead.candidates.render import Form
from stead.domain.errors import UnknownClassInOrder, UnknownResourceClass

if TYPE_CHECKING:
    from stead.api.bodies import Schema
    from stead.api.request import Request, Response
    from stead.api.versions import Microversion
    from stead.candidates.explain import Choice, Count, Explanation, Lost, Miss, Relaxation, Step
    from stead.catalog.snapshot import Snapshot
    from stead.domain.limits import RequestLimits
    from stead.service.service import Service


CUT = ("stead-incomplete", "work")
"""The header of an answer whose search reached the work limit (``[stead] max_candidate_work``)."""


UNKNOWN_CLASSES: Rows = {
    UnknownResourceClass: Answer(400, text="Invalid resource class in resources parameter: {error}"),
    UnknownClassInOrder: Answer(400, text="Invalid resource class in order_by parameter: {error}"),
}


@cache
def form_of(version: Microversion) -> Form:
    """The form of candidates and of their summaries at *version*."""
    return Form(
        dict_allocations=version >= V.ALLOCATIONS_BY_PROVIDER,
        mappings=version >= V.MAPPINGS,
        summary_traits=version >= V.CANDIDATE_REQUIRED,
        summary_all_classes=version >= V.WHOLE_SUMMARIES,
        summary_tree=version >= V.NESTED_CANDIDATES,
    )


class AllocationCandidates:
    """`/allocation_candidates`: the ways to serve a request."""

    def __init__(self, service: Service, limits: RequestLimits) -> None:
        self._service = service
        self._limits = limits

    @since(V.CANDIDATES)
    @json_answer
    @allowed("placement:allocation_candidates:list")
    @answering(UNKNOWN_CLASSES)
    def on_get(self, req: Request, resp: Response) -> None:
        """List allocation candidates."""
        query, agreed = req.query_string, req.agreed
        alone = without_flavor(query, agreed)
        asked = None if alone is None else (query, agreed)  # the query of a flavor can change while no provider does
        request = alone or request_of(query, agreed, finder(self._service))
        require_groups(self._limits, request.groups)
        body, is_cut, number = self._service.candidates(request, form_of(req.version), req.phases(), asked)
        self._service.note_asked(request)
        req.note(candidates=number, is_cut=is_cut)
        answer_in_pieces(req, resp, body)
        if is_cut:
            resp.set_header(*CUT)


# ``/allocation_candidates/explain``: why a request finds its candidates, or none.


Json = dict[str, Any]


_TEXT: Schema = {"type": "string"}
_NUMBER: Schema = {"type": "integer"}
_NAME: Schema = {"type": ["string", "null"]}
_LEFT = {"left": _NUMBER, "removed": _NUMBER}
_WORDS = {"parameter": _TEXT, "value": _TEXT}
_CHECK = {"check": _TEXT}


def _array(items: Schema) -> Schema:
    return {"type": "array", "items": items}


CONSTRAINT = strict_object(_WORDS, _CHECK)
STEP = strict_object({**_WORDS, **_LEFT}, _CHECK)
MISS = strict_object(
    {
        **_WORDS,
        "providers": _NUMBER,
        "lacking": _array(strict_object({"amount": _NUMBER, "providers": _NUMBER})),
        "examples": _array(strict_object({"uuid": UUID, "name": _TEXT})),
    },
    _CHECK,
)
CHOICE = strict_object(
    {"resource_class": _NAME, "in_play": _NUMBER, "steps": _array(STEP), "nearest": _array(MISS)},
)
LOST = {"anyOf": [STEP, strict_object({"suffix": _TEXT, "resource_class": _NAME, **_LEFT})]}
COUNT = {"candidates": _NUMBER, "more": {"type": "boolean"}}
CHANGE = {"anyOf": [CONSTRAINT, {"type": "null"}]}
EXPLANATION = strict_object(
    {
        "summary": _TEXT,
        **COUNT,
        "complete": {"type": "boolean"},
        "roots": strict_object({"in_play": _NUMBER, "steps": _array(STEP)}),
        "groups": _array(strict_object({"suffix": _TEXT, "choices": _array(CHOICE)})),
        "trees": strict_object({"in_play": _NUMBER, "undecided": _NUMBER, "steps": _array(LOST)}),
        "relaxations": _array(strict_object({"without": CHANGE, "with": CHANGE, **COUNT})),
    }
)
"""The schema of an explanation. Source: "Explaining" of allocation candidates, docs/stead-api.md."""


class Explanations:
    """`/allocation_candidates/explain`: the effect of each constraint of a request. Requires `stead`."""

    stead_since = S.OWN_FEATURES

    def __init__(self, service: Service, limits: RequestLimits) -> None:
        self._service = service
        self._limits = limits

    @json_answer
    @allowed("stead:allocation_candidates:explain")
    @answering(UNKNOWN_CLASSES)
    def on_get(self, req: Request, resp: Response) -> None:
        """Explain the result of a candidate query."""
        request = request_of(req.query_string, req.agreed, finder(self._service))
        require_groups(self._limits, request.groups)
        answer(req, resp, shown(*self._service.explain(request)))


def shown(snapshot: Snapshot, explanation: Explanation) -> Json:
    """The body of an explanation."""
    groups: dict[str, list[Json]] = {}
    for choice in explanation.choices:
        groups.setdefault(choice.suffix, []).append(_choice(snapshot, choice))
    return {
        "summary": explanation.summary,
        **_count(explanation.candidates),
        "complete": explanation.is_complete,
        "roots": {"in_play": explanation.roots, "steps": [_step(step) for step in explanation.root_steps]},
        "groups": [{"suffix": suffix, "choices": choices} for suffix, choices in groups.items()],
        "trees": {
            "in_play": explanation.trees.in_play,
            "undecided": explanation.trees.undecided,
            "steps": [_lost(step) for step in explanation.trees.steps],
        },
        "relaxations": [_relaxation(relaxation, count) for relaxation, count in explanation.relaxations],
    }


def _count(count: Count) -> Json:
    return {"candidates": count.number, "more": count.more}


def _constraint(constraint: Constraint) -> Json:
    words = {"parameter": constraint.parameter, "value": constraint.value}
    return words if constraint.check is None else {**words, "check": constraint.check}


def _step(step: Step) -> Json:
    return {**_constraint(step.constraint), "left": step.left, "removed": step.removed}


def _choice(snapshot: Snapshot, choice: Choice) -> Json:
    return {
        "resource_class": choice.resource_class,
        "in_play": choice.in_play,
        "steps": [_step(step) for step in choice.steps],
        "nearest": [_miss(snapshot, miss) for miss in choice.misses],
    }


def _miss(snapshot: Snapshot, miss: Miss) -> Json:
    providers = [snapshot.provider(slot) for slot in miss.examples]
    return {
        **_constraint(miss.constraint),
        "providers": miss.providers,
        "lacking": [{"amount": amount, "providers": number} for amount, number in miss.lacking],
        "examples": [{"uuid": provider.uuid, "name": provider.name} for provider in providers],
    }


def _lost(step: Lost) -> Json:
    by = _constraint(step.by) if isinstance(step.by, Constraint) else dict(zip(_CHOICE, step.by, strict=True))
    return {**by, "left": step.left, "removed": step.removed}


_CHOICE = ("suffix", "resource_class")


def _relaxation(relaxation: Relaxation, count: Count) -> Json:
    changes = {"without": relaxation.without, "with": relaxation.instead}
    return {
        key: None if constraint is None else _constraint(constraint) for key, constraint in changes.items()
    } | _count(count)
