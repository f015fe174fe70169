"""The server behind the connections: whether it is still the same, is durable, and accepts writes.

After a failover or a restore, an address may lead to another server, whose clock may look as if it had only advanced.
The server is identified once for each connection, since it cannot change within one. A broken connection is a hint that
the server may have changed, whichever connection broke.

Source: "The write and refresh protocol", docs/protocol.md (rule 12).
"""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import uuid4

import sqlalchemy as sa

from stead.domain.errors import SteadError, Unavailable
from stead.store.sql.dialects import Weakness, dialect_of, telling_why
from stead.store.tables import stead_change_log

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable

    from sqlalchemy.engine import Connection, Engine

    from stead.store.sql.dialects import Dialect


_IDENTITY = "stead identity"


class PoolState(NamedTuple):
    """Connections of a pool: in use, requests waiting for one, and the maximum number of open ones."""

    in_use: int
    idle: int
    most: int

    @classmethod
    def of(cls, engine: Engine) -> PoolState:
        """The state of the pool of *engine*."""
        pool = engine.pool
        assert isinstance(pool, sa.QueuePool)
        return cls(pool.checkedout(), pool.checkedin(), pool.size() + pool._max_overflow)  # noqa: SLF001  # no other way


class Breaks:
    """The connections that broke, or could not be made, under one request.

    A proxy or the server may have closed a connection while it was idle, which shows only at the next statement. The
    server can have executed nothing, so the request starts again on another connection.

    The number is bounded: a statement that ends the server's process must not end it again and again. So is the time.
    """

    _MOST = 2
    _SECONDS = 5.0

    def __init__(self) -> None:
        """Begin with the request."""
        self._count = 0
        self._until = time.monotonic() + self._SECONDS

    def may_reconnect(self, error: sa.exc.DBAPIError) -> bool:
        """Whether *error* is that of a connection, not of a statement, and another connection may do better."""
        if not error.connection_invalidated and error.statement is not None:
            return False
        self._count += 1
        return self._count <= self._MOST and time.monotonic() < self._until


class Connections:
    """Monitors the connections of a store."""

    def __init__(self, dialect: Dialect, refresher: Engine, others: Iterable[Engine]) -> None:
        """Start to monitor."""
        self.broken = 0
        """Number of connections that have broken so far."""
        self._dialect = dialect
        self._pooled = tuple(others)
        sa.event.listen(refresher, "connect", self._identify)
        for engine in (refresher, *self._pooled):
            sa.event.listen(engine, "invalidate", self._count)

    @staticmethod
    def server_of(connection: Connection) -> Hashable:
        """An identifier of the server that a connection of the refresher reached."""
        identity: Hashable = connection.info[_IDENTITY]
        return identity

    def _identify(self, connection: Any, record: Any) -> None:
        record.info[_IDENTITY] = self._dialect.identity(connection)

    def _count(self, *_: object) -> None:
        """Discard the whole pool when a connection breaks: others are usually broken too, and one error is enough."""
        self.broken += 1
        for engine in self._pooled:
            engine.dispose()


# Checks of a server: it must accept writes, and acknowledged commits must be durable.
#
# Source: "The write and refresh protocol", docs/protocol.md (rule 14).


_log = logging.getLogger(__name__)


@dataclass(eq=False)
class NotWritable(SteadError):
    """The database rejects writes, so that the service could not claim anything."""

    reason: str

    def __str__(self) -> str:
        return f"The database is read-only ({self.reason}). Name the server that takes the writes."


@dataclass(eq=False)
class NotDurable(SteadError):
    """The database may lose acknowledged commits, and the settings require durable commits."""

    weaknesses: tuple[Weakness, ...]

    def __str__(self) -> str:
        weaknesses = "; ".join(map(str, self.weaknesses))
        return f"[stead] require_durable_commits is set, and the database does not keep it: {weaknesses}"


def check(writer: Engine, *, required: bool) -> None:
    """Check the server's settings, and log those that endanger commits, with the consequence.

    Args:
        required: refuse a server with such settings.

    Raises:
        NotWritable: it is a replica, or read-only.
        NotDurable: it has such settings, and *required* is set.
        Unavailable: it does not answer.
    """
    dialect = dialect_of(writer.url)
    with telling_why(writer.url), writer.connect() as connection:
        reason = dialect.refuses_writes(connection)
        weaknesses = tuple(dialect.weaknesses(connection))
    if reason is not None:
        raise NotWritable(reason)
    if weaknesses and required:
        raise NotDurable(weaknesses)
    for weakness in weaknesses:
        _log.warning("the database's %s", weakness)


# Whether the database accepts writes: the result of the last write, or of a small test write that leaves no rows.
#
# A full disk or a read-only server still answers every read, so only a write can tell.


TRUSTED_SECONDS = 60.0
"""Time for which a successful write proves that writes are possible."""

PAUSE_SECONDS = 5.0
"""Time from a refused write to the next test write, and between test writes."""

_ROWS = 200
"""Rows of a test write: about 16 KiB, which does not fit on a full disk once the free space in pages is used up."""


class Outage:
    """A time in which the database failed. Its begin, each new cause and its end are logged once, not per request.

    Attributes:
        since: when it began; None while the database does what it is told to, so that :meth:`over` would do nothing.
    """

    def __init__(self, end: str) -> None:
        """*end* is what the log says when it is over."""
        self._end = end
        self._lock = threading.Lock()
        self.since: float | None = None
        self._cause = ""

    def failed(self, cause: str, details: str) -> None:
        """The database failed because of *cause*; *details* may differ from request to request."""
        with self._lock:
            if self.since is None:
                self.since = time.monotonic()
            elif cause == self._cause:
                return
            self._cause = cause
        _log.warning("%s: %s", cause, details)

    def over(self) -> None:
        """The database did what it was told to."""
        if self.since is None:
            return  # without the lock: this is what every request meets
        with self._lock:
            since, self.since = self.since, None
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
