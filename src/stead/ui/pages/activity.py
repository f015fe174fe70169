"""``/ui/activity``: what changed, and how current this worker is."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from stead.domain.errors import InvalidQuery, StartOver
from stead.store.feed.changes import happened_since
from stead.ui.views.activity import last_written

if TYPE_CHECKING:
    from stead.api.request import Request, Response
    from stead.service.service import Service
    from stead.store.feed.changes import Happened
    from stead.ui.rendering import Rendering

_SHOWN = 200
"""Limit of the changed providers, and of the changed consumers, in the page."""


class Activity:
    """The page."""

    def __init__(self, service: Service, rendering: Rendering) -> None:
        self._service = service
        self._rendering = rendering

    def on_get(self, req: Request, resp: Response) -> None:
        """Show the page; with ``since``, also all changes after that moment."""
        req.require("stead:changes:list", None)
        since = req.get_param("since") or None
        problem = ""
        try:
            happened = self._happened(since)
        except (InvalidQuery, StartOver) as error:
            happened, since, problem = self._happened(None), None, str(error)
        self._rendering.show(
            req,
            resp,
            "activity",
            happened=happened,
            since=since,
            shown=_SHOWN,
            problem=problem,
            vitals=self._service.vitals(),
            written=last_written(self._service.snapshot()),
        )

    def _happened(self, since: str | None) -> Happened:
        return self._service.read(partial(happened_since, since=since))
