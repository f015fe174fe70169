"""Statements about many rows: one for each portion of a thousand of them, compiled once and run with little ceremony.

A claim runs the same dozen statements every time. They are compiled at their first run on each kind of database; a run
then only repeats what stands for one row as often as there are rows, and hands the values to the driver.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from stead.store.sql import direct
from stead.store.sql.dialects import MANY

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from sqlalchemy.engine import Connection

    from stead.store.sql.dialects import Dialect

_MARK = re.compile(r"/\*:(\w*)\*/")
_VALUES = " VALUES ("


def value(name: str) -> sa.ColumnClause[Any]:
    """Stands in a statement for the value of that name."""
    return sa.literal_column(f"/*:{name}*/")


LISTED: sa.ColumnClause[Any] = value("")
"""Stands in an ``IN`` for the values of a portion."""


class _Text:
    """A compiled statement in pieces, and how its values are converted for the driver."""

    def __init__(self, statement: sa.ClauseElement, connection: Connection, columns: Iterable[Any] = ()) -> None:
        compiled = statement.compile(dialect=connection.dialect)
        if compiled.params:
            raise TypeError(f"values that are not left open: {compiled.params}")
        self.whole = str(compiled)
        self.marker = "?" if connection.dialect.paramstyle == "qmark" else "%s"
        self._conversions: dict[str, Callable[[Any], Any]] = {}
        for column in columns:
            conversion = column.type.dialect_impl(connection.dialect).bind_processor(connection.dialect)
            if conversion is not None:
                self._conversions[column.name] = conversion

    def converted(self, name: str, given: Any) -> Any:
        """A value of the column *name* as the driver takes it."""
        conversion = self._conversions.get(name)
        return given if conversion is None else conversion(given)

    def markers(self, count: int) -> str:
        """So many values, as they stand in an ``IN``."""
        return ", ".join([self.marker] * count)


class Piece:
    """A part of a statement, for who puts statements together; its values are given in the order of its text."""

    def __init__(self, part: sa.ClauseElement) -> None:
        """Nothing is compiled yet; its values are all left open."""
        self._part = part
        self._texts: dict[str, str] = {}

    def text(self, connection: Connection) -> str:
        """As the driver wants it."""
        name = connection.dialect.name
        if name not in self._texts:
            text = _Text(self._part, connection)
            self._texts[name] = _MARK.sub(text.marker, text.whole)
        return self._texts[name]


class Statement:
    """An UPDATE that is run again and again with other numbers."""

    def __init__(self, statement: sa.ClauseElement) -> None:
        """Nothing is compiled yet; its values are all left open."""
        self._statement = statement
        self._texts: dict[str, tuple[str, list[str]]] = {}

    def cursor(self, connection: Connection, **values: int) -> Any:
        """The driver's cursor after it was run with these values."""
        name = connection.dialect.name
        if name not in self._texts:
            text = _Text(self._statement, connection)
            self._texts[name] = _MARK.sub(text.marker, text.whole), _MARK.findall(text.whole)
        whole, names = self._texts[name]
        return direct.run(connection, whole, tuple([values[one] for one in names]))


class Query:
    """A SELECT with ``IN`` (:data:`LISTED`), which must give values that need no conversion."""

    def __init__(self, query: sa.Select[*tuple[Any, ...]]) -> None:
        self._query = query
        self._texts: dict[str, _Text] = {}

    def rows(self, connection: Connection, values: Collection[Any]) -> list[Any]:
        """All rows, for values in any number; portions are asked in the order of *values*."""
        if not values:
            return []
        text = self._texts.get(connection.dialect.name)
        if text is None:
            text = self._texts[connection.dialect.name] = _Text(self._query, connection)
        found: list[Any] = []
        for some in _portions(values):
            asked = _MARK.sub(text.markers(len(some)), text.whole)
            found += direct.rows(connection, asked, some)
        return found


