"""All that differs between databases: engines, locks, upserts, and which errors are worth another attempt.

A store function says what it wants; only this module knows how SQLite, PostgreSQL and MariaDB are asked for it, and it
is the one place that knows an error number. Nobody else asks which database this is.
"""

from __future__ import annotations

import sqlite3
import time
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import sqlalchemy as sa
from sqlalchemy.dialects import mysql, postgresql, sqlite

from stead.domain.errors import Unavailable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager

    from sqlalchemy.engine import URL, Engine
    from sqlalchemy.engine.interfaces import DBAPIConnection

LOCK_WAIT_SECONDS = 5
"""A lock is waited for so long before the attempt starts anew: a writer that hangs must not hang the others."""

_LONG_SECONDS = 3600

MANY = 1000
"""Values in one ``IN (…)``: below every driver's limit on parameters."""


@dataclass(frozen=True, slots=True)
class Database:
    """How to reach a database. Sizes are connections, times are seconds; None leaves the library's default."""

    url: str = field(repr=False)
    max_pool_size: int | None = None
    max_overflow: int | None = None
    pool_timeout: float | None = None
    connection_recycle_time: int = 3600
    sqlite_synchronous: bool = True
    """Off, a power cut may take acknowledged writes with it."""
    mysql_sql_mode: str = "TRADITIONAL"
    """Empty leaves the server's own."""
    echo: bool = False

    def pool(self) -> dict[str, Any]:
        """The pool's arguments for ``create_engine``."""
        sizes = {
            "pool_size": self.max_pool_size,
            "max_overflow": self.max_overflow,
            "pool_timeout": self.pool_timeout,
        }
        given = {name: size for name, size in sizes.items() if size is not None}
        return {**given, "pool_recycle": self.connection_recycle_time, "echo": self.echo}


class Dialect(Protocol):
    """The abilities of one kind of database."""

    locks_rows: bool
    """Rows are locked one by one; otherwise a writer has the whole database to itself from its first statement."""

    ignores_case: bool
    """Names and uuids that differ in case only are the same to the database's own comparisons and unique keys."""

    counts_commits: bool
    """A connection can say, without a transaction, whether others committed since it last asked."""

    def commits_seen(self, connection: DBAPIConnection) -> int:
        """A number that changes when another connection commits; *connection* never writes and is in no transaction."""
        ...

    def writer(self, database: Database, url: URL) -> Engine:
        """An engine whose transactions write, at READ COMMITTED or stricter than any interleaving."""
        ...

    def reader(self, database: Database, url: URL) -> Engine:
        """An engine whose transactions only read, each from one snapshot taken by its first statement."""
        ...

    def alone(self, engine: Engine) -> AbstractContextManager[None]:
        """Hold off everybody else who asks for this on the same database."""
        ...

    def upsert(self, table: sa.Table, changing: Sequence[str]) -> sa.Insert:
        """INSERT that overwrites the columns *changing* of a row whose primary key exists."""
        ...

    def insert_missing(self, table: sa.Table, unique: str) -> sa.Insert:
        """INSERT that passes over a row whose value in the column *unique* exists; what does not fit is an error."""
        ...

    def refuses_value(self, error: sa.exc.DBAPIError) -> bool:
        """Whether a value can never be stored: too long, too large, or no text of this database."""
        ...

    def is_retryable(self, error: sa.exc.DBAPIError) -> bool:
        """Whether the same transaction may succeed when it is run again from its start.

        Deadlocks, lost serialisation races, busy databases, and duplicate keys: the next attempt sees the row that
        this one collided with.
        """
        ...


def _create(url: URL, database: Database, **more: Any) -> Engine:
    return sa.create_engine(url, **database.pool(), **more)


