"""Frequent statements: compiled once for each kind of database, and then passed to the driver as text.

A claim always runs the same dozen statements, and a refresh reads some hundred thousand rows. SQLAlchemy's processing
of a statement, and of each row, would take longer than the statement itself.

A statement has placeholders, which are marks in its text: :func:`value` for one value, :data:`LISTED` and :data:`IDS`
for the values of an ``IN``. A run repeats the mark for each value. More than a thousand values are queried in portions.

Source: docs/decisions/0023-statements-past-the-compiler.md.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import orjson
import sqlalchemy as sa

from stead.store.sql.dialects import MANY, dialect_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from sqlalchemy.engine import Connection

    from stead.store.sql.dialects.base import Rows


_MARK = re.compile(r"/\*:(\w+)\*/")
_LISTED, _IDS, _PAIRS, _ROWS = "in", "ids", "pairs", "rows"
"""Names of marks for several values each; all other marks stand for one value."""

_FEW = 16
"""Texts for up to this number of values are cached: nearly all statements of a claim have few."""


def _mark(name: str) -> str:
    return f"/*:{name}*/"


def value(name: str) -> sa.ColumnClause[Any]:
    """A placeholder for the value of that name."""
    return sa.literal_column(_mark(name))


LISTED: sa.ColumnClause[Any] = value(_LISTED)
"""A placeholder in an ``IN`` for the values of a portion."""

IDS: sa.ColumnClause[int] = sa.literal_column(_mark(_IDS), sa.Integer)
"""Like :data:`LISTED`, for hundreds of ids: the numbers are written into the text, which is faster for drivers."""


def in_portions(values: Collection[Any]) -> Iterator[tuple[Any, ...]]:
    """*values* in portions short enough for one ``IN (…)``."""
    every = tuple(values)
    for start in range(0, len(every), MANY):
        yield every[start : start + MANY]


class _Text:
    """A compiled statement, split at its marks, and the conversion of its values for the driver."""

    def __init__(self, statement: sa.ClauseElement, connection: Connection, columns: Iterable[Any] = ()) -> None:
        self.dialect = dialect_of(connection.engine.url)
        # Constants are written into the text, so that the marks are the only placeholders.
        compiled = statement.compile(dialect=connection.dialect, compile_kwargs={"literal_binds": True})
        if compiled.params:
            raise TypeError(f"values that are not left open: {compiled.params}")
        self._cut(str(compiled))
        self._group = ""
        self._conversions: dict[str, Callable[[Any], Any]] = {}
        for column in columns:
            conversion = column.type.dialect_impl(connection.dialect).bind_processor(connection.dialect)
            if conversion is not None:
                self._conversions[column.name] = conversion

    def _cut(self, text: str) -> None:
        pieces = _MARK.split(text)
        self._pieces, self.names = pieces[::2], pieces[1::2]
        self._kept: dict[int, str] = {}

    def repeat_values(self) -> list[str]:
        """Prepare the row after ``VALUES`` for repetition by a run; returns the names of its marks."""
        marks = [*map(_mark, self.names), ""]
        whole = "".join([piece + mark for piece, mark in zip(self._pieces, marks, strict=True)])
        start = whole.index(_VALUES) + len(_VALUES) - 1
        end = _end_of_brackets(whole, start)
        row = whole[start:end]
        self._group = _MARK.sub(self.dialect.marker, row)
        self._cut(f"{whole[:start]}{_mark(_ROWS)}{whole[end:]}")
        return _MARK.findall(row)

    def conversion(self, name: str) -> Callable[[Any], Any] | None:
        """Converts a value of the column *name* into the form that the driver accepts; None if it is in that form."""
        return self._conversions.get(name)

    def converted(self, name: str, given: Any) -> Any:
        """A value of the column *name* in the form that the driver accepts."""
        conversion = self._conversions.get(name)
        return given if conversion is None else conversion(given)

    def of(self, count: int = 1) -> str:
        """The text with *count* values, or rows, for marks that stand for several."""
        text = self._kept.get(count)
        if text is None:
            text = self._written(count)
            if count <= _FEW:
                self._kept[count] = text
        return text

    def _written(self, count: int) -> str:
        marker = self.dialect.marker
        several = {
            _LISTED: ", ".join([marker] * count),
            _IDS: _mark(_IDS),  # each run replaces it
            _PAIRS: self.dialect.listed_pairs(", ".join([f"({marker}, {marker})"] * count)),
            _ROWS: ", ".join([self._group] * count),
        }
        parts = self._pieces[:1]
        for name, piece in zip(self.names, self._pieces[1:], strict=True):
            parts += [several.get(name, marker), piece]
        return "".join(parts)


_VALUES = " VALUES ("


def _end_of_brackets(text: str, start: int) -> int:
    depth = 0
    for place in range(start, len(text)):
        depth += {"(": 1, ")": -1}.get(text[place], 0)
        if depth == 0:
            return place + 1
    raise ValueError(f"a bracket is not closed: {text}")


class _Statement:
    """A statement that is compiled at its first run on each kind of database."""

    def __init__(self) -> None:
        self._texts: dict[str, _Text] = {}

    def _text(self, connection: Connection) -> _Text:
        name = connection.dialect.name
        # Threads that compile at the same time all get the first text.
        return self._texts.get(name) or self._texts.setdefault(name, self._compiled(connection))

    def _compiled(self, connection: Connection) -> _Text:
        raise NotImplementedError  # each subclass has its own


class Query(_Statement):
    """A SELECT whose values need no conversion. It has at most one ``IN`` with open values."""

    def __init__(self, query: Rows, row: Callable[[Iterable[Any]], Any] = tuple) -> None:
        """Compile nothing yet.

        Args:
            row: converts the values of a row into an item of `rows`, such as ``_make`` of a named tuple.
        """
        super().__init__()
        self._query = query
        self._row = row

    def rows(self, connection: Connection, listed: Collection[Any] = (), /, **values: Any) -> list[Any]:
        """All rows.

        Args:
            listed: the values of the ``IN``, any number; queried in portions, in order. No values give no rows.
            values: the values of the marks for one value.
        """
        text = self._text(connection)
        if _LISTED not in text.names and _IDS not in text.names:
            return self._made(self._fetched(connection, text, (), values))
        portions = in_portions(listed)
        return self._made([row for portion in portions for row in self._fetched(connection, text, portion, values)])

    def _made(self, rows: list[Any]) -> list[Any]:
        return rows if self._row is tuple else list(map(self._row, rows))

    def _fetched(
        self, connection: Connection, text: _Text, listed: Sequence[Any], values: Mapping[str, Any]
    ) -> list[Any]:
        written = text.of(len(listed))
        arguments: list[Any] = []
        for name in text.names:
            if name == _LISTED:
                arguments += listed
            elif name == _IDS:
                # int() admits only digits into the text.
                written = written.replace(_mark(_IDS), ",".join(map(str, map(int, listed))))
            else:
                arguments.append(values[name])
        return rows(connection, written, tuple(arguments))

    def _compiled(self, connection: Connection) -> _Text:
        return _Text(self._query, connection)


class BulkQuery(Query):
    """A SELECT of many rows, as for a refresh: returns them in one row if the driver takes long for each row."""

    def __init__(self, query: Rows, row: Callable[[Iterable[Any]], Any] = tuple) -> None:
        super().__init__(query, row)
        self._in_one_row: dict[str, _Text | None] = {}
        self._in_columns: dict[str, _Text] = {}
        # Columns that are null in JSON if a number has no exact text.
        self._numbers = [
            place for place, column in enumerate(query.selected_columns) if isinstance(column.type, sa.Float)
        ]

    def columns(self, connection: Connection, **values: Any) -> list[list[Any]]:
        """The values of each column, in any order of the rows. For thousands of rows, this is the fastest way."""
        name = connection.dialect.name
        text = self._in_columns.get(name) or self._in_columns.setdefault(name, self._compiled_in_columns(connection))
        [(number, *arrays)] = super()._fetched(connection, text, (), values)
        if not number:
            return [[] for _ in arrays]
        # The database may have truncated an array, or left out one that is too long.
        if all(array is not None and len(array) < text.dialect.longest_joined for array in arrays):
            columns = [orjson.loads(array) for array in arrays]
            if not any(None in columns[place] for place in self._numbers):
                for place in self._numbers:
                    columns[place] = list(map(float, columns[place]))
                return columns
        rows = super()._fetched(connection, self._text(connection), (), values)
        return list(map(list, zip(*rows, strict=True)))

    def _compiled_in_columns(self, connection: Connection) -> _Text:
        rows, dialect = self._query.subquery(), dialect_of(connection.engine.url)
        return _Text(sa.select(sa.func.count(), *map(dialect.json_array, rows.c)).select_from(rows), connection)

    def _fetched(
        self, connection: Connection, text: _Text, listed: Sequence[Any], values: Mapping[str, Any]
    ) -> list[Any]:
        in_one_row = self._text_in_one_row(connection, text)
        if in_one_row is not None:
            rows: list[Any] = orjson.loads(super()._fetched(connection, in_one_row, listed, values)[0][0])
            if not any(row[column] is None for column in self._numbers for row in rows):
                return list(map(tuple, rows)) if self._row is tuple else rows
        return super()._fetched(connection, text, listed, values)

    def _text_in_one_row(self, connection: Connection, text: _Text) -> _Text | None:
        name = connection.dialect.name
        if name not in self._in_one_row:
            whole = text.dialect.in_one_row(self._query)
            self._in_one_row[name] = None if whole is None else _Text(whole, connection)
        return self._in_one_row[name]


class Scalars:
    """Scalar expressions with one open value each, in any number of places; a run executes several in one statement."""

    def __init__(self, subqueries: Mapping[Any, sa.ColumnElement[Any]]) -> None:
        """Compile nothing yet.

        Args:
            subqueries: by any key.
        """
        self._subqueries = subqueries
        self._texts: dict[tuple[str, Any], tuple[str, int]] = {}

    def of(self, connection: Connection, asked: Sequence[tuple[Any, Any]]) -> list[Any]:
        """The result of each subquery in *asked*, which pairs its key with its value; None if it has no row."""
        values: list[Any] = []
        for portion in in_portions(asked):
            texts = [self._text(connection, key) for key, _ in portion]
            given = [given for (_, given), (_, times) in zip(portion, texts, strict=True) for _ in range(times)]
            columns = ", ".join([text for text, _ in texts])
            values += rows(connection, f"SELECT {columns}", tuple(given))[0]
        return values

    def _text(self, connection: Connection, key: Any) -> tuple[str, int]:
        """The text of an expression, and how many times it has its value."""
        place = connection.dialect.name, key
        if place not in self._texts:
            text = _Text(self._subqueries[key], connection)
            self._texts[place] = text.of(), len(text.names)
        return self._texts[place]


class Update(_Statement):
    """An UPDATE of one row that returns the new value of a column."""

    def __init__(
        self, statement: sa.Update, values: Sequence[tuple[sa.Column[Any], Any]], returned: sa.Column[int]
    ) -> None:
        """Compile nothing yet.

        Args:
            values: what the statement sets, in this order: some databases read new values in later assignments.
        """
        super().__init__()
        self._statement, self._values, self._returned = statement, values, returned

    def run(self, connection: Connection, **values: int) -> int | None:
        """The new value; None if the row does not exist."""
        text = self._text(connection)
        cursor = run(connection, text.of(), tuple([values[name] for name in text.names]))
        returned = text.dialect.returned(cursor)
        cursor.close()
        return returned

    def _compiled(self, connection: Connection) -> _Text:
        dialect = dialect_of(connection.engine.url)
        return _Text(dialect.returning(self._statement, self._values, self._returned), connection)


class Insert(_Statement):
    """An INSERT of rows, which may overwrite or skip existing ones."""

    def __init__(
        self, table: sa.Table, *columns: str, changing: Sequence[str] = (), unless: str | None = None, **made: Any
    ) -> None:
        """Compile nothing yet.

        Args:
            columns: the columns of the rows.
            changing: columns to overwrite if the primary key exists; empty: an error in that case.
            unless: a column; rows whose value in it exists are skipped.
            made: columns whose values are expressions of other :func:`value` marks.
        """
        super().__init__()
        self._table, self._changing, self._unless = table, changing, unless
        self._values = {**{name: value(name) for name in columns}, **made}
        self._given: dict[str, list[tuple[str, Callable[[Any], Any] | None]]] = {}

    def run(self, connection: Connection, rows: Collection[Mapping[str, Any]]) -> None:
        """Insert *rows*, which are by column, in order."""
        if not rows:
            return
        text = self._text(connection)
        given = self._given[connection.dialect.name]
        # A portion of any table has fewer values than the limit of SQLite, 32,766.
        for portion in in_portions(rows):
            arguments = tuple(
                [
                    row[name] if conversion is None else conversion(row[name])
                    for row in portion
                    for name, conversion in given
                ]
            )
            count(connection, text.of(len(portion)), arguments)

    def _compiled(self, connection: Connection) -> _Text:
        text = _Text(self._insert(connection).values(self._values), connection, self._table.columns)
        # Stored before the caller caches the text: another thread that finds the text reads the names.
        names = text.repeat_values()
        self._given[connection.dialect.name] = [(name, text.conversion(name)) for name in names]
        return text

    def _insert(self, connection: Connection) -> sa.Insert:
        dialect = dialect_of(connection.engine.url)
        if self._unless is not None:
            insert = dialect.insert_missing(self._table, self._unless)
        else:
            insert = dialect.upsert(self._table, self._changing) if self._changing else sa.insert(self._table)
        # Otherwise the compiler lets the statement return the keys of the rows, which no caller reads.
        return insert.inline()


class Swap(_Statement):
    """An UPDATE or DELETE of rows that have not changed since they were read: compare-and-swap by id and generation."""

    def __init__(self, statement: sa.Update | sa.Delete, id_: str = "id", beside: str = "generation") -> None:
        """Compile nothing yet.

        Args:
            statement: without a condition; it sets expressions of :func:`value` marks.
            id_, beside: the two columns that are compared; *beside* may be an expression.
        """
        super().__init__()
        self._table = statement.table
        # The list of ids finds the rows by primary key, which some databases do not use for pairs.
        listed = self._table.columns[id_].in_([LISTED])
        pairs = sa.literal_column(f"({id_}, {beside}) IN ({_mark(_PAIRS)})", sa.Boolean)
        self._statement = statement.where(listed, pairs)

    def run(self, connection: Connection, generations: Mapping[int, int], **values: Any) -> int:
        """Change the rows with these ids that are at their generation; returns the number of changed rows.

        Args:
            generations: by id.
            values: the other placeholders, equal for all rows.
        """
        return self.run_pairs(connection, generations.items(), **values)

    def run_pairs(self, connection: Connection, pairs: Collection[tuple[int, int]], **values: Any) -> int:
        """`run` for rows with these values in the two columns; several may have the same id."""
        text = self._text(connection)
        changed = 0
        # In id order, like all locks: an UPDATE locks the rows of its portion.
        for portion in in_portions(sorted(pairs)):
            arguments: list[Any] = []
            for name in text.names:
                if name == _LISTED:
                    arguments += [id_ for id_, _ in portion]
                elif name == _PAIRS:
                    arguments += [part for pair in portion for part in pair]
                else:
                    arguments.append(text.converted(name, values[name]))
            changed += count(connection, text.of(len(portion)), tuple(arguments))
        return changed

    def _compiled(self, connection: Connection) -> _Text:
        return _Text(self._statement, connection, self._table.columns)


# Passes statements to the driver as text: SQLAlchemy's processing takes longer than many of the statements.
#
# SQLAlchemy's events are still sent, so that the listeners of an engine see these statements too. Errors are
# SQLAlchemy's own.


def run(connection: Connection, text: str, arguments: Any) -> Any:
    """The driver's cursor after executing *text*, whose placeholders are the driver's own.

    The connection must be in a transaction.

    Raises:
        DBAPIError: as SQLAlchemy raises it.
    """
    # Past the pool's proxy and the connection's own listeners, which would cost as much as a short statement.
    driver: Any = connection.connection.dbapi_connection
    cursor, heard = driver.cursor(), connection.engine.dispatch
    for hear in heard.before_cursor_execute:
        text, arguments = hear(connection, cursor, text, arguments, None, False)
    try:
        cursor.execute(text, arguments)
    except connection.dialect.loaded_dbapi.Error as error:
        cursor.close()
        raise failure(connection, error, text) from error
    for hear in heard.after_cursor_execute:
        hear(connection, cursor, text, arguments, None, False)
    return cursor


def rows(connection: Connection, text: str, arguments: Any) -> list[Any]:
    """All rows, as tuples."""
    cursor = run(connection, text, arguments)
    try:
        fetched: list[Any] = cursor.fetchall()
    except connection.dialect.loaded_dbapi.Error as error:
        raise failure(connection, error, text) from error
    finally:
        cursor.close()
    return fetched


def count(connection: Connection, text: str, arguments: Any) -> int:
    """The number of rows that the statement changed."""
    cursor = run(connection, text, arguments)
    changed: int = cursor.rowcount
    cursor.close()
    return changed


def failure(connection: Connection, error: Exception, text: str) -> sa.exc.DBAPIError:
    """The driver's *error* as SQLAlchemy would raise it. If the connection is lost, the whole pool is discarded."""
    dialect = connection.dialect
    lost = dialect.is_disconnect(error, connection.connection, None)  # type: ignore[arg-type]  # an error of its driver
    if lost:
        connection.invalidate(error)
        connection.engine.dispose()
    wrapped = sa.exc.DBAPIError.instance(
        text, None, error, dialect.loaded_dbapi.Error, connection_invalidated=lost, dialect=dialect
    )
    assert isinstance(wrapped, sa.exc.DBAPIError)
    return wrapped


# Timestamps: naive UTC in SQL, whole seconds since 1970 everywhere else.


def seconds(moment: datetime | None) -> int:
    """Seconds since 1970 of a naive UTC time; 0 if an old row has none."""
    return int(moment.replace(tzinfo=UTC).timestamp()) if moment is not None else 0
