"""Begin, retry, tick and commit: every write of the service, and every read that needs the database.

Source: "The write and refresh protocol", docs/protocol.md (rules 2, 6 to 8 and 12).
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections import defaultdict, deque
from contextlib import contextmanager
from contextvars import Context, copy_context
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cache
from typing import TYPE_CHECKING, Any, Concatenate, Generic, NamedTuple, ParamSpec, TypeVar
from uuid import uuid4

import sqlalchemy as sa

from stead.domain.errors import BadRequest, ConcurrentUpdate, Unavailable
from stead.store.protocol.clock import (
    CommittedWrite,
    CommittedWrites,
    LogKind,
    LostTick,
    OwnSlots,
    Part,
    earlier_stamps,
    tick,
)
from stead.store.sql import statements
from stead.store.sql.dialects import Database, dialect_of
from stead.store.sql.statements import LISTED, Query, Swap, value
from stead.store.tables import (
    provider_generation,
    resource_providers,
    stead_change_log,
    stead_epoch,
    stead_provider_change,
    stead_usage,
    stead_usage_change,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager

    from sqlalchemy.engine import Connection, Engine
    from sqlalchemy.engine import Transaction as DatabaseTransaction

    from stead.store.protocol.clock import ProviderUsage, Ticked
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
        self.committed_writes = CommittedWrites()
        """What was committed since the last refresh."""
        self._written: dict[Connection, list[CommittedWrite]] = defaultdict(list)
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

        Any error rolls the whole attempt back. An attempt is made again from the start, until the timeout:

        * at once, if it needed something that another transaction creates, or if it used an outdated id (`NotYet`);
        * after a pause that grows, at random, if it lost a race, met a deadlock, or had to wait for too long;
        * on another connection, if its own broke before the COMMIT was sent;
        * if the COMMIT has no answer, unless it turns out to be committed. That cannot be determined for a *body* that
          touches nothing, so such a body must be safe to run twice.

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
            except NotYet as needed:
                needed.prepare(self)
                if time.monotonic() < deadline:
                    continue
                raise Unavailable("The database was too busy to take the write in time.") from needed
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
            self.committed_writes.note(written)
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


# One attempt at a write: what it locks, what it touches, and how it raises generations.
#
# Source: "The write and refresh protocol", docs/protocol.md (rules 2 and 6).


class RaceLost(Exception):
    """The data that the attempt depended on changed; another attempt may succeed."""


class NotYet(Exception):
    """The attempt needs something that exists only after :meth:`prepare`; then another attempt may succeed."""

    def prepare(self, store: Store) -> None:
        """Make what the next attempt needs. Runs outside of the attempt, which is rolled back."""
        raise NotImplementedError


@dataclass(slots=True)
class Transaction:
    """One attempt at a write: a connection, one timestamp for all its rows, and what it has touched."""

    connection: Connection
    dialect: Dialect
    now: datetime
    """When the attempt began, naive UTC; used for all timestamps of its rows."""
    touched: set[int] = field(default_factory=set)
    touched_usage: set[int] = field(default_factory=set)
    logged: dict[str, LogKind] = field(default_factory=dict)
    parts: set[tuple[int, Part]] = field(default_factory=set)
    raised: set[int] = field(default_factory=set)
    """Providers whose generation and ``updated_at`` changed."""
    standings: dict[int, ProviderUsage] = field(default_factory=dict)
    """Touched providers as this transaction leaves them, for this process's next refresh. No decision depends on it."""

    def touch(self, changes: Iterable[int]) -> None:
        """Note that these providers or names changed, or that the decision depends on them.

        Read what the decision depends on after this call, see `_hold`.
        """
        new = set(changes) - self.touched  # a row that is held already needs no second statement
        self._hold(stead_provider_change, new)
        self.touched |= new

    def touch_usage(self, provider_ids: Iterable[int]) -> None:
        """Note that the usage of these providers (with generation and ``updated_at``) changed, or that it matters here.

        It does not replace `touch`: a caller that changes more calls both.
        """
        new = set(provider_ids) - self.touched_usage
        self._hold(stead_usage_change, new)
        self.touched_usage |= new

    def note(self, part: Part, provider_ids: Iterable[int]) -> None:
        """Note for clients that watch what of these providers changed, all of which are touched.

        No decision depends on it.
        """
        self.parts.update((id_, part) for id_ in provider_ids)

    def written(self, ticked: Ticked) -> CommittedWrite:
        """What this transaction wrote, with its tick."""
        return CommittedWrite(ticked, frozenset(self.touched), frozenset(self.touched_usage), self.standings)

    def log_consumers(self, uuids: Iterable[str], *, ended: bool = False) -> None:
        """Note that these consumers changed, were created or deleted. Only watchers use this.

        Args:
            ended: because their leases did.
        """
        self.logged.update(dict.fromkeys(uuids, LogKind.ENDED_CONSUMER if ended else LogKind.CONSUMER))

    def log_gone_provider(self, uuid: str) -> None:
        """Note that this provider was deleted: the id in its change row can no longer be resolved."""
        self.logged[uuid] = LogKind.GONE_PROVIDER

    def _hold(self, table: sa.Table, changes: Iterable[int]) -> None:
        """On a Galera cluster, lock the change rows that `tick` will write, and create missing ones.

        Writes of other nodes do not wait for this node's locks. A write that arrives during this one's commit is found
        by certification, which compares the rows of both. A write that arrives between two statements aborts this
        transaction if this one holds a lock on a row of it. So the locks must be taken early: otherwise two writes that
        collide only in a change row, which is written last, would not notice each other.
        """
        if self.dialect.certifies(self.connection):
            # In id order, like all locks, so that two writes cannot deadlock.
            # Tick 0 is newer than no clock, and `tick` overwrites it before the COMMIT.
            rows = [{"provider_id": change, "slot": 0, "tick": 0} for change in sorted(changes)]
            if rows:
                self.connection.execute(self.dialect.insert_missing(table, "provider_id"), rows)

    def alone(self) -> None:
        """Lock out upgrades and repairs until the end, so that no process adds Stead's own tables meanwhile.

        Call it first: data that was read before the lock may be out of date.

        Raises:
            Unavailable: another process held the lock too long.
        """
        self.dialect.alone(self.connection)

    def lock(self, table: sa.Table, ids: Iterable[int], *, shared: bool = False) -> None:
        """Lock rows by primary key, in id order, until the end; missing rows are skipped.

        Read the rows afterwards, with separate statements: the lock may have waited, so that data read before it, or by
        it, may be out of date.
        """
        if not self.dialect.locks_rows:
            return  # SQLite: a writer holds the whole database from its first statement
        _locking(table, shared=shared).rows(self.connection, sorted(ids))

    def bump_generations(
        self, generations: Mapping[int, int], *, by: Mapping[int, int] | None = None, writes_sums: bool = False
    ) -> dict[int, int]:
        """Raise the generations of locked providers; returns the new ones.

        Args:
            generations: provider id → the generation that was read under the lock.
            by: provider id → increment; 1 if not given.
            writes_sums: the caller writes the maintained sums with the new generations. Otherwise valid sums are
                updated to the new generations.

        Raises:
            RaceLost: one of them is no longer at that generation.
        """
        raised = {id_: generation + (by[id_] if by else 1) for id_, generation in generations.items()}
        # Grouped, since one statement raises all of its rows by the same number.
        by_rise: dict[int, dict[int, int]] = defaultdict(dict)
        for id_, generation in generations.items():
            by_rise[raised[id_] - generation][id_] = generation
        for rise, expected in sorted(by_rise.items()):
            self.swap(_RAISE, expected, rise=rise, updated_at=self.now)
            if not writes_sums:
                # A sum is valid only at its provider's generation, so an unchanged sum must follow it.
                _CARRY.run(self.connection, expected, rise=rise)
        self.raised |= raised.keys()
        # These standings have the old generation: without them, the next refresh reads the providers.
        for id_ in raised.keys() & self.standings.keys():
            del self.standings[id_]
        return raised

    def swap(self, swap: Swap, generations: Mapping[int, int], **values: Any) -> None:
        """Run a compare-and-swap of rows by their ids, every one of which must be at its generation.

        Raises:
            RaceLost: a row is at another generation.
        """
        self.require_count(swap.run(self.connection, generations, **values), len(generations))

    def change(self, statement: sa.Update | sa.Delete, rows: Sequence[dict[str, Any]]) -> None:
        """Run a compare-and-swap for each of *rows*, each of which must match exactly one row.

        Raises:
            RaceLost: one did not match.
        """
        if rows:
            self.require_count(self.connection.execute(statement, list(rows)), len(rows))

    @staticmethod
    def require_count(changed: sa.CursorResult[Any] | int, expected: int) -> None:
        """Check that a statement changed the expected number of rows.

        Raises:
            RaceLost: it changed another number.
        """
        count = changed if isinstance(changed, int) else changed.rowcount
        if count != expected:
            raise RaceLost(f"{count} rows instead of {expected}")


