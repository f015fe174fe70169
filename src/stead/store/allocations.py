"""Allocations and the consumers that own them. A claim replaces all allocations of its consumers, or none.

Source: "Writing allocations", docs/api.md; the order of locks is rule 3 of "The write and refresh protocol",
docs/protocol.md.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

import sqlalchemy as sa

from stead.domain.claim import (
    UNCHECKED,
    Lease,
    OnExpiry,
    Place,
    PlaceUsage,
    first_generation,
    require_enabled,
    require_room,
)
from stead.domain.errors import AllocationRefused, AllocationsNotFound, ConsumerConflict, UnknownProvider
from stead.store import inventories, names, providers, resource_classes, usages
from stead.store.extensions import leases, service_states
from stead.store.protocol.clock import EVERYTHING, Part
from stead.store.protocol.store import NotYet, RaceLost
from stead.store.sql.statements import LISTED, Insert, Query, Swap, in_portions, value
from stead.store.tables import (
    allocations,
    consumers,
    resource_providers,
    stead_disabled_provider,
    stead_lease,
    stead_provider_change,
    stead_usage,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from sqlalchemy.engine import Connection

    from stead.domain.claim import Claim, HeldLease
    from stead.domain.provider import Inventory
    from stead.store.protocol.clock import Clock
    from stead.store.protocol.store import Store, Transaction


_columns = allocations.c


class StoredAllocation(NamedTuple):
    """One row of the allocations table."""

    id: int
    consumer: str
    provider_id: int
    class_id: int
    used: int


def replace(
    tx: Transaction, claims: Sequence[Claim], since: Clock | None = None, remembered: dict[str, int] | None = None
) -> dict[str, HeldLease]:
    """Replace all allocations of the consumers of *claims*; returns their leases. On an error nothing is written.

    Args:
        since: the moment of the snapshot in which the places were found. If the claimed providers or their roots
            changed after it, other than by claims, the claim is refused. None: no check.
        remembered: ids of providers by uuid, from a snapshot; verified under the locks, and forgotten if they are
            wrong.

    Raises:
        OwnersUnknown
        IdsOutdated: one of *remembered* is the id of another provider, or of none.
        ProvidersChanged
        ConsumerConflict: the client's generation of its consumer is out of date.
        UnknownProvider, UnknownResourceClass
        AllocationRefused: the allocations do not fit.
        LeaseRefused
    """
    owners = Owners.of(tx.connection, claims)
    # Consumers before providers: the order of locks that every write keeps, so that two writes cannot deadlock.
    present = lock_claiming(tx, claims, owners)
    require_expected(claims, present)
    ids = resolve_providers(tx.connection, claims, remembered or {})
    allocated = held_by_claiming(tx, claims, present, owners)
    # Also the providers that the consumers leave: their usage falls, and their sums are written below.
    touched = {*ids.values(), *(row.provider_id for row in allocated)}
    tx.lock(resource_providers, touched)
    # Only the usage, so that a refresh after a claim reads sums and no whole providers.
    tx.touch_usage(touched)
    # Read only now: a concurrent claim may have committed while this one waited for the locks.
    state = _State.of(tx.connection, touched)
    require_still_there(ids, state.rows, remembered)
    if since is not None:
        state.require_unchanged(ids.values(), since)
    generations = {id_: row.generation for id_, row in state.rows.items()}
    taken = usages.of_rows(tx.connection, state.sums, generations, needed=ids.values())
    check_and_replace(tx, claims, present, ids, state.rows, allocated, taken, is_any_disabled=state.is_any_disabled)
    rises = {id_: generations[id_] for id_ in rising(claims, ids, allocated) & generations.keys()}
    usages.store_sums(tx, taken, generations | tx.bump_generations(rises, writes_sums=True))
    return write(tx, claims, present, owners)


class IdsOutdated(NotYet):
    """A provider was deleted, and perhaps created again, since the snapshot that remembers its id."""

    def __init__(self, remembered: dict[str, int]) -> None:
        super().__init__()
        self._remembered = remembered

    def prepare(self, _store: Store) -> None:
        """Forget the ids, so that the next attempt looks them up."""
        self._remembered.clear()


class _State(NamedTuple):
    """What a claim reads of the providers that it has locked and touched.

    ``changes`` are by provider id: the slot and the tick of the last change, other than by claims, of the provider, of
    its root, and of everything.
    """

    rows: dict[int, providers.StoredProvider]
    sums: list[usages.StoredUsage]
    is_any_disabled: bool
    changes: dict[int, list[tuple[int, int]]]

    @classmethod
    def of(cls, connection: Connection, provider_ids: Collection[int]) -> _State:
        """The state of these providers, with their kept sums, and whether any provider at all is disabled."""
        read = _STATE.rows(connection, sorted(provider_ids))
        return cls(
            {row[0]: providers.StoredProvider(*row[:6]) for row in read},
            [usages.StoredUsage(row[0], *row[6:9]) for row in read if row[6] is not None],
            any(row[9] is not None for row in read),
            {
                row[0]: [(slot, row[place + 1]) for place in (10, 12, 14) if (slot := row[place]) is not None]
                for row in read
            },
        )

    def require_unchanged(self, provider_ids: Iterable[int], since: Clock) -> None:
        """Refuse a claim if any of some providers, or its root, changed other than by claims.

        Raises:
            ProvidersChanged
        """
        if any(tick > since.ticks[slot] for id_ in provider_ids for slot, tick in self.changes[id_]):
            raise ProvidersChanged


_own_change, _root_change, _change_of_all = (
    stead_provider_change.alias(name).c for name in ("own_change", "root_change", "change_of_all")
)

_STATE = Query(
    sa.select(
        *providers.COLUMNS,
        stead_usage.c.class_id,
        stead_usage.c.used,
        stead_usage.c.generation,
        sa.select(sa.func.min(stead_disabled_provider.c.provider_id)).scalar_subquery(),
        _own_change.slot,
        _own_change.tick,
        _root_change.slot,
        _root_change.tick,
        # A write that touches too many objects has no other row.
        _change_of_all.slot,
        _change_of_all.tick,
    )
    .select_from(resource_providers)
    .outerjoin(stead_usage, stead_usage.c.provider_id == resource_providers.c.id)
    .outerjoin(_own_change.slot.table, _own_change.provider_id == resource_providers.c.id)
    .outerjoin(_root_change.slot.table, _root_change.provider_id == resource_providers.c.root_provider_id)
    .outerjoin(_change_of_all.slot.table, _change_of_all.provider_id == sa.literal_column(str(EVERYTHING)))
    .where(resource_providers.c.id.in_([LISTED]))
)


class ProvidersChanged(Exception):
    """A provider in which a place was found changed meanwhile, other than by claims; nothing was written."""


def resolve_providers(
    connection: Connection, claims: Sequence[Claim], remembered: Mapping[str, int] = MappingProxyType({})
) -> dict[str, int]:
    """Ids of the providers that *claims* name, by uuid; locks nothing. Those *remembered* are not searched.

    Raises:
        UnknownProvider: names the first that does not exist.
    """
    uuids = dict.fromkeys(provider for claim in claims for provider in claim.allocations)
    remembered_ids = {uuid: remembered[uuid] for uuid in uuids if uuid in remembered}
    ids = remembered_ids | providers.ids_by_uuid(connection, uuids.keys() - remembered_ids.keys())
    for provider in uuids:
        if provider not in ids:
            raise UnknownProvider(provider)
    return ids


def require_still_there(
    ids: Mapping[str, int], rows: Mapping[int, providers.StoredProvider], remembered: dict[str, int] | None = None
) -> None:
    """Refuse a claim on a provider that was deleted between the lookup of its id and its lock.

    Raises:
        UnknownProvider: names it.
        IdsOutdated: the id of a *remembered* provider was not looked up.
    """
    for uuid, id_ in ids.items():
        if id_ not in rows or rows[id_].uuid != uuid:
            raise IdsOutdated(remembered) if remembered and uuid in remembered else UnknownProvider(uuid)


def check_and_replace(
    tx: Transaction,
    claims: Sequence[Claim],
    present: Mapping[str, StoredConsumer],
    ids: Mapping[str, int],
    rows: Mapping[int, providers.StoredProvider],
    allocated: Sequence[StoredAllocation],
    taken: usages.Sums,
    *,
    may_shift: bool = False,
    is_any_disabled: bool = True,
) -> None:
    """Check that *claims* fit in place of *allocated*, and replace the rows. All providers are locked and touched.

    Args:
        taken: the usage of the providers, at least of those named in *claims*; updated to the usage afterwards.
        may_shift: allocations may move between the providers of a disabled subtree.
        is_any_disabled: whether any provider is disabled.

    Raises:
        UnknownResourceClass, AllocationRefused
        RaceLost: a consumer that was not *present* was created meanwhile; its allocations may have caused a refusal.
    """
    names = dict.fromkeys(name for claim in claims for resources in claim.allocations.values() for name in resources)
    # Classes need no lock: a class with inventory of a locked provider cannot be deleted, and ids are never reused.
    stock = {
        place: stored
        for place, stored in inventories.by_class_name(tx.connection, ids.values()).items()
        if place[1] in names
    }
    classes = {name: stored.class_id for (_, name), stored in stock.items()}
    if len(classes) < len(names):
        resource_classes.resolve(tx.connection, names)  # raises an error for unknown classes
    try:
        require_room(_rooms(ids, stock, allocated, taken), claims)
        if is_any_disabled:
            _require_enabled(tx.connection, claims, ids, rows, allocated, classes, may_shift=may_shift)
    except AllocationRefused:
        require_still_absent(tx, claims, present)
        raise
    _remove(tx, allocated, taken)
    new = [
        {
            "resource_provider_id": ids[provider],
            "consumer_id": claim.consumer,
            "resource_class_id": classes[name],
            "used": amount,
            "created_at": tx.now,
        }
        for claim in claims
        for provider, resources in claim.allocations.items()
        for name, amount in resources.items()
    ]
    _TAKE.run(tx.connection, new)
    for claim in claims:
        for provider, resources in claim.allocations.items():
            for name, amount in resources.items():
                _count(taken, ids[provider], classes[name], amount)


def _require_enabled(
    connection: Connection,
    claims: Sequence[Claim],
    ids: Mapping[str, int],
    rows: Mapping[int, providers.StoredProvider],
    allocated: Sequence[StoredAllocation],
    classes: Mapping[str, int],
    *,
    may_shift: bool,
) -> None:
    """Refuse claims that raise the allocations from a disabled provider.

    Raises:
        ProviderDisabled
    """
    if not ids:
        return
    # An allocation may be of a provider without a root, which is in no tree.
    roots = {id_: row.root for id_, row in rows.items() if row.root is not None}
    disabled_providers = service_states.disabled_among(connection, roots)
    if not disabled_providers:
        return
    names = {class_id: name for name, class_id in classes.items()}
    before: dict[Place, int] = defaultdict(int)
    for row in allocated:
        if row.class_id in names and row.provider_id in rows:
            before[Place(rows[row.provider_id].uuid, names[row.class_id])] += row.used
    by_uuid = {rows[id_].uuid: disabled_provider for id_, disabled_provider in disabled_providers.items()}
    require_enabled(by_uuid, claims, before, may_shift=may_shift)


def _count(taken: usages.Sums, provider_id: int, class_id: int, amount: int) -> None:
    """Add *amount* to the usage of a provider, if *taken* has it."""
    if provider_id in taken:
        taken[provider_id][class_id] = taken[provider_id].get(class_id, 0) + amount


def _remove(tx: Transaction, allocated: Sequence[StoredAllocation], taken: usages.Sums) -> None:
    """Delete allocations, and subtract them from *taken*, as far as it has their providers."""
    for row in allocated:
        _count(taken, row.provider_id, row.class_id, -row.used)
    for portion in in_portions([row.id for row in allocated]):
        gone = tx.connection.execute(sa.delete(allocations).where(_columns.id.in_(portion)))
        tx.require_count(gone, len(portion))


def _rooms(
    ids: Mapping[str, int],
    stock: Mapping[tuple[int, str], inventories.Stored],
    allocated: Sequence[StoredAllocation],
    taken: usages.Sums,
) -> dict[Place, PlaceUsage]:
    """The usage of each place that the claims could name, as of after the locks."""
    ours: dict[tuple[int, int], int] = defaultdict(int)
    for row in allocated:
        ours[row.provider_id, row.class_id] += row.used
    uuids = {id_: uuid for uuid, id_ in ids.items()}
    rooms = {}
    for (provider_id, name), stored in stock.items():
        total = taken[provider_id].get(stored.class_id, 0)
        used = total - ours[provider_id, stored.class_id]
        rooms[Place(uuids[provider_id], name)] = PlaceUsage(stored.inventory, used, before=total)
    return rooms


def rising(claims: Sequence[Claim], ids: Mapping[str, int], allocated: Sequence[StoredAllocation]) -> set[int]:
    """Ids of the providers whose generation rises: those that claims name, and those that an empty claim releases.

    The generation of a provider does not rise if a consumer moves to another provider.
    """
    released = {claim.consumer for claim in claims if not claim.allocations}
    return {*ids.values(), *(row.provider_id for row in allocated if row.consumer in released)}


def release(tx: Transaction, consumer: str) -> None:
    """Release all allocations of a consumer, at any generation. The generations of its providers do not rise.

    Raises:
        AllocationsNotFound: it has none.
    """
    present = lock(tx, [consumer])
    allocated = held_by(tx.connection, [consumer])
    if not allocated:
        raise AllocationsNotFound(consumer)
    if not present:
        require_still_missing(tx, [consumer])
    _release(tx, present.values(), allocated)
    tx.log_consumers([consumer])


def _release(tx: Transaction, present: Collection[StoredConsumer], allocated: Sequence[StoredAllocation]) -> None:
    """Delete locked consumers with all their allocations, and subtract these from the kept sums."""
    rows = providers.lock(tx, {row.provider_id for row in allocated})
    tx.touch_usage(rows)
    generations = {id_: row.generation for id_, row in rows.items()}
    taken = usages.of_locked(tx.connection, generations)
    _remove(tx, allocated, taken)
    usages.store_sums(tx, taken, generations)
    remove(tx, present)


class Ended(NamedTuple):
    """How many consumers were released and marked because their leases ended; ``is_all`` if no others had ended."""

    released: int = 0
    marked: int = 0
    is_all: bool = True


def end_leases(tx: Transaction, watch: leases.Watch, most: int) -> Ended:
    """Release or mark up to *most* consumers whose leases have ended, as their claims said.

    Time that does not count ends none, see `leases.watch_clock`.
    """
    # Before the leases are read: the worker that stores a reading changes them in the same transaction.
    now = watch.counted(leases.read_clock(tx.connection, tx.dialect))
    uuids = leases.lock_ended(tx, now, most)
    if len(uuids) < most:
        leases.forget_orphans(tx, now)
    # Again under the locks: a database without a way to skip locked rows may have waited for a renewal.
    ended = [
        row
        for row in find(tx.connection, uuids).values()
        if row.lease is not None and row.lease.expires_at < now and not row.lease.is_overdue
    ]
    released = [row for row in ended if row.lease and row.lease.on_expiry is OnExpiry.RELEASE]
    marked = [row for row in ended if row.lease and row.lease.on_expiry is OnExpiry.MARK]
    if released:
        _release(tx, released, held_by(tx.connection, [row.uuid for row in released]))
    leases.mark(tx, [row.id for row in marked])
    tx.log_consumers((row.uuid for row in ended), ended=True)
    return Ended(len(released), len(marked), len(uuids) < most)


def held_by_claiming(
    tx: Transaction, claims: Sequence[Claim], present: Mapping[str, StoredConsumer], owners: Owners
) -> list[StoredAllocation]:
    """All allocations that the consumers of *claims* have, of which *present* are locked.

    Raises:
        RaceLost: an orphaned consumer was created meanwhile.
    """
    allocated = held_by(tx.connection, {*present, *owners.orphaned})
    if owners.orphaned:
        # A consumer is committed with its allocations, so those that were read belong to none.
        require_still_absent(tx, claims, present)
    return allocated


def held_by(connection: Connection, consumer_uuids: Collection[str]) -> list[StoredAllocation]:
    """All allocations of some consumers, with exactly these spellings of the uuids.

    The caller must have locked the consumers. A consumer that was created after the lookup is not locked, and its
    allocations must not be changed; those of no consumer may be.
    """
    exact_uuids = set(consumer_uuids)
    return [
        allocation
        for row in _HELD.rows(connection, sorted(exact_uuids))
        if (allocation := StoredAllocation(*row)).consumer in exact_uuids
    ]


_HELD = Query(
    sa.select(
        _columns.id, _columns.consumer_id, _columns.resource_provider_id, _columns.resource_class_id, _columns.used
    ).where(_columns.consumer_id.in_([LISTED]))
)
_TAKE = Insert(allocations, "resource_provider_id", "consumer_id", "resource_class_id", "used", "created_at")


# Consumers: owners of allocations. They are created with their first allocation and deleted with their last.


_consumer_columns = consumers.c


class OwnersUnknown(NotYet):
    """A claim names a project, user or consumer type that has no row yet."""

    def __init__(self, claims: Sequence[Claim]) -> None:
        super().__init__()
        self._claims = claims

    def prepare(self, store: Store) -> None:
        """Create them, each kind in its own transaction. They stay even if the claims fail."""
        claims = self._claims
        names.project_ids(store, {claim.project for claim in claims})
        names.user_ids(store, {claim.user for claim in claims})
        names.consumer_type_ids(store, {claim.consumer_type for claim in claims if claim.consumer_type is not None})


@dataclass(frozen=True, slots=True)
class Owners:
    """Ids of the projects, users and consumer types that claims name. They are never deleted, so they need no lock.

    ``absent`` are the consumers of the claims that do not exist in any spelling. ``orphaned`` are those of them that
    have allocations nevertheless, as old releases and deletions by hand leave them.
    """

    projects: Mapping[str, int]
    users: Mapping[str, int]
    types: Mapping[str, int]
    absent: frozenset[str]
    orphaned: frozenset[str]

    @classmethod
    def of(cls, connection: Connection, claims: Sequence[Claim]) -> Owners:
        """The owners of *claims*.

        Raises:
            OwnersUnknown
        """
        named = [
            list(dict.fromkeys(claim.project for claim in claims)),
            list(dict.fromkeys(claim.user for claim in claims)),
            list(dict.fromkeys(claim.consumer_type for claim in claims if claim.consumer_type is not None)),
        ]
        columns = (names.PROJECT, names.USER, names.CONSUMER_TYPE)
        column_names = [
            (column, name) for column, names_of_kind in zip(columns, named, strict=True) for name in names_of_kind
        ]
        uuids = [claim.consumer for claim in claims]
        ids, present, orphaned = names.find_with_consumers(connection, column_names, uuids)
        remaining = iter(ids)
        projects, users, types = (
            {name: id_ for name, id_ in zip(names_of_kind, remaining, strict=False) if id_ is not None}
            for names_of_kind in named
        )
        if len(projects) + len(users) + len(types) != len(column_names):
            raise OwnersUnknown(claims)
        absent = frozenset(uuids) - present
        return cls(projects, users, types, absent, frozenset(orphaned))


@dataclass(frozen=True, slots=True)
class StoredConsumer:
    """A consumer's row, as read by a transaction, with its lease."""

    id: int
    uuid: str
    generation: int
    project: int
    user: int
    type: int | None
    lease: HeldLease | None


