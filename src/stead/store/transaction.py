"""Transactions: begin, retry, tick, commit. What is written in them is the nouns' business.

Source: "The write and refresh protocol", docs/architecture.md (rules 2 and 6 to 8).
"""

from __future__ import annotations

import logging
import random
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

import sqlalchemy as sa

from stead.domain.errors import BadRequest, Unavailable
from stead.store.clock import LostTick, OwnSlots, tick
from stead.store.connections import Connections
from stead.store.dialect import MANY, Database, Dialect, dialect_of
from stead.store.outcome import OutcomeUnknown, commit, has_happened
from stead.store.tables import resource_providers, stead_usage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from sqlalchemy.engine import Connection

P = ParamSpec("P")
R = TypeVar("R")

_log = logging.getLogger(__name__)

_FIRST_PAUSE, _LONGEST_PAUSE = 0.002, 0.25  # seconds


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

    def touch(self, changes: Iterable[int]) -> None:
        """Say that these providers or names changed, or that the decision rested on their not changing."""
        self.touched.update(changes)

    def touch_usage(self, provider_ids: Iterable[int]) -> None:
        """Say that of these providers what is used changed, with the generation and ``updated_at``, or was rested on.

        It does not stand for `touch`: who changes more says both.
        """
        self.touched_usage.update(provider_ids)

    def lock(self, table: sa.Table, ids: Iterable[int], *, shared: bool = False) -> None:
        """Lock rows by primary key, in id order, until the end; those that are gone are passed over.

        What they hold is read afterwards, by statements of its own: a lock may have waited, and what was read before
        it, or by it, may be old.
        """
        if not self.dialect.locks_rows:
            return
        for some in in_portions(sorted(ids)):
            statement = sa.select(table.c.id).where(table.c.id.in_(some)).order_by(table.c.id)
            self.connection.execute(statement.with_for_update(read=shared)).all()

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
        providers = resource_providers
        statement = (
            sa.update(providers)
            .where(providers.c.id == sa.bindparam("p_id"), providers.c.generation == sa.bindparam("p_generation"))
            .values(generation=sa.bindparam("p_next"), updated_at=self.now)
        )
        rows = [
            {"p_id": id_, "p_generation": generation, "p_next": raised[id_]}
            for id_, generation in sorted(generations.items())
        ]
        self.change(statement, rows)
        if rows and not writes_sums:
            carried = (
                sa.update(stead_usage)
                .where(
                    stead_usage.c.provider_id == sa.bindparam("p_id"),
                    stead_usage.c.generation == sa.bindparam("p_generation"),
                )
                .values(generation=sa.bindparam("p_next"))
            )
            self.connection.execute(carried, rows)
        return raised

    def change(self, statement: sa.Update | sa.Delete, rows: Sequence[dict[str, Any]]) -> None:
        """Run a compare-and-swap for each of *rows*, every one of which must hit exactly one row.

        Raises:
            RaceLost: one did not.
        """
        if rows:
            self.require_count(self.connection.execute(statement, list(rows)), len(rows))

    @staticmethod
    def require_count(changed: sa.CursorResult[Any], expected: int) -> None:
        """Refuse to go on unless a statement changed as many rows as were read before.

        Raises:
            RaceLost: it did not.
        """
        if changed.rowcount != expected:
            raise RaceLost(f"{changed.rowcount} rows instead of {expected}")


def in_portions(values: Sequence[R]) -> Iterator[Sequence[R]]:
    """*values* in runs short enough for one ``IN (…)``."""
    for start in range(0, len(values), MANY):
        yield values[start : start + MANY]


class Store:
    """The truth: one database, and the two ways to speak with it."""

    def __init__(self, database: Database, *, write_timeout: float = 10.0) -> None:
        """Nothing is connected yet.

        Args:
            write_timeout: seconds for which a write that loses races is tried again.
        """
        url = sa.make_url(database.url)
        self.dialect = dialect_of(url)
        self.writer = self.dialect.writer(database, url)
        self.reader = self.dialect.reader(database, url)
        self.connections = Connections(self.dialect, self.reader, self.writer)
        self._write_timeout = write_timeout
        self._slots = OwnSlots()

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
            Unavailable: races were lost until the time was over, or the database does not answer; or it went away
                during the commit, and could not tell in time what became of it.
        """
        deadline = time.monotonic() + self._write_timeout
        pause = _FIRST_PAUSE
        while True:
            try:
                return self._attempt(deadline, body, *args, **kwargs)
            except RaceLost as lost:
                reason = f"lost a race for {lost}"
            except sa.exc.DBAPIError as error:
                if not self.dialect.is_retryable(error):
                    raise meaning(error, self.dialect) from error
                reason = type(error.orig).__name__
            except (sa.exc.TimeoutError, LostTick) as error:
                raise Unavailable("The database is not able to take the write now.") from error
            if time.monotonic() + pause > deadline:
                raise Unavailable("The database was too busy to take the write in time.")
            _log.debug("write %s is tried again: %s", getattr(body, "__name__", body), reason)
            time.sleep(pause * random.uniform(0.5, 1.0))
            pause = min(pause * 2, _LONGEST_PAUSE)

    def _attempt(
        self, deadline: float, body: Callable[Concatenate[Transaction, P], R], *args: P.args, **kwargs: P.kwargs
    ) -> R:
        try:
            with self.writer.connect() as connection, connection.begin() as transaction:
                tx = Transaction(connection, self.dialect, datetime.now(UTC).replace(tzinfo=None))
                result = body(tx, *args, **kwargs)
                ticked = None
                if tx.touched or tx.touched_usage:
                    ticked = tick(connection, self.dialect, self._slots.mine(), tx.touched, tx.touched_usage)
                commit(transaction, self.dialect, ticked)
        except OutcomeUnknown as unknown:
            if not has_happened(self.writer, self.dialect, unknown.ticked, deadline):
                raise RaceLost("a commit that the database did not answer") from unknown
        return result

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
            raise Unavailable("The database is not able to answer now.") from error


def meaning(error: sa.exc.DBAPIError, dialect: Dialect) -> Exception:
    """What a database error means to the caller: a fault of the database is Unavailable, one of ours stays as it is.

    Which of them it is the dialect knows by its number: the drivers' classes mix them.
    """
    if dialect.refuses_value(error):
        return BadRequest("The database can not hold one of the values.")
    if error.connection_invalidated or dialect.is_unavailable(error):
        _log.warning("the database failed: %s", error.orig)
        return Unavailable("The database does not answer.")
    return error