@cache
def _locking(table: sa.Table, *, shared: bool) -> Query:
    return Query(
        sa.select(table.c.id).where(table.c.id.in_([LISTED])).order_by(table.c.id).with_for_update(read=shared)
    )


_RAISE = Swap(
    sa.update(resource_providers).values(
        generation=provider_generation.element + value("rise"), updated_at=value("updated_at")
    ),
    beside="COALESCE(generation, 0)",
)
_CARRY = Swap(sa.update(stead_usage).values(generation=stead_usage.c.generation + value("rise")), "provider_id")


# Group commit: writes of one process that wait for each other share one transaction, and so one COMMIT.
#
# For a database with a single writer, in which each commit waits for the disk. A write that arrives while no other
# runs becomes the leader. The leader runs its own write, then the writes that arrived meanwhile, in order, each in a
# savepoint. Then it commits, and only after that the members get their outcomes. The first write that arrived too
# late leads the next group. This queue is fair, while the database's own lock is not.
#
# A write without concurrency has no extra cost: the first of a group needs no savepoint, since no earlier write could
# be lost by rolling back the whole transaction.
#
# Source: "The write and refresh protocol", docs/protocol.md (rule 2).


MOST_MEMBERS = 64

LONGEST_SECONDS = 0.05
"""A group accepts no more members after its further members took this long: all wait for the last of them."""


