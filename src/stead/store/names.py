"""Names that are created once and never deleted: projects, users, consumer types, aggregates; and the standard names.

Short transactions of their own create them before the write that needs them. So the write holds no lock on them, and
their ids cannot change during the write.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from stead.domain.errors import IndistinctName
from stead.domain.names import STANDARD_RESOURCE_CLASSES, STANDARD_TRAITS
from stead.store.protocol.clock import class_change, trait_change
from stead.store.sql.statements import Insert, Scalars, in_portions, value
from stead.store.tables import (
    allocations,
    consumer_types,
    consumers,
    placement_aggregates,
    projects,
    resource_classes,
    traits,
    users,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from stead.store.protocol.store import Store, Transaction


PROJECT, USER, CONSUMER_TYPE = projects.c.external_id, users.c.external_id, consumer_types.c.name
AGGREGATE = placement_aggregates.c.uuid


def project_ids(store: Store, names: Collection[str]) -> dict[str, int]:
    """Ids of projects by their external id; creates missing ones.

    Raises:
        IndistinctName: the database has another spelling, and treats both as equal. Likewise the two functions below.
    """
    return _ensure(store, PROJECT, names)


def user_ids(store: Store, names: Collection[str]) -> dict[str, int]:
    """Ids of users by their external id; creates missing ones."""
    return _ensure(store, USER, names)


def consumer_type_ids(store: Store, names: Collection[str]) -> dict[str, int]:
    """Ids of consumer types by name; creates missing ones."""
    return _ensure(store, CONSUMER_TYPE, names)


def aggregate_ids(store: Store, uuids: Collection[str]) -> dict[str, int]:
    """Ids of aggregates by uuid; creates missing ones."""
    return _ensure(store, AGGREGATE, uuids)


ColumnAndName = tuple["sa.Column[Any]", str]
"""A name, and the column to search for it."""


def find(connection: sa.Connection, column_names: Sequence[ColumnAndName]) -> list[int | None]:
    """The ids of names, in the order of *column_names*; None for a name that is not stored in exactly this spelling."""
    return find_with_consumers(connection, column_names, ())[0]


def find_with_consumers(
    connection: sa.Connection, column_names: Sequence[ColumnAndName], uuids: Sequence[str]
) -> tuple[list[int | None], set[str], set[str]]:
    """`find`, and in the same statement those of *uuids* that are a consumer's, and the others that have allocations.

    Both are in any spelling.
    """
    stored = _STORED.of(connection, [*column_names, *((consumers.c.uuid, uuid) for uuid in uuids)])
    ids = [_id_if_exact(row, name) for row, (_, name) in zip(stored, column_names, strict=False)]
    rows = dict(zip(uuids, stored[len(column_names) :], strict=True))
    orphaned = {uuid for uuid, row in rows.items() if row == _ORPHANED}
    return ids, {uuid for uuid, row in rows.items() if row is not None} - orphaned, orphaned


def ids_of_owners(
    connection: sa.Connection, project: str | None, user: str | None, consumer_type: str | None
) -> dict[str, int] | None:
    """The ids of a project, a user and a consumer type, by the column of ``consumers`` that refers to them.

    Those that are None are left out. Returns None if one is not stored in exactly this spelling, since then no consumer
    has it.
    """
    given = (
        ("project_id", PROJECT, project),
        ("user_id", USER, user),
        ("consumer_type_id", CONSUMER_TYPE, consumer_type),
    )
    column_names = {key: (column, name) for key, column, name in given if name is not None}
    ids = {
        key: id_
        for key, id_ in zip(column_names, find(connection, list(column_names.values())), strict=True)
        if id_ is not None
    }
    return ids if len(ids) == len(column_names) else None


def _id_if_exact(row: str | None, name: str) -> int | None:
    """The id in *row*, which is ``ID:NAME``; None if the database's collation found another spelling of *name*."""
    id_, _, stored = (row or "").partition(":")
    return int(id_) if row is not None and stored == name else None


_ORPHANED = ""
"""Instead of ``ID:NAME``: there is no consumer, and yet it has allocations."""


def _stored(column: sa.Column[Any]) -> sa.ScalarSelect[Any]:
    # A plain comparison uses the index; the caller compares the spelling.
    text = sa.cast(column.table.c.id, sa.String(20)) + sa.literal_column("':'", sa.String) + column
    return sa.select(text).where(column == value("name")).scalar_subquery()


