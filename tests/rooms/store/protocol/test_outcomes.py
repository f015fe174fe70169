"""Commits that are not answered: what became of them is found out before the client is told anything."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa

from stead.domain.errors import Unavailable
from stead.store.protocol import clock, store
from stead.store.protocol.store import Store
from stead.store.sql.dialects import Database, dialect_of
from stead.store.tables import projects
from tests.rooms.store.books import Books, fresh_uuid
from tests.rooms.store.protocol.test_clock import ticks
from tests.rooms.store.protocol.test_failures import DriverError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from stead.store.protocol.store import Transaction

TOUCHED = slice(2, 4)
"""The arguments of a tick that are empty if the tick only asks for an earlier one."""


@contextmanager
def one_commit(books: Books, *, reaches: bool, then: Callable[[], Any] = lambda: None) -> Iterator[list[str]]:
    """The next commit of a write is not answered: it reaches the database or not, and *then* something happens.

    Gives a list of what was committed or broken.
    """
    dialect, seen = books.store.writer.dialect, []
    real = dialect.do_commit

    def do_commit(connection: Any) -> None:
        if seen:
            seen.append("commit")
            real(connection)
            return
        seen.append("broken")
        if reaches:
            real(connection)
        else:
            dialect.do_rollback(connection)
        then()
        raise dialect.loaded_dbapi.OperationalError(2013, "the connection broke")

    dialect.do_commit = do_commit  # type: ignore[method-assign]  # there is no event between a commit and its answer
    try:
        yield seen
    finally:
        dialect.do_commit = real  # type: ignore[method-assign]  # as it was
    assert seen


@pytest.fixture
def host(books: Books) -> str:
    """A provider; the project and the user that claims need are there."""
    host = books.provider(VCPU=8)
    books.claim(fresh_uuid(), {host: {"VCPU": 1}})
    return host


def slot_of(books: Books) -> int:
    return books.store._slots.mine()


def elsewhere(books: Books, *, times: int) -> Callable[[], None]:
    """Another process ticks the same slot."""

    def tick() -> None:
        store, slot = Store(Database(books.url)), slot_of(books)
        for _ in range(times):
            with store.writer.begin() as connection:
                clock.tick(connection, slot, (), ())
        store.close()

    return tick


def lost() -> sa.exc.DBAPIError:
    """What a statement raises when the connection breaks."""
    return sa.exc.OperationalError("a statement", {}, Exception(2013))


@pytest.mark.parametrize("others", [0, 1, 5])
class TestFoundOut:
    def test_it_happened(self, books: Books, host: str, others: int) -> None:
        consumer = fresh_uuid()
        with one_commit(books, reaches=True, then=elsewhere(books, times=others)):
            books.claim(consumer, {host: {"VCPU": 2}}, None)
        assert (books.held(consumer), books.consumer_generation(consumer)) == ({host: {"VCPU": 2}}, 1)
        assert books.used(host) == 3

    def test_it_did_not_happen_and_is_repeated(self, books: Books, host: str, others: int) -> None:
        consumer = fresh_uuid()
        with one_commit(books, reaches=False, then=elsewhere(books, times=others)):
            books.claim(consumer, {host: {"VCPU": 2}}, None)
        assert (books.held(consumer), books.consumer_generation(consumer)) == ({host: {"VCPU": 2}}, 1)
        assert books.used(host) == 3


def test_a_void_tick_is_committed_before_anybody_is_told(books: Books, host: str) -> None:
    for reaches in (True, False):
        before = ticks(books)[slot_of(books)]
        with one_commit(books, reaches=reaches) as seen:
            books.claim(fresh_uuid(), {host: {"VCPU": 1}}, None)
        assert seen == ["broken", "commit"] if reaches else ["broken", "commit", "commit"]
        assert ticks(books)[slot_of(books)][0] == before[0] + 2


def test_what_too_many_others_overwrote_is_not_known(books: Books, host: str) -> None:
    for reaches in (True, False):
        consumer = fresh_uuid()
        with (
            one_commit(books, reaches=reaches, then=elsewhere(books, times=40)),
            pytest.raises(Unavailable, match="not known"),
        ):
            books.claim(consumer, {host: {"VCPU": 1}}, None)
        assert books.held(consumer) == ({host: {"VCPU": 1}} if reaches else {})


def test_the_next_write_of_somebody_else_is_not_taken_for_it(books: Books, host: str, second: Books) -> None:
    """The tick is the same, the stamp is not; whoever looked at the tick alone would forget the claim."""
    consumer, other = fresh_uuid(), fresh_uuid()
    second.store._slots._mine.slot = slot_of(books)
    with one_commit(books, reaches=False, then=lambda: second.claim(other, {host: {"VCPU": 1}}, None)):
        books.claim(consumer, {host: {"VCPU": 2}}, None)
    assert (books.held(consumer), books.held(other)) == ({host: {"VCPU": 2}}, {host: {"VCPU": 1}})


def test_a_database_that_does_not_come_back_is_unavailable(
    books: Books, host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    hasty = Books(books.url, write_timeout=0.3, upgrade=False)
    asked = []

    def gone(*args: Any) -> Any:
        if any(args[TOUCHED]):
            return clock.tick(*args)
        asked.append(1)
        raise lost()

    monkeypatch.setattr(store, "tick", gone)
    consumer = fresh_uuid()
    with one_commit(hasty, reaches=True), pytest.raises(Unavailable, match="not known"):
        hasty.claim(consumer, {host: {"VCPU": 1}}, None)
    assert asked
    assert books.held(consumer) == {host: {"VCPU": 1}}
    hasty.close()


def test_finding_out_is_itself_tried_again(books: Books, host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    failing = iter([True, True])

    def tick(*args: Any) -> Any:
        if not any(args[TOUCHED]) and next(failing, False):
            raise lost()
        return clock.tick(*args)

    monkeypatch.setattr(store, "tick", tick)
    consumer = fresh_uuid()
    with one_commit(books, reaches=True):
        books.claim(consumer, {host: {"VCPU": 1}}, None)
    assert books.consumer_generation(consumer) == 1
    assert next(failing, None) is None


def test_what_touches_nothing_is_repeated(books: Books) -> None:
    """Projects, users, types and aggregates: there is no tick to find, and they may be made twice."""
    project = fresh_uuid()
    made: list[int] = []

    def make(tx: Transaction) -> None:
        made.append(1)
        insert = tx.dialect.insert_missing(projects, "external_id")
        tx.connection.execute(insert, {"external_id": project, "created_at": tx.now})

    with one_commit(books, reaches=True):
        books.service.write(make)
    assert made == [1, 1]
    assert books.scalar("SELECT COUNT(*) FROM projects WHERE external_id = :name", name=project) == 1


def test_an_error_that_says_that_nothing_was_kept_is_believed(
    books: Books, host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So a writer that loses a race at its commit does not pay for another transaction."""
    monkeypatch.setattr(type(books.store.dialect), "is_undone", lambda *_: True)
    monkeypatch.setattr(type(books.store.dialect), "is_retryable", lambda *_: True)
    before = ticks(books)[slot_of(books)][0]
    consumer = fresh_uuid()
    with one_commit(books, reaches=False) as seen:
        books.claim(consumer, {host: {"VCPU": 1}}, None)
    assert seen == ["broken", "commit"]
    assert ticks(books)[slot_of(books)][0] == before + 1


UNDONE = {
    "mysql://": ([1213], [2013, 2006, 1927, 1053, 1047, 1180, 1317]),
    "postgresql://": (["40001", "40P01", "23505", "53100"], ["40003", "08006", "08007", "57P01", "57014", "58030"]),
    "sqlite://": ([5, 5 | 2 << 8, 6, 8, 13, 19], [10, 10 | 4 << 8, 7]),
}


@pytest.mark.parametrize("url", UNDONE)
def test_which_errors_of_a_commit_leave_no_doubt(url: str) -> None:
    undone, in_doubt = UNDONE[url]
    dialect = dialect_of(sa.make_url(url))
    for code in (*undone, *in_doubt):
        error = DriverError(code, sqlstate=code, sqlite_errorcode=code)
        assert dialect.is_undone(sa.exc.OperationalError("COMMIT", {}, error)) == (code in undone), code
    assert not dialect.is_undone(sa.exc.OperationalError("COMMIT", {}, DriverError("the connection is lost")))