@dataclass(eq=False, slots=True)
class _Member(Generic[R]):
    """A write that waits for its outcome, or for the lead."""

    work: Callable[[Connection], R]
    context: Context = field(default_factory=copy_context)  # of the thread that submitted it; another may run it
    called: threading.Event = field(default_factory=threading.Event)
    leads: bool = False
    result: R = field(init=False)
    error: Exception | None = None

    def run(self, connection: Connection) -> None:
        self.result = self.context.run(self.work, connection)

    def run_apart(self, connection: Connection) -> None:
        """Run in a savepoint, so that an error does not affect the earlier writes of the transaction.

        Raises:
            Exception: that of the write, if the database rolled back the whole transaction because of it.
        """
        statements.count(connection, "SAVEPOINT member", ())
        try:
            self.run(connection)
        except Exception as error:
            self.error = error
            try:
                statements.count(connection, "ROLLBACK TO member", ())
            except sa.exc.DBAPIError:  # the savepoint no longer exists
                raise error from None
        # A rollback to a savepoint keeps it.
        statements.count(connection, "RELEASE member", ())

    def outcome(self) -> R:
        """Return the result of the write or raise its error. Call it only once."""
        try:
            if self.error is not None:
                raise self.error
            return self.result
        finally:
            self.error = None  # its traceback refers to this member


