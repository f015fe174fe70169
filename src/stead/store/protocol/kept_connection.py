"""One connection, kept for snapshots: borrowing one from the pool each time would cost more than its statements."""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from stead.store.sql.driver import failure

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sqlalchemy.engine import Connection

    from stead.store.protocol.store import Store


class KeptConnection:
    """Opened at first use, and again after an error or when it is too old. One user at a time."""

    def __init__(self, store: Store) -> None:
        """Connect to nothing yet."""
        self._store = store
        self._connection: Connection | None = None
        self._old_at = 0.0
        self._broken = 0

    @contextmanager
    def snapshot(self) -> Iterator[Connection]:
        """The connection, in a transaction that has read nothing yet. SQLAlchemy does not know of the transaction.

        Raises:
            sqlalchemy.exc.DBAPIError: the database failed.
        """
        connection = self._working()
        try:
            self._begin(connection)
            yield connection
        except BaseException:
            # Also if the caller failed: its transaction is open, and the next snapshot must not continue it.
            self.close()
            raise
        self._end(connection)

    def _working(self) -> Connection:
        if self._connection is not None and self._is_doubtful(self._connection):
            self.close()
        if self._connection is None:
            broken = self._store.connections.broken  # before it connects: one that breaks meanwhile makes this doubtful
            self._connection = self._store.refresher.connect()
            self._old_at = time.monotonic() + self._store.connection_seconds
            self._broken = broken
        return self._connection

    def _is_doubtful(self, connection: Connection) -> bool:
        """Whether it is too old, another connection broke, or its address leads to another server."""
        return (
            time.monotonic() > self._old_at
            or self._store.connections.broken != self._broken
            or self._store.dialect.leads_elsewhere(connection.connection)
        )

    def _begin(self, connection: Connection) -> None:
        try:
            self._store.dialect.begin(connection.connection)
        except connection.dialect.loaded_dbapi.Error as error:
            raise failure(connection, error, "BEGIN") from error

    def _end(self, connection: Connection) -> None:
        try:
            connection.connection.commit()
        except connection.dialect.loaded_dbapi.Error as error:
            # What was read is of one snapshot all the same. The failure counts as a broken connection.
            failure(connection, error, "COMMIT")
            self.close()

    def close(self) -> None:
        """Close the connection, if there is one; the next snapshot opens another."""
        # Forgotten first: if closing fails, the next snapshot must not use it.
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()
