"""Aggregates: UUIDs that group providers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import sqlalchemy as sa

from stead.domain.errors import ProviderNotFound
from stead.store import providers
from stead.store.sql.statements import in_portions
from stead.store.tables import resource_provider_aggregates

if TYPE_CHECKING:
    from collections.abc import Collection

    from sqlalchemy.engine import Connection

    from stead.store.protocol.transaction import Transaction


def require(connection: Connection, provider: str, expected: int | None) -> None:
    """Refuse what :func:`replace` would refuse now, before rows are made for the aggregates' names.

    Raises:
        ProviderNotFound, GenerationConflict
    """
    rows = providers.rows_by_id(connection, providers.ids_by_uuid(connection, [provider]).values())
    if not rows:
        raise ProviderNotFound(provider)
    if expected is not None:
        (row,) = rows.values()
        providers.require_generation(row, expected)


def replace(tx: Transaction, provider: str, aggregates: Collection[int], expected: int | None) -> int:
    """Make these (by id) all aggregates a provider belongs to; returns its generation.

    Args:
        expected: the generation the client knows, which then rises by one; None neither checks nor raises it (the
            meaning before microversion 1.19).

    Raises:
        ProviderNotFound, GenerationConflict
    """
    row = providers.lock_one(tx, provider)
    if expected is not None:
        providers.require_generation(row, expected)
    table = resource_provider_aggregates
    mine = table.c.resource_provider_id == row.id
    present = set(tx.connection.scalars(sa.select(table.c.aggregate_id).where(mine)))
    wanted = set(aggregates)
    for some in in_portions(sorted(present - wanted)):
        gone = tx.connection.execute(sa.delete(table).where(mine, table.c.aggregate_id.in_(some)))
        tx.require_count(gone, len(some))
    new = [
        {"resource_provider_id": row.id, "aggregate_id": id_, "created_at": tx.now} for id_ in sorted(wanted - present)
    ]
    if new:
        tx.connection.execute(sa.insert(table), new)
    return row.generation if expected is None else tx.bump_generations({row.id: row.generation})[row.id]
