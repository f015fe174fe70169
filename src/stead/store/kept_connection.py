"""One connection, kept for snapshots: to borrow one from the pool each time would cost more than its statements."""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sqlalchemy.engine import Connection
    from sqlalchemy.engine.interfaces import DBAPICursor

    from stead.store.transaction import Store


class Snapshot:
    """A transaction that shows one state of the database.

    Statements go past SQLAlchemy, which costs more than the driver where they are as small as those of a refresh.
    """

    def __init__(self, connection: Connection) -> None:
        self.dialect = connection.dialect
        self._connection = connection

    def exec_driver_sql(self, statement: str, parameters: Any = None) -> DBAPICursor:
        """A cursor that has run *statement*.

        Raises:
            sqlalchemy.exc.DBAPIError: the database failed.
        """
        cursor = self._connection.connection.cursor()
        try:
            cursor.execute(statement, parameters)
        except self.dialect.loaded_dbapi.Error as error:
            raise _failure(self._connection, error, statement) from error
        return cursor


class KeptConnection:
    """Opened when it is first needed, and anew after any error and when it has got old; one user at a time."""

    def __init__(self, store: Store) -> None:
        """Nothing is connected yet."""
        self._store = store
        self._connection: Connection | None = None
        self._old_at = 0.0

    @contextmanager
    def snapshot(self) -> Iterator[Snapshot]:
        """A transaction that has read nothing yet.

        Raises:
            sqlalchemy.exc.DBAPIError: the database failed.
        """
        connection = self._working()
        try:
            self._begin(connection)
            yield Snapshot(connection)
            self._end(connection)
        except BaseException:
            self.close()
            raise

    def _working(self) -> Connection:
        if time.monotonic() > self._old_at:
            self.close()
        if self._connection is None:
            self._connection = self._store.refresher.connect()
            self._old_at = time.monotonic() + self._store.connection_seconds
        return self._connection

    def _begin(self, connection: Connection) -> None:
        try:
            self._store.dialect.begin(connection.connection)
        except connection.dialect.loaded_dbapi.Error as error:
            raise _failure(connection, error, "BEGIN") from error

    @staticmethod
    def _end(connection: Connection) -> None:
        try:
            connection.connection.commit()
        except connection.dialect.loaded_dbapi.Error as error:
            raise _failure(connection, error, "COMMIT") from error

    def close(self) -> None:
        """Close the connection, if there is one; the next snapshot opens another."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


def _failure(connection: Connection, error: Exception, statement: str) -> sa.exc.DBAPIError:
    """The driver's *error* as SQLAlchemy would have raised it; a connection that is lost is given up."""
    dialect = connection.dialect
    lost = dialect.is_disconnect(error, connection.connection, None)  # type: ignore[arg-type]  # an error of its driver
    if lost:
        connection.invalidate(error)
    found = sa.exc.DBAPIError.instance(
        statement, None, error, dialect.loaded_dbapi.Error, connection_invalidated=lost, dialect=dialect
    )
    assert isinstance(found, sa.exc.DBAPIError)
    return found
