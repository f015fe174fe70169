"""The repairs: fix what can be fixed safely, in short writes that check again under locks before they change anything.

A finding is as old as the snapshot of its audit, so it only says where to check. Rows that are correct by now are left
alone. Running services see a repair like any write.

Source: "The write and refresh protocol" (rules 3 to 6, 12 and 16), docs/protocol.md.
"""

from __future__ import annotations

import secrets
from collections import defaultdict
from functools import partial
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import sqlalchemy as sa

from stead.domain.claim import NOBODY
from stead.domain.provider import MAX_INT
from stead.store import allocations, names, providers, usages
from stead.store.audit.checks import Fault, lost_leases, roots_of
from stead.store.protocol.clock import SLOTS
from stead.store.protocol.store import renew_epoch
from stead.store.schema.adoption import create_incomplete_consumers
from stead.store.sql.statements import in_portions
from stead.store.tables import allocations as allocation_table
from stead.store.tables import (
    consumer_types,
    inventories,
    placement_aggregates,
    projects,
    resource_provider_aggregates,
    resource_provider_traits,
    resource_providers,
    stead_change_log,
    stead_clock,
    stead_counter,
    stead_lease,
    stead_provider_change,
    stead_usage,
    stead_usage_change,
    traits,
    users,
)
from stead.store.tables import consumers as consumer_table

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from stead.store.audit.checks import Finding
    from stead.store.protocol.store import Store, Transaction


_CREATED = 1000
"""Consumers that one write creates."""


def repair(
    store: Store,
    findings: Collection[Finding],
    watch: Callable[[int, int], None],
    *,
    project: str = NOBODY,
    user: str = NOBODY,
) -> None:
    """Repair those of *findings* that can be repaired safely, in many short writes. Audit again for the rest.

    Args:
        project, user: the owner of consumers whose own does not exist.
        watch: called after each write with the number of handled findings and the number of all findings.

    Raises:
        Unavailable: the database does not answer; completed repairs stay.
    """
    keys: dict[Fault, list[Finding]] = defaultdict(list)
    for finding in findings:
        if finding.fault.value.is_repaired:
            keys[finding.fault].append(finding)
    total, done = sum(map(len, keys.values())), 0
    repairs = {**_REPAIRS, **_owners(store, keys, project, user)}
    for fault, repair_rows in repairs.items():  # the clock first: without it no other write can be committed
        for portion in in_portions(keys[fault]):
            store.write(_repaired_alone, repair_rows, [finding.key for finding in portion])
            done += len(portion)
            watch(done, total)
    # Last, since it writes to the providers. Each call creates those that are missing by then.
    without_consumer = len(keys[Fault.ALLOCATION_WITHOUT_CONSUMER])
    if without_consumer:
        while create_incomplete_consumers(store, _CREATED, project=project, user=user):
            pass
        watch(total, total)


def _owners(
    store: Store, findings: Mapping[Fault, Collection[Finding]], project: str, user: str
) -> dict[Fault, Callable[..., None]]:
    """The repairs of consumers without a project or a user, which are created if a finding needs them."""
    columns = consumer_table.c
    repairs: dict[Fault, Callable[..., None]] = {
        Fault.UNKNOWN_CONSUMER_TYPE: partial(_owner, columns.consumer_type_id, consumer_types, None)
    }
    if findings[Fault.UNKNOWN_PROJECT]:
        id_ = names.project_ids(store, {project})[project]
        repairs[Fault.UNKNOWN_PROJECT] = partial(_owner, columns.project_id, projects, id_)
    if findings[Fault.UNKNOWN_USER]:
        id_ = names.user_ids(store, {user})[user]
        repairs[Fault.UNKNOWN_USER] = partial(_owner, columns.user_id, users, id_)
    return repairs


def _owner(column: sa.Column[Any], owners: sa.Table, id_: int | None, tx: Transaction, uuids: Sequence[str]) -> None:
    """Set *column* of consumers to *id_* where it refers to no row of *owners*."""
    ids = tx.connection.scalars(sa.select(consumer_table.c.id).where(consumer_table.c.uuid.in_(uuids))).all()
    tx.lock(consumer_table, ids)
    is_lost = consumer_table.c.id.in_(ids) & column.not_in(sa.select(owners.c.id))
    tx.connection.execute(sa.update(consumer_table).where(is_lost).values({column.name: id_, "updated_at": tx.now}))
    if sa.inspect(tx.connection).has_table(stead_change_log.name):
        tx.log_consumers(uuids)


