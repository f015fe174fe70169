"""Leases: the ends of claims, one row for each consumer that has one.

The clock of the database decides, and it is read once in each transaction. A row is locked after its consumer and
before all providers; a renewal locks rows of leases only. ``allocations`` gives and ends leases with the consumers.

Source: "Leases", docs/stead-api.md; "The write and refresh protocol" (rule 21), docs/protocol.md.
"""

from __future__ import annotations

from enum import IntEnum
from itertools import groupby
from operator import itemgetter
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

import sqlalchemy as sa

from stead.domain.claim import HeldLease, OnExpiry, is_same_claim
from stead.store.sql.statements import LISTED, Insert, Query, in_portions
from stead.store.tables import consumers, stead_counter, stead_lease

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from sqlalchemy.engine import Connection

    from stead.domain.claim import Lease
    from stead.store.protocol.store import Transaction
    from stead.store.sql.dialects import Dialect

_columns = stead_lease.c


class State(IntEnum):
    """What happens when a lease ends, or has happened."""

    RELEASE = 0
    MARK = 1
    OVERDUE = 2
    """It ended, and was to be marked."""


OF_CONSUMER = _columns.consumer_id == consumers.c.id
"""Joins a lease to its consumer. It is a lease of that consumer only if the uuids are equal, see `held`: they are not
compared in SQL, since the columns may have different collations."""

HELD = (_columns.uuid, _columns.expires_at, _columns.state)
"""The columns for `held`."""


def held(consumer: str, uuid: str | None, expires_at: int | None, state: int | None) -> HeldLease | None:
    """The lease of *consumer* with these columns; None if there is none, or if it is that of a deleted consumer."""
    if uuid != consumer or expires_at is None:
        return None
    on_expiry = OnExpiry.RELEASE if state == State.RELEASE else OnExpiry.MARK
    return HeldLease(expires_at, on_expiry, state == State.OVERDUE)


def lock(tx: Transaction, consumer_ids: Collection[int]) -> set[int]:
    """Lock the leases of some consumers until the end; returns the consumers that have one."""
    return {id_ for (id_,) in _LOCK.rows(tx.connection, sorted(consumer_ids))}


_LOCK = Query(
    sa.select(_columns.consumer_id)
    .where(_columns.consumer_id.in_([LISTED]))
    .order_by(_columns.consumer_id)
    .with_for_update()
)


def write(tx: Transaction, requested: Mapping[str, Lease], before: Mapping[str, HeldLease]) -> dict[str, HeldLease]:
    """Give locked consumers leases, by uuid; returns them. *before* are those that they have.

    Raises:
        LeaseRefused
    """
    now = read_clock(tx.connection, tx.dialect).latest
    leases = {
        uuid: HeldLease(lease.end(uuid, now, before.get(uuid)), lease.on_expiry) for uuid, lease in requested.items()
    }
    ids = {uuid: id_ for id_, uuid in _IDS.rows(tx.connection, sorted(leases))}
    rows = [
        {
            "consumer_id": ids[uuid],
            "uuid": uuid,
            "expires_at": lease.expires_at,
            "renewed_at": now,
            "state": State[lease.on_expiry.name],
        }
        for uuid, lease in leases.items()
    ]
    # The row of an id may exist: of the same consumer, or of a deleted one whose id the database uses again.
    _WRITE.run(tx.connection, sorted(rows, key=itemgetter("consumer_id")))
    return leases


_IDS = Query(sa.select(consumers.c.id, consumers.c.uuid).where(consumers.c.uuid.in_([LISTED])))
_CHANGED = ("uuid", "expires_at", "renewed_at", "state")
_WRITE = Insert(stead_lease, "consumer_id", *_CHANGED, changing=_CHANGED)


def forget(tx: Transaction, consumer_ids: Collection[int]) -> None:
    """Delete the leases of some consumers."""
    for portion in in_portions(sorted(consumer_ids)):
        tx.connection.execute(sa.delete(stead_lease).where(_columns.consumer_id.in_(portion)))


