"""Adopting the database of another service: what an upgrade would change, and what prevents it.

All checks only read. Source: "The database", docs/protocol.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

import sqlalchemy as sa

from stead.store import names
from stead.store.protocol.store import RaceLost
from stead.store.schema import schema
from stead.store.sql.dialects import dialect_of, in_memory
from stead.store.sql.statements import in_portions
from stead.store.tables import allocations, consumers, resource_providers, stead_change_log, stead_counter

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from sqlalchemy.engine import Connection, Engine

    from stead.store.protocol.store import Store, Transaction


MIGRATE = "run: stead audit --repair"


_NEEDS_ROOTS, _NEEDS_CONSUMERS = "611cd6dffd7b", "b5c396305c25"
"""The revisions that refuse providers without a root, and allocations without a consumer."""


@dataclass(frozen=True, slots=True)
class Findings:
    """The result of examining a database.

    ``objections`` prevent an upgrade or the start of the service, ``warnings`` do not. Each is a sentence that says
    what to do.
    """

    standings: tuple[schema.SchemaPosition, ...]
    objections: tuple[str, ...]
    warnings: tuple[str, ...]
    has_readable_rows: bool = False
    """Whether all tables and columns of the deployment exist, so that its rows can be examined."""

    @property
    def pending(self) -> tuple[schema.SchemaStep, ...]:
        """The steps that an upgrade would run, in order; none if it would be refused."""
        if schema.upgrade_refusal_of(self.standings):
            return ()
        return tuple(step for standing in self.standings for step in standing.pending)

    @property
    def is_ready(self) -> bool:
        """Whether the service can start."""
        return not self.objections and all(standing.is_current for standing in self.standings)


def examine(engine: Engine) -> Findings:
    """Examine the database of *engine*, a writer's. If the account may not read all tables, report only that."""
    with engine.connect() as connection:
        if closed := schema.closed_tables(connection, (history.version_table for history in schema.HISTORIES)):
            return Findings((), tuple(closed), ())
    standings = schema.standings(engine)
    with engine.connect() as connection:
        is_complete = _has(connection, resource_providers) and not any(_lacking(connection, each) for each in standings)
        return Findings(
            standings,
            tuple(_objections(connection, standings)),
            tuple(_warnings(connection, standings)),
            has_readable_rows=is_complete,
        )


def _objections(connection: Connection, standings: tuple[schema.SchemaPosition, ...]) -> Iterator[str]:
    yield from schema.requirements(connection)
    if refusal := schema.upgrade_refusal_of(standings):
        yield str(refusal)
    for standing in standings:
        yield from _lacking(connection, standing)
    yield from _data(connection, standings)
    if any(standing.pending for standing in standings) and not dialect_of(connection.engine.url).may_define(connection):
        yield "this account may not change tables: have the statements of `stead db upgrade --sql` run by one that may"


def data_objections(engine: Engine) -> list[str]:
    """The rows that prevent an upgrade, in the words of the revisions that would refuse them."""
    with engine.connect() as connection:
        return list(_data(connection, schema.standings_on(connection)))


def _data(connection: Connection, standings: tuple[schema.SchemaPosition, ...]) -> Iterator[str]:
    pending = {step.revision for standing in standings for step in standing.pending}
    if _NEEDS_ROOTS in pending and _has(connection, resource_providers) and has_providers_without_root(connection):
        yield f"there are resource providers without a root; {MIGRATE}"
    if _NEEDS_CONSUMERS in pending and _has(connection, allocations) and _has(connection, consumers):
        count = count_incomplete_consumers(connection)
        if count:
            yield f"{count} consumers hold allocations and do not exist; {MIGRATE}"


def _has(connection: Connection, table: sa.Table) -> bool:
    return sa.inspect(connection).has_table(table.name)


@dataclass(frozen=True, slots=True)
class _Made:
    """The result of a revision for one table: names of its columns, and of its indexes and unique constraints."""

    columns: frozenset[str]
    keys: frozenset[str]

    @classmethod
    def of(cls, inspector: sa.Inspector, table: str) -> _Made:
        keys = [*inspector.get_indexes(table), *inspector.get_unique_constraints(table)]
        columns = frozenset(str(column["name"]) for column in inspector.get_columns(table))
        return cls(columns, frozenset(str(key["name"]) for key in keys))


@cache
def _made_by(history: str, revision: str) -> dict[str, _Made]:
    """The tables of a history at *revision*, determined by running its migrations in memory."""
    [chosen] = (each for each in schema.HISTORIES if each.name == history)
    engine = in_memory()
    try:
        with engine.begin() as connection:
            schema.bring(connection, chosen, revision)
            inspector = sa.inspect(connection)
            return {name: _Made.of(inspector, name) for name in inspector.get_table_names()}
    finally:
        engine.dispose()


def _lacking(connection: Connection, standing: schema.SchemaPosition) -> list[str]:
    return list(_lacking_parts(connection, standing))


def _lacking_parts(connection: Connection, standing: schema.SchemaPosition) -> Iterator[str]:
    """Missing tables and columns that the database's present revision should have created."""
    if standing.revision is None or not standing.is_known:
        return
    inspector = sa.inspect(connection)
    there = set(inspector.get_table_names())
    by_whom = f"which revision {standing.revision} has made"
    if standing.history == schema.STEAD.name:
        by_whom += f". {schema.BEGIN_ANEW}"
    for name, made in sorted(_made_by(standing.history, standing.revision).items()):
        if name not in there:
            yield f"the table {name} is missing, {by_whom}"
        elif missing := made.columns - _Made.of(inspector, name).columns:
            yield f"{name} lacks the columns {', '.join(sorted(missing))}, {by_whom}"


def _lacking_keys(connection: Connection, standing: schema.SchemaPosition) -> Iterator[str]:
    """Missing indexes, each as a sentence; an interrupted upgrade may have dropped them already."""
    if standing.revision is None or not standing.is_known:
        return
    inspector = sa.inspect(connection)
    there, last = set(inspector.get_table_names()), _made_by(standing.history, standing.head)
    for name, made in sorted(_made_by(standing.history, standing.revision).items()):
        if name in there:
            for key in sorted(made.keys - _Made.of(inspector, name).keys):
                needed = key in last[name].keys
                yield f"{name} lacks the index {key}, which is {'needed' if needed else 'to be dropped'}"


def _warnings(connection: Connection, standings: tuple[schema.SchemaPosition, ...]) -> Iterator[str]:
    for weakness in dialect_of(connection.engine.url).weaknesses(connection):
        yield str(weakness)
    for standing in standings:
        yield from _lacking_keys(connection, standing)
    for standing in standings:
        if standing.usable and not standing.is_known:
            yield (
                f"{standing.history} is at {standing.revision}, of a newer release: this one can work with it, "
                "as long as the other releases running here can"
            )


# Online data migrations: prepare an old database for its next revisions while services run on it.
#
# Each call does one batch in one transaction, so that other writers wait only briefly. They run on a database at any
# revision, with or without Stead's own tables.
#
# Source: "The database" and "The write and refresh protocol" (rules 3 to 6), docs/protocol.md.


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
