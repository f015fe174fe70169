"""The commit clock: every write notes in its own transaction what it touched, so that readers find what they missed.

A write adds one to the tick of one slot, its own, and notes slot and tick beside each object that it touched. A reader
that knows the ticks of some moment finds everything newer. Writers with different slots do not wait for each other.

Source: "The write and refresh protocol", docs/protocol.md (rules 1, 5, 6, 8, 9 and 12).
"""

from __future__ import annotations

import hashlib
import itertools
import secrets
import threading
from collections import defaultdict, deque
from dataclasses import dataclass, field
from enum import IntEnum
from functools import cache
from itertools import compress, repeat
from operator import lt, rshift
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

import sqlalchemy as sa

from stead.store.sql.statements import BulkQuery, Insert, Query, Update, value
from stead.store.tables import (
    KEPT_STAMPS,
    stead_change_log,
    stead_clock,
    stead_epoch,
    stead_part_change,
    stead_provider_change,
    stead_usage_change,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from sqlalchemy.engine import Connection


SLOTS = 64

EVERYTHING = 0
"""The id of a change row that stands for everything. Names have negative ids, providers their own."""

TOO_MANY = 20_000
"""A write that touches more objects notes "everything" instead."""


class LogKind(IntEnum):
    """The kind of object that a row of the change log names."""

    EVERYTHING = 0
    """The write was too large to be listed; the uuid is empty."""
    CONSUMER = 1
    GONE_PROVIDER = 2
    ENDED_CONSUMER = 3
    """A consumer whose lease ended. Its row has the kind 1, which older releases know, and ``ended``."""


class Part(IntEnum):
    """A part of a provider that a write changed, for clients that watch."""

    CREATED = 1
    NAME = 2
    TREE = 3
    """Its parent, or the place of a provider above it."""
    INVENTORIES = 4
    TRAITS = 5
    AGGREGATES = 6
    DISABLED = 7
    """Its service state, also by that of a provider above it."""


class LostTick(Exception):
    """The slot's row does not exist, or this transaction may not tick it; the attempt fails."""


def trait_change(trait_id: int) -> int:
    """The id of the change row for the name of a trait."""
    return -2 * trait_id - 2


def class_change(class_id: int) -> int:
    """The id of the change row for the name of a resource class."""
    return -2 * class_id - 1


class OwnSlots:
    """Assigns slots to the threads of this process, so that threads seldom share one."""

    def __init__(self) -> None:
        # Random, since processes that all begin with the same slot would wait for each other.
        self._next = itertools.count(secrets.randbelow(SLOTS))
        self._mine = threading.local()

    def mine(self) -> int:
        """The calling thread's slot, which never changes."""
        slot: int | None = getattr(self._mine, "slot", None)
        if slot is None:
            slot = self._mine.slot = next(self._next) % SLOTS
        return slot


@dataclass(frozen=True, slots=True)
class Ticked:
    """What one transaction wrote in the clock. The stamp is unique to the transaction."""

    slot: int
    tick: int
    stamp: int


def tick(
    connection: Connection,
    slot: int,
    touched: Collection[int],
    touched_usage: Collection[int],
    logged: Mapping[str, LogKind] = MappingProxyType({}),
    parts: Collection[tuple[int, Part]] = (),
) -> Ticked:
    """Note what this transaction touched. Must be the last statement before its COMMIT.

    Args:
        touched: ids of change rows, for whole providers and for names.
        touched_usage: ids of providers of which only the usage changed.
        logged: entries for the change log, by uuid.
        parts: what of some of the touched providers changed, by provider id.

    Raises:
        LostTick: the slot does not exist. The caller must roll the transaction back.
    """
    if len(touched) + len(touched_usage) > TOO_MANY:
        touched, touched_usage, parts = (EVERYTHING,), (), ()
    stamp = secrets.randbits(62)  # random, so that a tick that repeats after a restore has another stamp
    # First: it locks the slot until the COMMIT, so no other transaction writes rows with the same tick.
    now = _COUNT_UP.run(connection, slot=slot, stamp=stamp)
    if now is None:
        raise LostTick(slot)
    for note, changes in ((_NOTE, touched), (_NOTE_USAGE, touched_usage)):
        # In id order, so that writers with different slots cannot deadlock in these rows.
        note.run(connection, [{"provider_id": id_, "slot": slot, "tick": now} for id_ in sorted(changes)])
    _NOTE_PARTS.run(
        connection,
        [{"provider_id": id_, "part": int(part), "slot": slot, "tick": now} for id_, part in sorted(parts)],
    )
    # One row stands for everything: the clock slot is locked while the log is written.
    if len(logged) > TOO_MANY:
        logged = {"": LogKind.EVERYTHING}
    _LOG.run(
        connection,
        [{"slot": slot, "tick": now, "uuid": uuid, **_kind(kind)} for uuid, kind in sorted(logged.items())],
    )
    return Ticked(slot, now, stamp)


def _kind(kind: LogKind) -> dict[str, int | None]:
    if kind is LogKind.ENDED_CONSUMER:
        return {"kind": int(LogKind.CONSUMER), "ended": 1}
    return {"kind": int(kind), "ended": None}


def _text(number: sa.ColumnElement[int]) -> sa.ColumnElement[str]:
    return sa.cast(number, sa.String(20))


def _sign(sign: str) -> sa.ColumnClause[str]:
    return sa.literal_column(f"'{sign}'", sa.String)


_before = _text(stead_clock.c.tick) + _sign(":") + _text(stead_clock.c.stamp) + _sign(",") + stead_clock.c.earlier
_kept = sa.func.substr(_before, sa.literal_column("1"), sa.literal_column(str(KEPT_STAMPS)))


_COUNT_UP = Update(
    sa.update(stead_clock).where(stead_clock.c.slot == value("slot")),
    [  # the statement reads the old values first
        (stead_clock.c.earlier, _kept),
        (stead_clock.c.tick, stead_clock.c.tick + sa.literal_column("1")),
        (stead_clock.c.stamp, value("stamp")),
    ],
    returned=stead_clock.c.tick,
)
"""Ticks a slot and returns its new tick."""

_NOTE, _NOTE_USAGE = (
    Insert(table, "provider_id", "slot", "tick", changing=("slot", "tick"))
    for table in (stead_provider_change, stead_usage_change)
)

_NOTE_PARTS = Insert(stead_part_change, "provider_id", "part", "slot", "tick", changing=("slot", "tick"))

# After a restore of the clock but not of the log, a tick can repeat.
_LOG = Insert(stead_change_log, "slot", "tick", "uuid", "kind", "ended", changing=("kind", "ended"))


def earlier_stamps(connection: Connection, slot: int) -> dict[int, int]:
    """The stamps of about the last 16 ticks of a slot before its present one, by tick."""
    return _stamps(connection.execute(sa.select(stead_clock.c.earlier).where(stead_clock.c.slot == slot)).scalar_one())


def all_earlier_stamps(connection: Connection) -> list[dict[int, int]]:
    """`earlier_stamps` of every slot, read in the snapshot of a refresh."""
    return [_stamps(text) for (text,) in _EARLIER.rows(connection)]


_EARLIER = BulkQuery(sa.select(stead_clock.c.earlier).order_by(stead_clock.c.slot))


def _stamps(text: str) -> dict[int, int]:
    pairs = (pair.split(":") for pair in text.split(",")[:-1])  # the text after the last comma may be cut off
    return {int(then): int(stamp) for then, stamp in pairs}


@dataclass(frozen=True, slots=True)
class Clock:
    """The clock, per slot, as of one snapshot of the database."""

    epoch: str
    ticks: tuple[int, ...]
    stamps: tuple[int, ...]
    floors: tuple[int, ...]

    def digest(self) -> str:
        """A text that identifies this moment: the stamps differ if a restored database repeats ticks."""
        return hashlib.sha256(repr((self.epoch, self.ticks, self.stamps)).encode()).hexdigest()

    def sums(self) -> Sums:
        """What `read_sums` reads at this moment."""
        return Sums(self.epoch, sum(self.ticks), sum(map(rshift, self.stamps, repeat(_UNSUMMED_BITS))))

    def after(self, writes: Iterable[Ticked]) -> Clock:
        """The clock after *writes*, the last one of each slot, and no others."""
        ticks, stamps = list(self.ticks), list(self.stamps)
        for ticked in writes:
            ticks[ticked.slot], stamps[ticked.slot] = ticked.tick, ticked.stamp
        return Clock(self.epoch, tuple(ticks), tuple(stamps), self.floors)

    def can_follow(self, earlier: Clock) -> bool:
        """Whether the change rows have everything that happened since *earlier*.

        False if a tick fell or has another stamp (the database was restored, or lost a commit), if change rows of that
        age were removed, or if the epoch changed.
        """
        return self.epoch == earlier.epoch and all(
            floor <= then and (now > then or (now == then and stamp == old_stamp))
            for now, then, stamp, old_stamp, floor in zip(
                self.ticks, earlier.ticks, self.stamps, earlier.stamps, self.floors, strict=True
            )
        )


class Sums(NamedTuple):
    """The whole clock in three values. Stamps are random, so other stamps have another sum."""

    epoch: str
    ticks: int
    stamps: int


_UNSUMMED_BITS = 6
"""Low bits of each stamp that are left out: then the sum of 64 stamps fits into the integers of every database."""

_epoch = sa.select(stead_epoch.c.epoch).where(stead_epoch.c.id == 1).scalar_subquery()

_SUMS = Query(
    sa.select(
        _epoch,
        sa.func.sum(stead_clock.c.tick),
        sa.func.sum(stead_clock.c.stamp.op(">>")(sa.literal_column(str(_UNSUMMED_BITS)))),
    )
)

_CLOCK = BulkQuery(
    sa.select(
        stead_clock.c.tick,
        stead_clock.c.stamp,
        stead_clock.c.floor,
        _epoch,
    ).order_by(stead_clock.c.slot)
)


def read_clock(connection: Connection) -> Clock:
    """Read the clock. As the first statement of a snapshot transaction, it dates everything read after it."""
    rows = _CLOCK.rows(connection)
    # Without the row of a slot, no reader would notice the changes of its writers.
    if len(rows) != SLOTS:
        raise LostTick(len(rows))
    ticks, stamps, floors, epochs = zip(*rows, strict=True)
    return Clock(str(epochs[0]), ticks, stamps, floors)


def read_sums(connection: Connection) -> Sums:
    """Read the clock as sums, which costs much less than its rows. It dates a transaction like `read_clock`."""
    ((epoch, ticks, stamps),) = _SUMS.rows(connection)
    return Sums(str(epoch), int(ticks), int(stamps))


@dataclass(frozen=True, slots=True)
class Changed:
    """The changes between two moments; no provider is in both sets."""

    whole: frozenset[int]
    """Ids of providers of which any part may have changed; EVERYTHING; and the negative ids of names."""
    usage: frozenset[int]
    """Ids of providers of which only the usage, the generation and ``updated_at`` may have changed."""


NOTHING = Changed(frozenset(), frozenset())


def moved_slots(earlier: Clock, now: Clock) -> list[int]:
    """The slots that ticked between two moments."""
    return list(compress(range(SLOTS), map(lt, earlier.ticks, now.ticks)))


def changed_between(connection: Connection, earlier: Clock, now: Clock) -> Changed:
    """The contents of the change rows newer than *earlier*, in the snapshot that showed *now*."""
    return changed_since(connection, earlier, moved_slots(earlier, now))


def changed_since(connection: Connection, earlier: Clock, slots: Iterable[int]) -> Changed:
    """The contents of the change rows of some slots that are newer than *earlier*."""
    moved = [(slot, earlier.ticks[slot]) for slot in slots]
    if not moved:
        return NOTHING
    values = {f"slot{place}": slot for place, (slot, _) in enumerate(moved)}
    values |= {f"tick{place}": then for place, (_, then) in enumerate(moved)}
    rows = _noted_after(len(moved)).rows(connection, **values)
    whole = frozenset(id_ for id_, is_whole in rows if is_whole)
    # A provider in both tables is read whole, which includes its usage.
    return Changed(whole, frozenset(id_ for id_, is_whole in rows if not is_whole) - whole)


@cache
def _noted_after(number: int) -> BulkQuery:
    """The change rows newer than the ticks of *number* slots, and whether they concern whole providers."""

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


# What this process committed since its last refresh, so that a refresh need not read it from the database.
#
# A refresh reads the clock. If all ticks of a slot since the last refresh are those of commits noted here, then no
# other process wrote with that slot, and the notes say everything that the slot's change rows would say. A note also
# has the usage of the providers that a claim left behind, as of its commit.
#
# Source: "The write and refresh protocol", docs/protocol.md (rule 11); docs/decisions/0036-own-writes-from-memory.md.


MOST = 256
"""Notes per slot. If more writes are committed between two refreshes, the next refresh reads what they changed."""

MOST_TOUCHED = 1000
"""A write that touches more objects is not noted."""


class ProviderUsage(NamedTuple):
    """The part of a provider that a claim changes, as a write left it behind.

    ``modified`` is in seconds since 1970 (UTC); None if the write did not change it. ``used`` is by class id, with all
    classes.
    """

    generation: int
    modified: int | None
    used: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class CommittedWrite:
    """One committed write: its tick, what it touched, and the standings of those of ``usage`` that it knows."""

    ticked: Ticked
    whole: frozenset[int]
    usage: frozenset[int]
    standings: Mapping[int, ProviderUsage]


@dataclass(frozen=True, slots=True)
class OwnChanges:
    """What own commits changed between two moments.

    ``slots`` are the slots in which nothing else was written between the moments. ``changed`` is all that was touched
    with them. ``standings`` has touched providers as the last of these writes left them, if its order is known.
    """

    slots: frozenset[int] = frozenset()
    changed: Changed = NOTHING
    standings: Mapping[int, ProviderUsage] = field(default_factory=dict)

    def merged_with(self, others: Changed, *, is_all: bool) -> tuple[Changed, Mapping[int, ProviderUsage]]:
        """All changes, and the standings that hold after them.

        Args:
            others: the change rows of all other slots.
            is_all: no other slot has a newer tick.
        """
        whole = self.changed.whole | others.whole
        usage = (self.changed.usage | others.usage) - whole
        # A provider's change row names its last write. If that is an own one, its standing includes all earlier writes.
        # The exception is a time that it did not change: an earlier write of another process may have changed that.
        standings = {
            id_: usage_left
            for id_, usage_left in self.standings.items()
            if id_ in usage and id_ not in others.usage and (is_all or usage_left.modified is not None)
        }
        return Changed(whole, usage), standings


class CommittedWrites:
    """The notes of a store; thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._notes: defaultdict[int, deque[CommittedWrite]] = defaultdict(lambda: deque(maxlen=MOST))
        """By slot."""

    def note(self, writes: Sequence[CommittedWrite]) -> None:
        """Add writes whose commit was acknowledged, in the order of their ticks."""
        with self._lock:
            for written in writes:
                # A write that is left out leaves a gap in the ticks, so the refresh reads the change rows of the slot.
                if len(written.whole) + len(written.usage) <= MOST_TOUCHED:
                    self._notes[written.ticked.slot].append(written)

    def forget(self) -> None:
        """Drop all notes, since the database may be another one or an earlier one."""
        with self._lock:
            self._notes.clear()

    @property
    def has_any(self) -> bool:
        """Whether there are notes."""
        with self._lock:
            return any(self._notes.values())

    def expected(self, earlier: Clock) -> Clock:
        """The present clock, if every write since *earlier* is noted here."""
        with self._lock:
            return earlier.after([notes[-1].ticked for notes in self._notes.values() if notes])

    def take(self, earlier: Clock, now: Clock) -> OwnChanges:
        """The own writes between two moments, of all slots in which nothing else was written; drops older notes."""
        with self._lock:
            taken = {slot: _taken(notes, now.ticks[slot]) for slot, notes in self._notes.items() if notes}
        complete = {slot: notes for slot, notes in taken.items() if is_complete(notes, slot, earlier, now)}
        return _added_up(complete) if complete else OwnChanges()


def _taken(notes: deque[CommittedWrite], until: int) -> list[CommittedWrite]:
    """Remove and return the notes up to a tick."""
    taken = []
    while notes and notes[0].ticked.tick <= until:
        taken.append(notes.popleft())
    return taken


def is_complete(notes: list[CommittedWrite], slot: int, earlier: Clock, now: Clock) -> bool:
    """Whether *notes* are all writes of a slot between two moments; leaves out those before."""
    after = earlier.ticks[slot]
    notes[:] = [written for written in notes if written.ticked.tick > after]
    # One note for each tick: a missing one may be another process's write, or a note that its thread has yet to add.
    # The stamp tells apart two ticks with one number, as they occur after a restore.
    ticks = [written.ticked.tick for written in notes]
    return (
        bool(notes)
        and ticks == list(range(after + 1, now.ticks[slot] + 1))
        and notes[-1].ticked.stamp == now.stamps[slot]
    )


def _added_up(notes_of: Mapping[int, Sequence[CommittedWrite]]) -> OwnChanges:
    whole: set[int] = set()
    standings: dict[int, ProviderUsage | None] = {}
    for notes in notes_of.values():
        for id_, usage_left in _left_behind(notes).items():
            # Writes of several slots have no known order, so the last standing of such a provider is unknown.
            standings[id_] = None if id_ in standings else usage_left
        for written in notes:
            whole |= written.whole
    changed = Changed(frozenset(whole), frozenset(standings.keys() - whole))
    sure = {id_: usage_left for id_, usage_left in standings.items() if usage_left is not None}
    return OwnChanges(frozenset(notes_of), changed, sure)


def _left_behind(notes: Sequence[CommittedWrite]) -> dict[int, ProviderUsage | None]:
    """The providers whose usage some writes touched, in this order, as the last one left them; None if unknown."""
    standings: dict[int, ProviderUsage | None] = {}
    for written in notes:
        for id_ in written.usage:
            usage_left = written.standings.get(id_)
            if usage_left is not None and usage_left.modified is None and id_ in standings:
                before = standings[id_]
                # A release changes no time, so the time is still that of the write before it.
                usage_left = None if before is None else usage_left._replace(modified=before.modified)
            standings[id_] = usage_left
    return standings
