"""What changed since some moment, read from one snapshot of the database: what a catalog can be fed from.

Source: "The write and refresh protocol", docs/architecture.md (rules 9 and 11 to 13).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from stead.domain.changes import Changes, InventoryRow, NameRow, ProviderRow
from stead.domain.errors import Unavailable
from stead.store import usages
from stead.store.clock import EVERYTHING, Clock, LostTick, changed_between, read_clock
from stead.store.tables import (
    inventories,
    placement_aggregates,
    resource_classes,
    resource_provider_aggregates,
    resource_provider_traits,
    resource_providers,
    traits,
)
from stead.store.timestamps import seconds
from stead.store.transaction import in_portions, meaning

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from sqlalchemy.engine import Connection
    from sqlalchemy.pool import PoolProxiedConnection

    from stead.domain.changes import Moment
    from stead.store.transaction import Store


@dataclass(frozen=True, slots=True)
class _Moment:
    """The clock, and the count of commits as it stood before the clock was read."""

    clock: Clock
    commits: tuple[int, int] | None
    """Which watching connection counted them, and how many; two connections count differently."""


class ChangeSource:
    """Reads differences; one reader at a time."""

    def __init__(self, store: Store) -> None:
        """Nothing is connected yet."""
        self._store = store
        self._watch: PoolProxiedConnection | None = None
        self._watches = 0

    def changes(self, since: Moment | None) -> Changes | None:
        """What changed after *since*; everything if None or if the difference can not be told; None if nothing.

        Raises:
            Unavailable: the database does not answer. The same *since* may be tried again.
        """
        earlier = since if isinstance(since, _Moment) else None
        try:
            commits = self._commits_seen()
            if earlier is not None and commits is not None and commits == earlier.commits:
                return None
            with self._store.reader.begin() as connection:
                return _changes(connection, earlier.clock if earlier else None, commits)
        except sa.exc.DBAPIError as error:
            self._stop_watching()
            raise meaning(error, self._store.dialect) from error
        except (sa.exc.TimeoutError, LostTick, self._store.reader.dialect.loaded_dbapi.Error) as error:
            self._stop_watching()
            raise Unavailable("The database is not able to answer now.") from error

    def _commits_seen(self) -> tuple[int, int] | None:
        if not self._store.dialect.counts_commits:
            return None
        if self._watch is None:
            self._watch = self._store.reader.raw_connection()
            self._watches += 1
        return self._watches, self._store.dialect.commits_seen(self._watch)

    def _stop_watching(self) -> None:
        if self._watch is not None:
            self._watch.invalidate()
            self._watch = None

    def close(self) -> None:
        """Give the watching connection back."""
        if self._watch is not None:
            self._watch.close()
            self._watch = None


def _changes(connection: Connection, earlier: Clock | None, commits: tuple[int, int] | None) -> Changes:
    now = read_clock(connection)  # first: it dates all that follows
    moment = _Moment(now, commits)
    if earlier is None or not now.can_follow(earlier):
        return _everything(connection, moment)
    changed = changed_between(connection, earlier, now)
    if EVERYTHING in changed:
        return _everything(connection, moment)
    provider_ids = sorted(id_ for id_ in changed if id_ > 0)
    pairs = list(_aggregate_pairs(connection, provider_ids))
    return Changes(
        moment,
        provider_ids=provider_ids,
        providers=list(_providers(connection, provider_ids)),
        inventories=list(_inventories(connection, provider_ids)),
        provider_traits=list(_trait_pairs(connection, provider_ids)),
        provider_aggregates=pairs,
        aggregate_uuids=_aggregate_uuids(connection, {aggregate_id for _, aggregate_id in pairs}),
        # Names that changed are told apart by the parity of their negative ids, see clock.
        traits=_names(connection, traits) if any(id_ < 0 and id_ % 2 == 0 for id_ in changed) else None,
        resource_classes=_names(connection, resource_classes) if any(id_ < 0 and id_ % 2 for id_ in changed) else None,
    )


def _everything(connection: Connection, moment: _Moment) -> Changes:
    providers = list(_providers(connection, None))
    return Changes(
        moment,
        everything=True,
        provider_ids=[row.id for row in providers],
        providers=providers,
        inventories=list(_inventories(connection, None)),
        provider_traits=list(_trait_pairs(connection, None)),
        provider_aggregates=list(_aggregate_pairs(connection, None)),
        aggregate_uuids=_aggregate_uuids(connection, None),
        traits=_names(connection, traits),
        resource_classes=_names(connection, resource_classes),
    )


def _rows(
    connection: Connection, query: sa.Select[*tuple[Any, ...]], id_: sa.Column[int], ids: Collection[int] | None
) -> Iterator[Any]:
    """The rows of *query* for some ids, or, if None, for all."""
    if ids is None:
        yield from connection.execute(query).all()
        return
    for some in in_portions(sorted(ids)):
        yield from connection.execute(query.where(id_.in_(some))).all()


def _providers(connection: Connection, ids: Collection[int] | None) -> Iterator[ProviderRow]:
    table = resource_providers.c
    query = sa.select(
        table.id,
        table.uuid,
        table.name,
        table.generation,
        table.parent_provider_id,
        table.root_provider_id,
        table.created_at,
        table.updated_at,
    )
    for id_, uuid, name, generation, parent, root, created, updated in _rows(connection, query, table.id, ids):
        yield ProviderRow(id_, uuid, name, generation, parent, root, seconds(updated or created))


def _inventories(connection: Connection, ids: Collection[int] | None) -> Iterator[InventoryRow]:
    used = usages.sums(connection, ids)
    table = inventories.c
    query = sa.select(
        table.resource_provider_id,
        table.resource_class_id,
        table.total,
        table.reserved,
        table.min_unit,
        table.max_unit,
        table.step_size,
        table.allocation_ratio,
        table.created_at,
        table.updated_at,
    )
    for row in _rows(connection, query, table.resource_provider_id, ids):
        provider, class_id, created, updated = row[0], row[1], row[8], row[9]
        yield InventoryRow._make((*row[:8], used.get((provider, class_id), 0), seconds(updated or created)))


def _trait_pairs(connection: Connection, ids: Collection[int] | None) -> Iterator[tuple[int, int]]:
    table = resource_provider_traits.c
    query = sa.select(table.resource_provider_id, table.trait_id)
    yield from _rows(connection, query, table.resource_provider_id, ids)


def _aggregate_pairs(connection: Connection, ids: Collection[int] | None) -> Iterator[tuple[int, int]]:
    table = resource_provider_aggregates.c
    query = sa.select(table.resource_provider_id, table.aggregate_id)
    yield from _rows(connection, query, table.resource_provider_id, ids)


def _aggregate_uuids(connection: Connection, ids: Collection[int] | None) -> dict[int, str]:
    table = placement_aggregates.c
    return {row.id: row.uuid for row in _rows(connection, sa.select(table.id, table.uuid), table.id, ids)}


def _names(connection: Connection, table: sa.Table) -> list[NameRow]:
    query = sa.select(table.c.id, table.c.name, table.c.created_at, table.c.updated_at).order_by(table.c.id)
    return [
        NameRow(id_, name, seconds(updated or created)) for id_, name, created, updated in connection.execute(query)
    ]