_BY_UUID = Query(
    sa.select(
        _consumer_columns.id,
        _consumer_columns.uuid,
        _consumer_columns.generation,
        _consumer_columns.project_id,
        _consumer_columns.user_id,
        _consumer_columns.consumer_type_id,
        *leases.HELD,
    )
    .select_from(consumers.outerjoin(stead_lease, leases.OF_CONSUMER))
    .where(_consumer_columns.uuid.in_([LISTED]))
)


def find(connection: Connection, uuids: Collection[str]) -> dict[str, StoredConsumer]:
    """The rows of those of *uuids* that exist with exactly this spelling."""
    return _spelled(uuids, _spelled_anyhow(connection, uuids))


def _spelled_anyhow(connection: Connection, uuids: Collection[str]) -> list[StoredConsumer]:
    """The rows that the database finds for *uuids*; a case-insensitive database also returns other spellings."""
    rows = _BY_UUID.rows(connection, sorted(uuids))
    return [
        StoredConsumer(id_, uuid, generation, project, user, type_, leases.held(uuid, *lease))
        for id_, uuid, generation, project, user, type_, *lease in rows
    ]


def _spelled(uuids: Collection[str], rows: Iterable[StoredConsumer]) -> dict[str, StoredConsumer]:
    by_uuid = {row.uuid: row for row in rows}
    return {uuid: by_uuid[uuid] for uuid in uuids if uuid in by_uuid}


