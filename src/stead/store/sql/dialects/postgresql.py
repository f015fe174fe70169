"""PostgreSQL, through psycopg 3."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import psycopg
import sqlalchemy as sa
from sqlalchemy.dialects import postgresql

from stead.domain.errors import Unavailable
from stead.store.sql.dialects import base
from stead.store.sql.dialects.base import (
    CONNECT_SECONDS,
    CROWDED,
    FULL,
    LOCK_WAIT_SECONDS,
    LOSES_ACKNOWLEDGED,
    NO_ACCESS,
    NO_ANSWER,
    READ_ONLY,
    REFUSED,
    TEARS_PAGES,
    UNKNOWN_DATABASE,
    Database,
    Failure,
    Server,
    UrlUnusable,
    Weakness,
    create_engine,
)

if TYPE_CHECKING:
    from collections.abc import Generator, Hashable, Mapping, Sequence

    from sqlalchemy.engine import URL, Connection, Engine


class Postgresql(Server):
    """PostgreSQL through psycopg 3."""

    _LOST = frozenset({"40001", "40P01", "23505"})  # serialisation, deadlock, unique
    _LOCK_WAIT = "55P03"
    _RETRYABLE = _LOST | {_LOCK_WAIT}
    _IDENTITY_FOR_ALL = "SELECT pg_postmaster_start_time()"
    # Not the timeline of the last checkpoint: after a replica's promotion that is the old one for a while.
    _IDENTITY = """
        SELECT pg_postmaster_start_time(), (SELECT system_identifier FROM pg_control_system()),
               CASE WHEN NOT pg_is_in_recovery() THEN substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8) END"""
    _UNDONE_CLASSES = frozenset({"23", "40", "53"})  # a constraint that is checked at COMMIT, rollback, a full disk
    _COMPLETION_UNKNOWN = "40003"
    # By class: connection, authorization, database name, rollback by the server, resources (a full disk). Then an
    # operator's intervention (shutdown, start, a cancelled query), and errors of the system around the server. The last
    # class has errors of the server itself, among them a disk quota that is used up.
    _UNAVAILABLE_CLASSES = frozenset({"08", "28", "3D", "40", "53", "57", "58", "XX"})
    _UNAVAILABLE = frozenset({"25006", "25P03", "25P04", _LOCK_WAIT})  # read-only, idle or long transaction, lock wait
    _FAILURES: ClassVar[Mapping[str, Failure]] = {
        "28000": REFUSED,
        "28P01": REFUSED,
        "3D000": UNKNOWN_DATABASE,
        "53100": FULL,
        "53300": CROWDED,
        "25006": READ_ONLY,
    }
    _EXTENDING = "could not extend file"  # a quota, or a limit of the length of files
    _WORDS = (
        (re.compile(r'database ".*" does not exist'), UNKNOWN_DATABASE),
        (re.compile("permission denied for database"), NO_ACCESS),
        (
            re.compile(
                r'authentication failed|role ".*" does not exist|no pg_hba.conf entry|pg_hba.conf rejects'
                r"|not permitted to log in|no password supplied"
            ),
            REFUSED,
        ),
        (re.compile(r"too many clients|too many connections|connection slots"), CROWDED),
    )
    _MAY_DEFINE = """
        SELECT COALESCE(has_schema_privilege(current_schema(), 'CREATE'), false) AND NOT EXISTS (
            SELECT 1 FROM pg_tables WHERE schemaname = current_schema() AND NOT pg_has_role(tableowner, 'USAGE'))"""
    _UNWRITABLE = """
        SELECT relname FROM pg_class JOIN pg_namespace n ON n.oid = relnamespace
        WHERE relkind = 'r' AND nspname = current_schema() AND NOT (
            has_table_privilege(pg_class.oid, 'SELECT') AND has_table_privilege(pg_class.oid, 'INSERT')
            AND has_table_privilege(pg_class.oid, 'UPDATE') AND has_table_privilege(pg_class.oid, 'DELETE'))
        ORDER BY relname"""
    _WANTED = (
        ("fsync", ("on",), LOSES_ACKNOWLEDGED),
        ("full_page_writes", ("on",), TEARS_PAGES),
        ("synchronous_commit", ("on", "local", "remote_write", "remote_apply"), LOSES_ACKNOWLEDGED),
    )

    def writer(self, database: Database, url: URL) -> Engine:
        engine = self._engine(url, database, "READ COMMITTED")
        sa.event.listen(engine, "connect", self._bound_waits)
        return engine

    def reader(self, database: Database, url: URL) -> Engine:
        engine = self._engine(url, database, "REPEATABLE READ")
        sa.event.listen(engine, "connect", self._read_only)
        return engine

    @staticmethod
    def _engine(url: URL, database: Database, isolation_level: str) -> Engine:
        # The driver takes the encoding of the database. It then returns bytes from SQL_ASCII, and cannot send what
        # LATIN1 lacks.
        arguments: dict[str, Any] = {"client_encoding": "utf8"}
        if "connect_timeout" not in url.query:
            arguments["connect_timeout"] = CONNECT_SECONDS
        if "prepare_threshold" in url.query:
            arguments["prepare_threshold"] = _threshold(url.query["prepare_threshold"])
        engine = create_engine(url, database, isolation_level=isolation_level, connect_args=arguments)
        sa.event.listen(engine, "connect", Postgresql._write_values_exactly)
        if (seconds := database.answer_timeout) is not None:
            sa.event.listen(engine, "do_connect", lambda _dialect, _record, _, how: connect(seconds, **how))
        return engine

    @staticmethod
    def _write_values_exactly(connection: Any, _record: object) -> None:
        """Set what determines the texts of values: the server, the database or the account may have other defaults."""
        with connection.cursor() as cursor:
            cursor.execute("SELECT set_config('datestyle', 'ISO', false), set_config('extra_float_digits', '1', false)")
        connection.commit()  # or the rollback at the connection's return to the pool would undo it

    @staticmethod
    def _bound_waits(connection: Any, _record: object) -> None:
        with connection.cursor() as cursor:
            cursor.execute(f"SET SESSION lock_timeout = '{LOCK_WAIT_SECONDS}s'")
        # Without a commit, the rollback at the connection's return to the pool would undo the setting.
        connection.commit()

    @staticmethod
    def _read_only(connection: Any, _record: object) -> None:
        connection.read_only = True

    def json_array(self, column: sa.ColumnElement[Any]) -> sa.ColumnElement[str]:
        return sa.cast(sa.func.json_agg(column), sa.Text)

    def alone(self, connection: Connection) -> None:
        # A lock of the transaction, not of the session: a pooler may give each transaction another session.
        lock = sa.select(sa.func.pg_advisory_xact_lock(sa.func.hashtext("stead")))
        connection.exec_driver_sql(f"SET LOCAL lock_timeout = '{base.ALONE_SECONDS}s'")
        try:
            connection.execute(lock)
        except sa.exc.OperationalError as error:
            if getattr(error.orig, "sqlstate", None) != self._LOCK_WAIT:
                raise
            raise Unavailable(base.NOT_ALONE.format(seconds=base.ALONE_SECONDS)) from error
        connection.exec_driver_sql(f"SET LOCAL lock_timeout = '{LOCK_WAIT_SECONDS}s'")

    def upsert(self, table: sa.Table, changing: Sequence[str]) -> sa.Insert:
        insert = postgresql.insert(table)
        keys = [column.name for column in table.primary_key]
        return insert.on_conflict_do_update(
            index_elements=keys, set_={name: insert.excluded[name] for name in changing}
        )

    def insert_missing(self, table: sa.Table, unique: str) -> sa.Insert:
        return postgresql.insert(table).on_conflict_do_nothing(index_elements=[unique])

    def identity(self, connection: Any) -> Hashable:
        for statement in (self._IDENTITY, self._IDENTITY_FOR_ALL):
            try:
                return tuple(connection.execute(statement).fetchone())
            except (connection.ProgrammingError, connection.NotSupportedError):
                continue  # the operator decides which functions an ordinary user may call
            finally:
                connection.rollback()
        return None

    def product(self, connection: Connection) -> str:  # noqa: ARG002  # one product
        return "PostgreSQL"

    def now(self) -> sa.ColumnElement[Any]:
        # Not now(), which is the start of the transaction: it may have waited for locks since.
        return sa.literal_column("(clock_timestamp() AT TIME ZONE 'UTC')")

    def seconds(self, moment: sa.ColumnElement[Any]) -> sa.ColumnElement[int]:
        return sa.cast(sa.func.floor(sa.extract("epoch", moment)), sa.BigInteger)

    def refuses_value(self, error: sa.exc.DBAPIError) -> bool:
        return isinstance(error, sa.exc.DataError)  # class 22, and NUL, which the driver itself refuses

    def is_retryable(self, error: sa.exc.DBAPIError) -> bool:
        return getattr(error.orig, "sqlstate", None) in self._RETRYABLE

    def is_lost_race(self, error: sa.exc.DBAPIError) -> bool:
        return getattr(error.orig, "sqlstate", None) in self._LOST

    def is_undone(self, error: sa.exc.DBAPIError) -> bool:
        state = getattr(error.orig, "sqlstate", None) or ""
        return state[:2] in self._UNDONE_CLASSES and state != self._COMPLETION_UNKNOWN

    def is_unavailable(self, error: sa.exc.DBAPIError) -> bool:
        state = getattr(error.orig, "sqlstate", None)
        if state is None:  # the driver's own error: no connection, or it broke
            return isinstance(error, sa.exc.OperationalError)
        return state[:2] in self._UNAVAILABLE_CLASSES or state in self._UNAVAILABLE

    def failure(self, error: sa.exc.DBAPIError) -> Failure:
        state, text = getattr(error.orig, "sqlstate", None), str(error.orig)
        if state is not None:
            return self._FAILURES.get(state, FULL if self._EXTENDING in text else NO_ANSWER)
        # A refused connection has no code, only the server's words. Those in other languages count as no answer.
        return next((failure for words, failure in self._WORDS if words.search(text)), NO_ANSWER)

    def refuses_writes(self, connection: Connection) -> str | None:
        if connection.exec_driver_sql("SELECT pg_is_in_recovery()").scalar_one():
            return "it is a replica, or still in recovery"
        if self._setting(connection, "transaction_read_only") == "on":
            return "default_transaction_read_only is on"
        return None

    def may_define(self, connection: Connection) -> bool:
        return bool(connection.exec_driver_sql(self._MAY_DEFINE).scalar_one())

    def unwritable(self, connection: Connection) -> list[str]:
        return list(connection.exec_driver_sql(self._UNWRITABLE).scalars())

    def misfits(self, connection: Connection) -> list[str]:
        return [_SHARED_SESSIONS] if _shares_sessions(connection) else []

    def weaknesses(self, connection: Connection) -> list[Weakness]:
        values = {name: self._setting(connection, name) for name, _, _ in self._WANTED}
        return [
            Weakness(name, values[name], safe_values[0], breaks)
            for name, safe_values, breaks in self._WANTED
            if values[name] not in safe_values
        ]

    @staticmethod
    def _setting(connection: Connection, name: str) -> str:
        return str(connection.execute(sa.select(sa.func.current_setting(name))).scalar_one())


def _threshold(text: str | Sequence[str]) -> int | None:
    """The parameter of a URL that says after how many executions the driver prepares a statement; None: never."""
    if text == "None":
        return None
    try:
        return int(str(text))
    except ValueError as error:
        raise UrlUnusable(f"prepare_threshold is {text!r}, not a number or None") from error


# Poolers that give each transaction another session, as PgBouncer does with pool_mode = transaction.
#
# Source: decision 60.


_SHARED_SESSIONS = (
    "a pooler gives each transaction another session (pool_mode = transaction), so settings, prepared statements and "
    "the server are not those of the connection; set pool_mode = session for this database in the pooler"
)
_ROUNDS = 8


def _shares_sessions(connection: Connection) -> bool:
    """Whether two connections, *connection* and another one, use one session of the server by turns.

    A pooler answers a new connection itself, with a number of its own as that of the server's process. So without a
    pooler, nothing more is asked. With one session per connection, the process stays the same, and no other connection
    has it. Otherwise a session that is released is soon used by the other connection. The answer True is certain.

    Raises:
        Unavailable: the pooler gives no further connections.
    """
    driver: Any = connection.connection.dbapi_connection
    if driver.info.backend_pid == _session(driver):
        return False

    def another() -> psycopg.Connection[Any]:
        # Not from the engine, whose pool may have no other connection.
        return psycopg.connect(driver.info.dsn, password=driver.info.password, autocommit=True)

    try:
        with another() as one, another() as other:
            # Not by turns: of two free sessions that a pooler gives in a circle, each would always get the same.
            pids = [(each, _session(each)) for _ in range(_ROUNDS) for each in (one, other, one)]
    except psycopg.OperationalError as error:
        reason = str(error).partition("\n")[0]
        raise Unavailable(f"The pooler before the database gives no further connections: {reason}") from error
    own = {pid for each, pid in pids if each is one}
    others = {pid for each, pid in pids if each is other}
    return len(own) > 1 or len(others) > 1 or own == others


def _session(connection: psycopg.Connection[Any]) -> int:
    """The server's process that executes a statement of *connection*."""
    # Unprepared, since another connection may have prepared a statement of the same name in the session.
    row = connection.execute("SELECT pg_backend_pid()", prepare=False).fetchone()
    assert row is not None
    return int(row[0])