class Sqlite:
    """One file, write-ahead log; one writer at a time, readers beside it."""

    locks_rows = False
    ignores_case = False
    counts_commits = True
    _BUSY, _LOCKED, _CONSTRAINT_UNIQUE, _CONSTRAINT_PRIMARY_KEY = 5, 6, 2067, 1555

    def commits_seen(self, connection: DBAPIConnection) -> int:
        cursor = connection.cursor()
        cursor.execute("PRAGMA data_version")
        return int(cursor.fetchall()[0][0])

    def writer(self, database: Database, url: URL) -> Engine:
        return self._engine(database, url, begin="BEGIN IMMEDIATE")

    def reader(self, database: Database, url: URL) -> Engine:
        return self._engine(database, url, begin="BEGIN")

    def _engine(self, database: Database, url: URL, *, begin: str) -> Engine:
        engine = _create(url, database)
        sa.event.listen(engine, "connect", lambda connection, _: self._on_connect(connection, database))
        # The driver's own idea of when a transaction starts is too late for a lock; we begin explicitly.
        sa.event.listen(engine, "begin", lambda connection: connection.exec_driver_sql(begin))
        return engine

    def alone(self, engine: Engine) -> AbstractContextManager[None]:  # noqa: ARG002 - every writer is alone
        return nullcontext()

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
        """Use a write-ahead log. The busy timeout does not hold here; two that meet at a new file must try again."""
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

    def refuses_value(self, error: sa.exc.DBAPIError) -> bool:
        return isinstance(error, sa.exc.DataError)

    def is_retryable(self, error: sa.exc.DBAPIError) -> bool:
        code = getattr(error.orig, "sqlite_errorcode", None)
        if code is None:
            return False
        return code & 0xFF in (self._BUSY, self._LOCKED) or code in (
            self._CONSTRAINT_UNIQUE,
            self._CONSTRAINT_PRIMARY_KEY,
        )


class _Server:
    """A database server, which is asked for its clock at every refresh."""

    locks_rows = True
    ignores_case = False
    counts_commits = False

    def commits_seen(self, connection: DBAPIConnection) -> int:
        raise TypeError(f"{connection} does not count commits")


class Postgresql(_Server):
    """PostgreSQL through psycopg 3."""

    _RETRYABLE = frozenset({"40001", "40P01", "55P03", "23505"})  # serialisation, deadlock, lock, unique

    def writer(self, database: Database, url: URL) -> Engine:
        engine = _create(url, database, isolation_level="READ COMMITTED")
        sa.event.listen(engine, "connect", self._bound_waits)
        return engine

    def reader(self, database: Database, url: URL) -> Engine:
        engine = _create(url, database, isolation_level="REPEATABLE READ")
        sa.event.listen(engine, "connect", self._read_only)
        return engine

    @staticmethod
    def _bound_waits(connection: Any, _record: object) -> None:
        with connection.cursor() as cursor:
            cursor.execute(f"SET SESSION lock_timeout = '{LOCK_WAIT_SECONDS}s'")
        connection.commit()

    @staticmethod
    def _read_only(connection: Any, _record: object) -> None:
        connection.read_only = True

    @contextmanager
    def alone(self, engine: Engine) -> Iterator[None]:
        with engine.begin() as connection:
            connection.exec_driver_sql("SET LOCAL lock_timeout = 0")
            connection.execute(sa.select(sa.func.pg_advisory_xact_lock(sa.func.hashtext("stead"))))
            yield

    def upsert(self, table: sa.Table, changing: Sequence[str]) -> sa.Insert:
        insert = postgresql.insert(table)
        keys = [column.name for column in table.primary_key]
        return insert.on_conflict_do_update(
            index_elements=keys, set_={name: insert.excluded[name] for name in changing}
        )

    def insert_missing(self, table: sa.Table, unique: str) -> sa.Insert:
        return postgresql.insert(table).on_conflict_do_nothing(index_elements=[unique])

    def refuses_value(self, error: sa.exc.DBAPIError) -> bool:
        return isinstance(error, sa.exc.DataError)  # class 22, and NUL, which the driver refuses by itself

    def is_retryable(self, error: sa.exc.DBAPIError) -> bool:
        return getattr(error.orig, "sqlstate", None) in self._RETRYABLE


