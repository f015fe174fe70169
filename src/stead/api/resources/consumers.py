"""``/consumers``: who holds something, in pages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stead.api.bodies import ONE_LINE, STRICT_UUIDS, Validator
from stead.api.gates import allowed, json_answer
from stead.api.query import pages
from stead.api.query.pairs import Pairs
from stead.api.representations import NOW, answer, maker, newest
from stead.api.resources.allocations import ALLOCATIONS_OF_CONSUMER
from stead.api.resources.usages import asked_project, project_of
from stead.api.shapes import EXTERNAL_ID
from stead.api.versions import S
from stead.domain.names import NAME_LENGTH
from stead.store import consumer_listing
from stead.store.consumer_listing import Whose

if TYPE_CHECKING:
    from stead.api.request import Request, Response
    from stead.api.versions import Step
    from stead.service.service import Service

MOST = 1000
"""Consumers in one page."""

KEYS: dict[str, tuple[Step, dict[str, Any]]] = {
    "project_id": (S.OWN_FEATURES, EXTERNAL_ID),
    "user_id": (S.OWN_FEATURES, EXTERNAL_ID),
    "consumer_type": (
        S.OWN_FEATURES,
        {
            "type": "string",
            "pattern": "^[A-Z0-9_]+$|^unknown$",
            "minLength": 1,
            "maxLength": NAME_LENGTH,
            "format": ONE_LINE,
        },
    ),
    **pages.KEYS,
}
QUERY = Validator(
    {"type": "object", "additionalProperties": False, "properties": {key: schema for key, (_, schema) in KEYS.items()}},
    formats=STRICT_UUIDS,
)


class Consumers:
    """`/consumers`: consumers by project, user and type, in pages. Requires `stead`."""

    stead_since = S.OWN_FEATURES

    def __init__(self, service: Service) -> None:
        self._service = service

    @json_answer
    @allowed("stead:consumers:list", target=asked_project)
    def on_get(self, req: Request, resp: Response) -> None:
        """List consumers with their allocations."""
        pairs = Pairs.of(req)
        pairs.require(QUERY)
        pairs.require_single(KEYS)
        whose = Whose(project_of(pairs), pairs.last("user_id"), pairs.last("consumer_type"))
        found = self._service.read(consumer_listing.page_of, whose, pages.parse_page(pairs), MOST)
        show = maker(req, ALLOCATIONS_OF_CONSUMER)
        last = list(found.held)[-1] if found.goes_on else None
        body = {
            "consumers": [{"uuid": uuid, **show(held)} for uuid, held in found.held.items()],
            "links": pages.links(req, pairs, last),
        }
        answer(req, resp, body, modified=newest((held.modified for held in found.held.values()), NOW))