def lock(
    tx: Transaction, uuids: Collection[str], *, in_one_spelling: bool = False, absent: Collection[str] = ()
) -> dict[str, StoredConsumer]:
    """Lock consumers in id order, then their leases, and read the current rows; missing consumers are left out.

    Args:
        absent: those of *uuids* that this transaction has not found; they are not searched again.

    Raises:
        ConsumerConflict: *in_one_spelling* is set, and the database treats another spelling as the same consumer.
        RaceLost: a consumer was created or deleted meanwhile.
    """
    rows = _spelled_anyhow(tx.connection, [uuid for uuid in uuids if uuid not in absent])
    if in_one_spelling and tx.dialect.ignores_case:
        _require_one_spelling(uuids, rows)
    before = _spelled(uuids, rows)
    # A consumer that another writer creates from now on collides with the INSERT of `write`, as a duplicate key.
    if not before:
        return {}
    tx.lock(consumers, (row.id for row in before.values()))
    if leased := [row.id for row in before.values() if row.lease is not None]:
        leases.lock(tx, leased)
    now = find(tx.connection, uuids)
    if {uuid: row.id for uuid, row in now.items()} != {uuid: row.id for uuid, row in before.items()}:
        raise RaceLost("consumers")
    return now


def lock_claiming(tx: Transaction, claims: Sequence[Claim], owners: Owners) -> dict[str, StoredConsumer]:
    """Lock the consumers of *claims* and read their current rows; missing consumers are left out.

    Raises:
        ConsumerConflict: the database treats another spelling of one of them as the same consumer.
        RaceLost: a consumer was created or deleted meanwhile.
    """
    return lock(tx, [claim.consumer for claim in claims], in_one_spelling=True, absent=owners.absent)


