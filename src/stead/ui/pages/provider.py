"""``/ui/providers/{uuid}``: one provider in its tree, and who uses it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stead.api import uuids
from stead.domain.errors import ProviderNotFound
from stead.domain.pages import Page
from stead.store import consumer_listing
from stead.store.consumer_listing import Whose
from stead.ui.pages.access import may
from stead.ui.views.provider import provider_view

if TYPE_CHECKING:
    from stead.api.request import Request, Response
    from stead.service.service import Service
    from stead.ui.rendering import Rendering

_CONSUMERS = 50
"""Consumers in the page; the page Consumers has all."""


class Provider:
    """The page."""

    def __init__(self, service: Service, rendering: Rendering) -> None:
        self._service = service
        self._rendering = rendering

    def on_get(self, req: Request, resp: Response, uuid: str) -> None:
        """Show the page.

        Raises:
            ProviderNotFound
        """
        req.require("stead:provider_trees:list", None)
        snapshot = self._service.snapshot()
        slot = snapshot.find(uuids.normalised(uuid) or uuid)
        if slot is None:
            raise ProviderNotFound(uuid)
        shown = provider_view(snapshot, slot)
        holders = None
        if may(req, "stead:consumers:list", {"project_id": None}):
            whose = Whose(provider=shown.provider.uuid)
            holders = self._service.read(consumer_listing.page_of, whose, Page(), _CONSUMERS)
        may_drain = not shown.above and may(req, "stead:whatif:show")
        self._rendering.show(req, resp, "provider", shown=shown, holders=holders, may_drain=may_drain)