_without_consumer = (
    sa.select(sa.literal_column(f"'{_ORPHANED}'", sa.String))
    .where(allocations.c.consumer_id == value("name"))
    .limit(sa.literal_column("1"))
    .scalar_subquery()
)
_STORED = Scalars(
    {
        **{column: _stored(column) for column in (PROJECT, USER, CONSUMER_TYPE)},
        consumers.c.uuid: sa.func.coalesce(_stored(consumers.c.uuid), _without_consumer),
    }
)


def _ensure(store: Store, column: sa.Column[Any], names: Collection[str]) -> dict[str, int]:
    ids = store.read(_find, column, names)
    return ids if len(ids) == len(set(names)) else store.write(_make, column, names)


def _find(connection: sa.Connection, column: sa.Column[Any], names: Collection[str]) -> dict[str, int]:
    """Ids of the existing *names*: of aggregates in any spelling, of all others in exactly this spelling."""
    query = sa.select(column.label("name"), column.table.c.id)
    rows = {
        row.name: row.id
        for portion in in_portions(sorted(set(names)))
        for row in connection.execute(query.where(column.in_(portion)))
    }
    if column is AGGREGATE:
        # A case-insensitive collation may have stored a UUID in another spelling: the query above found it then. Names
        # that surely differ from all that were found cost no statement each.
        spellings = {_comparable(name) for name in rows}
        for name in set(names) - set(rows):
            may_be_same = None in spellings or _comparable(name) in {None, *spellings}
            same = _stored_as(connection, column, name) if rows and may_be_same else None
            if same:
                rows[name] = same.id
    return {name: rows[name] for name in names if name in rows}


def _comparable(name: str) -> str | None:
    """Equal for all spellings that a collation may take for the same; None if that is hard to say: of accents, spaces
    at the end, and others that no UUID has.
    """
    return name.lower() if _PLAIN.fullmatch(name) else None


_PLAIN = re.compile("[0-9A-Za-z-]+")


def _stored_as(connection: sa.Connection, column: sa.Column[Any], name: str) -> sa.Row[Any, Any] | None:
    """The name and id of the row that the database finds for *name*, in any spelling."""
    return connection.execute(sa.select(column.label("name"), column.table.c.id).where(column == name)).first()


def _make(tx: Transaction, column: sa.Column[Any], names: Collection[str]) -> dict[str, int]:
    present = _find(tx.connection, column, names)
    # In one order, so that two writers that create the same names cannot deadlock.
    rows = [{column.name: name, "created_at": tx.now} for name in sorted(set(names) - set(present))]
    _MAKE[column].run(tx.connection, rows)
    # Read after the INSERT, which skips names that another process has created meanwhile.
    ids = _find(tx.connection, column, names)
    for name in sorted(set(names) - set(ids)):
        same = _stored_as(tx.connection, column, name)
        if same:
            raise IndistinctName(_KIND[column], name, same.name)
    return ids


_KIND = {PROJECT: "project", USER: "user", CONSUMER_TYPE: "consumer type", AGGREGATE: "aggregate"}


_MAKE = {
    column: Insert(column.table, column.name, "created_at", unless=column.name)
    for column in (PROJECT, USER, CONSUMER_TYPE, AGGREGATE)
}


def sync_standard(tx: Transaction) -> None:
    """Insert the libraries' standard traits and resource classes that the database lacks."""
    known_traits = set(tx.connection.scalars(sa.select(traits.c.name)))
    new_traits = sorted(STANDARD_TRAITS - known_traits)
    if new_traits:
        tx.connection.execute(sa.insert(traits), [{"name": name, "created_at": tx.now} for name in new_traits])
        for portion in in_portions(new_traits):
            tx.touch(map(trait_change, tx.connection.scalars(sa.select(traits.c.id).where(traits.c.name.in_(portion)))))
    known_classes = set(tx.connection.scalars(sa.select(resource_classes.c.name)))
    new_classes = {id_: name for id_, name in enumerate(STANDARD_RESOURCE_CLASSES) if name not in known_classes}
    if new_classes:
        rows = [{"id": id_, "name": name, "created_at": tx.now} for id_, name in new_classes.items()]
        tx.connection.execute(sa.insert(resource_classes), rows)
        tx.touch(map(class_change, new_classes))
