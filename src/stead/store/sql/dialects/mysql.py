"""MySQL and MariaDB, Galera included, through PyMySQL."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any, ClassVar

import sqlalchemy as sa
from sqlalchemy.dialects import mysql

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
    UNKNOWN_DATABASE,
    Database,
    Failure,
    Server,
    UrlUnusable,
    Weakness,
    create_engine,
)

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping, Sequence

    from sqlalchemy.engine import URL, Connection, Engine
    from sqlalchemy.engine.interfaces import DBAPIConnection
    from sqlalchemy.pool import ConnectionPoolEntry

_GALERA = "stead_galera"


def _connect(dialect: sa.Dialect, _record: object, arguments: list[Any], named: dict[str, Any]) -> DBAPIConnection:
    """Connect; a parameter that the driver does not know raises Python's own errors."""
    try:
        return dialect.connect(*arguments, **named)
    except (TypeError, ValueError, LookupError, AttributeError) as error:
        raise UrlUnusable(str(error)) from error


class Mysql(Server):
    """MySQL and MariaDB, Galera included."""

    ignores_case = True
    defines_in_transactions = False
    _JOINED_BYTES = 16 << 20
    longest_joined: float = _JOINED_BYTES // 4  # a character has at most four bytes
    # Names of locks are global on the server, which may have several databases of Stead.
    _GET_LOCK = "SELECT GET_LOCK(CONCAT('stead ', DATABASE()), %s)"
    _IDENTITY = ("server_uid", "server_uuid", "server_id", "hostname", "port")
    _DEADLOCK = 1213
    _LOST = frozenset({_DEADLOCK, 1062, 1020})  # on Galera also: certification failed; duplicate key, changed
    _RETRYABLE = _LOST | {1205, 1047}  # lock wait, Galera node not ready
    _REFUSED = frozenset(
        {
            *(1264, 1265, 1292, 1366, 1406),  # range, truncated, truncated, no such characters, too long
            *(1267, 1270, 1271),  # no such characters, where a column is compared with the value
        }
    )
    _UNAVAILABLE = frozenset(
        {
            0,  # the driver's: the connection was closed
            *(1020, 1047, 1205, 1213),  # changed, Galera node not ready, lock wait, deadlock
            *(1021, 1026, 1030, 1114, 1180),  # disk full, writing, storage engine, table full, COMMIT
            *(1037, 1041, 1040, 1203, 1226),  # memory, memory, connections, of a user, of a user
            *(1044, 1045, 1049, 1129, 1130, 1698),  # not let in
            *(1053, 1077, 1078, 1079, 1317, 1927, 1969, 3024),  # shutdown, killed, took too long
            *(1152, 1158, 1159, 1160, 1161, 1184),  # the network
            *(1290, 1792, 1836),  # read-only
        }
    )
    _FAILURES: ClassVar[Mapping[Failure, frozenset[int]]] = {
        FULL: frozenset({1021, 1114}),
        READ_ONLY: frozenset({1290, 1792, 1836}),
        CROWDED: frozenset({1040, 1203, 1226}),
        REFUSED: frozenset({1045, 1130, 1698}),
        NO_ACCESS: frozenset({1044}),  # the server does not say whether it exists
        UNKNOWN_DATABASE: frozenset({1049}),
    }
    _STORING = frozenset({1026, 1030, 1180})  # the number of the error below is in the text
    _NO_SPACE = re.compile(r"\b(28|122|27) ")  # ENOSPC, EDQUOT, EFBIG
    _GRANTEE = """CONCAT(QUOTE(SUBSTRING_INDEX(CURRENT_USER(), '@', 1)), '@',
                         QUOTE(SUBSTRING_INDEX(CURRENT_USER(), '@', -1)))"""
    # LIKE, since a privilege may name its databases by a pattern.
    _RIGHTS = f"""
        SELECT privilege_type FROM information_schema.user_privileges WHERE grantee = {_GRANTEE}
        UNION SELECT privilege_type FROM information_schema.schema_privileges
        WHERE grantee = {_GRANTEE} AND DATABASE() LIKE table_schema
        UNION SELECT 'BY ROLE' FROM DUAL WHERE COALESCE(CURRENT_ROLE(), 'NONE') <> 'NONE'"""
    _NOT_INNODB = """
        SELECT table_name FROM information_schema.tables
        WHERE table_schema = DATABASE() AND table_type = 'BASE TABLE' AND engine <> 'InnoDB' ORDER BY table_name"""
    _CLIENT = range(2000, 2100)  # the client library's: no connection, or it broke
    _ON = frozenset({"1", "ON", "NO_LOCK", "NO_LOCK_NO_ADMIN"})

    def returning(
        self, statement: sa.Update, values: Sequence[tuple[sa.Column[Any], Any]], returned: sa.Column[int]
    ) -> sa.Update:
        """Return the value through the insert id of the answer, which ``LAST_INSERT_ID(…)`` sets to any number."""
        told = [(column, sa.func.last_insert_id(new) if column is returned else new) for column, new in values]
        return statement.ordered_values(*told)

    def returned(self, cursor: Any) -> int | None:
        return cursor.lastrowid if cursor.rowcount else None

    def writer(self, database: Database, url: URL) -> Engine:
        # REPEATABLE READ would over-commit: a lock reads the current row, but the SUM after it an old snapshot.
        return self._engine(url, database, "READ COMMITTED")

    def reader(self, database: Database, url: URL) -> Engine:
        return self._engine(url, database, "REPEATABLE READ")

    def _engine(self, url: URL, database: Database, isolation_level: str) -> Engine:
        if not url.database:
            raise UrlUnusable("it names no database, as mysql+pymysql://user:password@host/placement does")
        bounds: dict[str, Any] = {"connect_timeout": CONNECT_SECONDS}
        if database.answer_timeout is not None:
            seconds = math.ceil(database.answer_timeout)  # one of the drivers requires whole seconds
            bounds |= {"read_timeout": seconds, "write_timeout": seconds}
        given = {name: value for name, value in bounds.items() if name not in url.query}
        engine = create_engine(url, database, isolation_level=isolation_level, connect_args=given)
        sa.event.listen(engine, "do_connect", _connect)
        sa.event.listen(engine, "connect", lambda connection, record: self._on_connect(connection, record, database))
        return engine

    @staticmethod
    def _on_connect(connection: Any, record: ConnectionPoolEntry, database: Database) -> None:
        # VCPU has id 0, which MySQL would otherwise replace with the next free number.
        mode = ",".join(filter(None, (database.mysql_sql_mode, "NO_AUTO_VALUE_ON_ZERO")))
        with connection.cursor() as cursor:
            cursor.execute("SET SESSION sql_mode = CONCAT(@@sql_mode, ',', %s)", (mode,))
            cursor.execute("SET SESSION innodb_lock_wait_timeout = %s", (LOCK_WAIT_SECONDS,))
            # All traits of a provider are one text; longer text would be truncated without an error.
            cursor.execute("SET SESSION group_concat_max_len = %s", (Mysql._JOINED_BYTES,))
            # Alembic names no engine for its version tables.
            cursor.execute("SET SESSION default_storage_engine = InnoDB")
            # On a Galera node, a snapshot waits for earlier writes that other nodes have acknowledged.
            if cursor.execute("SHOW VARIABLES WHERE Variable_name = 'wsrep_on' AND Value = 'ON'"):
                cursor.execute("SET SESSION wsrep_sync_wait = 1")
                record.info[_GALERA] = True

    def certifies(self, connection: Connection) -> bool:
        return _GALERA in connection.info

    def skips_locked(self, connection: Connection) -> bool:
        version = connection.dialect.server_version_info or ()
        return version >= ((10, 6) if getattr(connection.dialect, "is_mariadb", False) else (8, 0, 1))

    def json_array(self, column: sa.ColumnElement[Any]) -> sa.ColumnElement[str]:
        # Not JSON_ARRAYAGG, which MariaDB has since 10.5 only.
        value: sa.ColumnElement[Any] = column
        if isinstance(column.type, sa.String | sa.Float):
            # JSON is utf8mb4. MySQL adds digits that a FLOAT does not have, so a float is a text.
            value = sa.func.json_quote(sa.cast(column, mysql.CHAR(charset="utf8mb4")))
        return sa.func.concat("[", sa.func.group_concat(sa.func.coalesce(value, "null")), "]", type_=sa.Text)

    def alone(self, connection: Connection) -> None:
        connection.detach()  # the lock belongs to the session: closing it after the COMMIT releases the lock
        answer = connection.exec_driver_sql(self._GET_LOCK, (base.ALONE_SECONDS,)).scalar_one()
        if answer is None:
            raise Unavailable(
                "Lock for upgrades and repairs not acquired: GET_LOCK returned NULL. Run the command again."
            )
        if answer != 1:
            raise Unavailable(base.NOT_ALONE.format(seconds=base.ALONE_SECONDS))

    def upsert(self, table: sa.Table, changing: Sequence[str]) -> sa.Insert:
        insert = mysql.insert(table)
        return insert.on_duplicate_key_update({name: insert.inserted[name] for name in changing})

    def insert_missing(self, table: sa.Table, unique: str) -> sa.Insert:  # noqa: ARG002 - it is any unique key here
        # Not INSERT IGNORE, which truncates values that are too long.
        return mysql.insert(table).on_duplicate_key_update({key.name: key for key in table.primary_key})

    def identity(self, connection: Any) -> Hashable:
        names = ", ".join(f"'{name}'" for name in self._IDENTITY)
        with connection.cursor() as cursor:
            if not cursor.execute("SHOW STATUS WHERE Variable_name = 'wsrep_cluster_state_uuid' AND Value <> ''"):
                cursor.execute(f"SHOW VARIABLES WHERE Variable_name IN ({names})")
            return tuple(cursor.fetchall())

    def product(self, connection: Connection) -> str:
        return "MariaDB" if getattr(connection.dialect, "is_mariadb", False) else "MySQL"

    def now(self) -> sa.ColumnElement[Any]:
        return sa.literal_column("UTC_TIMESTAMP()")

    def seconds(self, moment: sa.ColumnElement[Any]) -> sa.ColumnElement[int]:
        # Not UNIX_TIMESTAMP, which takes the time as one in the session's time zone.
        return sa.func.timestampdiff(sa.text("SECOND"), sa.text("'1970-01-01'"), moment, type_=sa.Integer)

    def is_retryable(self, error: sa.exc.DBAPIError) -> bool:
        return self._number(error) in self._RETRYABLE

    def is_lost_race(self, error: sa.exc.DBAPIError) -> bool:
        return self._number(error) in self._LOST

    def is_undone(self, error: sa.exc.DBAPIError) -> bool:
        return self._number(error) == self._DEADLOCK  # on Galera also a failed certification

    def refuses_value(self, error: sa.exc.DBAPIError) -> bool:
        return self._number(error) in self._REFUSED

    def is_unavailable(self, error: sa.exc.DBAPIError) -> bool:
        number = self._number(error)
        return number in self._UNAVAILABLE or number in self._CLIENT

    def failure(self, error: sa.exc.DBAPIError) -> Failure:
        number = self._number(error)
        if number in self._STORING and self._NO_SPACE.search(str(error.orig)):
            return FULL
        return next((failure for failure, numbers in self._FAILURES.items() if number in numbers), NO_ANSWER)

    def refuses_writes(self, connection: Connection) -> str | None:
        names = ("innodb_read_only", "read_only", "transaction_read_only", "tx_read_only")
        on = [name for name, value in self._variables(connection, *names).items() if value in self._ON]
        return f"{on[0]} is on, as on a replica" if on else None

    def may_define(self, connection: Connection) -> bool:
        # Assume that a role in use has them: MySQL and MariaDB list the privileges of roles differently.
        rights = set(connection.exec_driver_sql(self._RIGHTS).scalars())
        return rights >= {"CREATE", "ALTER", "INDEX"} or "BY ROLE" in rights

    def without_transactions(self, connection: Connection) -> list[str]:
        return list(connection.exec_driver_sql(self._NOT_INNODB).scalars())

    def misfits(self, connection: Connection) -> list[str]:
        values = self._variables(connection, "log_bin", "binlog_format")
        if values.get("log_bin") not in self._ON or values.get("binlog_format") != "STATEMENT":
            return []
        return [
            "binlog_format is STATEMENT, with which the server rejects writes at READ COMMITTED; "
            "set it to MIXED or ROW in the server's configuration, and run: SET GLOBAL binlog_format = 'MIXED'"
        ]

    def weaknesses(self, connection: Connection) -> list[Weakness]:
        values = self._variables(connection, "innodb_flush_log_at_trx_commit", "log_bin", "sync_binlog")
        # After a crash, InnoDB rolls back a prepared transaction that the binary log has lost.
        matters = ["innodb_flush_log_at_trx_commit"] + (["sync_binlog"] if values["log_bin"] in self._ON else [])
        return [Weakness(name, values[name], "1", LOSES_ACKNOWLEDGED) for name in matters if values[name] != "1"]

    @staticmethod
    def _variables(connection: Connection, *names: str) -> dict[str, str]:
        quoted_names = ", ".join(f"'{name}'" for name in names)
        rows = connection.exec_driver_sql(f"SHOW VARIABLES WHERE Variable_name IN ({quoted_names})")
        return {name.lower(): value.upper() for name, value in rows.all()}

    @staticmethod
    def _number(error: sa.exc.DBAPIError) -> object:
        arguments: tuple[object, ...] = getattr(error.orig, "args", ())
        return arguments[0] if arguments else None