def _same_claims(tx: Transaction, uuids: Collection[str], known: Mapping[str, int]) -> dict[int, str]:
    """The consumers that exist in this spelling, with the claims that the client knows: uuids by id."""
    return {
        id_: uuid
        for id_, uuid, generation in _KNOWN.rows(tx.connection, sorted(uuids))
        if uuid in uuids and (uuid not in known or is_same_claim(known[uuid], generation))
    }


_KNOWN = Query(
    sa.select(consumers.c.id, consumers.c.uuid, consumers.c.generation).where(consumers.c.uuid.in_([LISTED]))
)
NOTHING_KNOWN: Mapping[str, int] = MappingProxyType({})


class Renewed(NamedTuple):
    """The consumers whose leases could not be renewed: those that do not exist, and those that have none."""

    gone: list[str]
    without_lease: list[str]


def renew(tx: Transaction, seconds_of: Mapping[str, int], known: Mapping[str, int] = NOTHING_KNOWN) -> Renewed:
    """Let leases end a number of seconds from now, by consumer uuid. One that has ended is renewed if it still exists.

    It locks no consumer and no provider, and GET ``/changes`` does not list it.

    Args:
        known: the generations that the client knows. A consumer that has another claim now counts as gone.
    """
    present = _same_claims(tx, seconds_of, known)
    leased = lock(tx, present)
    if leased != present.keys():  # some have no lease; or were released before the lock, and perhaps claimed again
        now_present = _same_claims(tx, seconds_of, known)
        present = {id_: uuid for id_, uuid in present.items() if id_ in leased or id_ in now_present}
    now = read_clock(tx.connection, tx.dialect).latest
    by_seconds = sorted((seconds_of[present[id_]], id_) for id_ in leased)
    for seconds, pairs in groupby(by_seconds, itemgetter(0)):
        for portion in in_portions([id_ for _, id_ in pairs]):
            renewed = sa.update(stead_lease).where(_columns.consumer_id.in_(portion))
            state = sa.case((_columns.state == State.OVERDUE, int(State.MARK)), else_=_columns.state)
            tx.connection.execute(renewed.values(expires_at=now + seconds, renewed_at=now, state=state))
    existing = set(present.values())
    return Renewed(
        [uuid for uuid in seconds_of if uuid not in existing],
        sorted(uuid for id_, uuid in present.items() if id_ not in leased),
    )


# The clock. Only time counts that some process has watched, beside its own monotonic clock: a row of ``stead_counter``
# has the last reading of the database's clock up to which all time counted.
#
# If the clock advances more than the monotonic clock, it jumped. If a reading is old, no process could have renewed
# anything since. In both cases each lease gets that time added before any lease ends. If the clock jumps back, leases
# end later.


CLOCK = "lease_clock"
"""The name of the counter with the last reading that was stored."""

WATCH_SECONDS = 3
"""The process that stores readings stores one again after this time; another one replaces it after twice this time."""

MOST_SECONDS = 10
"""If nothing was read or stored for longer, clients may have failed to renew, so that time does not count."""

STEP_SECONDS = 2
"""An advance of the clock by this more than the monotonic clock is a jump. Readings are whole seconds, so that they
differ by one without a jump."""


class Reading(NamedTuple):
    """The time of the database, and the last reading that was stored, in seconds since 1970."""

    now: int
    stored: int | None

    @property
    def latest(self) -> int:
        """What new leases count from: the clock may have jumped back a moment ago, and return."""
        return self.stored if self.stored is not None and 0 < self.stored - self.now <= MOST_SECONDS else self.now


class Outlook(NamedTuple):
    """A reading, the first end of a lease that has not ended (None: there is none), and the number of overdue ones."""

    reading: Reading
    first_end: int | None
    overdue: int


_counter = stead_counter.c
_stored = sa.select(_counter.value).where(_counter.name == CLOCK).scalar_subquery()


def database_time(dialect: Dialect) -> sa.ColumnElement[int]:
    """The present time of the database, in whole seconds since 1970: all leases follow it."""
    return dialect.seconds(dialect.now())


def read_clock(connection: Connection, dialect: Dialect) -> Reading:
    """The database's time."""
    return Reading(*connection.execute(sa.select(database_time(dialect), _stored)).one())


