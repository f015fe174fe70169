"""What revisions do, each so that it can be done again over whatever part of it was done before.

A database that commits with every statement that changes tables may keep the half of an upgrade that was killed, and
the table that says where it stands may be lost beside those it speaks of. So what is there is left as it is, and what
is missing is made. Where statements are only written, what is there is looked for in the database they are for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from alembic import op

if TYPE_CHECKING:
    from collections.abc import Sequence

FOR = "stead_for"
"""Option of a context that only writes statements: a connection to the database that they are for."""

_WRITTEN = "stead_written"
"""Option in which a context that only writes statements notes the indexes that they make."""


def create_table(name: str, *parts: sa.schema.SchemaItem, **options: Any) -> sa.Table:
    """Make a table; one that is there is left as it is."""
    inspector = _inspector()
    if inspector is not None and inspector.has_table(name):
        return sa.Table(name, sa.MetaData(), *parts)
    return op.create_table(name, *parts, **options)


def create_index(name: str, table: str, columns: Sequence[str]) -> None:
    """Make an index that refuses nothing, unless it is there."""
    if not has_index(table, name):
        op.create_index(name, table, columns)
        _written().add(name)


def drop_index(name: str, table: str) -> None:
    """Drop an index if it is there."""
    if has_index(table, name):
        op.drop_index(name, table)


def add_column(table: str, column: sa.Column[Any]) -> None:
    """Add a column to a table, unless it is there."""
    if not has_column(table, column.name):
        op.add_column(table, column)


def insert(table: sa.Table, rows: Sequence[dict[str, Any]]) -> None:
    """Insert rows, but for those whose primary key is there."""
    keys = [column.name for column in table.primary_key]
    there = set()
    connection, inspector = _connection(), _inspector()
    if connection is not None and inspector is not None and inspector.has_table(table.name):
        there = {tuple(row) for row in connection.execute(sa.select(*table.primary_key))}
    missing = [row for row in rows if tuple(row[key] for key in keys) not in there]
    if missing:
        op.bulk_insert(table, missing)


def has_column(table: str, name: str) -> bool:
    """Whether the table is there and has this column."""
    return name in _names(table, "get_columns")


def has_index(table: str, name: str) -> bool:
    """Whether the table is there and has this index, or a statement that was written makes it."""
    return name in _names(table, "get_indexes") or name in _written()


def has_foreign_key(table: str, name: str) -> bool:
    """Whether the table is there and has this foreign key."""
    return name in _names(table, "get_foreign_keys")


def _names(table: str, kind: str) -> set[str]:
    inspector = _inspector()
    if inspector is None or not inspector.has_table(table):
        return set()
    return {part["name"] for part in getattr(inspector, kind)(table)}


def _inspector() -> sa.Inspector | None:
    """A look at the tables as they are now; None where there is no database to look at."""
    connection = _connection()
    return None if connection is None else sa.inspect(connection)


def _connection() -> sa.Connection | None:
    context = op.get_context()
    found: sa.Connection | None = context.opts.get(FOR) if context.as_sql else context.connection
    return found


def _written() -> set[str]:
    context = op.get_context()
    written: set[str] = context.opts.setdefault(_WRITTEN, set()) if context.as_sql else set()
    return written
