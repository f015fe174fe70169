"""The headroom of several requests, each counted once for each state of the site."""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING

from stead.candidates.headroom.headroom import headroom
from stead.candidates.work import Work
from stead.domain.errors import BadRequest
from stead.process import slices

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stead.candidates.headroom.headroom import Headroom
    from stead.catalog.snapshot import Snapshot
    from stead.domain.request import CandidateRequest

MOST_KEPT = 1_000
"""Maximum number of requests whose headroom is cached."""


class FlavorHeadrooms:
    """The headrooms of requests in the latest snapshot for which they were requested; safe for several threads."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._state = ""
        self._found: dict[str, tuple[CandidateRequest, Headroom | str]] = {}

    def headrooms(
        self, snapshot: Snapshot, state: str, requests: Mapping[str, CandidateRequest], work: int | None
    ) -> dict[str, Headroom | str]:
        """The headroom of each of *requests*, or the reason why it has none.

        Args:
            state: identifies the state of the site that the snapshot has.
            work: units for each request. After this number for all together, the remaining requests are omitted.
        """
        cached = self._cached(state)
        found: dict[str, Headroom | str] = {}
        spent = 0.0
        for name, request in requests.items():
            if name in cached and cached[name][0] == request:
                found[name] = cached[name][1]
                continue
            if work is not None and spent >= work:
                break
            budget = Work(work, give_way=slices.give_way)
            before = budget.remaining
            try:
                found[name] = headroom(snapshot, request, budget)
            except BadRequest as error:
                found[name] = str(error)
            spent += before - budget.remaining
        self._keep(state, {name: (requests[name], result) for name, result in found.items()})
        return found

    def _cached(self, state: str) -> dict[str, tuple[CandidateRequest, Headroom | str]]:
        with self._lock:
            return dict(self._found) if self._state == state else {}

    def _keep(self, state: str, found: dict[str, tuple[CandidateRequest, Headroom | str]]) -> None:
        with self._lock:
            if self._state != state:
                self._found, self._state = {}, state
            self._found.update(found)
            while len(self._found) > MOST_KEPT:
                del self._found[next(iter(self._found))]
