"""One attempt at a write: what it locks, what it touches, and how it raises generations.

Source: "The write and refresh protocol", docs/protocol.md (rules 2 and 6).
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from stead.store.protocol.clock import LogKind, Part
from stead.store.protocol.own_writes import Written
from stead.store.sql.statements import LISTED, Query, Swap, value
from stead.store.tables import resource_providers, stead_provider_change, stead_usage, stead_usage_change

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime

    from sqlalchemy.engine import Connection

    from stead.store.protocol.clock import Ticked
    from stead.store.protocol.own_writes import Standing
    from stead.store.sql.dialects import Dialect


class RaceLost(Exception):
    """The data that the attempt depended on changed; another attempt may succeed."""


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
    standings: dict[int, Standing] = field(default_factory=dict)
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

    def tell(self, part: Part, provider_ids: Iterable[int]) -> None:
        """Note for clients that watch what of these providers changed, all of which are touched.

        No decision depends on it.
        """
        self.parts.update((id_, part) for id_ in provider_ids)

    def written(self, ticked: Ticked) -> Written:
        """What this transaction wrote, with its tick."""
        return Written(ticked, frozenset(self.touched), frozenset(self.touched_usage), self.standings)

    def log_consumers(self, uuids: Iterable[str]) -> None:
        """Note that these consumers changed, were created or deleted. Only watchers use this."""
        self.logged.update(dict.fromkeys(uuids, LogKind.CONSUMER))

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
        generation=resource_providers.c.generation + value("rise"), updated_at=value("updated_at")
    )
)
_CARRY = Swap(sa.update(stead_usage).values(generation=stead_usage.c.generation + value("rise")), "provider_id")
