"""``/ui/consumers``: consumers by project, user, type and provider, what they hold, and their release."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from stead.api.errors import Refused
from stead.api.query.values import Pairs
from stead.api.request import normalised_uuid
from stead.domain.errors import AllocationsNotFound
from stead.domain.request import Page
from stead.store import allocations, consumer_listing
from stead.store.consumer_listing import ConsumerFilter, ConsumerPage
from stead.ui.sessions import changed, may, read_own_form

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stead.api.request import Request, Response
    from stead.service.service import Service
    from stead.ui.rendering import Rendering

_ROWS = 50

FILTERS = ("project_id", "user_id", "consumer_type", "provider", "in_tree", "consumer")


class Consumers:
    """The page. Its filters are those of GET ``/consumers``, and the uuid of one consumer."""

    def __init__(self, service: Service, rendering: Rendering) -> None:
        self._service = service
        self._rendering = rendering

    def on_get(self, req: Request, resp: Response) -> None:
        """Show the page."""
        given = {key: value.strip() for key, value in Pairs.of(req) if value.strip()}
        req.require("stead:consumers:list", {"project_id": given.get("project_id")})
        listing = self._found(given)
        snapshot = self._service.snapshot()
        names = {
            uuid: "" if (slot := snapshot.find(uuid)) is None else snapshot.identities.names[slot]
            for allocations in listing.allocations.values()
            for uuid in allocations.providers
        }
        last = list(listing.allocations)[-1] if listing.goes_on else ""
        self._rendering.show(
            req,
            resp,
            "consumers",
            found=listing,
            names=names,
            filters={key: given.get(key, "") for key in FILTERS},
            last=last,
            marker=given.get("marker", ""),
            released=given.get("released", ""),
            may_release=self._rendering.writes and may(req, "placement:allocations:delete"),
            changed=partial(changed, list(given.items())),
        )

    def _found(self, given: Mapping[str, str]) -> ConsumerPage:
        consumer = given.get("consumer")
        if consumer is None:
            project, user, consumer_type, provider, in_tree = map(given.get, FILTERS[:5])
            whose = ConsumerFilter(project, user, consumer_type, provider, in_tree)
            marker = given.get("marker")
            return self._service.read(consumer_listing.page_of, whose, Page(_ROWS, marker), _ROWS, with_totals=True)
        consumed = self._service.read(consumer_listing.of_consumer, normalised_uuid(consumer) or consumer)
        # The policy decided about the project in the query, so a consumer of another project stays hidden.
        if consumed is None or not consumed.providers or consumed.project != given.get("project_id", consumed.project):
            return ConsumerPage({}, {}, goes_on=False)
        return ConsumerPage({consumer: consumed}, {}, goes_on=False)

    def on_post(self, req: Request, resp: Response) -> None:
        """Release all allocations of one consumer.

        Raises:
            Refused: 403 if the web interface only reads, or the form is not from this session.
            Forbidden, AllocationsNotFound, Unavailable
        """
        if not self._rendering.writes:
            raise Refused(403, "The web interface only reads ([stead] ui_writes).")
        form = read_own_form(req)
        req.require("placement:allocations:delete", None)
        consumer = normalised_uuid(form.get("consumer", ""))
        if consumer is None:
            raise AllocationsNotFound(form.get("consumer", ""))
        req.note(releases=1)
        self._service.write(allocations.release, consumer)
        resp.status = "303 See Other"
        resp.set_header("location", f"{req.root_path}/ui/consumers?released={consumer}")
