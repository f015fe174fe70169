"""What a database is made of, so that two can be compared."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from tests.rooms.store.schema.test_schema import type_of


def layout(url: str) -> dict[str, Any]:
    """The deployment's tables: columns in order, keys, indexes and constraints, and options where there are any."""
    engine = sa.create_engine(url, poolclass=sa.NullPool)
    inspector = sa.inspect(engine)
    names = [name for name in inspector.get_table_names() if not name.startswith("stead_")]
    return {name: _table(inspector, name) for name in names}


def whole_layout(url: str) -> dict[str, Any]:
    """That of all tables, Stead's own among them."""
    with sa.create_engine(url, poolclass=sa.NullPool).connect() as connection:
        inspector = sa.inspect(connection)
        return {name: _table(inspector, name) for name in inspector.get_table_names()}


def rows(url: str) -> dict[str, list[tuple[Any, ...]]]:
    """What is in all tables."""
    with sa.create_engine(url, poolclass=sa.NullPool).connect() as connection:
        return {
            name: sorted((tuple(row) for row in connection.execute(sa.text(f"SELECT * FROM {name}"))), key=repr)
            for name in sa.inspect(connection).get_table_names()
        }


def own_tables(url: str) -> list[str]:
    """The names of Stead's own tables."""
    names = sa.inspect(sa.create_engine(url, poolclass=sa.NullPool)).get_table_names()
    return [name for name in names if name.startswith("stead_")]


def _table(inspector: sa.Inspector, name: str) -> dict[str, Any]:
    try:
        options: Any = inspector.get_table_options(name)
    except NotImplementedError:
        options = None
    key = inspector.get_pk_constraint(name)
    return {
        "columns": [
            (one["name"], type_of(one), one["nullable"], one["default"], one.get("autoincrement"))
            for one in inspector.get_columns(name)
        ],
        "key": (key["name"], key["constrained_columns"]),
        "indexes": sorted((one["name"], one["column_names"], one["unique"]) for one in inspector.get_indexes(name)),
        "unique": sorted((one["name"], one["column_names"]) for one in inspector.get_unique_constraints(name)),
        "foreign": sorted(
            (one["name"] or "", one["constrained_columns"], one["referred_table"], one["referred_columns"])
            for one in inspector.get_foreign_keys(name)
        ),
        # The next number of a counter is no matter of the layout.
        "options": {key: value for key, value in (options or {}).items() if "auto_increment" not in key.lower()},
    }
