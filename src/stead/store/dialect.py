"""All that differs between databases: engines, locks, upserts, and which errors are worth another attempt.

A store function says what it wants; only this module knows how SQLite, PostgreSQL and MariaDB are asked for it, and it
is the one place that knows an error number. Nobody else asks which database this is.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import sqlalchemy as sa
from sqlalchemy.dialects import mysql, postgresql, sqlite

from stead.domain.errors import Unavailable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sqlalchemy.engine import URL, Engine
    from sqlalchemy.engine.interfaces import DBAPIConnection

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

    def upsert(self, table: sa.Table, changing: Sequence[str]) -> sa.Insert:
        """INSERT that overwrites the columns *changing* of a row whose primary key exists."""
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

    @staticmethod
    def _on_connect(connection: Any, database: Database) -> None:
        connection.isolation_level = None
        synchronous = "FULL" if database.sqlite_synchronous else "OFF"
        for pragma in ("busy_timeout=5000", "journal_mode=WAL", f"synchronous={synchronous}", "foreign_keys=ON"):
            connection.execute(f"PRAGMA {pragma}").fetchall()

    def upsert(self, table: sa.Table, changing: Sequence[str]) -> sa.Insert:
        insert = sqlite.insert(table)
        keys = [column.name for column in table.primary_key]
        return insert.on_conflict_do_update(
            index_elements=keys, set_={name: insert.excluded[name] for name in changing}
        )

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
    counts_commits = False

    def commits_seen(self, connection: DBAPIConnection) -> int:
        raise TypeError(f"{connection} does not count commits")


class Postgresql(_Server):
    """PostgreSQL through psycopg 3."""

    _RETRYABLE = frozenset({"40001", "40P01", "55P03", "23505"})  # serialisation, deadlock, lock, unique

    def writer(self, database: Database, url: URL) -> Engine:
        return _create(url, database, isolation_level="READ COMMITTED")

    def reader(self, database: Database, url: URL) -> Engine:
        engine = _create(url, database, isolation_level="REPEATABLE READ")
        sa.event.listen(engine, "connect", self._read_only)
        return engine

    @staticmethod
    def _read_only(connection: Any, _record: object) -> None:
        connection.read_only = True

    def upsert(self, table: sa.Table, changing: Sequence[str]) -> sa.Insert:
        insert = postgresql.insert(table)
        keys = [column.name for column in table.primary_key]
        return insert.on_conflict_do_update(
            index_elements=keys, set_={name: insert.excluded[name] for name in changing}
        )

    def is_retryable(self, error: sa.exc.DBAPIError) -> bool:
        return getattr(error.orig, "sqlstate", None) in self._RETRYABLE


class Mysql(_Server):
    """MySQL and MariaDB, Galera included."""

    _RETRYABLE = frozenset({1213, 1205, 1062, 1020, 1047})  # deadlock, lock wait, duplicate, changed, node not ready

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

    def upsert(self, table: sa.Table, changing: Sequence[str]) -> sa.Insert:
        insert = mysql.insert(table)
        return insert.on_duplicate_key_update({name: insert.inserted[name] for name in changing})

    def is_retryable(self, error: sa.exc.DBAPIError) -> bool:
        arguments: tuple[object, ...] = getattr(error.orig, "args", ())
        return arguments[:1] != () and arguments[0] in self._RETRYABLE


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
