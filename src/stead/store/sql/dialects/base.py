"""What the service asks of a database, of whichever kind: its abilities, and how it is reached."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import sqlalchemy as sa

from stead.domain.errors import SteadError
from stead.store.sql.dialects.tracing import name_places

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy.engine import URL, Connection, Engine
    from sqlalchemy.engine.interfaces import DBAPIConnection
    from sqlalchemy.pool import PoolProxiedConnection

    Rows = sa.Select[*tuple[Any, ...]] | sa.CompoundSelect[*tuple[Any, ...]]

CONNECT_SECONDS = 10
"""A server that does not let in for so long has failed."""

POOL_SIZE = 10
"""Connections that are kept if the operator does not say how many: some more than ``stead serve`` has threads. What is
beyond them is closed after each use, and opening one takes longer than a claim.
"""

ALONE_SECONDS = 3600
"""Time to wait for another process that upgrades or repairs the same database."""

NOT_ALONE = (
    "Lock for upgrades and repairs not acquired in {seconds} s: another process holds it. "
    "Wait until that process ends, or end it; then run the command again."
)

LOCK_WAIT_SECONDS = 5
"""A lock is waited for so long before the attempt starts anew: a writer that hangs must not hang the others."""


class Weakness(NamedTuple):
    """A setting under which a commit may be lost or torn; ``wanted`` is a value that keeps the promise it breaks."""

    setting: str
    value: str
    wanted: str
    breaks: str

    def __str__(self) -> str:
        return f"{self.setting} is {self.value}, not {self.wanted}: {self.breaks}"


LOSES_ACKNOWLEDGED = "a crash may lose claims that were acknowledged"
TEARS_PAGES = "a crash may leave pages half written, and the data damaged"


@dataclass(frozen=True, slots=True)
class Database:
    """How to reach a database. Sizes are connections, times are seconds; None leaves the library's default."""

    url: str = field(repr=False)
    max_pool_size: int | None = None
    max_overflow: int | None = None
    pool_timeout: float | None = None
    answer_timeout: float | None = None
    """A server that is silent for so long has failed. None waits for ever, as what may take hours must."""
    connection_recycle_time: int = 3600
    sqlite_synchronous: bool = True
    """Off, a power cut may take acknowledged writes with it."""
    mysql_sql_mode: str = "TRADITIONAL"
    """Empty leaves the server's own."""
    names_places: bool = False
    """Statements say in a comment where in the code they come from."""
    pooled: bool = True
    """Off, every connection is opened for whoever asks for it, and closed when it is given back."""

    def pool(self) -> dict[str, Any]:
        """The pool's arguments for ``create_engine``."""
        if not self.pooled:
            return {"poolclass": sa.NullPool}
        sizes = {
            "pool_size": POOL_SIZE if self.max_pool_size is None else self.max_pool_size,
            "max_overflow": self.max_overflow,
            "pool_timeout": self.pool_timeout,
        }
        given = {name: size for name, size in sizes.items() if size is not None}
        return {**given, "pool_recycle": self.connection_recycle_time}


