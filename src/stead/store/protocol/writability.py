"""Whether the database takes writes: what the last write met, or a small write that leaves nothing behind.

A full disk and a server that became read-only answer every read, so only a write tells.
"""

from __future__ import annotations

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
"""A write that succeeded so long ago still tells that writes are possible."""

PAUSE_SECONDS = 5.0
"""From a write that was refused to a probe, and between two probes."""

_ROWS = 200
"""Rows of a probe: about 16 KiB, which a full disk has no room for once the free space of the pages is used up."""


class Writability:
    """What a process knows of one database."""

    def __init__(self) -> None:
        """Nothing was written yet."""
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
        """Whether a write succeeded lately, and none failed since."""
        return self._problem is None and time.monotonic() - self._succeeded < TRUSTED_SECONDS

    def require(self, probe: Callable[[], None]) -> None:
        """Find out by a write, unless one succeeded lately or a probe failed a few seconds ago.

        Args:
            probe: commits `write_and_remove`.

        Raises:
            Unavailable: the database takes no writes.
        """
        with self._lock:
            if self.is_known:
                return
            problem = self._problem
            if problem is not None and time.monotonic() - self._probed < PAUSE_SECONDS:
                raise Unavailable(problem)
            self._probed = time.monotonic()
        probe()


def write_and_remove(connection: Connection) -> None:
    """Write some rows of the change log and delete them, in one transaction, so that no other one ever reads them."""
    log = stead_change_log.c
    uuids = [str(uuid4()) for _ in range(_ROWS)]
    connection.execute(
        sa.insert(stead_change_log), [{"slot": 0, "tick": -1, "uuid": uuid, "kind": 0} for uuid in uuids]
    )
    connection.execute(sa.delete(stead_change_log).where(log.slot == 0, log.tick == -1, log.uuid.in_(uuids)))