class Grouping:
    """The queue of the writers of one process."""

    def __init__(self, begin: Callable[[], AbstractContextManager[Connection]], *, patience: float) -> None:
        """Connect to nothing yet.

        Args:
            begin: begins a transaction that excludes all other writers; commits it, or rolls it back after an error.
            patience: maximum wait for the write's turn, in seconds.
        """
        self._begin = begin
        self._patience = patience
        self._lock = threading.Lock()
        self._waiting: deque[_Member[Any]] = deque()
        self._is_led = False  # False: the queue is empty

    def run(self, work: Callable[[Connection], R]) -> R:
        """The result of *work*, once its writes are committed. Another thread may run it.

        If *work* raises an error, its writes are undone, and the other writes of the transaction stay. The error is
        raised only after the COMMIT, since it may depend on the other writes: a claim must not be refused because of
        another claim that is never committed. All members of a transaction receive an error of the transaction itself.

        Raises:
            Unavailable: its turn did not come in time.
        """
        member = _Member(work)
        with self._lock:
            self._waiting.append(member)
            leads = not self._is_led
            self._is_led = True
        if leads or self._is_called_to_lead(member):
            self._lead()
        return member.outcome()

    def _is_called_to_lead(self, member: _Member[Any]) -> bool:
        """Wait until *member* has its outcome, or must lead."""
        try:
            if not member.called.wait(self._patience):
                if self._withdraw(member):
                    raise Unavailable("The database was too busy to take the write in time.")
                member.called.wait()  # another thread is running it
        except BaseException:  # such as an interrupt: the others must not wait for a leader that never runs
            self._withdraw(member)
            raise
        return member.leads

    def _withdraw(self, member: _Member[Any]) -> bool:
        """Remove *member* from the queue; returns whether it was still in it."""
        with self._lock:
            if member not in self._waiting:
                return False
            self._waiting.remove(member)
            # Another thread may have called it to lead just after its time was over: then the next write must lead.
            if member.leads:
                self._call_next()
            return True

    def _lead(self) -> None:
        """Run the waiting writes, the caller's first; commit; deliver the outcomes."""
        group: list[_Member[Any]] = []
        try:
            with self._begin() as connection:
                if first := self._join(group):
                    first.run(connection)
                until = time.monotonic() + LONGEST_SECONDS
                # Bounded, since all members wait for the COMMIT, and other processes for the end of the transaction.
                while len(group) < MOST_MEMBERS and time.monotonic() < until and (member := self._join(group)):
                    member.run_apart(connection)
        except BaseException as error:
            if not group:  # the transaction did not begin: the waiting writes fail for the same reason
                while self._join(group):
                    pass
            # Also for members that were refused: the refusal may depend on a write that is undone now.
            for member in group:
                member.error = error if isinstance(error, Exception) else Unavailable("The write was interrupted.")
            if not isinstance(error, Exception):
                raise
        finally:
            with self._lock:
                self._call_next()
            for member in group:
                member.called.set()

    def _join(self, group: list[_Member[Any]]) -> _Member[Any] | None:
        """Move the first member of the queue to *group* and return it; None if the queue is empty."""
        with self._lock:
            if not self._waiting:
                return None
            group.append(self._waiting.popleft())
            return group[-1]

    def _call_next(self) -> None:
        """Make the first member of the queue the leader, if there is one."""
        self._is_led = bool(self._waiting)
        if self._waiting:
            self._waiting[0].leads = True
            self._waiting[0].called.set()


# The outcome of a commit that the database did not acknowledge: determined before the client gets an answer.
#
# If a connection breaks during COMMIT, the transaction may or may not be committed. If it is still alive at the
# server, it holds the lock on the row of its slot. So this module ticks that slot with a void tick, which waits for
# the end of the transaction. On a Galera cluster, where nodes do not wait for each other's locks, the void tick is
# certified against it. Afterwards the transaction can no longer commit. The earlier ticks of the slot show whether
# its stamp is among them. The void tick is committed before the answer: what it read is then as durable as the void
# tick itself, even if the first commit was still on its way to the disk.
#
# Source: "The write and refresh protocol", docs/protocol.md (rule 8).


_UNKNOWN = "The database failed while it committed the write. It is not known whether it happened."


class OutcomeUnknown(Exception):
    """A commit had no answer; ``ticked`` is what its transaction wrote in the clock, None for nothing."""

    def __init__(self, ticked: Ticked | None) -> None:
        super().__init__(ticked)
        self.ticked = ticked


def commit(transaction: DatabaseTransaction, dialect: Dialect, ticked: Ticked | None) -> None:
    """Commit a transaction that wrote *ticked* in the clock.

    Raises:
        DBAPIError: it was not committed.
        OutcomeUnknown: it may have been committed.
    """
    try:
        transaction.commit()
    except sa.exc.DBAPIError as error:
        transaction.rollback()  # otherwise SQLAlchemy leaves it open for the next user of the connection
        if dialect.is_undone(error):
            raise
        _log.warning("the database failed during a commit: %s", error.orig)
        raise OutcomeUnknown(ticked) from error