def _require_one_spelling(uuids: Collection[str], rows: Iterable[StoredConsumer]) -> None:
    spelling = {uuid.lower(): uuid for uuid in uuids}
    for uuid in uuids:
        if spelling[uuid.lower()] != uuid:
            raise ConsumerConflict(uuid, None, 0)
    for row in rows:
        if spelling.get(row.uuid.lower(), row.uuid) != row.uuid:
            raise ConsumerConflict(spelling[row.uuid.lower()], None, row.generation)


def require_expected(claims: Sequence[Claim], present: Mapping[str, StoredConsumer]) -> None:
    """Refuse clients with an outdated generation of a consumer, in the order of *claims*.

    Raises:
        ConsumerConflict: a consumer is at another generation, exists unexpectedly, or does not exist.
    """
    for claim in claims:
        row = present.get(claim.consumer)
        generation = row.generation if row else None
        if claim.expected is not UNCHECKED and claim.expected != generation:
            raise ConsumerConflict(claim.consumer, claim.expected, generation)


def require_still_absent(tx: Transaction, claims: Sequence[Claim], present: Mapping[str, StoredConsumer]) -> None:
    """Check that consumers that did not exist at the lock have not been created since.

    Raises:
        RaceLost: one was created.
    """
    require_still_missing(tx, {claim.consumer for claim in claims}.difference(present))