def _repaired_alone(
    tx: Transaction, repair_rows: Callable[[Transaction, Sequence[Any]], None], keys: Sequence[Any]
) -> None:
    tx.alone()
    repair_rows(tx, keys)


def _slots(tx: Transaction, _found: Sequence[int]) -> None:
    """Restore the rows of slots, and begin a new epoch.

    The ticks of a lost row are unknown. Without a new epoch, a token or a service with a higher tick would take later
    writes for writes that it has already seen.
    """
    clock = stead_clock.c
    renew_epoch(tx)
    tx.connection.execute(sa.delete(stead_clock).where(clock.slot.not_in(range(SLOTS))))
    rows = {row.slot: row for row in tx.connection.execute(sa.select(clock.slot, clock.tick, clock.floor))}
    for slot in range(SLOTS):
        row = rows.get(slot)
        if row is None:
            tick = _newest_change(tx, slot) + 1
            values = {"slot": slot, "tick": tick, "stamp": secrets.randbits(62), "floor": tick}
            tx.connection.execute(sa.insert(stead_clock), values)
        elif row.tick < row.floor:
            raised = sa.update(stead_clock).where(clock.slot == slot, clock.tick == row.tick, clock.floor == row.floor)
            changed = tx.connection.execute(raised.values(tick=row.floor, stamp=secrets.randbits(62)))
            tx.require_count(changed, 1)


def _newest_change(tx: Transaction, slot: int) -> int:
    newest = [
        tx.connection.scalar(sa.select(sa.func.max(changes.c.tick)).where(changes.c.slot == slot))
        for changes in (stead_provider_change, stead_usage_change, stead_change_log)
    ]
    return max((tick for tick in newest if tick is not None), default=0)


def _changes(tx: Transaction, ids: Sequence[int]) -> None:
    """Note changes again: touching rewrites their rows with this transaction's slot and tick.

    Rows go to both tables if they are for providers: the only cost is another read of the providers.
    """
    for changes, touch in ((stead_provider_change, tx.touch), (stead_usage_change, tx.touch_usage)):
        column = changes.c.provider_id
        touch(tx.connection.scalars(sa.select(column).where(column.in_(ids))).all())


def _kept_sums(tx: Transaction, provider_ids: Sequence[int]) -> None:
    tx.lock(resource_providers, provider_ids)
    tx.connection.execute(sa.delete(stead_usage).where(stead_usage.c.provider_id.in_(provider_ids)))
    tx.touch_usage(provider_ids)


def _roots(tx: Transaction, ids: Sequence[int]) -> None:
    """Set the roots that the parents lead to. With all ancestors locked, no other writer can change the path."""
    ways = _ways_up(tx, ids)
    around = {row.root for row in providers.rows_by_id(tx.connection, ids).values()} - {None}
    locked = providers.lock(tx, {*ways, *around})
    # From the locked rows: a way that changed before the locks leads out of them, and no root is set.
    roots = roots_of({id_: locked[id_].parent for id_ in ways if id_ in locked})
    wrong: dict[int, list[int]] = defaultdict(list)
    for id_ in ids:
        root = roots.get(id_)
        if root is not None and locked[id_].root != root:
            wrong[root].append(id_)
    for root, below in wrong.items():
        statement = sa.update(resource_providers).where(resource_providers.c.id.in_(below))
        changed = tx.connection.execute(statement.values(root_provider_id=root, updated_at=tx.now))
        tx.require_count(changed, len(below))
    if wrong:
        _touch(tx, locked)


def _ways_up(tx: Transaction, ids: Sequence[int]) -> set[int]:
    """Ids of some providers and all their ancestors, with one statement for each level."""
    seen: set[int] = set()
    ahead = set(ids)
    while ahead:
        seen |= ahead
        rows = providers.rows_by_id(tx.connection, ahead).values()
        ahead = {row.parent for row in rows if row.parent is not None} - seen
    return seen


