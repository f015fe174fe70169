"""Begin, retry, tick and commit: every write of the service, and every read that needs the database.

Source: "The write and refresh protocol", docs/protocol.md (rules 2 and 6 to 8).
"""

from __future__ import annotations

import logging
import time
from collections import defaultdict
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypeVar

import sqlalchemy as sa

from stead.domain.errors import BadRequest, ConcurrentUpdate, Unavailable
from stead.store.protocol.clock import LostTick, OwnSlots, tick
from stead.store.protocol.connections import Breaks, Connections, PoolState
from stead.store.protocol.grouping import Grouping
from stead.store.protocol.outcome import OutcomeUnknown, commit, has_happened
from stead.store.protocol.own_writes import OwnWrites, Written
from stead.store.protocol.pauses import Pauses
from stead.store.protocol.transaction import RaceLost, Transaction
from stead.store.protocol.writability import Outage, Writability, write_and_remove
from stead.store.sql.dialects import Database, dialect_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from sqlalchemy.engine import Connection

    from stead.store.sql.dialects import Dialect

P = ParamSpec("P")
R = TypeVar("R")

_log = logging.getLogger(__name__)


class Store:
    """The database, with separate connections for writing and reading."""

    def __init__(
        self,
        database: Database,
        *,
        write_timeout: float = 10.0,
        claim_timeout: float = 10.0,
        on_retry: Callable[[str], None] | None = None,
    ) -> None:
        """Connect to nothing yet.

        Args:
            on_retry: called with the reason of each retry: ``race``, ``duplicate``, ``deadlock``, ``busy``,
                ``connection_lost`` or ``commit_unanswered``.
            write_timeout: seconds for which a write that loses races is retried.
            claim_timeout: the same for writes of allocations, see `write_within_claim_timeout`.
        """
        url = sa.make_url(database.url)
        self.dialect = dialect_of(url)
        self.writer = self.dialect.writer(database, url)
        self.reader = self.dialect.reader(database, url)
        self.refresher = self.dialect.reader(replace(database, pooled=False), url)
        """Like the reader, for callers that keep their own connection: it is not pooled."""
        self.connection_seconds = database.connection_recycle_time
        """Maximum age of a connection that is not pooled."""
        self.connections = Connections(self.dialect, self.refresher, (self.reader, self.writer))
        self._write_timeout = write_timeout
        self._claim_timeout = claim_timeout
        self._on_retry = on_retry
        self._grouping = None if self.dialect.locks_rows else Grouping(self._begun_in_time, patience=write_timeout)
        self.writability = Writability()
        self.read_outage = Outage("the database answers again")
        self._write_outage = Outage("the database accepts writes again")
        """Whether the database accepts writes."""
        self._slots = OwnSlots()
        self.own_writes = OwnWrites()
        """What was committed since the last refresh."""
        self._written: dict[Connection, list[Written]] = defaultdict(list)
        """The writes of each open transaction; they are committed or rolled back with the transaction."""

    @property
    def claim_timeout(self) -> float:
        """Seconds for which a write of allocations is retried."""
        return self._claim_timeout

    def pools(self) -> dict[str, PoolState]:
        """The states of the connection pools, by purpose."""
        return {"reader": PoolState.of(self.reader), "writer": PoolState.of(self.writer)}

    def close(self) -> None:
        """Close all pooled connections; the store may be used again, and opens new ones."""
        self.writer.dispose()
        self.reader.dispose()

    def write(self, body: Callable[Concatenate[Transaction, P], R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Run *body* in one transaction and commit it, together with a tick for what it touched.

        Any error rolls the whole attempt back. Lost races are retried from the start, with growing random pauses. So is
        an attempt whose commit may have failed, unless it turns out to be committed. That cannot be determined for a
        *body* that touches nothing, so such a body must be safe to run twice.

        Raises:
            ConcurrentUpdate: the write lost every race until the timeout.
            Unavailable: the database does not answer, or not in time. If the connection broke during the commit, the
                outcome may be unknown.
        """
        return self._write(self._write_timeout, body, *args, **kwargs)

    def write_within_claim_timeout(
        self, body: Callable[Concatenate[Transaction, P], R], *args: P.args, **kwargs: P.kwargs
    ) -> R:
        """`write`, retried until the operator's timeout for writes of allocations."""
        return self._write(self._claim_timeout, body, *args, **kwargs)

    def require_writable(self) -> None:
        """Find out whether the database accepts writes, by a test write if there was no recent write.

        Raises:
            Unavailable: it rejects writes.
        """
        self.writability.require(lambda: self.write(lambda tx: write_and_remove(tx.connection)))

    def _write(
        self, seconds: float, body: Callable[Concatenate[Transaction, P], R], *args: P.args, **kwargs: P.kwargs
    ) -> R:
        try:
            result = self._tried_again(seconds, body, *args, **kwargs)
        except Unavailable as error:
            if isinstance(error.__cause__, sa.exc.DBAPIError):  # a failure, as opposed to a timeout
                self.writability.failed(error)
            raise
        self.writability.succeeded()
        self._write_outage.over()
        return result

    def _tried_again(
        self, seconds: float, body: Callable[Concatenate[Transaction, P], R], *args: P.args, **kwargs: P.kwargs
    ) -> R:
        deadline = time.monotonic() + seconds
        pauses = Pauses(first=0.002, longest=0.25)
        breaks = Breaks()
        while True:
            try:
                return self._attempt(deadline, body, *args, **kwargs)
            except RaceLost as lost:
                # A commit without an answer proves no other writer, so it ends in 503, not 409.
                others_won = not isinstance(lost.__cause__, OutcomeUnknown)
                reason, cause = f"lost a race for {lost}", "race" if others_won else "commit_unanswered"
            except sa.exc.DBAPIError as error:
                # The attempt is rolled back by now, so the next one reads everything again. So it is if its connection
                # broke: no COMMIT was sent, or `_begun` would have asked for its outcome.
                has_broken = breaks.may_reconnect(error)
                if not has_broken and not self.dialect.is_retryable(error):
                    raise self._meaning(error, self._write_outage) from error
                others_won = not has_broken and self.dialect.is_lost_race(error)
                reason = type(error.orig).__name__
                cause = "connection_lost" if has_broken else _cause(error, others_won=others_won)
            except (sa.exc.TimeoutError, LostTick) as error:
                raise Unavailable("The database cannot take the write now.") from error
            # Checked before the pause: a client waits for no pause after which the write would not be tried again.
            if not pauses.end_before(deadline):
                raise (ConcurrentUpdate if others_won else Unavailable)(
                    "The database was too busy to take the write in time."
                )
            if self._on_retry is not None:
                self._on_retry(cause)
            _log.debug("write %s is tried again: %s", getattr(body, "__name__", body), reason)
            pauses.pause()

    def _attempt(
        self, deadline: float, body: Callable[Concatenate[Transaction, P], R], *args: P.args, **kwargs: P.kwargs
    ) -> R:
        def work(connection: Connection) -> R:
            # Whole seconds: some databases round fractions up, into the future.
            tx = Transaction(connection, self.dialect, datetime.now(UTC).replace(tzinfo=None, microsecond=0))
            result = body(tx, *args, **kwargs)
            # The tick is the last statement before COMMIT: other writers of the same clock slot wait for its row.
            if tx.touched or tx.touched_usage or tx.logged:
                ticked = tick(connection, self._slots.mine(), tx.touched, tx.touched_usage, tx.logged, tx.parts)
                self._written[connection].append(tx.written(ticked))
            return result

        if self._grouping is not None:
            return self._grouping.run(work)
        with self._begun(deadline) as connection:
            return work(connection)

    def _begun_in_time(self) -> AbstractContextManager[Connection]:
        return self._begun(time.monotonic() + self._write_timeout)

    @contextmanager
    def _begun(self, deadline: float) -> Iterator[Connection]:
        """A transaction that is committed at the end. If the COMMIT has no answer, its outcome is determined.

        Raises:
            RaceLost: it was not committed.
            Unavailable: the outcome could not be determined before the *deadline*.
        """
        try:
            with self.writer.connect() as connection, connection.begin() as transaction:
                try:
                    yield connection
                finally:
                    # Also after an error: the pooled connection's next transaction must not find this tick.
                    written = self._written.pop(connection, [])
                # The last tick stands for the whole group: its ticks have one slot, and commit or fail together.
                commit(transaction, self.dialect, written[-1].ticked if written else None)
            # Only after an acknowledged commit: the clock may never show the tick of any other.
            self.own_writes.note(written)
        except OutcomeUnknown as unknown:
            # Outside the block above: its connection is broken and has left the pool; the question needs another one.
            if not has_happened(self.writer, unknown.ticked, deadline):
                raise RaceLost("a commit that the database did not answer") from unknown

    def read(self, body: Callable[Concatenate[Connection, P], R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Run *body* on one fresh snapshot of the database. *body* must not change the database.

        If the connection breaks, as one does that a proxy or the server closed while it was idle, *body* runs again.

        Raises:
            Unavailable: the database does not answer.
        """
        breaks = Breaks()
        while True:
            try:
                with self.reader.begin() as connection:
                    result = body(connection, *args, **kwargs)
            except sa.exc.DBAPIError as error:
                if not breaks.may_reconnect(error):
                    raise self.meaning(error) from error
            except (sa.exc.TimeoutError, LostTick) as error:
                raise Unavailable("The database cannot answer now.") from error
            else:
                self.read_outage.over()
                return result

    def meaning(self, error: sa.exc.DBAPIError) -> Exception:
        """Translate an error of a read for the caller, and log a new failure of the database."""
        return self._meaning(error, self.read_outage)

    def _meaning(self, error: sa.exc.DBAPIError, outage: Outage) -> Exception:
        translated = meaning(error, self.dialect)
        if isinstance(translated, Unavailable):
            outage.failed(self.dialect.failure(error).words, self.dialect.details(error, self.writer.url))
        return translated


def _cause(error: sa.exc.DBAPIError, *, others_won: bool) -> str:
    if isinstance(error, sa.exc.IntegrityError):
        return "duplicate"
    return "deadlock" if others_won else "busy"


def meaning(error: sa.exc.DBAPIError, dialect: Dialect) -> Exception:
    """Translate a database error for the caller: failures of the database become Unavailable, bugs stay as they are.

    The dialect distinguishes them by the error number, since the drivers' exception classes mix them.
    """
    if dialect.refuses_value(error):
        return BadRequest("The database cannot store one of the values.")
    if error.connection_invalidated or dialect.is_unavailable(error):
        return Unavailable(f"{dialect.failure(error).words}.")
    return error
