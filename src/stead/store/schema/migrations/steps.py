"""The operations of revisions. Each can be repeated after an interrupted run.

Some databases commit each statement that changes tables, so that a killed upgrade may leave a part of its changes. The
version table may also be lost while other tables exist. So each operation skips what exists and creates what is
missing. If statements are only written, the check reads the database that they are for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from alembic import op

if TYPE_CHECKING:
    from collections.abc import Sequence

FOR = "stead_for"
"""Option of a context that only writes statements: a connection to the target database."""

_WRITTEN = "stead_written"
"""Option in which a context that only writes statements records the indexes that they create."""


def create_table(name: str, *parts: sa.schema.SchemaItem, **options: Any) -> sa.Table:
    """Create a table unless it exists."""
    inspector = _inspector()
    if inspector is not None and inspector.has_table(name):
        return sa.Table(name, sa.MetaData(), *parts)
    return op.create_table(name, *parts, **options)


def create_index(name: str, table: str, columns: Sequence[str]) -> None:
    """Create a non-unique index unless it exists."""
    if not has_index(table, name):
        op.create_index(name, table, columns)
        _written().add(name)


def drop_index(name: str, table: str) -> None:
    """Drop an index if it exists."""
    if has_index(table, name):
        op.drop_index(name, table)


def add_column(table: str, column: sa.Column[Any]) -> None:
    """Add a column to a table unless it exists."""
    if not has_column(table, column.name):
        op.add_column(table, column)


def insert(table: sa.Table, rows: Sequence[dict[str, Any]]) -> None:
    """Insert rows except those whose primary key exists."""
    keys = [column.name for column in table.primary_key]
    there = set()
    connection, inspector = _connection(), _inspector()
    if connection is not None and inspector is not None and inspector.has_table(table.name):
        there = {tuple(row) for row in connection.execute(sa.select(*table.primary_key))}
    missing = [row for row in rows if tuple(row[key] for key in keys) not in there]
    if missing:
        op.bulk_insert(table, missing)


def has_column(table: str, name: str) -> bool:
    """Whether the table exists and has this column."""
    return name in _names(table, "get_columns")


def has_index(table: str, name: str) -> bool:
    """Whether the table exists and has this index, or a statement that was written creates it."""
    return name in _names(table, "get_indexes") or name in _written()


def has_foreign_key(table: str, name: str) -> bool:
    """Whether the table exists and has this foreign key."""
    return name in _names(table, "get_foreign_keys")


def _names(table: str, kind: str) -> set[str]:
    inspector = _inspector()
    if inspector is None or not inspector.has_table(table):
        return set()
    return {part["name"] for part in getattr(inspector, kind)(table)}


def _inspector() -> sa.Inspector | None:
    """An inspector of the present tables; None without a database."""
    connection = _connection()
    return None if connection is None else sa.inspect(connection)


def _connection() -> sa.Connection | None:
    context = op.get_context()
    connection: sa.Connection | None = context.opts.get(FOR) if context.as_sql else context.connection
    return connection


def _written() -> set[str]:
    context = op.get_context()
    written: set[str] = context.opts.setdefault(_WRITTEN, set()) if context.as_sql else set()
    return written
