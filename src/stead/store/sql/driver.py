"""Passes statements to the driver as text: SQLAlchemy's processing takes longer than many of the statements.

SQLAlchemy's events are still sent, so that the listeners of an engine see these statements too. Errors are SQLAlchemy's
own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection


def run(connection: Connection, text: str, arguments: Any) -> Any:
    """The driver's cursor after executing *text*, whose placeholders are the driver's own.

    The connection must be in a transaction.

    Raises:
        DBAPIError: as SQLAlchemy raises it.
    """
    # Past the pool's proxy and the connection's own listeners, which would cost as much as a short statement.
    driver: Any = connection.connection.dbapi_connection
    cursor, heard = driver.cursor(), connection.engine.dispatch
    for hear in heard.before_cursor_execute:
        text, arguments = hear(connection, cursor, text, arguments, None, False)
    try:
        cursor.execute(text, arguments)
    except connection.dialect.loaded_dbapi.Error as error:
        cursor.close()
        raise failure(connection, error, text) from error
    for hear in heard.after_cursor_execute:
        hear(connection, cursor, text, arguments, None, False)
    return cursor


def rows(connection: Connection, text: str, arguments: Any) -> list[Any]:
    """All rows, as tuples."""
    cursor = run(connection, text, arguments)
    try:
        fetched: list[Any] = cursor.fetchall()
    except connection.dialect.loaded_dbapi.Error as error:
        raise failure(connection, error, text) from error
    finally:
        cursor.close()
    return fetched


def count(connection: Connection, text: str, arguments: Any) -> int:
    """The number of rows that the statement changed."""
    cursor = run(connection, text, arguments)
    changed: int = cursor.rowcount
    cursor.close()
    return changed


def failure(connection: Connection, error: Exception, text: str) -> sa.exc.DBAPIError:
    """The driver's *error* as SQLAlchemy would raise it. If the connection is lost, the whole pool is discarded."""
    dialect = connection.dialect
    lost = dialect.is_disconnect(error, connection.connection, None)  # type: ignore[arg-type]  # an error of its driver
    if lost:
        connection.invalidate(error)
        connection.engine.dispose()
    wrapped = sa.exc.DBAPIError.instance(
        text, None, error, dialect.loaded_dbapi.Error, connection_invalidated=lost, dialect=dialect
    )
    assert isinstance(wrapped, sa.exc.DBAPIError)
    return wrapped
