"""Statements that every refresh runs: compiled once, and then run at little more than what the driver itself takes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from stead.store import direct

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from sqlalchemy.engine import Connection

_MARK = "/*ids*/"

IDS: sa.ColumnClause[int] = sa.literal_column(_MARK, sa.Integer)
"""Stands in an ``IN`` for the ids that a prepared statement is run with; they are written into it, as numbers."""


class Prepared:
    """A query, compiled at its first run on each kind of database.

    Its parameters are numbers with a default, and it must give values that need no conversion.
    """

    def __init__(self, query: sa.Select[*tuple[Any, ...]] | sa.CompoundSelect[*tuple[Any, ...]]) -> None:
        self._query = query
        self._compiled: dict[str, sa.Compiled] = {}

    def rows(
        self, connection: Connection, ids: Iterable[int] = (), values: Mapping[str, int] | None = None
    ) -> Sequence[Any]:
        """All rows of the query, run with these *ids* and the *values* of its other parameters."""
        dialect = connection.dialect
        compiled = self._compiled.get(dialect.name)
        if compiled is None:
            compiled = self._query.compile(dialect=dialect, compile_kwargs={"render_postcompile": True})
            self._compiled[dialect.name] = compiled
        text = str(compiled).replace(_MARK, ",".join(map(str, map(int, ids))))
        return direct.rows(connection, text, self._arguments(compiled, values or {}))

    @staticmethod
    def _arguments(compiled: Any, values: Mapping[str, int]) -> Any:
        arguments = {**compiled.params, **values}
        return tuple([arguments[name] for name in compiled.positiontup]) if compiled.positional else arguments
