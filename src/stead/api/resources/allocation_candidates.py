"""``/allocation_candidates``: the allocations that would satisfy a request."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from stead.api.errors import Answer, Rows, answering
from stead.api.gates import allowed, json_answer, since
from stead.api.query.candidates import request_of, without_flavor
from stead.api.representations import answer_in_pieces
from stead.api.versions import V
from stead.candidates.render import Form
from stead.domain.errors import UnknownClassInOrder, UnknownResourceClass
from stead.store.extensions import flavors

if TYPE_CHECKING:
    from collections.abc import Callable

    from stead.api.limits import Limits
    from stead.api.request import Request, Response
    from stead.api.versions import Microversion
    from stead.domain.flavor import Flavor
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


def finder(service: Service) -> Callable[[str], Flavor | None]:
    """Finds flavors by name in the database, each once for one request."""
    # Not a `cache`: to make one takes longer than the rest of a request that names no flavor.
    flavor_of: dict[str, Flavor | None] = {}

    def find(name: str) -> Flavor | None:
        if name not in flavor_of:
            flavor_of[name] = service.read(flavors.find, name)
        return flavor_of[name]

    return find


class AllocationCandidates:
    """`/allocation_candidates`: the ways to serve a request."""

    def __init__(self, service: Service, limits: Limits) -> None:
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
        self._limits.require_groups(request.groups)
        body, is_cut, number = self._service.candidates(request, form_of(req.version), req.phases(), asked)
        req.note(candidates=number, is_cut=is_cut)
        answer_in_pieces(req, resp, body)
        if is_cut:
            resp.set_header(*CUT)
