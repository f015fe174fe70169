"""The operations that the service requires of any database, and the parameters of its connections."""

from __future__ import annotations

import math
import sys
from collections.abc import Hashable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import sqlalchemy as sa

from stead.domain.errors import SteadError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import FrameType

    from sqlalchemy.engine import URL, Connection, Engine
    from sqlalchemy.engine.interfaces import DBAPIConnection
    from sqlalchemy.pool import PoolProxiedConnection

    Rows = sa.Select[*tuple[Any, ...]] | sa.CompoundSelect[*tuple[Any, ...]]


CONNECT_SECONDS = 10
"""A server that does not accept a connection within this time has failed."""

POOL_SIZE = 10
"""Default number of pooled connections: some more than ``stead serve`` has threads. Further connections are closed
after each use, and opening one takes longer than a claim.
"""

ALONE_SECONDS = 3600
"""Maximum wait for another process that upgrades or repairs the same database."""

NOT_ALONE = (
    "Lock for upgrades and repairs not acquired in {seconds} s: another process holds it. "
    "Wait until that process ends, or end it; then run the command again."
)

LOCK_WAIT_SECONDS = 5
"""Maximum wait for a lock before the attempt is retried: a writer that hangs must not block the others."""


class Failure(NamedTuple):
    """What is wrong with a database that failed.

    Attributes:
        words: names it, without an address, path or account, so that every client may read it.
        is_lasting: at a start, waiting does not help; the operator must change the database or the configuration.
    """

    words: str
    is_lasting: bool = False


NO_ANSWER = Failure("The database does not answer")
FULL = Failure("The disk of the database is full")
DISK_ERROR = Failure("The disk of the database reports an error")
READ_ONLY = Failure("The database is read-only")
CROWDED = Failure("The database has too many connections")
REFUSED = Failure("The database refuses the user or the password", is_lasting=True)
NO_ACCESS = Failure("The database does not exist, or its user may not use it", is_lasting=True)
UNKNOWN_DATABASE = Failure("The database does not exist on its server", is_lasting=True)
NO_FILE = Failure("The file of the database cannot be opened", is_lasting=True)
NO_DATABASE = Failure("The file of the database is damaged, or is no database", is_lasting=True)


class Weakness(NamedTuple):
    """A setting under which a commit may be lost or torn; ``required`` is a safe value."""

    setting: str
    value: str
    required: str
    breaks: str

    def __str__(self) -> str:
        return f"{self.setting} is {self.value}, not {self.required}: {self.breaks}"


LOSES_ACKNOWLEDGED = "a crash may lose claims that were acknowledged"
TEARS_PAGES = "a crash may leave pages half written, and the data damaged"


