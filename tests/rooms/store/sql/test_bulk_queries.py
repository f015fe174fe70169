"""Rows come as they are in the database, whichever way they are fetched."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import sqlalchemy as sa
from hypothesis import given, settings
from hypothesis import strategies as st

from stead.store.sql import statements
from stead.store.sql.statements import BulkQuery
from tests.selection import examples

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sqlalchemy.engine import Connection

table = sa.Table(
    "things",
    sa.MetaData(),
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("name", sa.String(50)),
    sa.Column("ratio", sa.Float),
)
EVERYTHING = BulkQuery(sa.select(table.c.id, table.c.name, table.c.ratio).order_by(table.c.id.desc()))


@pytest.fixture(scope="module")
def connection() -> Iterator[Connection]:
    engine = sa.create_engine("sqlite://")
    with engine.connect() as connection:
        table.create(connection)
        yield connection
    engine.dispose()


numbers = st.integers(-(2**63), 2**63 - 1)
texts = st.one_of(st.none(), st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=5))
ratios = st.one_of(
    st.none(), st.sampled_from([0.1, 1.0, 16.0, 1 / 3, 0.1 + 0.2]), st.floats(allow_nan=False, allow_infinity=False)
)


@settings(max_examples=examples(300), deadline=None)
@given(st.lists(st.tuples(numbers, texts, ratios), max_size=5, unique_by=lambda row: row[0]))
def test_sqlite_gives_all_rows_at_once_and_exactly(
    connection: Connection, rows: Sequence[tuple[int, str | None, float | None]]
) -> None:
    connection.execute(sa.delete(table))
    if rows:
        connection.execute(sa.insert(table), [dict(zip(("id", "name", "ratio"), row, strict=True)) for row in rows])
    assert list(EVERYTHING.rows(connection)) == sorted(rows, reverse=True)


def test_many_rows_of_sqlite_are_one_for_the_driver(connection: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    """The driver lets go of the interpreter for each, and gets it back only when a busy thread has had its turn."""
    connection.execute(sa.delete(table))
    connection.execute(sa.insert(table), [{"id": n, "name": str(n), "ratio": 1.5} for n in range(100)])
    fetched = []

    def rows(*arguments: object) -> list[object]:
        fetched.append(len(portion := plainly(*arguments)))
        return portion

    plainly = statements.rows
    monkeypatch.setattr(statements, "rows", rows)
    assert len(EVERYTHING.rows(connection)) == 100
    assert fetched == [1]
