"""What a database's errors mean: its own failures pass, and ours stay errors."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import sqlalchemy as sa

from stead.domain.errors import Unavailable
from stead.store.protocol.store import Store, meaning
from stead.store.sql.dialects import Database, dialect_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sqlalchemy.engine import Connection

    from stead.store.protocol.store import Transaction


@pytest.fixture
def store(database_url: str) -> Iterator[Store]:
    store = Store(Database(database_url), write_timeout=0.5)
    yield store
    store.close()


def run(on: Transaction | Connection, statement: str) -> None:
    connection = on if isinstance(on, sa.Connection) else on.connection
    connection.execute(sa.text(statement))


@pytest.mark.parametrize(
    "statement", ["SELEKT 1", "SELECT nothing FROM (SELECT 1 AS one) AS rows_", "SELECT 1 FROM no_such_table"]
)
def test_a_wrong_statement_is_our_error(store: Store, statement: str) -> None:
    for speak in (store.read, store.write):
        with pytest.raises(sa.exc.DBAPIError):
            speak(run, statement)


class DriverError(Exception):
    """What a driver raises, as far as the dialect looks at it."""

    def __init__(self, *args: object, **facts: object) -> None:
        super().__init__(*args)
        vars(self).update(facts)


def failing(url: str, kind: type[sa.exc.DBAPIError], *args: object, **facts: object) -> Exception:
    """The meaning of an error of *kind* from the database at *url*."""
    error = kind("a statement", {}, DriverError(*args, **facts))
    return meaning(error, dialect_of(sa.make_url(url)))


PASSING = {
    "mysql://": [1021, 1030, 1040, 1047, 1053, 1114, 1158, 1205, 1213, 1290, 1317, 1792, 1836, 1927, 2003, 2006, 2013],
    "postgresql://": [
        "08006",
        "25006",
        "25P03",
        "40001",
        "53100",
        "53300",
        "55P03",
        "57P01",
        "57P03",
        "58030",
        "XX000",
    ],
    "sqlite://": [5, 6, 8, 10, 13, 14, 5 | 2 << 8, 10 | 12 << 8],
}
OURS = {
    "mysql://": [1048, 1054, 1064, 1142, 1146, 1305, 1452],
    "postgresql://": ["0A000", "25001", "25P02", "42601", "42703", "42P01", "42501", "23503"],
    "sqlite://": [1, 11, 19, 20, 21, 26],
}


def codes(codes_by_url: dict[str, list[int] | list[str]]) -> list[tuple[str, int | str]]:
    return [(url, code) for url, listed in codes_by_url.items() for code in listed]


def means(url: str, code: int | str) -> Exception:
    # The drivers' classes say nothing: MySQL's makes most numbers operational, ours among them.
    return failing(url, sa.exc.OperationalError, code, sqlstate=code, sqlite_errorcode=code)


@pytest.mark.parametrize(("url", "code"), codes(PASSING))
def test_a_failure_of_the_database_passes(url: str, code: int | str) -> None:
    assert isinstance(means(url, code), Unavailable)


@pytest.mark.parametrize(("url", "code"), codes(OURS))
def test_an_error_of_ours_is_none_of_the_database(url: str, code: int | str) -> None:
    assert isinstance(means(url, code), sa.exc.OperationalError)


LOST = {"mysql://": [1213, 1062, 1020], "postgresql://": ["40001", "40P01", "23505"], "sqlite://": [2067, 1555]}
WAITED = {"mysql://": [1205, 1047], "postgresql://": ["55P03"], "sqlite://": [5, 6, 5 | 2 << 8]}


@pytest.mark.parametrize(("url", "code"), codes(LOST))
def test_where_another_writer_was_faster_the_write_is_tried_again(url: str, code: int | str) -> None:
    error, dialect = error_of(sa.exc.OperationalError, code), dialect_of(sa.make_url(url))
    assert dialect.is_retryable(error)
    assert dialect.is_lost_race(error)


@pytest.mark.parametrize(("url", "code"), codes(WAITED))
def test_where_the_database_makes_it_wait_it_is_tried_again_and_no_race_is_lost(url: str, code: int | str) -> None:
    error, dialect = error_of(sa.exc.OperationalError, code), dialect_of(sa.make_url(url))
    assert dialect.is_retryable(error)
    assert not dialect.is_lost_race(error)


def error_of(kind: type[sa.exc.DBAPIError], code: int | str) -> sa.exc.DBAPIError:
    return kind("a statement", {}, DriverError(code, sqlstate=code, sqlite_errorcode=code))


def test_no_connection_has_no_code() -> None:
    assert isinstance(failing("postgresql://", sa.exc.OperationalError, "refused"), Unavailable)
    assert isinstance(failing("mysql://", sa.exc.InterfaceError, 0, ""), Unavailable)