@dataclass(frozen=True, slots=True)
class Database:
    """Connection parameters. Sizes are connections, times are seconds; None leaves the library's default."""

    url: str = field(repr=False)
    max_pool_size: int | None = None
    max_overflow: int | None = None
    pool_timeout: float | None = None
    answer_timeout: float | None = None
    """A server that is silent for this time has failed. None waits without limit, for statements that take hours."""
    connection_recycle_time: int = 3600
    sqlite_synchronous: bool = True
    """If off, a power cut may lose acknowledged writes."""
    mysql_sql_mode: str = "TRADITIONAL"
    """Empty: keep the server's own."""
    names_places: bool = False
    """Statements end with a comment that names their place in the code."""
    pooled: bool = True
    """If off, each connection is opened on request, and closed when it is released."""

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
    """The operations of one kind of database."""

    locks_rows: bool
    """Rows are locked one by one; otherwise a writer locks the whole database from its first statement on."""

    ignores_case: bool
    """The database's comparisons and unique keys treat names and uuids that differ only in case as equal."""

    marker: str
    """The placeholder for a value in a text for the driver."""

    defines_in_transactions: bool
    """Rolling back a transaction undoes statements that change tables; otherwise each commits, with all before it."""

    counts_commits: bool
    """A connection can report, without a transaction, whether others committed since its last report."""

    longest_joined: float
    """Characters of a text that an aggregate function returns; a text of more may be truncated without an error."""

    def listed_pairs(self, pairs: str) -> str:
        """The contents of an ``IN`` for *pairs*, such as ``(?, ?), (?, ?)``."""
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
        """A query for all rows of *query* as one JSON text; None if fetching the rows one by one is as fast.

        A number that JSON would change is null in the text.
        """
        ...

    def json_array(self, column: sa.ColumnElement[Any]) -> sa.ColumnElement[str]:
        """An aggregate: the values of *column* as one JSON array, in the same order for all columns of a query.

        The column holds integers, texts or floats. Floats may be texts. A number that JSON would change is null.
        """
        ...

    def certifies(self, connection: Connection) -> bool:
        """Whether other nodes may write, which do not wait for this node's locks. Such a write aborts a transaction
        that holds a lock on its rows.
        """
        ...

    def skips_locked(self, connection: Connection) -> bool:
        """Whether a locking query can leave out rows that other transactions have locked, instead of waiting."""
        ...

    def commits_seen(self, connection: PoolProxiedConnection) -> Hashable:
        """A value that changes when another connection commits; *connection* never writes and is in no transaction."""
        ...

    def leads_elsewhere(self, connection: PoolProxiedConnection) -> bool:
        """Whether a new connection would reach another database, as far as can be told without a query."""
        ...

    def identity(self, connection: DBAPIConnection) -> Hashable:
        """An identifier of the server or file that a new connection has reached, with its start time if available.

        All nodes of a Galera cluster have the same.
        """
        ...

    def writer(self, database: Database, url: URL) -> Engine:
        """An engine whose transactions write, at READ COMMITTED or stricter than any interleaving."""
        ...

    def reader(self, database: Database, url: URL) -> Engine:
        """An engine whose transactions only read, each from one snapshot taken by its first statement."""
        ...

    def begin(self, connection: DBAPIConnection) -> None:
        """Begin a transaction of the reader, past SQLAlchemy, unless the driver begins it at the first statement."""
        ...

    def alone(self, connection: Connection) -> None:
        """Lock out all other callers of this method on the same database, until the transaction ends.

        The lock belongs to *connection*, a writer's in a transaction. If the connection breaks, the lock and the
        transaction are lost together. So do all work that needs the lock on *connection*.

        Raises:
            Unavailable: another process held the lock for :data:`ALONE_SECONDS`, or the database refused it.
        """
        ...

    def upsert(self, table: sa.Table, changing: Sequence[str]) -> sa.Insert:
        """INSERT that overwrites the columns *changing* of a row whose primary key exists."""
        ...

    def insert_missing(self, table: sa.Table, unique: str) -> sa.Insert:
        """INSERT that skips a row whose value in the column *unique* exists; a value that does not fit is an error."""
        ...

    def product(self, connection: Connection) -> str:
        """The name of the database server, or of the library that is one."""
        ...

    def now(self) -> sa.ColumnElement[Any]:
        """The server's own time, as a naive UTC time."""
        ...

    def seconds(self, moment: sa.ColumnElement[Any]) -> sa.ColumnElement[int]:
        """Whole seconds since 1970 of a naive UTC time; NULL for NULL."""
        ...

    def refuses_value(self, error: sa.exc.DBAPIError) -> bool:
        """Whether a value can never be stored: too long, too large, or invalid text in this database."""
        ...

    def is_retryable(self, error: sa.exc.DBAPIError) -> bool:
        """Whether the same transaction may succeed when it is retried from its start.

        True for deadlocks, serialization failures, busy databases, and duplicate keys: the next attempt sees the row
        that this one collided with.
        """
        ...

    def is_lost_race(self, error: sa.exc.DBAPIError) -> bool:
        """Whether it is retryable because another writer won a race, not because of a wait that took too long."""
        ...

    def is_undone(self, error: sa.exc.DBAPIError) -> bool:
        """Whether an error of a COMMIT proves that the transaction was rolled back."""
        ...

    def is_unavailable(self, error: sa.exc.DBAPIError) -> bool:
        """Whether the database failed and the statement is valid: it may succeed after the failure.

        True for lost or refused connections, a server that starts, stops or became read-only, a full disk, and waits
        that took too long. False for an error in a statement or in the schema, which waiting does not fix.
        """
        ...

    def failure(self, error: sa.exc.DBAPIError) -> Failure:
        """Which failure *error* is, for which `is_unavailable` is true or whose connection broke."""
        ...

    def details(self, error: sa.exc.DBAPIError, url: URL) -> str:
        """The driver's words in one line, for logs: with the path of the file, and without a password."""
        ...

    def refuses_writes(self, connection: Connection) -> str | None:
        """Why the database rejects writes, as a replica or because of its settings; None if it accepts them."""
        ...

    def weaknesses(self, connection: Connection) -> list[Weakness]:
        """The settings that endanger committed data, as they are for *connection*, a writer's."""
        ...

    def may_define(self, connection: Connection) -> bool:
        """Whether the account may create and alter tables, as far as can be told without trying."""
        ...

    def unwritable(self, connection: Connection) -> list[str]:
        """Names of tables that the account may not read and write, as far as can be told without trying."""
        ...

    def without_transactions(self, connection: Connection) -> list[str]:
        """Names of tables without transactions and row locks."""
        ...

    def misfits(self, connection: Connection) -> list[str]:
        """Why the writes of *connection*, a writer's, would fail or be wrong, with what to do, whatever the tables.

        Settings that a connection can change for itself are none: the engines do.
        """
        ...