def require_still_missing(tx: Transaction, uuids: Collection[str]) -> None:
    """Check that none of *uuids*, which did not exist at the lock, has been created since.

    Raises:
        RaceLost: one was created.
    """
    if find(tx.connection, uuids):
        raise RaceLost("consumers")


def write(
    tx: Transaction, claims: Sequence[Claim], present: Mapping[str, StoredConsumer], owners: Owners
) -> dict[str, HeldLease]:
    """Create, update and delete consumers according to their claims; returns their leases.

    A consumer with allocations exists afterwards, with a generation one higher, and with the project, user and type of
    the claim. A consumer without allocations is deleted. *present* are the locked rows of the consumers.

    Raises:
        RaceLost: a generation differs from the one that was read.
        LeaseRefused
    """
    tx.log_consumers(claim.consumer for claim in claims if claim.allocations or claim.consumer in present)
    new, moved, generations, gone = [], [], {}, []
    for claim in claims:
        row = present.get(claim.consumer)
        type_id = _type_id(claim, row, owners)
        owned = {
            "uuid": claim.consumer,
            "project_id": owners.projects[claim.project],
            "user_id": owners.users[claim.user],
            "consumer_type_id": type_id,
        }
        if row is None and claim.allocations:
            new.append({**owned, "generation": claim.first or first_generation(claim.lease), "created_at": tx.now})
        elif row is not None and claim.allocations:
            generations[row.id] = row.generation
            if (row.project, row.user, row.type) != (owned["project_id"], owned["user_id"], type_id):
                moved.append({**owned, "id": row.id, "generation": row.generation + 1})
        elif row is not None:
            gone.append(row)
    # One order for all writers prevents deadlocks: writers that create the same consumers wait for the first one.
    _MAKE.run(tx.connection, sorted(new, key=lambda values: str(values["uuid"])))
    tx.swap(_RAISE, generations, updated_at=tx.now)
    _MOVE.run(tx.connection, moved)  # safe: raising their generations has just verified and locked them
    remove(tx, gone)
    return _write_leases(tx, [claim for claim in claims if claim.allocations], present)


