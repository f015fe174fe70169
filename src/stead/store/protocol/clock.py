"""The commit clock: every write says in its own transaction what it touched, every reader can tell what it missed.

A write adds one to the tick of one slot, its own, and notes slot and tick beside each thing it touched. A reader that
knows the ticks of some moment finds everything newer by them. Writers with different slots do not queue for each other.

Source: "The write and refresh protocol", docs/protocol.md (rules 1, 5, 6, 8, 9 and 12).
"""

from __future__ import annotations

import hashlib
import itertools
import secrets
import threading
from dataclasses import dataclass
from enum import IntEnum
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING

import sqlalchemy as sa

from stead.store.sql.statements import BulkQuery, Insert, Update, value
from stead.store.tables import (
    KEPT_STAMPS,
    stead_change_log,
    stead_clock,
    stead_epoch,
    stead_provider_change,
    stead_usage_change,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from sqlalchemy.engine import Connection

SLOTS = 64

EVERYTHING = 0
"""The id of a change row that stands for everything; names have negative ids, providers their own."""

TOO_MANY = 20_000
"""A write that touches more than this says "everything" instead."""


class LogKind(IntEnum):
    """What a row of the change log is about."""

    EVERYTHING = 0
    """So much that it was not listed; its uuid is empty."""
    CONSUMER = 1
    GONE_PROVIDER = 2


class LostTick(Exception):
    """The slot's row is gone, or was not ours to tick; the attempt ends."""


def trait_change(trait_id: int) -> int:
    """The change row that stands for one trait's name."""
    return -2 * trait_id - 2


def class_change(class_id: int) -> int:
    """The change row that stands for one resource class's name."""
    return -2 * class_id - 1


class OwnSlots:
    """Deals the slots out to the threads of this process, so that they seldom share one."""

    def __init__(self) -> None:
        self._next = itertools.count(secrets.randbelow(SLOTS))
        self._mine = threading.local()

    def mine(self) -> int:
        """The calling thread's slot, always the same."""
        slot: int | None = getattr(self._mine, "slot", None)
        if slot is None:
            slot = self._mine.slot = next(self._next) % SLOTS
        return slot


@dataclass(frozen=True, slots=True)
class Ticked:
    """What one transaction wrote in the clock; the stamp is its own, so nobody else ever writes the same."""

    slot: int
    tick: int
    stamp: int


def tick(
    connection: Connection,
    slot: int,
    touched: Collection[int],
    touched_usage: Collection[int],
    logged: Mapping[str, LogKind] = MappingProxyType({}),
) -> Ticked:
    """Note what this transaction touched; the last thing before its COMMIT.

    Args:
        touched: change rows that stand for whole providers and for names.
        touched_usage: ids of providers of which only what is used changed.
        logged: what the change log shall have, by uuid.

    Raises:
        LostTick: there is no such slot. The transaction must be rolled back.
    """
    if len(touched) + len(touched_usage) > TOO_MANY:
        touched, touched_usage = (EVERYTHING,), ()
    stamp = secrets.randbits(62)
    now = _COUNT_UP.run(connection, slot=slot, stamp=stamp)
    if now is None:
        raise LostTick(slot)
    for note, changes in ((_NOTE, touched), (_NOTE_USAGE, touched_usage)):
        note.run(connection, [{"provider_id": id_, "slot": slot, "tick": now} for id_ in sorted(changes)])
    if len(logged) > TOO_MANY:
        logged = {"": LogKind.EVERYTHING}
    _LOG.run(
        connection,
        [{"slot": slot, "tick": now, "uuid": uuid, "kind": int(kind)} for uuid, kind in sorted(logged.items())],
    )
    return Ticked(slot, now, stamp)


def _text(number: sa.ColumnElement[int]) -> sa.ColumnElement[str]:
    return sa.cast(number, sa.String(20))


def _sign(sign: str) -> sa.ColumnClause[str]:
    return sa.literal_column(f"'{sign}'", sa.String)


_before = _text(stead_clock.c.tick) + _sign(":") + _text(stead_clock.c.stamp) + _sign(",") + stead_clock.c.earlier
_kept = sa.func.substr(_before, sa.literal_column("1"), sa.literal_column(str(KEPT_STAMPS)))


_COUNT_UP = Update(
    sa.update(stead_clock).where(stead_clock.c.slot == value("slot")),
    [  # the old values are read first
        (stead_clock.c.earlier, _kept),
        (stead_clock.c.tick, stead_clock.c.tick + sa.literal_column("1")),
        (stead_clock.c.stamp, value("stamp")),
    ],
    returned=stead_clock.c.tick,
)
"""Ticks a slot; returns its new tick."""

_NOTE, _NOTE_USAGE = (
    Insert(table, "provider_id", "slot", "tick", changing=("slot", "tick"))
    for table in (stead_provider_change, stead_usage_change)
)

# A tick comes again where the clock was restored and the log was not.
_LOG = Insert(stead_change_log, "slot", "tick", "uuid", "kind", changing=("kind",))


def earlier_stamps(connection: Connection, slot: int) -> dict[int, int]:
    """The stamps of the last ticks of a slot before its present one, by tick: some sixteen of them."""
    text = connection.execute(sa.select(stead_clock.c.earlier).where(stead_clock.c.slot == slot)).scalar_one()
    pairs = (pair.split(":") for pair in text.split(",")[:-1])  # what stands after the last comma was cut off
    return {int(then): int(stamp) for then, stamp in pairs}


@dataclass(frozen=True, slots=True)
class Clock:
    """The clock as one snapshot of the database showed it, per slot."""

    epoch: str
    ticks: tuple[int, ...]
    stamps: tuple[int, ...]
    floors: tuple[int, ...]

    def digest(self) -> str:
        """A text that tells this moment from every other: stamps differ where a restored database ticks again."""
        return hashlib.sha256(repr((self.epoch, self.ticks, self.stamps)).encode()).hexdigest()

    def can_follow(self, earlier: Clock) -> bool:
        """Whether what happened since *earlier* can be told by the change rows.

        Not if a tick fell or has another stamp (the database was restored, or lost a commit), if change rows that
        old are no longer kept, or if the epoch changed.
        """
        return self.epoch == earlier.epoch and all(
            floor <= then and (now > then or (now == then and stamp == old_stamp))
            for now, then, stamp, old_stamp, floor in zip(
                self.ticks, earlier.ticks, self.stamps, earlier.stamps, self.floors, strict=True
            )
        )


_CLOCK = BulkQuery(
    sa.select(
        stead_clock.c.tick,
        stead_clock.c.stamp,
        stead_clock.c.floor,
        sa.select(stead_epoch.c.epoch).where(stead_epoch.c.id == 1).scalar_subquery(),
    ).order_by(stead_clock.c.slot)
)


def read_clock(connection: Connection) -> Clock:
    """The clock; as the first statement of a snapshot transaction, it dates all that is read after it."""
    rows = _CLOCK.rows(connection)
    if len(rows) != SLOTS:
        raise LostTick(len(rows))
    ticks, stamps, floors, epochs = zip(*rows, strict=True)
    return Clock(str(epochs[0]), ticks, stamps, floors)


@dataclass(frozen=True, slots=True)
class Changed:
    """What changed between two moments; no provider is in both."""

    whole: frozenset[int]
    """Providers any part of which may have changed, by id; EVERYTHING; and the negative ids of names."""
    usage: frozenset[int]
    """Ids of providers of which only these may have changed: what is used, the generation and ``updated_at``."""


def changed_between(connection: Connection, earlier: Clock, now: Clock) -> Changed:
    """What the change rows newer than *earlier* say, in the snapshot that showed *now*."""
    moved = [
        (slot, then)
        for slot, (then, tick_now) in enumerate(zip(earlier.ticks, now.ticks, strict=True))
        if tick_now > then
    ]
    if not moved:
        return Changed(frozenset(), frozenset())
    values = {f"slot{place}": slot for place, (slot, _) in enumerate(moved)}
    values |= {f"tick{place}": then for place, (_, then) in enumerate(moved)}
    rows = _noted_after(len(moved)).rows(connection, **values)
    whole = frozenset(id_ for id_, is_whole in rows if is_whole)
    return Changed(whole, frozenset(id_ for id_, is_whole in rows if not is_whole) - whole)


@cache
def _noted_after(number: int) -> BulkQuery:
    """The change rows newer than the ticks of so many slots, and whether they are about whole providers."""

    def newer(table: sa.Table) -> sa.ColumnElement[bool]:
        return sa.or_(
            *(
                sa.and_(table.c.slot == value(f"slot{place}"), table.c.tick > value(f"tick{place}"))
                for place in range(number)
            )
        )

    tables = ((stead_provider_change, 1), (stead_usage_change, 0))
    return BulkQuery(
        sa.union_all(
            *(
                sa.select(table.c.provider_id, sa.literal_column(str(is_whole), sa.Integer).label("is_whole")).where(
                    newer(table)
                )
                for table, is_whole in tables
            )
        )
    )
