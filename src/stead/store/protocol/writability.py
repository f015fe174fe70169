"""Whether the database accepts writes: the result of the last write, or of a small test write that leaves no rows.

A full disk or a read-only server still answers every read, so only a write can tell.
"""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING
from uuid import uuid4

import sqlalchemy as sa

from stead.domain.errors import Unavailable
from stead.store.tables import stead_change_log

if TYPE_CHECKING:
    from collections.abc import Callable

    from sqlalchemy.engine import Connection

TRUSTED_SECONDS = 60.0
"""Time for which a successful write proves that writes are possible."""

PAUSE_SECONDS = 5.0
"""Time from a refused write to the next test write, and between test writes."""

_ROWS = 200
"""Rows of a test write: about 16 KiB, which does not fit on a full disk once the free space in pages is used up."""


_log = logging.getLogger(__name__)


class Outage:
    """A time in which the database failed. Its begin, each new cause and its end are logged once, not per request."""

    def __init__(self, end: str) -> None:
        """*end* is what the log says when it is over."""
        self._end = end
        self._lock = threading.Lock()
        self._since: float | None = None
        self._cause = ""

    def failed(self, cause: str, details: str) -> None:
        """The database failed because of *cause*; *details* may differ from request to request."""
        with self._lock:
            if self._since is None:
                self._since = time.monotonic()
            elif cause == self._cause:
                return
            self._cause = cause
        _log.warning("%s: %s", cause, details)

    def over(self) -> None:
        """The database did what it was told to."""
        if self._since is None:
            return  # without the lock: this is what every request meets
        with self._lock:
            since, self._since = self._since, None
        if since is not None:
            _log.info("%s, after %.0f s", self._end, time.monotonic() - since)


class Writability:
    """The write status of one database, as far as this process knows it."""

    def __init__(self) -> None:
        """Start without any write."""
        self._lock = threading.Lock()
        self._succeeded = float("-inf")
        self._probed = float("-inf")
        self._problem: str | None = None

    def succeeded(self) -> None:
        """A write was committed."""
        self._succeeded, self._problem = time.monotonic(), None

    def failed(self, error: Unavailable) -> None:
        """The database refused a write."""
        self._problem, self._probed = str(error), time.monotonic()

    @property
    def is_known(self) -> bool:
        """Whether a write succeeded recently, and none has failed since."""
        return self._problem is None and time.monotonic() - self._succeeded < TRUSTED_SECONDS

    def require(self, probe: Callable[[], None]) -> None:
        """Test by a write, unless a write succeeded recently or a test failed a few seconds ago.

        Args:
            probe: commits `write_and_remove`.

        Raises:
            Unavailable: the database rejects writes.
        """
        with self._lock:
            if self.is_known:
                return
            problem = self._problem
            if problem is not None and time.monotonic() - self._probed < PAUSE_SECONDS:
                raise Unavailable(problem)
            # Before the test: after a failed write, one request tests, and the others report the problem meanwhile.
            self._probed = time.monotonic()
        # Without the lock: a database that hangs must not make other requests wait for this one.
        probe()


def write_and_remove(connection: Connection) -> None:
    """Insert some rows into the change log and delete them in the same transaction, so that no reader sees them."""
    log = stead_change_log.c
    uuids = [str(uuid4()) for _ in range(_ROWS)]
    connection.execute(
        sa.insert(stead_change_log), [{"slot": 0, "tick": -1, "uuid": uuid, "kind": 0} for uuid in uuids]
    )
    connection.execute(sa.delete(stead_change_log).where(log.slot == 0, log.tick == -1, log.uuid.in_(uuids)))
