"""What connections tell about the server behind them: whether it is still the one that was read before.

An address may lead to another server, by a failover or a restore, whose clock may look as if it had only gone on. Which
server it is, is read once for each connection, since it can not change within one; and a connection that broke is a
hint that something did, wherever it broke.

Source: "The write and refresh protocol", docs/protocol.md (rule 12).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import sqlalchemy as sa

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable

    from sqlalchemy.engine import Connection, Engine

    from stead.store.sql.dialects import Dialect

_IDENTITY = "stead identity"


class PoolState(NamedTuple):
    """Connections of a pool: handed out, waiting to be, and how many may be open at most."""

    in_use: int
    idle: int
    most: int

    @classmethod
    def of(cls, engine: Engine) -> PoolState:
        """That of *engine*, whose connections are pooled."""
        pool = engine.pool
        assert isinstance(pool, sa.QueuePool)
        return cls(pool.checkedout(), pool.checkedin(), pool.size() + pool._max_overflow)  # noqa: SLF001  # no other way


class Connections:
    """Watches the connections of a store."""

    def __init__(self, dialect: Dialect, refresher: Engine, others: Iterable[Engine]) -> None:
        """From now on."""
        self.broken = 0
        """How many broke so far."""
        self._dialect = dialect
        self._pooled = tuple(others)
        sa.event.listen(refresher, "connect", self._identify)
        for engine in (refresher, *self._pooled):
            sa.event.listen(engine, "invalidate", self._count)

    @staticmethod
    def server_of(connection: Connection) -> Hashable:
        """Which server a connection of the refresher reached: equal for equal ones."""
        found: Hashable = connection.info[_IDENTITY]
        return found

    def _identify(self, connection: Any, record: Any) -> None:
        record.info[_IDENTITY] = self._dialect.identity(connection)

    def _count(self, *_: object) -> None:
        """One that broke is seldom alone: none of the others is tried, so that one request finds out, not each."""
        self.broken += 1
        for engine in self._pooled:
            engine.dispose()