def _names(tx: Transaction, ids: Sequence[int]) -> None:
    """Name providers after their uuids, unless another provider has such a name."""
    providers.lock(tx, ids)
    name, uuid = resource_providers.c.name, resource_providers.c.uuid
    nameless = sa.select(uuid).where(resource_providers.c.id.in_(ids), name.is_(None))
    uuids = tx.connection.scalars(nameless).all()
    taken = tx.connection.scalars(sa.select(name).where(name.in_(uuids))).all()
    statement = sa.update(resource_providers).where(uuid.in_(set(uuids).difference(taken)))
    tx.connection.execute(statement.values(name=uuid, updated_at=tx.now))
    _touch(tx, ids)


def _generations(tx: Transaction, ids: Sequence[int]) -> None:
    providers.lock(tx, ids)
    column = resource_providers.c.generation
    statement = sa.update(resource_providers).where(resource_providers.c.id.in_(ids), column.is_(None))
    tx.connection.execute(statement.values(generation=0, updated_at=tx.now))
    if sa.inspect(tx.connection).has_table(stead_usage.name):
        usages.forget_all(tx, ids)  # sums of an earlier generation 0 would be valid again
    _touch(tx, ids)


def _units(tx: Transaction, ids: Sequence[int]) -> None:
    """Raise the numbers of inventories to the least ones that the API accepts."""
    columns = inventories.c
    mine = columns.id.in_(ids)
    provider_ids = tx.connection.scalars(sa.select(columns.resource_provider_id).where(mine)).all()
    providers.lock(tx, provider_ids)
    for column, least in ((columns.reserved, 0), (columns.min_unit, 1), (columns.max_unit, 1), (columns.step_size, 1)):
        statement = sa.update(inventories).where(mine, column < least)
        tx.connection.execute(statement.values({column.name: least, "updated_at": tx.now}))
    _touch(tx, provider_ids)


def _ownerless_inventories(tx: Transaction, provider_ids: Sequence[int]) -> None:
    there = providers.lock(tx, provider_ids)
    gone = [id_ for id_ in provider_ids if id_ not in there]
    tx.connection.execute(sa.delete(inventories).where(inventories.c.resource_provider_id.in_(gone)))


def _in_parts(tx: Transaction, ids: Sequence[int]) -> None:
    """Make one row of all allocations of one consumer, provider and class; *ids* are the first rows of each."""
    columns = allocation_table.c
    place = (columns.consumer_id, columns.resource_provider_id, columns.resource_class_id)
    first = sa.select(*place).where(columns.id.in_(ids))
    providers.lock(tx, {row[1] for row in tx.connection.execute(first)})
    for consumer, provider_id, class_id in tx.connection.execute(first.distinct()).all():
        same = sa.select(columns.id, columns.consumer_id, columns.used).where(
            columns.consumer_id == consumer,
            columns.resource_provider_id == provider_id,
            columns.resource_class_id == class_id,
        )
        # Exactly this spelling: a database may ignore case.
        rows = [row for row in tx.connection.execute(same.order_by(columns.id)) if row.consumer_id == consumer]
        total = sum(row.used for row in rows)
        if len(rows) < 2 or total > MAX_INT:
            continue
        whole = sa.update(allocation_table).where(columns.id == rows[0].id)
        tx.require_count(tx.connection.execute(whole.values(used=total, updated_at=tx.now)), 1)
        parts = sa.delete(allocation_table).where(columns.id.in_([row.id for row in rows[1:]]))
        tx.require_count(tx.connection.execute(parts), len(rows) - 1)


def _aggregate_uuids(tx: Transaction, ids: Sequence[int]) -> None:
    pairs = resource_provider_aggregates.c
    members = sa.select(pairs.resource_provider_id).where(pairs.aggregate_id.in_(ids))
    provider_ids = set(tx.connection.scalars(members))
    providers.lock(tx, provider_ids)
    for id_ in ids:
        statement = sa.update(placement_aggregates).where(
            placement_aggregates.c.id == id_, placement_aggregates.c.uuid.is_(None)
        )
        tx.connection.execute(statement.values(uuid=str(uuid4()), updated_at=tx.now))
    _touch(tx, provider_ids)


