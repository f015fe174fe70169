"""Transactions: begin, retry, tick, commit. What is written in them is the nouns' business.

Source: "The write and refresh protocol", docs/protocol.md (rules 2 and 6 to 8).
"""

from __future__ import annotations

import logging
import time
from collections import defaultdict
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cache
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

import sqlalchemy as sa

from stead.domain.errors import BadRequest, ConcurrentUpdate, Unavailable
from stead.store.protocol.clock import LogKind, LostTick, OwnSlots, Ticked, tick
from stead.store.protocol.connections import Connections, PoolState
from stead.store.protocol.grouping import Grouping
from stead.store.protocol.outcome import OutcomeUnknown, commit, has_happened
from stead.store.protocol.pauses import Pauses
from stead.store.protocol.writability import Writability, write_and_remove
from stead.store.sql.dialects import Database, Dialect, dialect_of
from stead.store.sql.statements import LISTED, Query, Swap, value
from stead.store.tables import resource_providers, stead_provider_change, stead_usage, stead_usage_change

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager

    from sqlalchemy.engine import Connection

P = ParamSpec("P")
R = TypeVar("R")

_log = logging.getLogger(__name__)


class RaceLost(Exception):
    """What the attempt rested on changed under it; a new attempt may well succeed."""


@dataclass(slots=True)
class Transaction:
    """One attempt at a write: a connection, one time for all its rows, and what it touched so far."""

    connection: Connection
    dialect: Dialect
    now: datetime
    """When the attempt began, naive UTC; the books' timestamps."""
    touched: set[int] = field(default_factory=set)
    touched_usage: set[int] = field(default_factory=set)
    logged: dict[str, LogKind] = field(default_factory=dict)

    def touch(self, changes: Iterable[int]) -> None:
        """Say that these providers or names changed, or that the decision rests on their not changing.

        What it rests on is to be read afterwards, see `_hold`.
        """
        new = set(changes) - self.touched
        self._hold(stead_provider_change, new)
        self.touched |= new

    def touch_usage(self, provider_ids: Iterable[int]) -> None:
        """Say that of these providers what is used changed, with the generation and ``updated_at``, or was rested on.

        It does not stand for `touch`: who changes more says both.
        """
        new = set(provider_ids) - self.touched_usage
        self._hold(stead_usage_change, new)
        self.touched_usage |= new

    def log_consumers(self, uuids: Iterable[str]) -> None:
        """Say that these consumers changed, came or went: nothing rests on that, but who watches is told."""
        self.logged.update(dict.fromkeys(uuids, LogKind.CONSUMER))

    def log_gone_provider(self, uuid: str) -> None:
        """Say that this provider went: its change row has an id that nobody can name any more."""
        self.logged[uuid] = LogKind.GONE_PROVIDER

    def _hold(self, table: sa.Table, changes: Iterable[int]) -> None:
        """On a Galera cluster, lock the change rows that `tick` will write, and make those that are missing.

        A write of another node waits for none of our locks. Either it comes while ours is on its way, and certification
        compares what both wrote; or it comes between our statements, and ends us if we hold a lock on a row that it
        writes. Writes that collide in nothing but a change row would pass each other if that was written last.
        """
        if self.dialect.certifies(self.connection):
            rows = [{"provider_id": change, "slot": 0, "tick": 0} for change in sorted(changes)]
            if rows:
                self.connection.execute(self.dialect.insert_missing(table, "provider_id"), rows)

    def alone(self) -> None:
        """Lock out upgrades and repairs until the end: no process adds Stead's own tables meanwhile.

        To be called first: what is read before the lock may be old.

        Raises:
            Unavailable: another process kept the lock too long.
        """
        self.dialect.alone(self.connection)

    def lock(self, table: sa.Table, ids: Iterable[int], *, shared: bool = False) -> None:
        """Lock rows by primary key, in id order, until the end; those that are gone are passed over.

        What they hold is read afterwards, by statements of its own: a lock may have waited, and what was read before
        it, or by it, may be old.
        """
        if not self.dialect.locks_rows:
            return
        _locking(table, shared=shared).rows(self.connection, sorted(ids))

    def bump_generations(
        self, generations: Mapping[int, int], *, by: Mapping[int, int] | None = None, writes_sums: bool = False
    ) -> dict[int, int]:
        """Raise the generations of locked providers; returns the new ones.

        Args:
            generations: provider id → the generation that was read under the lock.
            by: provider id → by how much; one if not given.
            writes_sums: the caller writes the maintained sums with the new generations; else those that stand at the
                old ones are carried along.

        Raises:
            RaceLost: one of them is not at that generation any more.
        """
        raised = {id_: generation + (by[id_] if by else 1) for id_, generation in generations.items()}
        by_rise: dict[int, dict[int, int]] = defaultdict(dict)
        for id_, generation in generations.items():
            by_rise[raised[id_] - generation][id_] = generation
        for rise, some in sorted(by_rise.items()):
            self.swap(_RAISE, some, rise=rise, updated_at=self.now)
            if not writes_sums:
                _CARRY.run(self.connection, some, rise=rise)
        return raised

    def swap(self, swap: Swap, generations: Mapping[int, int], **values: Any) -> None:
        """Run a compare-and-swap of rows by their ids, every one of which must be at its generation.

        Raises:
            RaceLost: one is not.
        """
        self.require_count(swap.run(self.connection, generations, **values), len(generations))

    def change(self, statement: sa.Update | sa.Delete, rows: Sequence[dict[str, Any]]) -> None:
        """Run a compare-and-swap for each of *rows*, every one of which must hit exactly one row.

        Raises:
            RaceLost: one did not.
        """
        if rows:
            self.require_count(self.connection.execute(statement, list(rows)), len(rows))

    @staticmethod
    def require_count(changed: sa.CursorResult[Any] | int, expected: int) -> None:
        """Refuse to go on unless a statement changed as many rows as were read before.

        Raises:
            RaceLost: it did not.
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
        generation=resource_providers.c.generation + value("rise"), updated_at=value("updated_at")
    )
)
_CARRY = Swap(sa.update(stead_usage).values(generation=stead_usage.c.generation + value("rise")), "provider_id")


class Store:
    """The truth: one database, and the two ways to speak with it."""

    def __init__(
        self,
        database: Database,
        *,
        write_timeout: float = 10.0,
        claim_timeout: float = 10.0,
        on_retry: Callable[[str], None] | None = None,
    ) -> None:
        """Nothing is connected yet.

        Args:
            on_retry: is told why an attempt is made anew: ``race``, ``duplicate``, ``deadlock``, ``busy`` or
                ``commit_unanswered``.
            write_timeout: seconds for which a write that loses races is tried again.
            claim_timeout: the same for writes of allocations, see `write_within_claim_timeout`.
        """
        url = sa.make_url(database.url)
        self.dialect = dialect_of(url)
        self.writer = self.dialect.writer(database, url)
        self.reader = self.dialect.reader(database, url)
        self.refresher = self.dialect.reader(replace(database, pooled=False), url)
        """As the reader, for whoever keeps a connection to himself: it is not of the pool."""
        self.connection_seconds = database.connection_recycle_time
        """How old a connection may get that is not of the pool."""
        self.connections = Connections(self.dialect, self.refresher, (self.reader, self.writer))
        self._write_timeout = write_timeout
        self._claim_timeout = claim_timeout
        self._on_retry = on_retry
        self._grouping = None if self.dialect.locks_rows else Grouping(self._begun_in_time, patience=write_timeout)
        self.writability = Writability()
        """Whether the database takes writes."""
        self._slots = OwnSlots()
        self._ticked: dict[Connection, Ticked] = {}
        """By open transaction the last tick in it, which stands or falls with all of it."""

    @property
    def claim_timeout(self) -> float:
        """Seconds for which a write of allocations is tried again."""
        return self._claim_timeout

    def pools(self) -> dict[str, PoolState]:
        """How the connection pools are, by what their connections are for."""
        return {"reader": PoolState.of(self.reader), "writer": PoolState.of(self.writer)}

    def close(self) -> None:
        """Close all pooled connections; the store may be used again, and opens new ones."""
        self.writer.dispose()
        self.reader.dispose()

    def write(self, body: Callable[Concatenate[Transaction, P], R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Run *body* in one transaction and commit what it did, together with a tick for what it touched.

        Any error rolls the whole attempt back. Lost races are tried again from the start, with growing random pauses.
        So is an attempt of which the commit may have failed, unless it is found to have happened; a *body* that touches
        nothing leaves nothing to find, and must be one that may run twice.

        Raises:
            ConcurrentUpdate: races were lost until the time was over.
            Unavailable: the database does not answer, or not in time; or it went away during the commit, and could not
                tell in time what became of it.
        """
        return self._write(self._write_timeout, body, *args, **kwargs)

    def write_within_claim_timeout(
        self, body: Callable[Concatenate[Transaction, P], R], *args: P.args, **kwargs: P.kwargs
    ) -> R:
        """`write`, tried again for as long as the operator allows for writes of allocations."""
        return self._write(self._claim_timeout, body, *args, **kwargs)

    def require_writable(self) -> None:
        """Find out whether the database takes writes, by a write if nothing else tells.

        Raises:
            Unavailable: it takes none.
        """
        self.writability.require(lambda: self.write(lambda tx: write_and_remove(tx.connection)))

    def _write(
        self, seconds: float, body: Callable[Concatenate[Transaction, P], R], *args: P.args, **kwargs: P.kwargs
    ) -> R:
        try:
            result = self._tried_again(seconds, body, *args, **kwargs)
        except Unavailable as error:
            if isinstance(error.__cause__, sa.exc.DBAPIError):  # and not only too busy
                self.writability.failed(error)
            raise
        self.writability.succeeded()
        return result

    def _tried_again(
        self, seconds: float, body: Callable[Concatenate[Transaction, P], R], *args: P.args, **kwargs: P.kwargs
    ) -> R:
        deadline = time.monotonic() + seconds
        pauses = Pauses(first=0.002, longest=0.25)
        while True:
            try:
                return self._attempt(deadline, body, *args, **kwargs)
            except RaceLost as lost:
                others_won = not isinstance(lost.__cause__, OutcomeUnknown)
                reason, cause = f"lost a race for {lost}", "race" if others_won else "commit_unanswered"
            except sa.exc.DBAPIError as error:
                if not self.dialect.is_retryable(error):
                    raise meaning(error, self.dialect) from error
                others_won = self.dialect.is_lost_race(error)
                reason, cause = type(error.orig).__name__, _cause(error, others_won=others_won)
            except (sa.exc.TimeoutError, LostTick) as error:
                raise Unavailable("The database is not able to take the write now.") from error
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
            tx = Transaction(connection, self.dialect, datetime.now(UTC).replace(tzinfo=None))
            result = body(tx, *args, **kwargs)
            if tx.touched or tx.touched_usage or tx.logged:
                self._ticked[connection] = tick(connection, self._slots.mine(), tx.touched, tx.touched_usage, tx.logged)
            return result

        if self._grouping is not None:
            return self._grouping.run(work)
        with self._begun(deadline) as connection:
            return work(connection)

    def _begun_in_time(self) -> AbstractContextManager[Connection]:
        return self._begun(time.monotonic() + self._write_timeout)

    @contextmanager
    def _begun(self, deadline: float) -> Iterator[Connection]:
        """A transaction that is committed in the end; if the COMMIT is not answered, that it happened is found out.

        Raises:
            RaceLost: it did not.
            Unavailable: that could not be found out, not until the *deadline* at least.
        """
        try:
            with self.writer.connect() as connection, connection.begin() as transaction:
                try:
                    yield connection
                finally:
                    ticked = self._ticked.pop(connection, None)
                commit(transaction, self.dialect, ticked)
        except OutcomeUnknown as unknown:
            if not has_happened(self.writer, unknown.ticked, deadline):
                raise RaceLost("a commit that the database did not answer") from unknown

    def read(self, body: Callable[Concatenate[Connection, P], R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Run *body* on one fresh snapshot of the database, which it must not change.

        Raises:
            Unavailable: the database does not answer.
        """
        try:
            with self.reader.begin() as connection:
                return body(connection, *args, **kwargs)
        except sa.exc.DBAPIError as error:
            raise meaning(error, self.dialect) from error
        except (sa.exc.TimeoutError, LostTick) as error:
            raise Unavailable("The database cannot answer now.") from error


def _cause(error: sa.exc.DBAPIError, *, others_won: bool) -> str:
    if isinstance(error, sa.exc.IntegrityError):
        return "duplicate"
    return "deadlock" if others_won else "busy"


def meaning(error: sa.exc.DBAPIError, dialect: Dialect) -> Exception:
    """What a database error means to the caller: a fault of the database is Unavailable, one of ours stays as it is.

    Which of them it is the dialect knows by its number: the drivers' classes mix them.
    """
    if dialect.refuses_value(error):
        return BadRequest("The database cannot store one of the values.")
    if error.connection_invalidated or dialect.is_unavailable(error):
        _log.warning("the database failed: %s", error.orig)
        return Unavailable("The database does not answer.")
    return error
