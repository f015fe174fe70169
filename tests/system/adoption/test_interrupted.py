"""An upgrade that was interrupted is continued by the next one, wherever that was and whatever was kept of it."""

from __future__ import annotations

import re
from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa

from stead.store.protocol.store import Store
from stead.store.schema import adoption, schema
from stead.store.sql.dialects import Database
from tests.rooms.store.books import Books, faults
from tests.rooms.store.schema.test_neighbours import use
from tests.rooms.store.schema.test_schema import REVISIONS, STEAD_REVISIONS, execute
from tests.system.adoption import dumps
from tests.system.adoption.layout import rows, whole_layout
from tests.system.adoption.test_old_databases import require_same_answers
from tests.system.differential import released

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.databases import Server

    Found = tuple[dict[str, Any], dict[str, Any]]

pytestmark = pytest.mark.timeout(300)  # each upgrades a database several times

OLDEST = dumps.DUMPED[0]
CHANGING = re.compile(r"\s*(CREATE|ALTER|DROP|INSERT|UPDATE|DELETE)\b")


@contextmanager
def opened(url: str) -> Iterator[Store]:
    store = Store(Database(url))
    yield store
    store.close()


def everything(url: str) -> Found:
    """Layout and rows, without what differs from one database to the next."""
    found = rows(url)
    if found.get("stead_epoch"):
        [(key, epoch)] = found["stead_epoch"]
        assert len(epoch) == 36
        found["stead_epoch"] = [(key, "")]
    return whole_layout(url), found


def made(server: Server, release: str | None) -> str:
    """A new database: as *release* made it, or empty."""
    url = server.create()
    if release is not None:
        dumps.restore(server.kind, url, release)
    return url


@pytest.fixture(scope="module", params=[None, OLDEST], ids=["empty", OLDEST])
def release(request: pytest.FixtureRequest) -> str | None:
    found: str | None = request.param
    return found


@pytest.fixture(scope="module")
def uninterrupted(database_server: Server, release: str | None) -> Found:
    """What an upgrade makes at one go."""
    url = made(database_server, release)
    with opened(url) as store:
        assert schema.upgrade(store.writer)
    found = everything(url)
    database_server.drop(url)
    return found


class Killed(Exception):
    """The upgrade did not come further than this."""


@contextmanager
def killed_after(store: Store, statements: int) -> Iterator[None]:
    """End whoever runs so many statements that change something."""
    left = statements

    def count(_connection: object, _cursor: object, statement: str, *_: object) -> None:
        nonlocal left
        if CHANGING.match(statement):
            left -= 1
            if left == 0:
                raise Killed(statement)

    sa.event.listen(store.writer, "after_cursor_execute", count)
    try:
        yield
    finally:
        sa.event.remove(store.writer, "after_cursor_execute", count)


def killed_again_and_again(store: Store) -> list[int]:
    """Upgrade, each time one statement further than what the database kept until then; returns where each ended."""
    ends = []
    statements, before = 1, parts(store)
    while True:
        try:
            with killed_after(store, statements):
                schema.upgrade(store.writer)
        except Killed:
            ends.append(statements)
            now = parts(store)
            statements, before = (1 if now != before else statements + 1), now
        else:
            return ends


def parts(store: Store) -> Any:
    """What a database is made of, in short; it changes with every statement that changes tables."""
    with store.writer.connect() as connection:
        inspector = sa.inspect(connection)
        found = inspector.get_multi_columns, inspector.get_multi_indexes, inspector.get_multi_foreign_keys
        return [
            sorted((table, *sorted(str(part["name"]) for part in named)) for (_, table), named in get().items())
            for get in found
        ]


@pytest.mark.costly
def test_an_upgrade_that_is_killed_after_every_single_statement_arrives(
    database_server: Server, release: str | None, uninterrupted: Found, tmp_path: Path
) -> None:
    url = made(database_server, release)
    with opened(url) as store:
        ends = killed_again_and_again(store)
        assert len(ends) > 20
        assert max(ends) < 10 or store.dialect.defines_in_transactions
        assert adoption.examine(store.writer).is_ready
        assert schema.upgrade(store.writer) == []
    assert everything(url) == uninterrupted
    if release is not None:
        released.configure(tmp_path, url)
        require_same_answers(tmp_path, dumps.answers(release))
    database_server.drop(url)


def printed(store: Store) -> list[str]:
    """The statements of `stead db upgrade --sql`, one by one."""
    script = re.sub(r"^--.*$", "", schema.upgrade_statements(store.writer), flags=re.MULTILINE)
    return [statement.strip() for statement in script.split(";") if statement.strip()]


