"""``/consumers``: consumers with allocations, in pages."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from stead.api.bodies import ONE_LINE, STRICT_UUIDS, Validator
from stead.api.gates import allowed, json_answer
from stead.api.query import pages
from stead.api.query.pairs import Pairs
from stead.api.query.values import PROVIDER_REFERENCE
from stead.api.representations import NOW, answer, maker, newest
from stead.api.resources.allocations import ALLOCATIONS_OF_CONSUMER
from stead.api.resources.usages import asked_project, project_of
from stead.api.shapes import EXTERNAL_ID
from stead.api.versions import S
from stead.domain.moments import in_utc
from stead.domain.names import NAME_LENGTH
from stead.process.slices import sliced
from stead.store import consumer_listing
from stead.store.consumer_listing import Whose

if TYPE_CHECKING:
    from stead.api.request import Request, Response
    from stead.api.versions import Agreed, Step
    from stead.service.service import Service
    from stead.store.consumer_listing import ProjectTotals

MOST = 1000
"""Maximum number of consumers in one page."""

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
    "provider": (S.PROVIDER_TREES, PROVIDER_REFERENCE),
    "in_tree": (S.PROVIDER_TREES, PROVIDER_REFERENCE),
    "totals": (S.PROVIDER_TREES, {"type": "string", "enum": ["true", "false"]}),
    **pages.KEYS,
}
"""Each key with its first version and the schema of its value."""


@cache
def validator(agreed: Agreed) -> Validator:
    """Validates the keys of these versions, and refuses others."""
    properties = {key: schema for key, (since, schema) in KEYS.items() if agreed.knows(since)}
    return Validator({"type": "object", "additionalProperties": False, "properties": properties}, formats=STRICT_UUIDS)


def show_totals(totals: ProjectTotals) -> dict[str, Any]:
    """The allocations of all consumers of one project."""
    return {"consumer_count": totals.consumer_count, "usages": totals.usages}


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
        pairs.require(validator(req.agreed))
        pairs.require_single(KEYS)
        whose = Whose(
            project_of(pairs),
            pairs.last("user_id"),
            pairs.last("consumer_type"),
            pairs.last("provider"),
            pairs.last("in_tree"),
        )
        page, with_totals = pages.parse_page(pairs), pairs.last("totals") == "true"
        listing = self._service.read(consumer_listing.page_of, whose, page, MOST, with_totals=with_totals)
        show = maker(req, ALLOCATIONS_OF_CONSUMER)
        last = list(listing.allocations)[-1] if listing.goes_on else None
        shown: list[dict[str, Any]] = [
            {"uuid": uuid, **show(allocations)} for uuid, allocations in sliced(listing.allocations.items())
        ]
        if req.agreed.knows(S.PROVIDER_TREES):
            for consumer in shown:
                consumer["created_at"] = in_utc(listing.created[consumer["uuid"]])
        body: dict[str, Any] = {"consumers": shown, "links": pages.links(req, pairs, last)}
        if listing.totals is not None:
            body["project_totals"] = {project: show_totals(totals) for project, totals in listing.totals.items()}
        answer(
            req,
            resp,
            body,
            modified=newest((allocations.modified for allocations in listing.allocations.values()), NOW),
        )
