"""Determines from connections whether the server behind an address is still the same.

After a failover or a restore, an address may lead to another server, whose clock may look as if it had only advanced.
The server is identified once for each connection, since it cannot change within one. A broken connection is a hint that
the server may have changed, whichever connection broke.

Source: "The write and refresh protocol", docs/protocol.md (rule 12).
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, NamedTuple

import sqlalchemy as sa

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable

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