def _consumers(tx: Transaction, uuids: Sequence[str]) -> None:
    """Delete consumers without allocations. A concurrent claim waits for the lock, then creates its consumer again."""
    present = _locked_consumers(tx, uuids)
    with_allocations = sa.select(consumer_table.c.uuid).join(
        allocation_table, allocation_table.c.consumer_id == consumer_table.c.uuid
    )
    holding = set(tx.connection.scalars(with_allocations.where(consumer_table.c.uuid.in_(uuids))))
    removed = {uuid: row for uuid, row in present.items() if uuid not in holding}
    tx.swap(allocations.REMOVE, dict(removed.values()))
    if sa.inspect(tx.connection).has_table(stead_change_log.name):
        tx.log_consumers(removed)


def _locked_consumers(tx: Transaction, uuids: Sequence[str]) -> dict[str, tuple[int, int]]:
    """Lock consumers; their ids and generations by uuid. They may be of a database without tables of Stead."""
    columns = consumer_table.c
    rows = sa.select(columns.uuid, columns.id, columns.generation).where(columns.uuid.in_(uuids))
    tx.lock(consumer_table, [row.id for row in tx.connection.execute(rows)])
    return {row.uuid: (row.id, row.generation) for row in tx.connection.execute(rows) if row.uuid in uuids}


def _traits(tx: Transaction, pairs: Sequence[tuple[int, int]]) -> None:
    _associations(tx, pairs, resource_provider_traits.c.trait_id, traits)


def _aggregates(tx: Transaction, pairs: Sequence[tuple[int, int]]) -> None:
    _associations(tx, pairs, resource_provider_aggregates.c.aggregate_id, placement_aggregates)


def _associations(
    tx: Transaction, pairs: Sequence[tuple[int, int]], member: sa.Column[int], member_table: sa.Table
) -> None:
    """Delete pairs that refer to a missing row. Only the provider's lock prevents their concurrent creation."""
    provider = member.table.c.resource_provider_id
    provider_ids = {provider_id for provider_id, _ in pairs}
    there = providers.lock(tx, provider_ids)
    members = set(
        tx.connection.scalars(sa.select(member_table.c.id).where(member_table.c.id.in_({id_ for _, id_ in pairs})))
    )
    gone = [pair for pair in pairs if pair[0] not in there or pair[1] not in members]
    if gone:
        rows = [{"p_provider": provider_id, "p_member": id_} for provider_id, id_ in gone]
        condition = (provider == sa.bindparam("p_provider")) & (member == sa.bindparam("p_member"))
        tx.connection.execute(sa.delete(member.table).where(condition), rows)
        _touch(tx, provider_ids)


def _lost_leases(tx: Transaction, ids: Sequence[int]) -> None:
    lost = {row.key: row.uuid for row in tx.connection.execute(lost_leases().where(stead_lease.c.consumer_id.in_(ids)))}
    for id_, uuid in lost.items():
        # With the uuid: a new consumer may have the id and a lease by now.
        gone = sa.delete(stead_lease).where(stead_lease.c.consumer_id == id_, stead_lease.c.uuid == uuid)
        tx.connection.execute(gone)


def _touch(tx: Transaction, provider_ids: Collection[int]) -> None:
    # Before Stead's tables exist, there is no clock to tick, and no process reads it. This table is created last.
    if sa.inspect(tx.connection).has_table(stead_counter.name):
        tx.touch(provider_ids)


_REPAIRS: Mapping[Fault, Callable[..., None]] = {
    Fault.CLOCK_SLOTS: _slots,
    Fault.CHANGE_OUT_OF_STEP: _changes,
    Fault.NO_ROOT: _roots,
    Fault.WRONG_ROOT: _roots,
    Fault.NO_NAME: _names,
    Fault.NO_GENERATION: _generations,
    Fault.INVENTORY_UNITS: _units,
    Fault.INVENTORY_WITHOUT_PROVIDER: _ownerless_inventories,
    Fault.ALLOCATIONS_IN_PARTS: _in_parts,
    Fault.AGGREGATE_WITHOUT_UUID: _aggregate_uuids,
    Fault.CONSUMER_WITHOUT_ALLOCATIONS: _consumers,
    Fault.DANGLING_TRAIT: _traits,
    Fault.DANGLING_AGGREGATE: _aggregates,
    Fault.KEPT_SUM: _kept_sums,
    Fault.LEASE_WITHOUT_CONSUMER: _lost_leases,
}
