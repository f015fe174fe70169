"""Reads the changes since some moment from one snapshot of the database; the source of a catalog's refreshes.

Source: "The write and refresh protocol", docs/protocol.md (rules 9 and 11 to 13).
"""

from __future__ import annotations

import hashlib
import logging
import time
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any, Protocol

import orjson
import sqlalchemy as sa

from stead.domain.changes import (
    Changes,
    InventoriesByColumn,
    InventoryRow,
    MembersByColumn,
    NameRow,
    Portion,
    ProviderRow,
    ProvidersByColumn,
    SnapshotUnusable,
    StandingRow,
    Totals,
)
from stead.domain.errors import ConnectionLost, Unavailable
from stead.domain.provider import MAX_INT, Disabled
from stead.store import providers, usages
from stead.store.extensions import service_states
from stead.store.protocol.clock import (
    EVERYTHING,
    SLOTS,
    Changed,
    Clock,
    LostTick,
    all_earlier_stamps,
    changed_between,
    changed_since,
    class_change,
    moved_slots,
    read_clock,
    read_sums,
    trait_change,
)
from stead.store.protocol.store import Breaks
from stead.store.provider_filter import all_in_portions, with_ids
from stead.store.sql.statements import IDS, BulkQuery, failure
from stead.store.tables import (
    inventories,
    placement_aggregates,
    provider_generation,
    provider_name,
    resource_classes,
    resource_provider_aggregates,
    resource_provider_traits,
    resource_providers,
    stead_disabled_provider,
    stead_usage,
    traits,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence

    from sqlalchemy.engine import Connection
    from sqlalchemy.pool import PoolProxiedConnection

    from stead.domain.changes import Differences, Moment
    from stead.store.protocol.clock import CommittedWrites, ProviderUsage
    from stead.store.protocol.store import Store, Transaction
    from stead.store.provider_filter import ProviderCondition, ProviderFilter
    from stead.store.sql.dialects import Dialect


PORTION = 4096
"""Providers per portion of a complete load."""


MOST_CHANGED = 100_000
"""Changed providers up to which a start continues a stored snapshot. To read more of them takes as long as all."""


@dataclass(frozen=True, slots=True)
class _Moment:
    """The clock, and the count of commits before the clock was read."""

    clock: Clock
    commits: tuple[int, Hashable] | None
    """The connection that counted the commits, and the count; counts of two connections are not comparable."""
    server: Hashable = None
    """The identity of the server, if it can be determined."""


def clock_of(moment: Moment | None) -> Clock | None:
    """The clock of a moment of a `ChangeSource`."""
    return moment.clock if isinstance(moment, _Moment) else None


def digest_of(moment: Moment | None) -> str:
    """A text that differs between any two moments of a `ChangeSource`; equal in all processes."""
    clock = clock_of(moment)
    return "" if clock is None else clock.digest()


class ChangeSource:
    """Reads differences. Only one thread at a time may read."""

    def __init__(self, store: Store) -> None:
        """Connect to nothing yet."""
        self._store = store
        self._reader = KeptConnection(store)
        self._watch: PoolProxiedConnection | None = None
        self._watches = 0
        self._breaks: Breaks | None = None  # since the last complete answer
        self._server: Hashable = None  # the server at the last refresh, and how many connections had broken before

    def changes(self, since: Moment | None) -> Iterator[Changes | Portion]:
        """The changes after *since*: none, one difference, or everything if *since* is None or too old.

        Everything is `Changes` with all names, then portions of providers, all of one snapshot.

        Raises:
            ConnectionLost: the connection broke. The caller forgets what it got, and asks again with the same *since*.
            Unavailable: the database does not answer. The caller may retry with the same *since*.
        """
        try:
            yield from self._read(since if isinstance(since, _Moment) else None)
        except sa.exc.DBAPIError as error:
            self._stop_watching()
            self._breaks = self._breaks or Breaks()
            if self._breaks.may_reconnect(error):
                raise ConnectionLost("The connection to the database broke.") from error
            self._breaks = None
            raise self._store.meaning(error) from error
        except (LostTick, self._store.refresher.dialect.loaded_dbapi.Error) as error:
            self._stop_watching()
            raise Unavailable("The database cannot answer now.") from error
        self._breaks = None
        if self._store.read_outage.since is not None:
            self._store.read_outage.over()

    def _read(self, earlier: _Moment | None) -> Iterator[Changes | Portion]:
        # Before the snapshot: a commit in between then makes the next call read the clock.
        commits = self._commits_seen()
        if earlier is not None and commits is not None and commits == earlier.commits:
            return
        # Before the snapshot: a connection that breaks in between then makes the next refresh load everything.
        broken = self._store.connections.broken
        with self._reader.snapshot() as connection:
            server = self._store.connections.server_of(connection), broken
            if server != self._server:
                if self._server is not None:
                    # This connection may still have the old file open, in which it would see no commits.
                    self._watch_anew()
                earlier, self._server = None, server
            reading = _Reading(connection, self._store.dialect, server[0])
            yield from reading.changes(earlier.clock if earlier else None, commits, self._store.committed_writes)

    def stored(self, moment: Moment | None) -> Mapping[str, Any] | None:
        """*moment* of the last refresh, and the server, as JSON values; None if it cannot be recognized later."""
        if not isinstance(moment, _Moment) or moment.server is None:
            return None
        return written(moment.clock, moment.server)

    def resumed(self, stored: Mapping[str, Any]) -> tuple[Changes, Totals]:
        """The changes since a stored moment, with the new moment, and sums over the providers after them.

        Raises:
            Unfit: the changes since then are not known, or it is a moment of another database.
            Unavailable: the database does not answer.
        """
        try:
            commits = self._commits_seen()
            broken = self._store.connections.broken
            with self._reader.snapshot() as connection:
                identity = self._store.connections.server_of(connection)
                reading = _Reading(connection, self._store.dialect, identity)
                changes = reading.since_stored(stored, commits)
                totals = Totals(*map(int, _totals(self._store.dialect).rows(connection)[0]))
            self._server = identity, broken
        except sa.exc.DBAPIError as error:
            self._stop_watching()
            raise self._store.meaning(error) from error
        except (LostTick, self._store.refresher.dialect.loaded_dbapi.Error) as error:
            self._stop_watching()
            raise Unavailable("The database cannot answer now.") from error
        return changes, totals

    def _commits_seen(self) -> tuple[int, Hashable] | None:
        if not self._store.dialect.counts_commits:
            return None
        if self._watch is None:
            self._watch = self._store.refresher.raw_connection()
            self._watches += 1
        return self._watches, self._store.dialect.commits_seen(self._watch)

    def _stop_watching(self) -> None:
        if self._watch is not None:
            self._watch.invalidate()
            self._watch = None

    def _watch_anew(self) -> None:
        if self._watch is not None:
            self._watch.close()
            self._watch = None

    def close(self) -> None:
        """Close all connections."""
        self._reader.close()
        self._watch_anew()


class _Reading:
    """One snapshot of the database during reading."""

    def __init__(self, connection: Connection, dialect: Dialect, server: Hashable = None) -> None:
        self._server = server
        self._connection = connection
        self._dialect = dialect
        self._members: dict[str, tuple[int, ...]] = {}  # a cloud has few kinds of hosts, and so few different sets

    def changes(
        self, earlier: Clock | None, commits: tuple[int, Hashable] | None, own_writes: CommittedWrites
    ) -> Iterator[Changes | Portion]:
        expected = self._expected(earlier, own_writes)
        now = expected or read_clock(self._connection)  # the first statement takes the snapshot, so the clock dates it
        moment = _Moment(now, commits, self._server)
        if earlier is not None and (expected or now.can_follow(earlier)):
            own = own_writes.take(earlier, now)
            foreign = [slot for slot in moved_slots(earlier, now) if slot not in own.slots]
            others = changed_since(self._connection, earlier, foreign)
            changed, standings = own.merged_with(others, is_all=not foreign)
            if EVERYTHING not in changed.whole:
                yield self._difference(moment, changed, standings)
                return
        own_writes.forget()  # notes from before a restore would have the numbers of later ticks
        yield from self._everything(moment)

    def _expected(self, earlier: Clock | None, own_writes: CommittedWrites) -> Clock | None:
        """The clock, if its sums show that only writes with notes followed *earlier*."""
        if earlier is None or not own_writes.has_any:
            return None
        sums = read_sums(self._connection)
        # Computed after the sums are read: until then, other threads note what the sums contain.
        expected = own_writes.expected(earlier)
        return expected if expected.sums() == sums else None

    def since_stored(self, stored: Mapping[str, Any], commits: tuple[int, Hashable] | None) -> Changes:
        now = read_clock(self._connection)
        earlier = earlier_moment(self._connection, stored, self._server, now)
        changed = changed_between(self._connection, earlier, now)
        if EVERYTHING in changed.whole or len(changed.whole) + len(changed.usage) > MOST_CHANGED:
            raise SnapshotUnusable("too much has changed since")
        # All names: they are few, and another service may have added some.
        return replace(
            self._difference(_Moment(now, commits, self._server), changed, {}),
            traits=self._names(traits),
            resource_classes=self._names(resource_classes),
            aggregate_uuids=dict(_ALL_AGGREGATES.rows(self._connection)),
        )

    def _difference(self, moment: Moment, changed: Changed, standings: Mapping[int, ProviderUsage]) -> Changes:
        own_usage = {
            (id_, class_id): used for id_, own in standings.items() for class_id, used in own.used.items() if used
        }
        usage_left = {id_: StandingRow(id_, own.generation, own.modified) for id_, own in standings.items()}
        if not changed.whole and len(changed.usage) == len(standings):
            return Changes(moment, claimed=list(usage_left.values()), used=own_usage)
        ids = sorted(id_ for id_ in changed.whole if id_ > 0)
        whole, claimed = with_ids(ids), with_ids(changed.usage - standings.keys())
        state = _statements(self._dialect, whole.by)
        aggregates_of = self._grouped(state.aggregates, whole)
        taken = claimed.rows(self._connection, state.standings)
        sums = [(id_, class_id, used) for id_, _, _, class_id, used in taken]
        usage_left |= {row[0]: StandingRow(*row[:3]) for row in taken}
        return Changes(
            moment,
            provider_ids=ids,
            providers=whole.rows(self._connection, state.providers),
            claimed=list(usage_left.values()),
            inventories=whole.rows(self._connection, state.inventories),
            used=usages.current(self._connection, whole) | usages.completed(self._connection, sums) | own_usage,
            disabled=_disabled(whole.rows(self._connection, state.disabled)),
            traits_of=self._grouped(state.traits, whole),
            aggregates_of=aggregates_of,
            aggregate_uuids=self._uuids({id_ for aggregate_ids in aggregates_of.values() for id_ in aggregate_ids}),
            # The parity of the negative ids distinguishes traits from classes, see clock.
            traits=self._names(traits) if any(id_ < 0 and id_ % 2 == 0 for id_ in changed.whole) else None,
            resource_classes=self._names(resource_classes)
            if any(id_ < 0 and id_ % 2 for id_ in changed.whole)
            else None,
        )

    def _everything(self, moment: Moment) -> Iterator[Changes | Portion]:
        connection = self._connection
        # The names come first, since the providers in the portions refer to them.
        yield Changes(
            moment,
            everything=True,
            providers_in_all=_PROVIDERS_IN_ALL.rows(connection)[0][0],
            aggregate_uuids=dict(_ALL_AGGREGATES.rows(connection)),
            traits=self._names(traits),
            resource_classes=self._names(resource_classes),
        )
        for portion in all_in_portions(connection, PORTION):
            state = _statements(self._dialect, portion.by)
            yield Portion(
                moment,
                ProvidersByColumn(*portion.columns(connection, state.providers)),
                InventoriesByColumn(*portion.columns(connection, state.inventories)),
                usages.by_column(connection, portion),
                self._members_by_column(state.traits, portion),
                self._members_by_column(state.aggregates, portion),
                _disabled(portion.rows(connection, state.disabled)),
            )

    def _grouped(self, query: BulkQuery, among: ProviderFilter) -> dict[int, tuple[int, ...]]:
        """The members of each provider, ascending."""
        rows = among.rows(self._connection, query)
        return {id_: members for (id_, _), members in zip(rows, self._parsed(text for _, text in rows), strict=True)}

    def _members_by_column(self, query: BulkQuery, portion: ProviderFilter) -> MembersByColumn:
        ids, texts = portion.columns(self._connection, query)
        return MembersByColumn(ids, self._parsed(texts))

    def _parsed(self, texts: Iterable[str]) -> list[tuple[int, ...]]:
        """The members of each provider, which are read as one text; equal texts are parsed once."""
        members = self._members
        return [members.get(text) or members.setdefault(text, _members(text)) for text in texts]

    def _uuids(self, ids: Collection[int]) -> dict[int, str]:
        return dict(_SOME_AGGREGATES.rows(self._connection, sorted(ids)))

    def _names(self, table: sa.Table) -> list[NameRow]:
        return list(_all_names(table, self._dialect).rows(self._connection))


def state_of(connection: Connection, dialect: Dialect, provider_ids: Collection[int]) -> Changes:
    """The complete present state of some providers, without a moment, with their allocations added up."""
    difference = _Reading(connection, dialect)._difference(None, Changed(frozenset(provider_ids), frozenset()), {})  # noqa: SLF001 - of this module
    return replace(difference, used=usages.added_up(connection, provider_ids))


def names_of(connection: Connection, dialect: Dialect) -> Changes:
    """All traits and resource classes, without a moment."""
    reading = _Reading(connection, dialect)
    return Changes(None, traits=reading._names(traits), resource_classes=reading._names(resource_classes))  # noqa: SLF001 - of this module


def _disabled(rows: Iterable[tuple[int, str, int, int | None]]) -> dict[int, Disabled]:
    return {id_: Disabled(reason, since, until) for id_, reason, since, until in rows}


def _members(text: str) -> tuple[int, ...]:
    return tuple(sorted(orjson.loads(text)))


_PROVIDERS_IN_ALL = BulkQuery(sa.select(sa.func.count()).select_from(resource_providers))

_uuid = placement_aggregates.c.uuid
# Without a uuid, an aggregate is none: its members belong to nothing that a client can name.
_AGGREGATES = sa.select(placement_aggregates.c.id, _uuid).where(_uuid.is_not(None))
_ALL_AGGREGATES = BulkQuery(_AGGREGATES)
_SOME_AGGREGATES = BulkQuery(_AGGREGATES.where(placement_aggregates.c.id.in_([IDS])))


@cache
def _all_names(table: sa.Table, dialect: Dialect) -> BulkQuery:
    query = sa.select(table.c.id, table.c.name, _modified(table, dialect)).order_by(table.c.id)
    return BulkQuery(query, NameRow._make)


@dataclass(frozen=True, slots=True)
class _Statements:
    """The queries for the state of some providers, as rows of ``domain.changes``; members as one JSON array each.

    The rows of ``standings`` are those of a `StandingRow` with a class and its sum, see `usages.with_standing`.
    """

    providers: BulkQuery
    standings: BulkQuery
    inventories: BulkQuery
    traits: BulkQuery
    aggregates: BulkQuery
    disabled: BulkQuery


@cache
def _statements(dialect: Dialect, by: ProviderCondition) -> _Statements:
    provider, inventory = resource_providers.c, inventories.c
    modified, condition = _modified(resource_providers, dialect), by.condition
    above = (provider.parent_provider_id, provider.root_provider_id)
    of_provider = sa.select(provider.id, provider.uuid, provider_name, provider_generation, *above, modified)
    numbers = (
        inventory.total,
        inventory.reserved,
        inventory.min_unit,
        inventory.max_unit,
        inventory.step_size,
        inventory.allocation_ratio,
    )
    of_inventory = sa.select(
        inventory.resource_provider_id, inventory.resource_class_id, *numbers, _modified(inventories, dialect)
    )

    state = stead_disabled_provider.c
    of_state = sa.select(state.provider_id, state.reason, state.disabled_at, state.enable_at)

    def grouped(member: sa.Column[int]) -> BulkQuery:
        of_member = member.table.c.resource_provider_id
        query = by.narrowed(sa.select(of_member, dialect.json_array(member)), of_member)
        return BulkQuery(query.group_by(of_member))

    return _Statements(
        BulkQuery(of_provider.where(condition).order_by(provider.root_provider_id, provider.id), ProviderRow._make),
        BulkQuery(usages.with_standing(provider.id, provider_generation, modified).where(condition)),
        BulkQuery(by.narrowed(of_inventory, inventory.resource_provider_id), InventoryRow._make),
        grouped(resource_provider_traits.c.trait_id),
        grouped(resource_provider_aggregates.c.aggregate_id),
        BulkQuery(of_state.select_from(service_states.PRESENT).where(condition)),
    )


@cache
def _totals(dialect: Dialect) -> BulkQuery:
    """The `Totals` of all providers."""
    generations = sa.func.coalesce(sa.func.sum(resource_providers.c.generation), 0)
    written = sa.func.coalesce(sa.func.sum(_modified(resource_providers, dialect)), 0)
    return BulkQuery(sa.select(sa.func.count(), generations, written).select_from(resource_providers))


def _modified(table: sa.Table, dialect: Dialect) -> sa.ColumnElement[int]:
    """When a row was last written, in seconds since 1970; 0 if an old row has no timestamp."""
    written = sa.func.coalesce(table.c.updated_at, table.c.created_at)
    return sa.func.coalesce(dialect.seconds(written), 0)


# Reconciling: detects what another service writes to the same database, by comparison, and notes it as a change.
#
# The other service does not tick the clock, and raises no generation when it releases allocations. So this process
# reads all providers in portions, adds up their allocations, and compares them with its catalog. Differences are
# compared again, since they may result from a concurrent write of Stead. What still differs is touched under its
# lock, and its maintained sums are deleted, so that every process reloads it.
#
# Source: "The write and refresh protocol", docs/protocol.md (rules 15 and 16).


COMPARED_AT_ONCE = 1000
"""Providers that are compared together. Requests that wait for a refresh may have to wait for one comparison."""

BREATH_SECONDS = 0.01
"""Pause between two portions, so that requests can run."""

_log = logging.getLogger(__name__)


class Known(Protocol):
    """The catalog of this process, at the moment of the call or later."""

    def ids_between(self, after: int, last: int) -> Collection[int]:
        """Ids of the known providers greater than *after*, up to and including *last*."""
        ...

    def uuids(self, ids: Iterable[int]) -> Mapping[int, str]:
        """The uuids of the known ones of these providers, by id."""
        ...

    def differing(self, state: Changes) -> Differences:
        """The objects in *state* that differ from the catalog. *state* is complete for the objects that it has."""
        ...


class Reconciling:
    """Repeated passes over all providers, portion by portion."""

    def __init__(self, store: Store, catalog: Known, interval: float) -> None:
        """Read nothing yet.

        Args:
            interval: seconds between two passes.
        """
        self._store = store
        self._catalog = catalog
        self._interval = interval
        self._last = 0

    def step(self) -> float:
        """Compare the next portion; returns the seconds until the next step.

        Raises:
            Unavailable: the database does not answer. The next step retries the same portion.
        """
        if self._last == 0:
            reconcile_names(self._store, self._catalog)
        ids = self._store.read(_next_ids, self._last)
        # To the greatest id: the catalog may have deleted providers above the last one of the database.
        last = ids[-1] if len(ids) == COMPARED_AT_ONCE else MAX_INT
        # Also those of the catalog, since the other service may have deleted them.
        reconcile(self._store, self._catalog, {*ids, *self._catalog.ids_between(self._last, last)})
        self._last = last if last < MAX_INT else 0
        return BREATH_SECONDS if self._last else self._interval


def reconcile(store: Store, catalog: Known, ids: Collection[int]) -> None:
    """Make every process reload those of these providers that differ from the catalog: another service changed them.

    Raises:
        Unavailable, ConcurrentUpdate
    """
    for _ in range(2):
        if not ids:
            return
        ids = catalog.differing(store.read(state_of, store.dialect, ids)).providers
    if ids:
        store.write(_touch, ids, catalog.uuids(ids))
        _log.info("another service changed %d providers", len(ids))


def reconcile_names(store: Store, catalog: Known) -> None:
    """Make every process reload the traits and resource classes that differ from the catalog.

    Raises:
        Unavailable, ConcurrentUpdate
    """
    for _ in range(2):
        changed_names = catalog.differing(store.read(names_of, store.dialect))
        if not changed_names.traits and not changed_names.resource_classes:
            return
    store.write(_touch_names, changed_names)
    _log.info("another service changed %d names", len(changed_names.traits) + len(changed_names.resource_classes))


def _next_ids(connection: Connection, after: int) -> Sequence[int]:
    id_ = resource_providers.c.id
    return connection.scalars(sa.select(id_).where(id_ > after).order_by(id_).limit(COMPARED_AT_ONCE)).all()


def _touch(tx: Transaction, provider_ids: Collection[int], uuids: Mapping[int, str]) -> None:
    """Note that these providers changed; *uuids* has those that may have been deleted."""
    tx.lock(resource_providers, provider_ids)
    there = providers.rows_by_id(tx.connection, provider_ids)
    for id_ in uuids.keys() - there.keys():
        tx.log_gone_provider(uuids[id_])
    tx.connection.execute(sa.delete(stead_usage).where(stead_usage.c.provider_id.in_(provider_ids)))
    tx.touch(provider_ids)


def _touch_names(tx: Transaction, changed_names: Differences) -> None:
    tx.touch(map(trait_change, changed_names.traits))
    tx.touch(map(class_change, changed_names.resource_classes))


# One connection, kept for snapshots: borrowing one from the pool each time would cost more than its statements.


class KeptConnection:
    """Opened at first use, and again after an error or when it is too old. One user at a time."""

    def __init__(self, store: Store) -> None:
        """Connect to nothing yet."""
        self._store = store
        self._connection: Connection | None = None
        self._old_at = 0.0
        self._broken = 0

    @contextmanager
    def snapshot(self) -> Iterator[Connection]:
        """The connection, in a transaction that has read nothing yet. SQLAlchemy does not know of the transaction.

        Raises:
            sqlalchemy.exc.DBAPIError: the database failed.
        """
        connection = self._working()
        try:
            self._begin(connection)
            yield connection
        except BaseException:
            # Also if the caller failed: its transaction is open, and the next snapshot must not continue it.
            self.close()
            raise
        self._end(connection)

    def _working(self) -> Connection:
        if self._connection is not None and self._is_doubtful(self._connection):
            self.close()
        if self._connection is None:
            broken = self._store.connections.broken  # before it connects: one that breaks meanwhile makes this doubtful
            self._connection = self._store.refresher.connect()
            self._old_at = time.monotonic() + self._store.connection_seconds
            self._broken = broken
        return self._connection

    def _is_doubtful(self, connection: Connection) -> bool:
        """Whether it is too old, another connection broke, or its address leads to another server."""
        return (
            time.monotonic() > self._old_at
            or self._store.connections.broken != self._broken
            or self._store.dialect.leads_elsewhere(connection.connection)
        )

    def _begin(self, connection: Connection) -> None:
        try:
            self._store.dialect.begin(connection.connection)
        except connection.dialect.loaded_dbapi.Error as error:
            raise failure(connection, error, "BEGIN") from error

    def _end(self, connection: Connection) -> None:
        try:
            connection.connection.commit()
        except connection.dialect.loaded_dbapi.Error as error:
            # What was read is of one snapshot all the same. The failure counts as a broken connection.
            failure(connection, error, "COMMIT")
            self.close()

    def close(self) -> None:
        """Close the connection, if there is one; the next snapshot opens another."""
        # Forgotten first: if closing fails, the next snapshot must not use it.
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


# Moments of the clock in a snapshot file: what is stored, and whether changes since then can be known.
#
# Source: "The write and refresh protocol", docs/protocol.md (rules 12 and 20).


def written(clock: Clock, identity: Hashable) -> Mapping[str, Any]:
    """A moment of the server with *identity*, as JSON values."""
    return {
        "server": _digest(identity),
        "epoch": clock.epoch,
        "ticks": list(clock.ticks),
        "stamps": list(clock.stamps),
        "floors": list(clock.floors),
    }


def earlier_moment(connection: Connection, stored: Mapping[str, Any], identity: Hashable, now: Clock) -> Clock:
    """The stored clock, if the clock that shows *now* has advanced from it.

    Raises:
        Unfit: it is of another server or epoch, the clock was set back, or change rows of that age were removed.
    """
    if identity is None or stored.get("server") != _digest(identity):
        raise SnapshotUnusable("the database server is another one, or was restarted")
    try:
        numbers = [tuple(map(int, stored[name])) for name in ("ticks", "stamps", "floors")]
        clock = Clock(str(stored["epoch"]), *numbers)
    except (KeyError, TypeError, ValueError) as error:
        raise SnapshotUnusable("it has no clock") from error
    if any(len(each) != SLOTS for each in numbers):
        raise SnapshotUnusable("it has no clock")
    if clock.epoch != now.epoch:
        raise SnapshotUnusable("the epoch is another one")
    if not now.can_follow(clock):
        raise SnapshotUnusable("the clock was set back, or the change rows since then were removed")
    before = all_earlier_stamps(connection)
    for slot in moved_slots(clock, now):
        # A running process sees a clock that was set back. During a stop, it may have advanced again.
        stamp = before[slot].get(clock.ticks[slot])
        if clock.ticks[slot] and stamp is not None and stamp != clock.stamps[slot]:
            raise SnapshotUnusable("the clock was set back, and has advanced since")
    return clock


def _digest(identity: Hashable) -> str:
    return hashlib.sha256(repr(identity).encode()).hexdigest()
