"""Pruning: removes old entries of the change log, and change rows of providers that were deleted some minutes ago.

Every process prunes at intervals, in small portions, and skips what another process has already removed.

Source: "The write and refresh protocol" (rules 12 and 17), docs/protocol.md.
"""

from __future__ import annotations

import time
from collections import deque
from typing import TYPE_CHECKING

import sqlalchemy as sa

from stead.store.protocol.clock import SLOTS, read_clock
from stead.store.tables import (
    resource_providers,
    stead_change_floor,
    stead_change_log,
    stead_clock,
    stead_part_change,
    stead_provider_change,
    stead_usage_change,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from sqlalchemy.engine import Connection

    from stead.store.protocol.store import Store, Transaction

PAUSE_SECONDS = 60.0
"""Interval between checks of the log."""

PORTION = 1000
"""Ticks of one slot, or rows, that one transaction removes; other writers wait for it."""

KEPT_SECONDS = 600.0
"""How long a change row stays after its provider was deleted. A process that polls less often reloads everything."""

SELDOM_SECONDS = 3600.0
"""Interval between searches for such rows; a search reads all change rows."""

_log, _floor, _clock = stead_change_log.c, stead_change_floor.c, stead_clock.c


class Pruning:
    """Prunes one database."""

    def __init__(self, store: Store, most_writes: int) -> None:
        """Read nothing yet.

        Args:
            most_writes: number of writes that the change log keeps, of all slots together.
        """
        self._store = store
        self._most_writes = most_writes
        self._seen: deque[tuple[float, tuple[int, ...]]] = deque()
        self._looked = -SELDOM_SECONDS

    def step(self) -> float:
        """Remove what is old enough; returns the seconds until the next step.

        Raises:
            Unavailable: the database does not answer.
        """
        ticks = self._store.read(lambda connection: read_clock(connection).ticks)
        self.prune_log(ticks)
        now = time.monotonic()
        # The clock has no times, so only ticks that this process read ten minutes ago are known to be old.
        self._seen.append((now, ticks))
        while len(self._seen) > 1 and self._seen[1][0] <= now - KEPT_SECONDS:
            self._seen.popleft()
        when, old = self._seen[0]
        if when <= now - KEPT_SECONDS and now - self._looked >= SELDOM_SECONDS:
            self._looked = now
            self.prune_change_rows(old)
        return PAUSE_SECONDS

    def prune_log(self, ticks: Sequence[int]) -> None:
        """Limit the log to the configured number of writes; *ticks* are the present or earlier ticks of the slots.

        The floors are raised first. Readers read rows and floors in the same snapshot, so they notice missing rows.
        """
        floors = self._store.read(_floors)
        if lost := set(range(SLOTS)) - floors.keys():
            floors |= self._store.write(_restore_floors, lost)
        spans = {slot: tick - floors[slot] for slot, tick in enumerate(ticks)}
        total = sum(spans.values())
        if total > self._most_writes:
            raised = {slot: ticks[slot] - span * self._most_writes // total for slot, span in spans.items() if span > 0}
            self._store.write(_raise_floors, raised)
            floors |= raised
        for slot, oldest in self._store.read(_oldest_logged).items():
            while oldest <= floors[slot]:
                last = min(floors[slot], oldest + PORTION - 1)
                self._store.write(_remove_logged, slot, last)
                oldest = last + 1

    def prune_change_rows(self, old: Sequence[int]) -> None:
        """Delete change rows of deleted providers, with ticks no newer than the *old* ticks of their slots."""
        for table in (stead_provider_change, stead_usage_change, stead_part_change):
            rows = self._store.read(_orphaned, table)
            while stale := [row for row in rows if row[2] <= old[row[1]]][:PORTION]:
                self._store.write(_remove_orphaned, table, stale)
                deleted = set(stale)
                rows = [row for row in rows if row not in deleted]


def _floors(connection: Connection) -> dict[int, int]:
    return {row.slot: row.floor for row in connection.execute(sa.select(_floor.slot, _floor.floor))}


def _raise_floors(tx: Transaction, floors: Mapping[int, int]) -> None:
    present = _floors(tx.connection)
    for slot, floor in sorted(floors.items()):
        # Another process may have raised it further, and a floor that falls would promise rows that are removed.
        if present[slot] < floor:
            raised = sa.update(stead_change_floor).where(_floor.slot == slot, _floor.floor == present[slot])
            tx.require_count(tx.connection.execute(raised.values(floor=floor)), 1)


def _restore_floors(tx: Transaction, slots: Collection[int]) -> dict[int, int]:
    """Insert missing floors of slots and return them. Pruned rows are unknown, so all older tokens become invalid."""
    ticks = read_clock(tx.connection).ticks
    floors = {slot: ticks[slot] for slot in sorted(slots)}
    rows = [{"slot": slot, "floor": floor} for slot, floor in floors.items()]
    tx.connection.execute(sa.insert(stead_change_floor), rows)
    return floors


def _oldest_logged(connection: Connection) -> dict[int, int]:
    """The oldest tick in the log of each slot that has any."""
    oldest = sa.select(sa.func.min(_log.tick)).where(_log.slot == _clock.slot).scalar_subquery()  # by the index
    rows = connection.execute(sa.select(_clock.slot, oldest.label("oldest")))
    return {row.slot: row.oldest for row in rows if row.oldest is not None}


def _remove_logged(tx: Transaction, slot: int, last: int) -> None:
    """Delete the log of a slot up to and including the tick *last*."""
    tx.connection.execute(sa.delete(stead_change_log).where(_log.slot == slot, _log.tick <= last))


def _orphaned(connection: Connection, table: sa.Table) -> list[tuple[int, int, int]]:
    """Provider id, slot and tick of change rows whose provider was deleted."""
    change = table.c
    joined = table.outerjoin(resource_providers, resource_providers.c.id == change.provider_id)
    gone = sa.and_(change.provider_id > 0, resource_providers.c.id.is_(None))
    query = sa.select(change.provider_id, change.slot, change.tick).select_from(joined).where(gone)
    return [(id_, slot, tick) for id_, slot, tick in connection.execute(query)]


def _remove_orphaned(tx: Transaction, table: sa.Table, rows: Sequence[tuple[int, int, int]]) -> None:
    """Delete change rows. First raise the clock's floors, so that processes that have not read the rows reload."""
    newest: dict[int, int] = {}
    for _, slot, tick in rows:
        newest[slot] = max(newest.get(slot, 0), tick)
    floors = read_clock(tx.connection).floors
    for slot, tick in sorted(newest.items()):
        if floors[slot] < tick:
            raised = sa.update(stead_clock).where(_clock.slot == slot, _clock.floor == floors[slot])
            tx.require_count(tx.connection.execute(raised.values(floor=tick)), 1)
    change = table.c
    for id_, slot, tick in sorted(set(rows)):  # a provider has a row for each part
        # With slot and tick: a new provider may have the id by now, where the database reuses ids.
        same = sa.and_(change.provider_id == id_, change.slot == slot, change.tick == tick)
        tx.connection.execute(sa.delete(table).where(same))
