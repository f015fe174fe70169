"""Statements that every refresh runs: compiled once, and then run at little more than what the driver itself takes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import orjson
import sqlalchemy as sa

from stead.store.sql import direct
from stead.store.sql.dialects import dialect_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from sqlalchemy.engine import Connection

    from stead.store.sql.dialects.base import Rows

_MARK = "/*ids*/"

IDS: sa.ColumnClause[int] = sa.literal_column(_MARK, sa.Integer)
"""Stands in an ``IN`` for the ids that a prepared statement is run with; they are written into it, as numbers."""


class _Compiled(NamedTuple):
    """A query for one kind of database, and, where that is better, one for all its rows at once.

    ``numbers`` are the columns that are null there if they have no text.
    """

    plain: sa.Compiled
    in_one_row: sa.Compiled | None
    numbers: Sequence[int]


class Prepared:
    """A query, compiled at its first run on each kind of database.

    Its parameters are numbers with a default, and it must give values that need no conversion.
    """

    def __init__(self, query: Rows, row: Callable[[Iterable[Any]], Any] = tuple) -> None:
        """Nothing is compiled yet.

        Args:
            row: makes of the values of a row what `rows` returns of it, such as ``_make`` of a named tuple.
        """
        self._query = query
        self._row = row
        self._compiled: dict[str, _Compiled] = {}

    def rows(
        self, connection: Connection, ids: Iterable[int] = (), values: Mapping[str, int] | None = None
    ) -> Sequence[Any]:
        """All rows of the query, run with these *ids* and the *values* of its other parameters."""
        name = connection.dialect.name
        compiled = self._compiled.get(name) or self._compiled.setdefault(name, self._compile(connection))
        among = ",".join(map(str, map(int, ids)))

        def run(statement: sa.Compiled) -> list[Any]:
            text = str(statement).replace(_MARK, among)
            return direct.rows(connection, text, self._arguments(statement, values or {}))

        if compiled.in_one_row is not None:
            rows: list[Any] = orjson.loads(run(compiled.in_one_row)[0][0])
            if not any(row[column] is None for column in compiled.numbers for row in rows):
                return list(map(self._row, rows))
        rows = run(compiled.plain)
        return rows if self._row is tuple else list(map(self._row, rows))

    def _compile(self, connection: Connection) -> _Compiled:
        dialect = dialect_of(connection.engine.url)
        whole = dialect.in_one_row(self._query)
        numbers = [
            place for place, column in enumerate(self._query.selected_columns) if isinstance(column.type, sa.Float)
        ]
        plain, in_one_row = (
            some if some is None else some.compile(dialect=connection.dialect, compile_kwargs=_NOTHING_LEFT_OPEN)
            for some in (self._query, whole)
        )
        assert plain is not None
        return _Compiled(plain, in_one_row, numbers)

    @staticmethod
    def _arguments(compiled: Any, values: Mapping[str, int]) -> Any:
        arguments = {**compiled.params, **values}
        return tuple([arguments[name] for name in compiled.positiontup]) if compiled.positional else arguments


_NOTHING_LEFT_OPEN = {"render_postcompile": True}