@dataclass(eq=False)
class UrlUnusable(SteadError):
    """The database URL cannot work, whatever the state of the server."""

    reason: str

    def __str__(self) -> str:
        return f"The URL of the database cannot be used: {self.reason}"


def create_engine(url: URL, database: Database, **more: Any) -> Engine:
    """An engine with the pool of *database*.

    Raises:
        UrlUnusable: the driver or a plugin does not exist, or a value is invalid.
    """
    try:
        engine = sa.create_engine(url, **database.pool(), **more)
    except (ImportError, ValueError, sa.exc.ArgumentError) as error:
        raise UrlUnusable(str(error)) from error
    if database.names_places:
        name_places(engine)
    return engine


class Returning:
    """A database whose UPDATE supports RETURNING."""

    def returning(
        self, statement: sa.Update, values: Sequence[tuple[sa.Column[Any], Any]], returned: sa.Column[int]
    ) -> sa.Update:
        return statement.ordered_values(*values).returning(returned)

    def returned(self, cursor: Any) -> int | None:
        row = cursor.fetchone()
        value: int | None = row and row[0]
        return value


class Server(Returning):
    """A database server, whose clock is read at every refresh."""

    marker = "%s"
    locks_rows = True
    ignores_case = False
    defines_in_transactions = True
    counts_commits = False
    longest_joined = math.inf

    def listed_pairs(self, pairs: str) -> str:
        return pairs

    def in_one_row(self, query: Rows) -> sa.Select[tuple[str]] | None:  # noqa: ARG002 - only SQLite needs it
        return None

    def certifies(self, connection: Connection) -> bool:  # noqa: ARG002 - only Galera does
        return False

    def skips_locked(self, connection: Connection) -> bool:  # noqa: ARG002 - only old servers lack it
        return True

    def commits_seen(self, connection: PoolProxiedConnection) -> Hashable:
        raise TypeError(f"{connection} does not count commits")

    def begin(self, connection: DBAPIConnection) -> None:
        pass

    def leads_elsewhere(self, connection: PoolProxiedConnection) -> bool:  # noqa: ARG002 - only the server knows
        return False

    def details(self, error: sa.exc.DBAPIError, url: URL) -> str:  # noqa: ARG002 - drivers name the server
        return str(error.orig).partition("\n")[0]  # the first line has no password

    def unwritable(self, connection: Connection) -> list[str]:  # noqa: ARG002 - rights are those on the database
        return []

    def without_transactions(self, connection: Connection) -> list[str]:  # noqa: ARG002 - all tables have them
        return []

    def misfits(self, connection: Connection) -> list[str]:
        raise NotImplementedError  # each server has its own


# Adds the place in the code to each statement, as a comment at its end: implements ``connection_trace``.
#
# A database's own list of slow or running statements then shows the place.


_HOUSE = str(Path(__file__).parents[3])
_MECHANICS = (f"{_HOUSE}/store/sql/", f"{_HOUSE}/store/provider_filter.py")
"""Files that run all statements; the caller above them is the place."""


def name_places(engine: Engine) -> None:
    """Make every statement of *engine* name its place."""
    sa.event.listen(engine, "before_cursor_execute", _with_place, retval=True)


def _with_place(  # the signature is that of SQLAlchemy's event
    _connection: Any, _cursor: Any, statement: str, parameters: Any, _context: Any, _many: bool
) -> tuple[str, Any]:
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001 - what `inspect` and `traceback` do costs more than the statement
    while frame is not None:
        file = frame.f_code.co_filename
        if file.startswith(_HOUSE) and not file.startswith(_MECHANICS):
            place = f"stead{file.removeprefix(_HOUSE)}:{frame.f_lineno} {frame.f_code.co_name}"
            return f"{statement} /* {place} */", parameters
        frame = frame.f_back
    return statement, parameters