class Insert:
    """An INSERT of rows, which may overwrite or pass over those that exist."""

    def __init__(
        self, table: sa.Table, *columns: str, changing: Sequence[str] = (), unless: str | None = None, **made: Any
    ) -> None:
        """Nothing is compiled yet.

        Args:
            columns: whose values rows have.
            changing: columns that are overwritten where the primary key exists; none, if it must not.
            unless: a column; rows whose value in it exists are passed over.
            made: columns whose values are expressions over other :func:`value`.
        """
        self._table, self._changing, self._unless = table, changing, unless
        self._values = {**{name: value(name) for name in columns}, **made}
        self._texts: dict[str, tuple[_Text, str, str, str, list[str]]] = {}

    def run(self, connection: Connection, dialect: Dialect, rows: Collection[Mapping[str, Any]]) -> None:
        """Insert *rows*, by column, in their order."""
        if not rows:
            return
        key = connection.dialect.name
        if key not in self._texts:
            self._texts[key] = self._compiled(connection, dialect)
        text, head, group, tail, names = self._texts[key]
        for some in _portions(rows):
            whole = head + ", ".join([group] * len(some)) + tail
            arguments = tuple([text.converted(name, row[name]) for row in some for name in names])
            direct.count(connection, whole, arguments)

    def _compiled(self, connection: Connection, dialect: Dialect) -> tuple[_Text, str, str, str, list[str]]:
        text = _Text(self._insert(dialect).values(self._values), connection, self._table.columns)
        start = text.whole.index(_VALUES) + len(_VALUES) - 1
        end = _end_of_brackets(text.whole, start)
        group = text.whole[start:end]
        return text, text.whole[:start], _MARK.sub(text.marker, group), text.whole[end:], _MARK.findall(group)

    def _insert(self, dialect: Dialect) -> sa.Insert:
        if self._unless is not None:
            return dialect.insert_missing(self._table, self._unless)
        return dialect.upsert(self._table, self._changing) if self._changing else sa.insert(self._table)


def _end_of_brackets(text: str, start: int) -> int:
    depth = 0
    for place in range(start, len(text)):
        depth += {"(": 1, ")": -1}.get(text[place], 0)
        if depth == 0:
            return place + 1
    raise ValueError(f"a bracket is not closed: {text}")


class Swap:
    """An UPDATE or DELETE of rows that still are what was read: compare-and-swap by an id and a generation."""

    def __init__(self, statement: sa.Update | sa.Delete, id_: str = "id") -> None:
        """Nothing is compiled yet.

        Args:
            statement: without a condition; what it sets are expressions over :func:`value`.
            id_: the column that is compared beside ``generation``.
        """
        self._table = statement.table
        # The list of ids finds the rows by primary key, which not every database does by pairs.
        listed = self._table.columns[id_].in_([LISTED])
        self._statement = statement.where(listed, sa.literal_column(f"({id_}, generation) IN (/*:pairs*/)", sa.Boolean))
        self._texts: dict[str, _Text] = {}

    def run(self, connection: Connection, generations: Mapping[int, int], **values: Any) -> int:
        """Change those of the rows with these ids that are at their generation; returns how many these are.

        Args:
            generations: by id.
            values: what the statement leaves open, alike for all rows.
        """
        return sum(self._portions(connection, generations, values))

    def _portions(
        self, connection: Connection, generations: Mapping[int, int], values: Mapping[str, Any]
    ) -> Iterator[int]:
        dialect = connection.dialect
        text = self._texts.get(dialect.name)
        if text is None:
            text = self._texts[dialect.name] = _Text(self._statement, connection, self._table.columns)
        pair = f"({text.marker}, {text.marker})"
        for some in _portions(sorted(generations.items())):
            pairs = ", ".join([pair] * len(some))
            filled = {
                "": (text.markers(len(some)), [id_ for id_, _ in some]),
                # As a table, where the dialect says that it takes pairs in no other way.
                "pairs": (
                    f"VALUES {pairs}" if dialect.tuple_in_values else pairs,
                    [part for one in some for part in one],
                ),
            }
            for name, given in values.items():
                filled[name] = text.marker, [text.converted(name, given)]
            names = _MARK.findall(text.whole)
            whole = _MARK.sub(lambda mark, filled=filled: filled[mark[1]][0], text.whole)  # type: ignore[misc]  # a default binds it
            arguments = tuple([argument for name in names for argument in filled[name][1]])
            yield direct.count(connection, whole, arguments)


def _portions(values: Collection[Any]) -> Iterator[tuple[Any, ...]]:
    every = tuple(values)
    for start in range(0, len(every), MANY):
        yield every[start : start + MANY]