def outlook(connection: Connection, dialect: Dialect) -> Outlook:
    """What a worker must know to decide whether there is anything to do; one statement, which locks nothing."""
    ends = [
        sa.select(sa.func.min(_columns.expires_at)).where(_columns.state == state).scalar_subquery()
        for state in (State.RELEASE, State.MARK)
    ]
    overdue = sa.select(sa.func.count()).where(_columns.state == State.OVERDUE).scalar_subquery()
    row = connection.execute(sa.select(database_time(dialect), _stored, *ends, overdue)).one()
    return Outlook(Reading(*row[:2]), min((end for end in row[2:4] if end is not None), default=None), row[4])


class Watch:
    """The time that counts, as one process knows it: a stored reading, and what its monotonic clock counted since then.

    It never counts more than the time that has passed. Its monotonic clock decides nothing else.
    """

    def __init__(self, elapsed: Callable[[], float]) -> None:
        """Nothing is known yet. *elapsed* is the monotonic clock, in seconds."""
        self._elapsed = elapsed
        self._stored: int | None = None
        self._is_own = False  # whether this process stored it
        self._at = 0.0  # when it did, or when it first read it
        self._base = 0  # the time counted until `_since`
        self._since = 0.0
        self._noted = elapsed()

    def note(self, reading: Reading) -> None:
        """Compare with a reading that was taken just now."""
        now = self._elapsed()
        was_idle, self._noted = now - self._noted > MOST_SECONDS, now
        if reading.stored != self._stored or was_idle:
            # Another process stored a reading, or no process watched the clock since the last one.
            self._follow(reading.stored, reading.stored or 0, is_own=False)
        elif reading.now < self._base + int(now - self._since):
            # It jumped back. Or it is the slower one of the two clocks, and a later jump must not be mistaken for that.
            self._base, self._since = reading.now, now

    def _follow(self, stored: int | None, base: int, *, is_own: bool) -> None:
        self._stored, self._is_own, self._base = stored, is_own, base
        self._at = self._since = self._elapsed()

    def counted(self, reading: Reading) -> int:
        """The time before which leases have ended, by a reading of a transaction in which they are read later."""
        if reading.stored is None:
            return 0
        if reading.stored != self._stored:
            return min(reading.now, reading.stored)
        return min(reading.now, self._base + int(self._elapsed() - self._since))

    def is_due(self, reading: Reading) -> bool:
        """Whether this process must store a reading."""
        if reading.stored is None:
            return True
        if reading.stored != self._stored:  # another process has stored one
            return False
        if reading.now < reading.stored or reading.now - self.counted(reading) > MOST_SECONDS:
            return True
        age = self._elapsed() - self._at
        if self._is_own:
            return age >= WATCH_SECONDS or reading.now - self.counted(reading) >= STEP_SECONDS
        return age >= 2 * WATCH_SECONDS

    def uncounted(self, reading: Reading) -> int:
        """The seconds up to a reading that do not count, if this process stores one."""
        seconds = reading.now - self.counted(reading) if reading.stored is not None else 0
        return seconds if seconds >= STEP_SECONDS or not self._is_own else 0

    def has_stored(self, stepped: Stepped) -> None:
        """Go on from what this process has stored, after the commit."""
        base, since = self._base, self._since
        goes_on = self._is_own and not stepped.seconds and stepped.stored >= (self._stored or 0)
        self._follow(stepped.stored, stepped.stored, is_own=True)
        if goes_on:  # not from the whole second, or each reading would lose a part of one
            self._base, self._since = base, since


class Stepped(NamedTuple):
    """A reading was stored. The clock advanced by ``seconds`` that do not count, so ``leases`` end later."""

    stored: int
    seconds: int
    leases: int