class Dialect(Hashable, Protocol):
    """The abilities of one kind of database."""

    locks_rows: bool
    """Rows are locked one by one; otherwise a writer has the whole database to itself from its first statement."""

    ignores_case: bool
    """Names and uuids that differ in case only are the same to the database's own comparisons and unique keys."""

    marker: str
    """Stands for a value in a text that goes to the driver."""

    defines_in_transactions: bool
    """Statements that change tables are undone with their transaction; else each commits, with all before it."""

    counts_commits: bool
    """A connection can say, without a transaction, whether others committed since it last asked."""

    def listed_pairs(self, pairs: str) -> str:
        """What stands in an ``IN`` for *pairs*, such as ``(?, ?), (?, ?)``."""
        ...

    def returning(
        self, statement: sa.Update, values: Sequence[tuple[sa.Column[Any], Any]], returned: sa.Column[int]
    ) -> sa.Update:
        """*statement*, of one row, which sets *values* in this order, so that `returned` finds the new value of one."""
        ...

    def returned(self, cursor: Any) -> int | None:
        """The value that a statement of `returning` returned; None if it found no row."""
        ...

    def in_one_row(self, query: Rows) -> sa.Select[tuple[str]] | None:
        """A query for all rows of *query* as one JSON text, or None where rows are as well fetched one by one.

        A number that would not be the same afterwards is null in it.
        """
        ...

    def certifies(self, connection: Connection) -> bool:
        """Whether writes may come from other nodes, which see none of our locks and end a transaction that holds one on
        what they write.
        """
        ...

    def commits_seen(self, connection: PoolProxiedConnection) -> Hashable:
        """What changes when another connection commits; *connection* never writes and is in no transaction."""
        ...

    def leads_elsewhere(self, connection: PoolProxiedConnection) -> bool:
        """Whether who connects now reaches another database, as far as that can be told without asking."""
        ...

    def identity(self, connection: DBAPIConnection) -> Hashable:
        """Which server, or file, a new connection has reached, and since when that runs if it can be told.

        The nodes of a Galera cluster are one.
        """
        ...

    def writer(self, database: Database, url: URL) -> Engine:
        """An engine whose transactions write, at READ COMMITTED or stricter than any interleaving."""
        ...

    def reader(self, database: Database, url: URL) -> Engine:
        """An engine whose transactions only read, each from one snapshot taken by its first statement."""
        ...

    def begin(self, connection: DBAPIConnection) -> None:
        """Begin a transaction of the reader, past SQLAlchemy, if the driver does not at the first statement."""
        ...

    def alone(self, connection: Connection) -> None:
        """Lock out everything else that asks for this on the same database, until the transaction is over.

        The lock belongs to *connection*, a writer's in a transaction: if the connection breaks, the lock is lost, and
        so is what the transaction would still have done. What needs the lock must be done on *connection*.

        Raises:
            Unavailable: another process kept the lock for :data:`ALONE_SECONDS`, or the database refused it.
        """
        ...

    def upsert(self, table: sa.Table, changing: Sequence[str]) -> sa.Insert:
        """INSERT that overwrites the columns *changing* of a row whose primary key exists."""
        ...

    def insert_missing(self, table: sa.Table, unique: str) -> sa.Insert:
        """INSERT that passes over a row whose value in the column *unique* exists; what does not fit is an error."""
        ...

    def seconds(self, moment: sa.ColumnElement[Any]) -> sa.ColumnElement[int]:
        """Whole seconds since 1970 of a naive UTC time; NULL for NULL."""
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

    def is_lost_race(self, error: sa.exc.DBAPIError) -> bool:
        """Whether it is retryable because another writer was faster, not because the database made us wait."""
        ...

    def is_undone(self, error: sa.exc.DBAPIError) -> bool:
        """Whether an error of a COMMIT says for sure that the transaction was rolled back."""
        ...

    def is_unavailable(self, error: sa.exc.DBAPIError) -> bool:
        """Whether the database failed, and the statement did nothing wrong: it may succeed when that is over.

        Lost or refused connections, a server that starts, stops or changed to read-only, a full disk, and waits that
        took too long. Not an error in a statement or in the schema, which no waiting mends.
        """
        ...

    def refuses_writes(self, connection: Connection) -> str | None:
        """Why nothing can be written here, as a replica or by its settings; None if it can."""
        ...

    def weaknesses(self, connection: Connection) -> list[Weakness]:
        """The settings that do not keep what a commit promises, as they are for *connection*, one of the writer."""
        ...

    def may_define(self, connection: Connection) -> bool:
        """Whether the account may make and change tables here, as far as can be told without trying."""
        ...

    def unwritable(self, connection: Connection) -> list[str]:
        """Names of tables which the account may not read and write, as far as can be told without trying."""
        ...

    def without_transactions(self, connection: Connection) -> list[str]:
        """Names of tables which know neither transactions nor locks on rows."""
        ...


@dataclass(eq=False)
class UrlUnusable(SteadError):
    """The URL of the database is one with which nothing can ever be reached."""

    reason: str

    def __str__(self) -> str:
        return f"The URL of the database cannot be used: {self.reason}"


def create_engine(url: URL, database: Database, **more: Any) -> Engine:
    """An engine with the pool of *database*.

    Raises:
        UrlUnusable: there is no such driver, or plugin of the library, or a value is none.
    """
    try:
        engine = sa.create_engine(url, **database.pool(), **more)
    except (ImportError, ValueError, sa.exc.ArgumentError) as error:
        raise UrlUnusable(str(error)) from error
    if database.names_places:
        name_places(engine)
    return engine


class Returning:
    """A database whose UPDATE can have a RETURNING."""

    def returning(
        self, statement: sa.Update, values: Sequence[tuple[sa.Column[Any], Any]], returned: sa.Column[int]
    ) -> sa.Update:
        return statement.ordered_values(*values).returning(returned)

    def returned(self, cursor: Any) -> int | None:
        row = cursor.fetchone()
        value: int | None = row and row[0]
        return value


class Server(Returning):
    """A database server, which is asked for its clock at every refresh."""

    marker = "%s"
    locks_rows = True
    ignores_case = False
    defines_in_transactions = True
    counts_commits = False

    def listed_pairs(self, pairs: str) -> str:
        return pairs

    def in_one_row(self, query: Rows) -> sa.Select[tuple[str]] | None:  # noqa: ARG002 - only SQLite needs it
        return None

    def certifies(self, connection: Connection) -> bool:  # noqa: ARG002 - only Galera does
        return False

    def commits_seen(self, connection: PoolProxiedConnection) -> Hashable:
        raise TypeError(f"{connection} does not count commits")

    def begin(self, connection: DBAPIConnection) -> None:
        pass

    def leads_elsewhere(self, connection: PoolProxiedConnection) -> bool:  # noqa: ARG002 - nobody but the server knows
        return False

    def unwritable(self, connection: Connection) -> list[str]:  # noqa: ARG002 - rights are those on the database
        return []

    def without_transactions(self, connection: Connection) -> list[str]:  # noqa: ARG002 - all tables have them
        return []
