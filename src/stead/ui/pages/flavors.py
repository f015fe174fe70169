"""The flavors of the Site page, read for one request, or for the requests of some seconds."""

from __future__ import annotations

from threading import Lock
from time import monotonic
from typing import TYPE_CHECKING

from stead.api.query.candidates import stored_request
from stead.domain.errors import InvalidQuery
from stead.store.extensions import flavors
from stead.ui.views import flavors as view

if TYPE_CHECKING:
    from stead.domain.request import CandidateRequest
    from stead.service.flavors import Found
    from stead.service.service import Service

MOST = 200
"""Maximum number of flavors in the page."""

OLDEST = 5.0
"""Seconds for which open pages get the same rows."""


class FlavorRooms:
    """How many times each flavor fits."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._latest: tuple[float, view.Rows] | None = None
        self._reading = Lock()

    def now(self) -> view.Rows:
        """The rows, which see all acknowledged writes.

        Raises:
            Unavailable
        """
        page = self._service.read(flavors.page_of, None, MOST + 1)
        problems: dict[str, Found] = {}
        requests: dict[str, CandidateRequest] = {}
        for flavor in page[:MOST]:
            try:
                requests[flavor.name] = stored_request(flavor.query)
            except InvalidQuery as error:
                problems[flavor.name] = str(error)
        headrooms = self._service.headrooms(requests)[1] if requests else {}
        shown = view.rows(page[:MOST], {**headrooms, **problems}, goes_on=len(page) > MOST)
        # One tuple, so that no thread combines the time of one reading with the rows of another.
        self._latest = monotonic(), shown
        return shown

    def lately(self) -> view.Rows:
        """The rows of up to :data:`OLDEST` seconds ago, so that the number of open pages does not add up.

        While one request reads them, others get the previous ones: they must not wait with a thread each.

        Raises:
            Unavailable
        """
        latest = self._latest
        if latest is not None and monotonic() - latest[0] < OLDEST:
            return latest[1]
        is_first = self._reading.acquire(blocking=False)
        try:
            return self.now() if is_first or latest is None else latest[1]
        finally:
            if is_first:
                self._reading.release()