def _write_leases(
    tx: Transaction, claims: Sequence[Claim], present: Mapping[str, StoredConsumer]
) -> dict[str, HeldLease]:
    """The leases of the consumers of *claims* after these; a claim that says nothing of its end keeps it."""
    before = {uuid: row.lease for uuid, row in present.items() if row.lease is not None}
    kept = {claim.consumer: before[claim.consumer] for claim in claims if claim.consumer in before}
    ended = [claim.consumer for claim in claims if claim.lease is None and claim.consumer in kept]
    if ended:
        leases.forget(tx, [present[uuid].id for uuid in ended])
    requested = {claim.consumer: claim.lease for claim in claims if isinstance(claim.lease, Lease)}
    if requested:
        kept |= leases.write(tx, requested, before)
    return {uuid: lease for uuid, lease in kept.items() if uuid not in ended}


_OWNED = ("uuid", "project_id", "user_id", "consumer_type_id", "generation")
_MAKE = Insert(consumers, *_OWNED, "created_at")
_RAISE = Swap(
    sa.update(consumers).values(
        generation=_consumer_columns.generation + sa.literal_column("1"), updated_at=value("updated_at")
    )
)
_MOVE = Insert(consumers, "id", *_OWNED, changing=("project_id", "user_id", "consumer_type_id"))
REMOVE = Swap(sa.delete(consumers))
"""Deletes consumers without allocations and leases."""