def watch_clock(tx: Transaction, watch: Watch) -> Stepped | None:
    """Store a reading of the clock; adds what does not count to the leases. None: another process did so first."""
    # One process after the other, so that the same step is not added twice.
    tx.connection.execute(sa.select(_counter.value).where(_counter.name == CLOCK).with_for_update())
    reading = read_clock(tx.connection, tx.dialect)
    if not watch.is_due(reading):
        return None
    seconds = watch.uncounted(reading)
    if not seconds:
        counted = reading.now if reading.stored is None else watch.counted(reading)
        _STORE.run(tx.connection, [{"name": CLOCK, "value": counted}])
        return Stepped(counted, 0, 0)
    _STORE.run(tx.connection, [{"name": CLOCK, "value": reading.now}])
    # From the last renewal, if that is later: one that was renewed after the jump gets what passed since then.
    since = sa.case((_columns.renewed_at > reading.stored, _columns.renewed_at), else_=reading.stored)
    gap = reading.now - since
    late = sa.update(stead_lease).where(_columns.state != State.OVERDUE, gap > 0)
    added = sa.case((gap > seconds, seconds), else_=gap)
    # In this order: some databases read new values in later assignments.
    later = late.ordered_values((_columns.expires_at, _columns.expires_at + added), (_columns.renewed_at, reading.now))
    return Stepped(reading.now, seconds, tx.connection.execute(later).rowcount)


_STORE = Insert(stead_counter, "name", "value", changing=("value",))


# The ends.


def end_before(moment: int) -> sa.ColumnElement[bool]:
    """Whether a row of consumers has a lease that ends before *moment*, or ended."""
    # As bytes: the columns may have different collations.
    are_of_one = sa.cast(_columns.uuid, sa.LargeBinary) == sa.cast(consumers.c.uuid, sa.LargeBinary)
    ending = _columns.state.in_([int(state) for state in State]) & (_columns.expires_at < moment)  # by the index
    owners = consumers.alias("owners")
    pairs = sa.select(owners.c.id).join(stead_lease, _columns.consumer_id == owners.c.id)
    return consumers.c.id.in_(pairs.where(ending, are_of_one.self_group()))


def lock_ended(tx: Transaction, now: int, most: int) -> list[str]:
    """Lock up to *most* consumers whose leases have ended, with the leases; returns their uuids.

    Those that another transaction has locked are skipped, if the database can do that: it renews, replaces, releases
    or ends them. Leases of deleted consumers whose ids are used again are deleted.
    """
    ended = (
        sa.select(consumers.c.id, consumers.c.uuid, _columns.uuid.label("of"))
        .join(stead_lease, OF_CONSUMER)
        .where(_columns.state != State.OVERDUE, _columns.expires_at < now)
        .limit(most)
    )
    skips = tx.dialect.skips_locked(tx.connection)
    locking = ended.with_for_update(skip_locked=True) if skips else ended.order_by(consumers.c.id).with_for_update()
    rows = tx.connection.execute(locking).all()
    forget(tx, [row.id for row in rows if row.uuid != row.of])
    return [row.uuid for row in rows if row.uuid == row.of]


def mark(tx: Transaction, consumer_ids: Collection[int]) -> None:
    """Mark leases that have ended as overdue."""
    for portion in in_portions(sorted(consumer_ids)):
        tx.connection.execute(
            sa.update(stead_lease).where(_columns.consumer_id.in_(portion)).values(state=int(State.OVERDUE))
        )


def pass_time(tx: Transaction, seconds: int) -> None:
    """Let all leases end sooner, as if nothing had been renewed for some time: for tests of programs with leases."""
    sooner = {"expires_at": _columns.expires_at - seconds, "renewed_at": _columns.renewed_at - seconds}
    tx.connection.execute(sa.update(stead_lease).where(_columns.state != State.OVERDUE).values(sooner))


def forget_orphans(tx: Transaction, now: int) -> None:
    """Delete leases that have ended and whose consumer does not exist: another service deleted it."""
    has_ended = _columns.expires_at < now
    orphaned = (
        sa.select(_columns.consumer_id)
        .select_from(stead_lease.outerjoin(consumers, OF_CONSUMER))
        .where(consumers.c.id.is_(None), has_ended)
    )
    for portion in in_portions(sorted(tx.connection.scalars(orphaned))):
        # With the end: a new consumer may have the id and a lease by now.
        tx.connection.execute(sa.delete(stead_lease).where(_columns.consumer_id.in_(portion), has_ended))