def run_some(url: str, statements: list[str]) -> None:
    """Run statements as an administrator's command line does, which then goes away."""
    with sa.create_engine(url, poolclass=sa.NullPool, isolation_level="AUTOCOMMIT").connect() as connection:
        for statement in statements:
            connection.exec_driver_sql(statement)


def cuts(statements: list[str]) -> list[int]:
    """After how many of *statements* to stop: of rows of one table, after the first two only."""
    inserts = Counter[str]()
    found = []
    for number, statement in enumerate(statements, 1):
        inserts[statement.partition("(")[0]] += 1
        if not statement.startswith("INSERT") or inserts[statement.partition("(")[0]] <= 2:
            found.append(number)
    return found


def by_themselves(statements: list[str]) -> list[str]:
    """*statements* without what makes them one transaction."""
    return [statement for statement in statements if statement not in ("BEGIN", "COMMIT")]


@pytest.mark.costly
@pytest.mark.parametrize("release", [OLDEST], indirect=True)
@pytest.mark.parametrize("at_once", [True, False], ids=["as printed", "one by one"])
def test_an_upgrade_continues_after_every_single_statement_that_was_printed(
    database_server: Server, uninterrupted: Found, at_once: bool
) -> None:
    url = made(database_server, OLDEST)
    with opened(url) as store:
        whole = printed(store)
        if store.dialect.defines_in_transactions:
            assert (whole[0], whole[-1]) == ("BEGIN", "COMMIT")
            if not at_once and not store.dialect.locks_rows:
                pytest.skip("here consumers are copied, which a transaction must hold together")
        elif at_once:
            pytest.skip("there are no transactions about tables")
    database_server.drop(url)
    statements = whole if at_once else by_themselves(whole)
    for number in cuts(statements)[:: 6 if at_once else 1]:
        url = made(database_server, OLDEST)
        run_some(url, statements[:number])
        with opened(url) as store:
            schema.upgrade(store.writer)
            assert adoption.examine(store.writer).is_ready, statements[number - 1]
        assert everything(url) == uninterrupted, statements[number - 1]
        database_server.drop(url)


SOME = 7
"""Statements that are run before the rest is printed anew, enough to come further each time."""


def test_what_is_printed_after_some_statements_is_the_rest_of_them(
    database_server: Server, release: str | None, uninterrupted: Found
) -> None:
    url = made(database_server, release)
    with opened(url) as store:
        some = SOME if store.dialect.locks_rows else 1000  # where consumers are copied they are run together
        rounds = 0
        while statements := by_themselves(printed(store)):
            run_some(url, statements[:some])
            rounds += 1
            assert rounds < 40
    assert everything(url) == uninterrupted
    database_server.drop(url)


@pytest.fixture
def books(database_url: str) -> Iterator[Books]:
    """A service on a database of its own, in which there is something of each kind."""
    books = Books(database_url)
    use(books)
    yield books
    use(books)
    assert faults(books) == {}
    books.close()


@pytest.mark.parametrize(
    "lost",
    [
        "DROP TABLE stead_version",
        "DELETE FROM stead_version",
        *(f"UPDATE stead_version SET version_num = '{revision}'" for revision in STEAD_REVISIONS[:-1]),
        "DELETE FROM alembic_version",
        *(f"UPDATE alembic_version SET version_num = '{revision}'" for revision in REVISIONS[:-1]),
    ],
)
def test_tables_of_which_the_revision_was_lost_stay_as_they_are(books: Books, lost: str) -> None:
    store = books.store
    before = whole_layout(books.url), rows(books.url)
    execute(store.writer, lost)
    assert not adoption.examine(store.writer).is_ready
    assert schema.upgrade(store.writer)
    assert adoption.examine(store.writer).is_ready
    assert (whole_layout(books.url), rows(books.url)) == before


def test_rows_that_are_missing_are_put_in_and_the_others_stay(books: Books) -> None:
    store = books.store
    expected = rows(books.url)["stead_clock"]
    for statement in (
        "DELETE FROM stead_clock WHERE tick = 0 AND slot > 30",
        "DELETE FROM stead_change_floor WHERE slot < 10 OR slot > 40",
        "DELETE FROM stead_version",
    ):
        execute(store.writer, statement)
    schema.upgrade(store.writer)
    assert rows(books.url)["stead_clock"] == expected
    now = {slot: tick for slot, tick, *_ in expected}
    floors = dict(rows(books.url)["stead_change_floor"])
    assert floors == {slot: 0 if 10 <= slot <= 40 else tick for slot, tick in now.items()}
