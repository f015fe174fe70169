"""Adopting the database of another service: what an upgrade would change, and what prevents it.

All checks only read. Source: "The database", docs/protocol.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

import sqlalchemy as sa

from stead.store.schema import histories, online_migrations, positions, schema
from stead.store.sql.dialects import dialect_of, in_memory
from stead.store.tables import allocations, consumers, resource_providers

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sqlalchemy.engine import Connection, Engine

MIGRATE = "run: placement-manage db online_data_migrations"


@dataclass(frozen=True, slots=True)
class Findings:
    """The result of examining a database.

    ``objections`` prevent an upgrade or the start of the service, ``warnings`` do not. Each is a sentence that says
    what to do.
    """

    standings: tuple[positions.Standing, ...]
    objections: tuple[str, ...]
    warnings: tuple[str, ...]

    @property
    def pending(self) -> tuple[positions.Step, ...]:
        """The steps that an upgrade would run, in order; none if it would be refused."""
        if positions.upgrade_refusal_of(self.standings):
            return ()
        return tuple(step for standing in self.standings for step in standing.pending)

    @property
    def is_ready(self) -> bool:
        """Whether the service can start."""
        return not self.objections and all(standing.is_current for standing in self.standings)


def examine(engine: Engine) -> Findings:
    """Examine the database of *engine*, a writer's. If the account may not read all tables, report only that."""
    with engine.connect() as connection:
        if closed := dialect_of(engine.url).unwritable(connection):
            sentence = f"this account may not read and write {', '.join(closed)}"
            return Findings((), (f"{sentence}; grant it SELECT, INSERT, UPDATE and DELETE",), ())
    standings = positions.standings(engine)
    with engine.connect() as connection:
        return Findings(standings, tuple(_objections(connection, standings)), tuple(_warnings(connection, standings)))


def _objections(connection: Connection, standings: tuple[positions.Standing, ...]) -> Iterator[str]:
    dialect = dialect_of(connection.engine.url)
    if reason := dialect.refuses_writes(connection):
        yield f"nothing can be written here: {reason}"
    if refusal := positions.upgrade_refusal_of(standings):
        yield str(refusal)
    for standing in standings:
        yield from _lacking(connection, standing)
    if names := dialect.without_transactions(connection):
        yield f"tables without transactions: {', '.join(names)}; run for each: ALTER TABLE … ENGINE=InnoDB"
    yield from _data(connection)
    if any(standing.pending for standing in standings) and not dialect.may_define(connection):
        yield "this account may not change tables: have the statements of `stead db upgrade --sql` run by one that may"


def data_objections(engine: Engine) -> list[str]:
    """The rows that prevent an upgrade, in the words of the revisions that would refuse them."""
    with engine.connect() as connection:
        return list(_data(connection))


def _data(connection: Connection) -> Iterator[str]:
    if _has(connection, resource_providers) and online_migrations.has_providers_without_root(connection):
        yield f"there are resource providers without a root; {MIGRATE}"
    if _has(connection, allocations) and _has(connection, consumers):
        count = online_migrations.count_incomplete_consumers(connection)
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
    [chosen] = (each for each in histories.HISTORIES if each.name == history)
    engine = in_memory()
    try:
        with engine.begin() as connection:
            schema.bring(connection, chosen, revision)
            inspector = sa.inspect(connection)
            return {name: _Made.of(inspector, name) for name in inspector.get_table_names()}
    finally:
        engine.dispose()


def _lacking(connection: Connection, standing: positions.Standing) -> Iterator[str]:
    """Missing tables and columns that the database's present revision should have created."""
    if standing.revision is None or not standing.is_known:
        return
    inspector = sa.inspect(connection)
    there = set(inspector.get_table_names())
    by_whom = f"which revision {standing.revision} has made"
    if standing.history == histories.STEAD.name:
        by_whom += f". {positions.BEGIN_ANEW}"
    for name, made in sorted(_made_by(standing.history, standing.revision).items()):
        if name not in there:
            yield f"the table {name} is missing, {by_whom}"
        elif missing := made.columns - _Made.of(inspector, name).columns:
            yield f"{name} lacks the columns {', '.join(sorted(missing))}, {by_whom}"


def _lacking_keys(connection: Connection, standing: positions.Standing) -> Iterator[str]:
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


def _warnings(connection: Connection, standings: tuple[positions.Standing, ...]) -> Iterator[str]:
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