def _type_id(claim: Claim, row: StoredConsumer | None, owners: Owners) -> int | None:
    if claim.consumer_type is not None:
        return owners.types[claim.consumer_type]
    # Requests before 1.38 have no type, so the consumer keeps its own.
    return row.type if row else None


def remove(tx: Transaction, rows: Collection[StoredConsumer]) -> None:
    """Delete locked consumers, with their leases.

    Raises:
        RaceLost: a generation differs from the one that was read.
    """
    tx.swap(REMOVE, {row.id: row.generation for row in rows})
    if leased := [row.id for row in rows if row.lease is not None]:
        leases.forget(tx, leased)


# Reshaping: moves inventories and their allocations between providers, in one transaction.
#
# Source: "POST /reshaper", docs/api.md, with its arithmetic of generations.


@dataclass(frozen=True, slots=True)
class NewInventories:
    """The new inventories of a provider, and its generation as the client knows it."""

    expected: int
    inventories: Mapping[str, Inventory]


def reshape(tx: Transaction, new_inventories: Mapping[str, NewInventories], claims: Sequence[Claim]) -> None:
    """Give providers (by uuid) new inventories and consumers new allocations, all at once.

    First every provider gets the union of its old and new inventories, then the allocations move, then the inventories
    that are not in *new_inventories* are deleted. A reserved amount above the total is not refused here.

    Raises:
        OwnersUnknown
        UnknownProvider, GenerationConflict, ConsumerConflict, UnknownResourceClass, InventoryInUse, AllocationRefused
    """
    owners = Owners.of(tx.connection, claims)
    provider_ids = providers.ids_by_uuid(tx.connection, new_inventories)
    present = lock_claiming(tx, claims, owners)
    allocated = held_by_claiming(tx, claims, present, owners)
    taken = providers.ids_by_uuid(tx.connection, {uuid for claim in claims for uuid in claim.allocations})
    rows = providers.lock(tx, {*provider_ids.values(), *taken.values(), *(row.provider_id for row in allocated)})
    _require_as_known(new_inventories, provider_ids, rows)
    require_expected(claims, present)
    ids = resolve_providers(tx.connection, claims)
    require_still_there(ids, rows)
    tx.touch(rows)
    tx.touch_usage(rows)  # also needed: releases touch nothing else, and must not pass the sums read here unnoticed

    stock = {provider_ids[uuid]: new.inventories for uuid, new in new_inventories.items()}
    inventories.add_or_overwrite(tx, stock)
    generations = {id_: row.generation for id_, row in rows.items()}
    sums = usages.of_locked(tx.connection, generations, needed=ids.values())
    check_and_replace(tx, claims, present, ids, rows, allocated, sums, may_shift=True)
    inventories.remove_others(tx, rows, stock)

    tx.note(Part.INVENTORIES, provider_ids.values())
    rises = dict.fromkeys(rows, 0)
    for uuid, new in new_inventories.items():
        # One for each replacement of its inventories, of which the first is left out if there are no new ones.
        rises[provider_ids[uuid]] += 2 if new.inventories else 1
    for id_ in rising(claims, ids, allocated) & rows.keys():
        rises[id_] += 1
    raised = tx.bump_generations({id_: generations[id_] for id_, by in rises.items() if by}, by=rises, writes_sums=True)
    usages.store_sums(tx, sums, generations | raised)
    write(tx, claims, present, owners)


def _require_as_known(
    new_inventories: Mapping[str, NewInventories],
    provider_ids: Mapping[str, int],
    rows: Mapping[int, providers.StoredProvider],
) -> None:
    for uuid, new in new_inventories.items():
        row = rows.get(provider_ids[uuid]) if uuid in provider_ids else None
        if row is None or row.uuid != uuid:
            raise UnknownProvider(uuid, among="Inventory")
        providers.require_generation(row, new.expected)
