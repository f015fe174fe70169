"""Aggregates: UUIDs that group providers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stead.domain.errors import ProviderNotFound
from stead.store import providers
from stead.store.protocol.clock import Part
from stead.store.tables import resource_provider_aggregates

if TYPE_CHECKING:
    from collections.abc import Collection

    from sqlalchemy.engine import Connection

    from stead.store.protocol.transaction import Transaction


def require(connection: Connection, provider: str, expected: int | None) -> None:
    """Refuse what :func:`replace` would refuse, before the caller inserts rows for new aggregates.

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
    """Replace all aggregates (by id) of a provider; returns its generation.

    Args:
        expected: the generation that the client knows, which then rises by one. None neither checks nor raises it (the
            meaning before microversion 1.19).

    Raises:
        ProviderNotFound, GenerationConflict
    """
    row = providers.lock_one(tx, provider)
    if expected is not None:
        providers.require_generation(row, expected)
    if providers.replace_members(tx, row, resource_provider_aggregates.c.aggregate_id, set(aggregates)):
        tx.tell(Part.AGGREGATES, [row.id])
    return row.generation if expected is None else tx.bump_generations({row.id: row.generation})[row.id]
