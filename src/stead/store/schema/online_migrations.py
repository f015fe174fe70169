"""Online data migrations: prepare an old database for its next revisions while services run on it.

Each call does one batch in one transaction, so that other writers wait only briefly. They run on a database at any
revision, with or without Stead's own tables.

Source: "The database" and "The write and refresh protocol" (rules 3 to 6), docs/protocol.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import sqlalchemy as sa

from stead.store import names
from stead.store.protocol.transaction import RaceLost
from stead.store.sql.statements import in_portions
from stead.store.tables import allocations, consumers, resource_providers, stead_change_log, stead_counter

if TYPE_CHECKING:
    from collections.abc import Collection

    from sqlalchemy.engine import Connection

    from stead.store.protocol.store import Store
    from stead.store.protocol.transaction import Transaction

_allocations, _consumers, _providers = allocations.c, consumers.c, resource_providers.c

_WITHOUT_ROOT = _providers.root_provider_id.is_(None)
_HELD_BY = allocations.outerjoin(consumers, _consumers.uuid == _allocations.consumer_id)
_WITHOUT_CONSUMER = _consumers.id.is_(None)


def set_root_provider_ids(store: Store, most: int) -> int:
    """Make up to *most* providers without a root their own roots; returns how many.

    Raises:
        Unavailable
    """
    return store.write(_set_roots, most)


def create_incomplete_consumers(store: Store, most: int, *, project: str, user: str) -> int:
    """Create up to *most* missing consumers of allocations; returns how many.

    They get generation 0, no type, and *project* and *user*, which are created even if no consumer is missing.

    Raises:
        Unavailable
    """
    project_id = names.project_ids(store, {project})[project]
    user_id = names.user_ids(store, {user})[user]
    return store.write(_create_consumers, most, project_id, user_id)


def has_providers_without_root(connection: Connection) -> bool:
    """Whether any provider has no root."""
    return connection.scalar(sa.select(_providers.id).where(_WITHOUT_ROOT).limit(1)) is not None


def count_incomplete_consumers(connection: Connection) -> int:
    """Number of consumers that have allocations but no row."""
    count = sa.select(sa.func.count(_allocations.consumer_id.distinct()))
    return connection.execute(count.select_from(_HELD_BY).where(_WITHOUT_CONSUMER)).scalar_one()


def _set_roots(tx: Transaction, most: int) -> int:
    tx.alone()
    ids = tx.connection.scalars(sa.select(_providers.id).where(_WITHOUT_ROOT).order_by(_providers.id).limit(most)).all()
    tx.lock(resource_providers, ids)
    for portion in in_portions(ids):
        statement = sa.update(resource_providers).where(_providers.id.in_(portion), _WITHOUT_ROOT)
        changed = tx.connection.execute(statement.values(root_provider_id=_providers.id, updated_at=tx.now))
        tx.require_count(changed, len(portion))
    _touch(tx, ids)
    return len(ids)


def _create_consumers(tx: Transaction, most: int, project_id: int, user_id: int) -> int:
    tx.alone()
    uuids = tx.connection.scalars(
        sa.select(_allocations.consumer_id)
        .distinct()
        .select_from(_HELD_BY)
        .where(_WITHOUT_CONSUMER)
        .order_by(_allocations.consumer_id)
        .limit(most)
    ).all()
    provider_ids = _providers_held_by(tx.connection, uuids)
    # While these are locked, no other writer can release the allocations and leave a consumer without allocations.
    tx.lock(resource_providers, provider_ids)
    for portion in in_portions(uuids):
        rows = {"project_id": project_id, "user_id": user_id, "generation": 0, "created_at": tx.now}
        tx.connection.execute(sa.insert(consumers), [{**rows, "uuid": uuid} for uuid in portion])
    # Before the locks, a client may have released the allocations, or claimed from other providers.
    if _still_holding(tx.connection, uuids) != len(uuids) or _providers_held_by(tx.connection, uuids) != provider_ids:
        raise RaceLost("allocations")
    _touch(tx, provider_ids)
    if sa.inspect(tx.connection).has_table(stead_change_log.name):
        tx.log_consumers(uuids)
    return len(uuids)


def _providers_held_by(connection: Connection, uuids: Collection[str]) -> set[int]:
    """Ids of the providers from which these consumers have allocations."""
    query = sa.select(_allocations.resource_provider_id).distinct()
    return {
        id_
        for portion in in_portions(list(uuids))
        for id_ in connection.scalars(query.where(_allocations.consumer_id.in_(portion)))
    }


def _still_holding(connection: Connection, uuids: Collection[str]) -> int:
    """Number of these consumers that have allocations."""
    query = sa.select(sa.func.count(_allocations.consumer_id.distinct()))
    return sum(
        connection.execute(query.where(_allocations.consumer_id.in_(portion))).scalar_one()
        for portion in in_portions(list(uuids))
    )


def _touch(tx: Transaction, provider_ids: Collection[int]) -> None:
    # Before Stead's tables exist, there is no clock to tick, and no process reads it. This table is created last.
    if sa.inspect(tx.connection).has_table(stead_counter.name):
        tx.touch(provider_ids)
