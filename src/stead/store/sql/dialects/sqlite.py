"""SQLite, through Python's own driver."""

from __future__ import annotations

import math
import os
import sqlite3
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import sqlalchemy as sa
from sqlalchemy.dialects import sqlite

from stead.store.sql.dialects.base import (
    DISK_ERROR,
    FULL,
    LOCK_WAIT_SECONDS,
    LOSES_ACKNOWLEDGED,
    NO_ANSWER,
    NO_DATABASE,
    NO_FILE,
    READ_ONLY,
    TEARS_PAGES,
    Database,
    Failure,
    Returning,
    Weakness,
    create_engine,
)

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping, Sequence

    from sqlalchemy.engine import URL, Connection, Engine
    from sqlalchemy.engine.interfaces import DBAPIConnection
    from sqlalchemy.pool import PoolProxiedConnection

    from stead.store.sql.dialects.base import Rows


class Sqlite(Returning):
    """One file with a write-ahead log: one writer at a time, concurrent readers."""

    marker = "?"
    locks_rows = False
    ignores_case = False
    defines_in_transactions = True
    counts_commits = True
    longest_joined = math.inf
    _PATH, _FILE = "path of the database", "file of the database"
    _BUSY, _LOCKED, _CONSTRAINT, _CONSTRAINT_UNIQUE, _CONSTRAINT_PRIMARY_KEY = 5, 6, 19, 2067, 1555
    # Busy, locked, out of memory, interrupted, locking protocol, and those that have a name.
    _NAMED: ClassVar[Mapping[int, Failure]] = {
        8: READ_ONLY._replace(is_lasting=True),  # no other server becomes the primary
        10: DISK_ERROR,
        11: NO_DATABASE,
        13: FULL,
        14: NO_FILE,
        26: NO_DATABASE,
    }
    _UNAVAILABLE = frozenset({_BUSY, _LOCKED, 7, 9, 15, *_NAMED}) - {11, 26}  # a damaged file heals by no waiting
    _UNDONE = frozenset({_BUSY, _LOCKED, _CONSTRAINT, 8, 13})  # read-only, disk full: the commit was never written
    _FULL = 2
    _LOOKS_MILLISECONDS = 10

    def listed_pairs(self, pairs: str) -> str:
        return f"VALUES {pairs}"  # SQLite accepts a list of pairs only as a table

    def in_one_row(self, query: Rows) -> sa.Select[tuple[str]] | None:
        """The driver releases the interpreter for every row, and then waits up to a whole switch interval for it."""
        rows = query.subquery()
        if not all(isinstance(column.type, sa.Integer | sa.String | sa.Float) for column in rows.c):
            return None
        return sa.select(sa.func.json_group_array(sa.func.json_array(*map(self._same_as_text, rows.c))))

    def json_array(self, column: sa.ColumnElement[Any]) -> sa.ColumnElement[str]:
        return sa.func.json_group_array(self._same_as_text(column), type_=sa.Text)

    @staticmethod
    def _same_as_text(column: sa.ColumnElement[Any]) -> sa.ColumnElement[Any]:
        """*column*, but null for a float that the 15 digits of its text do not represent exactly."""
        if not isinstance(column.type, sa.Float):
            return column
        # Most ratios are small whole numbers, for which the text need not be made.
        is_short = sa.and_(column.between(0, 2**32), sa.cast(column, sa.Integer) == column)
        return sa.case((sa.or_(is_short, sa.cast(sa.cast(column, sa.Text), sa.Float) == column), column))

    def certifies(self, connection: Connection) -> bool:  # noqa: ARG002 - there is one node
        return False

    def skips_locked(self, connection: Connection) -> bool:  # noqa: ARG002 - it has no row locks
        return False

    def commits_seen(self, connection: PoolProxiedConnection) -> Hashable:
        cursor = connection.cursor()
        cursor.execute("PRAGMA data_version")
        # With the file: if it was replaced, this connection counts the commits of the old one.
        return self._file(connection.info[self._PATH]), cursor.fetchall()[0][0]

    def identity(self, connection: DBAPIConnection) -> Hashable:
        return self._file(self._path(connection))

    @staticmethod
    def _path(connection: Any) -> str:
        """The path of the database's file; empty if it is in memory."""
        return str(next(file for _, name, file in connection.execute("PRAGMA database_list") if name == "main"))

    @staticmethod
    def _file(path: str) -> tuple[int, int] | None:
        """The identity of the file at *path*."""
        try:
            status = os.stat(path)  # noqa: PTH116 - at every checkout; a Path costs more than the call itself
        except OSError:
            return None
        return status.st_dev, status.st_ino

    def leads_elsewhere(self, connection: Any) -> bool:
        now = self._file(connection.info[self._PATH])
        return now is not None and now != connection.info[self._FILE]

    def _require_same_file(self, _connection: object, record: Any, _proxy: object) -> None:
        """Refuse pooled connections to a file that was replaced, as by a restore; the pool then reconnects."""
        if self.leads_elsewhere(record):
            raise sa.exc.DisconnectionError("the file of the database is another one")

    def _note_file(self, connection: Any, record: Any) -> None:
        path = record.info[self._PATH] = self._path(connection)
        record.info[self._FILE] = self._file(path)

    def writer(self, database: Database, url: URL) -> Engine:
        engine = self._engine(database, url)
        sa.event.listen(engine, "connect", self._bound_looks)
        sa.event.listen(engine, "begin", self._begin_writing)
        return engine

    def reader(self, database: Database, url: URL) -> Engine:
        engine = self._engine(database, url)
        sa.event.listen(engine, "begin", lambda connection: connection.exec_driver_sql("BEGIN"))
        return engine

    def _engine(self, database: Database, url: URL) -> Engine:
        """The driver begins transactions too late for a lock, so the callers of the engine begin them explicitly."""
        engine = create_engine(url, database)
        sa.event.listen(engine, "connect", lambda connection, _: self._on_connect(connection, database))
        sa.event.listen(engine, "connect", self._note_file)
        sa.event.listen(engine, "checkout", self._require_same_file)
        return engine

    def begin(self, connection: DBAPIConnection) -> None:
        connection.cursor().execute("BEGIN")

    @staticmethod
    def _bound_looks(connection: Any, _record: object) -> None:
        connection.execute(f"PRAGMA busy_timeout={Sqlite._LOOKS_MILLISECONDS}").fetchall()

    @staticmethod
    def _begin_writing(connection: Connection) -> None:
        """Try to lock every few milliseconds until the lock timeout.

        SQLite's own wait tries often at first, but after some milliseconds only ten times a second. That is too seldom
        to find a gap of a process that writes all the time. So each try here is a new BEGIN.
        """
        driver: Any = connection.connection.dbapi_connection
        until = time.monotonic() + LOCK_WAIT_SECONDS
        while time.monotonic() < until:
            try:
                driver.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError as error:
                # Only the low byte: the rest names the variant, such as busy because of a recovery.
                if error.sqlite_errorcode & 0xFF != Sqlite._BUSY:
                    break
            else:
                return
        connection.exec_driver_sql("BEGIN IMMEDIATE")  # raises the usual error

    def alone(self, connection: Connection) -> None:
        pass  # every writer has excluded all others since its BEGIN IMMEDIATE

    @staticmethod
    def _on_connect(connection: Any, database: Database) -> None:
        connection.isolation_level = None
        connection.execute(f"PRAGMA busy_timeout={LOCK_WAIT_SECONDS * 1000}").fetchall()
        Sqlite._log_ahead(connection)
        synchronous = "FULL" if database.sqlite_synchronous else "OFF"
        for pragma in (f"synchronous={synchronous}", "foreign_keys=ON"):
            connection.execute(f"PRAGMA {pragma}").fetchall()

    @staticmethod
    def _log_ahead(connection: Any) -> None:
        """Use a write-ahead log. The busy timeout has no effect here, so processes that open a new file must retry."""
        until = time.monotonic() + LOCK_WAIT_SECONDS
        while True:
            try:
                connection.execute("PRAGMA journal_mode=WAL").fetchall()
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode & 0xFF != Sqlite._BUSY or time.monotonic() > until:
                    raise
                time.sleep(0.01)
            else:
                return

    def upsert(self, table: sa.Table, changing: Sequence[str]) -> sa.Insert:
        insert = sqlite.insert(table)
        keys = [column.name for column in table.primary_key]
        return insert.on_conflict_do_update(
            index_elements=keys, set_={name: insert.excluded[name] for name in changing}
        )

    def insert_missing(self, table: sa.Table, unique: str) -> sa.Insert:
        return sqlite.insert(table).on_conflict_do_nothing(index_elements=[unique])

    def product(self, connection: Connection) -> str:  # noqa: ARG002  # one product
        return "SQLite"

    def now(self) -> sa.ColumnElement[Any]:
        return sa.literal_column("CURRENT_TIMESTAMP")

    def seconds(self, moment: sa.ColumnElement[Any]) -> sa.ColumnElement[int]:
        return sa.cast(sa.func.strftime("%s", moment), sa.Integer)

    def refuses_value(self, error: sa.exc.DBAPIError) -> bool:
        return isinstance(error, sa.exc.DataError)

    def is_retryable(self, error: sa.exc.DBAPIError) -> bool:
        code = getattr(error.orig, "sqlite_errorcode", None)
        if code is None:
            return False
        return code & 0xFF in (self._BUSY, self._LOCKED) or self.is_lost_race(error)

    def is_lost_race(self, error: sa.exc.DBAPIError) -> bool:
        code = getattr(error.orig, "sqlite_errorcode", None)
        return code in (self._CONSTRAINT_UNIQUE, self._CONSTRAINT_PRIMARY_KEY)

    def is_undone(self, error: sa.exc.DBAPIError) -> bool:
        code = getattr(error.orig, "sqlite_errorcode", None)
        return code is not None and code & 0xFF in self._UNDONE

    def is_unavailable(self, error: sa.exc.DBAPIError) -> bool:
        code = getattr(error.orig, "sqlite_errorcode", None)
        return code is not None and code & 0xFF in self._UNAVAILABLE

    def failure(self, error: sa.exc.DBAPIError) -> Failure:
        code = getattr(error.orig, "sqlite_errorcode", None) or 0
        return self._NAMED.get(code & 0xFF, NO_ANSWER)

    def details(self, error: sa.exc.DBAPIError, url: URL) -> str:
        if not url.database or url.database == ":memory:":
            return str(error.orig)
        path = Path(url.database)
        if self.failure(error) is not NO_FILE or url.database.startswith("file:"):
            return f"{path}: {error.orig}"
        return f"{path}: {_why_not_opened(path) or error.orig}"

    def refuses_writes(self, connection: Connection) -> str | None:  # noqa: ARG002 - it would not have opened
        return None

    def may_define(self, connection: Connection) -> bool:  # noqa: ARG002 - who may write the file may write all of it
        return True

    def unwritable(self, connection: Connection) -> list[str]:  # noqa: ARG002 - the same
        return []

    def without_transactions(self, connection: Connection) -> list[str]:  # noqa: ARG002 - all tables have them
        return []

    def misfits(self, connection: Connection) -> list[str]:  # noqa: ARG002 - each connection sets what it needs
        return []

    def weaknesses(self, connection: Connection) -> list[Weakness]:
        synchronous = int(connection.exec_driver_sql("PRAGMA synchronous").scalar_one())
        journal = str(connection.exec_driver_sql("PRAGMA journal_mode").scalar_one())
        weaknesses = []
        if synchronous < self._FULL:
            weaknesses.append(Weakness("synchronous", ("OFF", "NORMAL")[synchronous], "FULL", LOSES_ACKNOWLEDGED))
        if journal in ("memory", "off"):
            weaknesses.append(Weakness("journal_mode", journal, "wal", TEARS_PAGES))
        return weaknesses


def _why_not_opened(path: Path) -> str | None:
    """Why SQLite cannot open *path*, for which it has the same words in all cases; None if that cannot be seen."""
    try:
        path.parent.stat()
        if path.is_dir():
            return "it is a directory"
        place = path if path.exists() else path.parent
    except FileNotFoundError:
        return f"no such directory {path.parent}"
    except OSError as error:
        return f"{error.strerror}, for user {os.geteuid()}"
    if not os.access(place, os.R_OK | os.W_OK, effective_ids=True):
        return f"Permission denied, for user {os.geteuid()}"
    return None