# Connections to PostgreSQL that time out when a server is silent; libpq would wait forever.
#
# The server's own limits do not help if the server, its disk or the network hangs.


R = TypeVar("R")


def connect(seconds: float, **how: Any) -> psycopg.Connection[Any]:
    """A connection that is closed, with an OperationalError, after the server was silent for *seconds*."""
    connection = _Impatient.connect(**how)
    connection.seconds = seconds
    return connection


class _Impatient(psycopg.Connection[Any]):
    seconds = float("inf")

    def wait(self, gen: Generator[Any, Any, R], *args: Any, **kwargs: Any) -> R:
        try:
            return super().wait(_within(self.seconds, gen), *args, **kwargs)
        except _Silent:
            self.close()  # a late answer would otherwise be taken for that of the next query
            raise psycopg.OperationalError(f"the server was silent for {self.seconds:g} seconds") from None


class _Silent(Exception):
    """The server was silent for too long."""


def _within(seconds: float, gen: Generator[Any, Any, R]) -> Generator[Any, Any, R]:
    """*gen*, which is told several times a second that no data has arrived, until the silence lasts *seconds*."""
    try:
        awaited, since = next(gen), time.monotonic()
        while True:
            ready = yield awaited
            if ready:
                since = time.monotonic()
            elif time.monotonic() - since > seconds:
                gen.close()
                raise _Silent
            awaited = gen.send(ready)
    except StopIteration as end:
        result: R = end.value
        return result