class Mysql(_Server):
    """MySQL and MariaDB, Galera included."""

    ignores_case = True
    _RETRYABLE = frozenset({1213, 1205, 1062, 1020, 1047})  # deadlock, lock wait, duplicate, changed, node not ready
    _REFUSED = frozenset({1264, 1265, 1292, 1366, 1406})  # range, truncated, truncated, no such characters, too long

    def writer(self, database: Database, url: URL) -> Engine:
        # Under REPEATABLE READ a lock reads the current row and the SUM after it an old snapshot: over-commit.
        engine = _create(url, database, isolation_level="READ COMMITTED")
        sa.event.listen(engine, "connect", lambda connection, _: self._on_connect(connection, database))
        return engine

    def reader(self, database: Database, url: URL) -> Engine:
        engine = _create(url, database, isolation_level="REPEATABLE READ")
        sa.event.listen(engine, "connect", lambda connection, _: self._on_connect(connection, database))
        return engine

    @staticmethod
    def _on_connect(connection: Any, database: Database) -> None:
        # VCPU has id 0, which MySQL would otherwise replace by the next free number.
        mode = ",".join(filter(None, (database.mysql_sql_mode, "NO_AUTO_VALUE_ON_ZERO")))
        with connection.cursor() as cursor:
            cursor.execute("SET SESSION sql_mode = CONCAT(@@sql_mode, ',', %s)", (mode,))
            cursor.execute("SET SESSION innodb_lock_wait_timeout = %s", (LOCK_WAIT_SECONDS,))
            # On a Galera node a snapshot waits for what other nodes have acknowledged before it.
            if cursor.execute("SHOW VARIABLES WHERE Variable_name = 'wsrep_on' AND Value = 'ON'"):
                cursor.execute("SET SESSION wsrep_sync_wait = 1")

    @contextmanager
    def alone(self, engine: Engine) -> Iterator[None]:
        name = sa.func.concat("stead ", sa.func.database())
        with engine.connect() as connection:
            connection.execute(sa.select(sa.func.get_lock(name, _LONG_SECONDS)))
            try:
                yield
            finally:
                connection.execute(sa.select(sa.func.release_lock(name)))

    def upsert(self, table: sa.Table, changing: Sequence[str]) -> sa.Insert:
        insert = mysql.insert(table)
        return insert.on_duplicate_key_update({name: insert.inserted[name] for name in changing})

    def insert_missing(self, table: sa.Table, unique: str) -> sa.Insert:  # noqa: ARG002 - it is any unique key here
        # Not INSERT IGNORE, which cuts what is too long.
        return mysql.insert(table).on_duplicate_key_update({key.name: key for key in table.primary_key})

    def is_retryable(self, error: sa.exc.DBAPIError) -> bool:
        return self._number(error) in self._RETRYABLE

    def refuses_value(self, error: sa.exc.DBAPIError) -> bool:
        return self._number(error) in self._REFUSED

    @staticmethod
    def _number(error: sa.exc.DBAPIError) -> object:
        arguments: tuple[object, ...] = getattr(error.orig, "args", ())
        return arguments[0] if arguments else None


_DIALECTS: Mapping[str, Dialect] = {
    "sqlite": Sqlite(),
    "postgresql": Postgresql(),
    "mysql": Mysql(),
    "mariadb": Mysql(),
}


def dialect_of(url: URL) -> Dialect:
    """The abilities of the database behind *url*.

    Raises:
        Unavailable: it is of a kind that Stead does not know.
    """
    try:
        return _DIALECTS[url.get_backend_name()]
    except KeyError:
        raise Unavailable(f"databases of kind {url.get_backend_name()} are not supported") from None