def has_happened(writer: Engine, ticked: Ticked | None, until: float) -> bool:
    """Whether an unacknowledged commit happened. If not, it never will.

    Args:
        ticked: what it wrote in the clock. None: it touched nothing, so that the caller may repeat it.
        until: deadline on the monotonic clock for a database that does not answer; there is at least one attempt.

    Raises:
        Unavailable: the outcome cannot be determined, or not in time.
    """
    if ticked is None:
        return False
    pauses = Pauses(first=0.01, longest=0.5)
    while True:
        try:
            return _settled(writer, ticked)
        except (sa.exc.DBAPIError, sa.exc.TimeoutError, LostTick) as error:
            if not pauses.end_before(until):
                raise Unavailable(_UNKNOWN) from error
        pauses.pause()


def _settled(writer: Engine, ticked: Ticked) -> bool:
    with writer.begin() as connection:
        void = tick(connection, ticked.slot, (), ())  # waits for the lost transaction, so it comes before the read
        earlier = earlier_stamps(connection, ticked.slot)
    if void.tick <= ticked.tick:
        return False  # it was rolled back, or the database was restored to an earlier state
    if ticked.tick not in earlier:
        _log.warning("the outcome of a commit was overwritten by %d later ones", void.tick - ticked.tick - 1)
        raise Unavailable(_UNKNOWN)
    return earlier[ticked.tick] == ticked.stamp


# Pauses between attempts: each about twice as long as the last, and random, so that competing writers spread out.


class Pauses:
    """The pauses of one caller, in seconds."""

    def __init__(self, *, first: float, longest: float) -> None:
        """Start before the first failure."""
        self._next, self._longest = first, longest

    def end_before(self, deadline: float) -> bool:
        """Whether the next pause ends before *deadline* (monotonic clock)."""
        return time.monotonic() + self._next <= deadline

    def pause(self) -> None:
        """Wait. The next pause is longer."""
        # At least half of it: a pause near zero would lose the same race again.
        time.sleep(self._next * random.uniform(0.5, 1.0))
        self._next = min(self._next * 2, self._longest)


# A new epoch: after a restore, every process discards its catalog, and all derived sums are deleted.
#
# Source: "The write and refresh protocol", docs/protocol.md (rules 12, 15 and 16).


def renew_epoch(tx: Transaction) -> str:
    """Begin a new epoch, and delete the maintained sums; returns the epoch's name.

    Every process reloads everything at its next poll. No tick is needed: the epoch is read together with the clock.
    """
    epoch = str(uuid4())
    # Not an UPDATE, since a restore may have lost the row.
    tx.connection.execute(sa.delete(stead_epoch))
    tx.connection.execute(sa.insert(stead_epoch), {"id": 1, "epoch": epoch})
    tx.connection.execute(sa.delete(stead_usage))
    return epoch


# The server behind the connections: whether it is still the same, answers, and accepts writes.
#
# After a failover or a restore, an address may lead to another server, whose clock may look as if it had only
# advanced. The server is identified once for each connection, since it cannot change within one. A broken connection
# is a hint that the server may have changed, whichever connection broke.


_IDENTITY = "stead identity"


class PoolState(NamedTuple):
    """Connections of a pool: in use, requests waiting for one, and the maximum number of open ones."""

    in_use: int
    idle: int
    most: int

    @classmethod
    def of(cls, engine: Engine) -> PoolState:
        """The state of the pool of *engine*."""
        pool = engine.pool
        assert isinstance(pool, sa.QueuePool)
        return cls(pool.checkedout(), pool.checkedin(), pool.size() + pool._max_overflow)  # noqa: SLF001  # no other way


class Breaks:
    """The connections that broke, or could not be made, under one request.

    A proxy or the server may have closed a connection while it was idle, which shows only at the next statement. The
    server can have executed nothing, so the request starts again on another connection.

    The number is bounded: a statement that ends the server's process must not end it again and again. So is the time.
    """

    _MOST = 2
    _SECONDS = 5.0

    def __init__(self) -> None:
        """Begin with the request."""
        self._count = 0
        self._until = time.monotonic() + self._SECONDS

    def may_reconnect(self, error: sa.exc.DBAPIError) -> bool:
        """Whether *error* is that of a connection, not of a statement, and another connection may do better."""
        if not error.connection_invalidated and error.statement is not None:
            return False
        self._count += 1
        return self._count <= self._MOST and time.monotonic() < self._until


