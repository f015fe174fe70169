"""``/headroom``: how many times a request fits, where, and what runs out first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stead.api.answers import answer, answering
from stead.api.bodies import MOMENT, UUID, mapping, strict_object
from stead.api.query import candidates
from stead.api.query.candidates import BAD_VALUE, INVALID, Pairs, finder
from stead.api.query.headroom import parse_headroom, parse_mix, require_valid
from stead.api.request import allowed, json_answer, require_groups
from stead.api.resources import allocation_candidates
from stead.api.resources.allocation_candidates import CUT, UNKNOWN_CLASSES
from stead.api.versions import S
from stead.candidates.explain import Constraint
from stead.candidates.headroom.headroom import page_of
from stead.domain.errors import InvalidQuery
from stead.domain.moments import in_utc
from stead.domain.names import RESOURCE_CLASS_NAME
from stead.domain.request import Page

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stead.api.bodies import Schema
    from stead.api.request import Request, Response
    from stead.candidates.headroom.each_tree import Limit
    from stead.candidates.headroom.headroom import Headroom
    from stead.candidates.losses import Losses
    from stead.candidates.mixing import Mixed, Part
    from stead.catalog.snapshot import Snapshot
    from stead.domain.limits import RequestLimits
    from stead.domain.request import CandidateRequest
    from stead.service.service import Service

Json = dict[str, Any]

TREES = 1_000
"""Default number of trees in one page."""

MOST_TREES = 10_000
"""Maximum number of trees in one page."""

_NUMBER: Schema = {"type": "integer"}
_TEXT: Schema = {"type": "string"}
_BOUNDS = {"at_least": _NUMBER, "at_most": _NUMBER}
LIMIT: Schema = {
    "anyOf": [
        strict_object(
            {"suffix": _TEXT, "resource_class": {"type": ["string", "null"]}, "trees": _NUMBER},
        ),
        strict_object({"parameter": _TEXT, "value": _TEXT, "trees": _NUMBER}, {"check": _TEXT}),
    ]
}
HEADROOM = strict_object(
    {
        **_BOUNDS,
        "exact": {"type": "boolean"},
        "tree_count": _NUMBER,
        "trees": {"type": "array", "items": strict_object({"root": UUID, "name": _TEXT, **_BOUNDS})},
        "limited_by": {"type": "array", "items": LIMIT},
        "stranded": mapping(RESOURCE_CLASS_NAME, _NUMBER),
        "generation": {"type": ["string", "null"]},
    },
    {"explanation": allocation_candidates.EXPLANATION},
)
"""The schema of a headroom. Source: "GET /headroom", docs/stead-api.md."""

MIX = strict_object(
    {
        **_BOUNDS,
        "exact": {"type": "boolean"},
        "mix": {
            "type": "array",
            "items": strict_object(
                {"flavor": _TEXT, "weight": _NUMBER, **_BOUNDS, "limited_by": {"type": "array", "items": LIMIT}}
            ),
        },
        "limited_by": {
            "type": "array",
            "items": {"anyOf": [strict_object({"flavor": _TEXT}), strict_object({"resource_class": _TEXT})]},
        },
        "stranded": mapping(RESOURCE_CLASS_NAME, _NUMBER),
        "generation": {"type": ["string", "null"]},
    }
)
"""The schema of the headroom of a mix."""


SITE = strict_object(
    {
        "forms": _NUMBER,
        "counted": _NUMBER,
        "free": mapping(RESOURCE_CLASS_NAME, _NUMBER),
        "stranded": mapping(RESOURCE_CLASS_NAME, _NUMBER),
        "course": {
            "type": "array",
            "items": strict_object(
                {"at": {"type": "string", "format": MOMENT}, "stranded": mapping(RESOURCE_CLASS_NAME, _NUMBER)}
            ),
        },
        "generation": {"type": ["string", "null"]},
    }
)
"""The schema of what is stranded for the mix of the site."""


class HeadroomOfRequest:
    """`/headroom`: how many times a request fits. Requires `stead` 1.1."""

    stead_since = S.PROVIDER_TREES

    def __init__(self, service: Service, limits: RequestLimits) -> None:
        self._service = service
        self._limits = limits

    @json_answer
    @allowed("stead:headroom:show")
    @answering(UNKNOWN_CLASSES)
    def on_get(self, req: Request, resp: Response) -> None:
        """Show how many times a request can be claimed until nothing fits."""
        pairs = Pairs.of(req)
        require_valid(pairs, req.agreed)
        if pairs.all("mix"):
            self._show_mix(req, resp, pairs)
            return
        if req.agreed.knows(S.HEADROOM_ORDER) and not any(True for _ in pairs):
            self._show_stranded(req, resp)
            return
        parsed = parse_headroom(pairs, req.agreed, finder(self._service))
        require_groups(self._limits, parsed.request.groups)
        snapshot, token, headroom, why = self._service.headroom(parsed.request)
        page = Page(min(parsed.page.limit or TREES, MOST_TREES), parsed.page.marker)
        places, goes_on = _page(snapshot, headroom, parsed.request, page, self._service.losses)
        shown = show_headroom(snapshot, headroom, places, token)
        if why is not None:
            shown["explanation"] = allocation_candidates.shown(snapshot, why)
        last = snapshot.uuid(int(headroom.roots[places[-1]])) if goes_on else None
        answer(req, resp, {"headroom": shown, "links": candidates.links(req, pairs, last)})
        if not headroom.is_complete:
            resp.set_header(*CUT)

    def _show_mix(self, req: Request, resp: Response, pairs: Pairs) -> None:
        parts = parse_mix(pairs, req.agreed, finder(self._service))
        for part in parts.values():
            require_groups(self._limits, part.request.groups)
        snapshot, token, mixed = self._service.headroom_of_mix(list(parts.values()))
        answer(req, resp, {"headroom": show_mixed(snapshot, parts, mixed, token), "links": []})
        if not mixed.is_complete:
            resp.set_header(*CUT)

    def _show_stranded(self, req: Request, resp: Response) -> None:
        snapshot, token, stranded = self._service.stranded()
        names = snapshot.class_names.by_id
        shown = {
            "forms": stranded.forms,
            "counted": stranded.counted,
            "free": {names[class_id].name: amount for class_id, amount in stranded.free.items()},
            "stranded": {names[class_id].name: amount for class_id, amount in stranded.stranded.items()},
            "course": [{"at": in_utc(each.time), "stranded": dict(each.stranded)} for each in stranded.course],
            "generation": token,
        }
        answer(req, resp, {"headroom": shown, "links": []})
        if not stranded.is_complete:
            resp.set_header(*CUT)


def _page(
    snapshot: Snapshot, headroom: Headroom, request: CandidateRequest, page: Page, losses: Losses | None
) -> tuple[list[int], bool]:
    shown = page_of(snapshot, headroom.roots, request, page, losses)
    if shown is None:
        raise InvalidQuery(
            f"{INVALID} 'marker' names no tree of this list, which changed. Start again without it.", BAD_VALUE
        )
    return shown


def show_headroom(snapshot: Snapshot, headroom: Headroom, places: list[int], token: str | None) -> Json:
    """The body, with the trees at *places*."""
    names = snapshot.class_names.by_id
    return {
        "at_least": headroom.at_least,
        "at_most": headroom.at_most,
        "exact": headroom.is_exact,
        "tree_count": len(headroom.roots),
        "trees": [_tree(snapshot, headroom, place) for place in places],
        "limited_by": [show_limit(limit) for limit in headroom.limited_by],
        "stranded": {names[class_id].name: amount for class_id, amount in headroom.stranded.items()},
        "generation": token,
    }


def show_mixed(snapshot: Snapshot, parts: Mapping[str, Part], mixed: Mixed, token: str | None) -> Json:
    """The body for a mix of *parts*, by the names of their flavors."""
    names, flavors = snapshot.class_names.by_id, list(parts)
    return {
        "at_least": mixed.at_least,
        "at_most": mixed.at_most,
        "exact": mixed.at_least == mixed.at_most,
        "mix": [
            {
                "flavor": flavor,
                "weight": part.weight,
                "at_least": alone.at_least,
                "at_most": alone.at_most,
                "limited_by": [show_limit(limit) for limit in alone.limited_by],
            }
            for (flavor, part), alone in zip(parts.items(), mixed.alone, strict=True)
        ],
        "limited_by": [
            *({"flavor": flavors[number]} for number in mixed.limiting_parts),
            *({"resource_class": names[class_id].name} for class_id in mixed.limiting_classes),
        ],
        "stranded": {names[class_id].name: amount for class_id, amount in mixed.stranded.items()},
        "generation": token,
    }


def _tree(snapshot: Snapshot, headroom: Headroom, place: int) -> Json:
    root = int(headroom.roots[place])
    return {
        "root": snapshot.uuid(root),
        "name": snapshot.identities.names[root],
        "at_least": int(headroom.roots_at_least[place]),
        "at_most": int(headroom.roots_at_most[place]),
    }


def show_limit(limit: Limit) -> Json:
    """What runs out, and in how many trees."""
    if isinstance(limit.by, Constraint):
        words = {"parameter": limit.by.parameter, "value": limit.by.value}
        by: Json = words if limit.by.check is None else {**words, "check": limit.by.check}
    else:
        suffix, resource_class = limit.by
        by = {"suffix": suffix, "resource_class": resource_class}
    return {**by, "trees": limit.trees}
