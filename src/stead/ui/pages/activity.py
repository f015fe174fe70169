"""``/ui/activity``: what changed, and how current this worker is."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from stead.domain.errors import InvalidQuery, StartOver
from stead.store.feed.changes import changes_since
from stead.ui.pages.provider import Recent

if TYPE_CHECKING:
    from collections.abc import Callable

    from stead.api.request import Request, Response
    from stead.catalog.snapshot import Snapshot
    from stead.observe.activity import Done
    from stead.observe.exporter import AllWorkers
    from stead.service.service import Service
    from stead.store.feed.changes import ChangeSet
    from stead.ui.rendering import Rendering


_SHOWN = 200
"""Limit of the changed providers, and of the changed consumers, in the page."""


_COUNTS = "counts"
"""The part of the page that its script reads again."""


class Counts(NamedTuple):
    """Where the counts come from: those of this worker, and those of all workers, None without metrics."""

    own: Callable[[], Done]
    of_all: Callable[[], AllWorkers | None]


class Activity:
    """The page."""

    def __init__(self, service: Service, rendering: Rendering, counts: Counts | None) -> None:
        self._service = service
        self._rendering = rendering
        self._sources = counts

    def on_get(self, req: Request, resp: Response) -> None:
        """Show the page; with ``since``, also all changes after that moment; with ``part``, the counts alone."""
        req.require("stead:changes:list", None)
        own = self._sources.own() if self._sources else None
        counts = {
            "own": own,
            "process": str(os.getpid()),
            "of_all": self._sources.of_all() if self._sources else None,
            "vitals": self._service.vitals(),
        }
        if req.get_param("part") == _COUNTS:
            self._rendering.show(req, resp, "counts", **counts)
            return
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
            **counts,
            written=last_written(self._service.snapshot()),
        )

    def _happened(self, since: str | None) -> ChangeSet:
        return self._service.read(partial(changes_since, since=since))


# The Activity page: what was written last, by the times in the snapshot.


ROWS = 30


def last_written(snapshot: Snapshot) -> list[Recent]:
    """The providers that were written last, the newest first, at most :data:`ROWS`."""
    slots = np.flatnonzero(snapshot.live)
    moments = snapshot.modified.at(slots)
    newest = slots[np.argsort(-moments, kind="stable")[:ROWS]].tolist()
    providers = [snapshot.provider(slot) for slot in newest]
    return [Recent(provider.uuid, provider.name, "provider", provider.modified) for provider in providers]