class Connections:
    """Monitors the connections of a store."""

    def __init__(self, dialect: Dialect, refresher: Engine, others: Iterable[Engine]) -> None:
        """Start to monitor."""
        self.broken = 0
        """Number of connections that have broken so far."""
        self._dialect = dialect
        self._pooled = tuple(others)
        sa.event.listen(refresher, "connect", self._identify)
        for engine in (refresher, *self._pooled):
            sa.event.listen(engine, "invalidate", self._count)

    @staticmethod
    def server_of(connection: Connection) -> Hashable:
        """An identifier of the server that a connection of the refresher reached."""
        identity: Hashable = connection.info[_IDENTITY]
        return identity

    def _identify(self, connection: Any, record: Any) -> None:
        record.info[_IDENTITY] = self._dialect.identity(connection)

    def _count(self, *_: object) -> None:
        """Discard the whole pool when a connection breaks: others are usually broken too, and one error is enough."""
        self.broken += 1
        for engine in self._pooled:
            engine.dispose()


# Whether the database accepts writes: the result of the last write, or of a small test write that leaves no rows.
#
# A full disk or a read-only server still answers every read, so only a write can tell.


TRUSTED_SECONDS = 60.0
"""Time for which a successful write proves that writes are possible."""

PAUSE_SECONDS = 5.0
"""Time from a refused write to the next test write, and between test writes."""

_ROWS = 200
"""Rows of a test write: about 16 KiB, which does not fit on a full disk once the free space in pages is used up."""


class Outage:
    """A time in which the database failed. Its begin, each new cause and its end are logged once, not per request.

    Attributes:
        since: when it began; None while the database answers, when :meth:`over` has nothing to do.
    """

    def __init__(self, end: str) -> None:
        """*end* is what the log says when it is over."""
        self._end = end
        self._lock = threading.Lock()
        self.since: float | None = None
        self._cause = ""

    def failed(self, cause: str, details: str) -> None:
        """The database failed because of *cause*; *details* may differ from request to request."""
        with self._lock:
            if self.since is None:
                self.since = time.monotonic()
            elif cause == self._cause:
                return
            self._cause = cause
        _log.warning("%s: %s", cause, details)

    def over(self) -> None:
        """The database did what it was told to."""
        if self.since is None:
            return  # without the lock: this is what every request meets
        with self._lock:
            since, self.since = self.since, None
        if since is not None:
            _log.info("%s, after %.0f s", self._end, time.monotonic() - since)


class Writability:
    """The write status of one database, as far as this process knows it."""

    def __init__(self) -> None:
        """Start without any write."""
        self._lock = threading.Lock()
        self._succeeded = float("-inf")
        self._probed = float("-inf")
        self._problem: str | None = None

    def succeeded(self) -> None:
        """A write was committed."""
        self._succeeded, self._problem = time.monotonic(), None

    def failed(self, error: Unavailable) -> None:
        """The database refused a write."""
        self._problem, self._probed = str(error), time.monotonic()

    @property
    def is_known(self) -> bool:
        """Whether a write succeeded recently, and none has failed since."""
        return self._problem is None and time.monotonic() - self._succeeded < TRUSTED_SECONDS

    def require(self, probe: Callable[[], None]) -> None:
        """Test by a write, unless a write succeeded recently or a test failed a few seconds ago.

        Args:
            probe: commits `write_and_remove`.

        Raises:
            Unavailable: the database rejects writes.
        """
        with self._lock:
            if self.is_known:
                return
            problem = self._problem
            if problem is not None and time.monotonic() - self._probed < PAUSE_SECONDS:
                raise Unavailable(problem)
            # Before the test: after a failed write, one request tests, and the others report the problem meanwhile.
            self._probed = time.monotonic()
        # Without the lock: a database that hangs must not make other requests wait for this one.
        probe()


def write_and_remove(connection: Connection) -> None:
    """Insert some rows into the change log and delete them in the same transaction, so that no reader sees them."""
    log = stead_change_log.c
    uuids = [str(uuid4()) for _ in range(_ROWS)]
    connection.execute(
        sa.insert(stead_change_log), [{"slot": 0, "tick": -1, "uuid": uuid, "kind": 0} for uuid in uuids]
    )
    connection.execute(sa.delete(stead_change_log).where(log.slot == 0, log.tick == -1, log.uuid.in_(uuids)))
