"""Writes that share a commit: each stands or falls for itself, and nobody is told anything before it is durable."""

from __future__ import annotations

import ctypes
import sqlite3
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa

from stead.domain.errors import BadRequest, CapacityExceeded, Unavailable
from stead.store import providers
from stead.store.protocol import store
from stead.store.protocol.store import Grouping
from tests.rooms.store.books import Books, fresh_uuid
from tests.rooms.store.protocol.interleaving import outcome
from tests.waiting import PATIENCE_SECONDS, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from concurrent.futures import Future

    from stead.store.protocol.store import Transaction

pytestmark = pytest.mark.one_database  # only SQLite's writers are grouped


@pytest.fixture(autouse=True)
def groups_of_any_length(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that what is in one group does not depend on how fast the machine is."""
    monkeypatch.setattr(store, "LONGEST_SECONDS", PATIENCE_SECONDS)


class Crowd:
    """Writers that come one after the other while the first of them holds the database."""

    def __init__(self, books: Books) -> None:
        assert books.store._grouping is not None
        self.commits = self.savepoints = 0
        self.futures: list[Future[Any]] = []
        self.holder: Future[Any]
        self._books = books
        self._grouping = books.store._grouping
        sa.event.listen(books.store.writer, "commit", self._on_commit)
        sa.event.listen(books.store.writer, "before_cursor_execute", self._on_statement, retval=True)

    def _on_commit(self, _connection: object) -> None:
        self.commits += 1

    def _on_statement(self, _connection: object, _cursor: object, text: str, arguments: Any, *_: object) -> Any:
        self.savepoints += text.startswith("SAVEPOINT")
        return text, arguments

    def writes(self, *writes: Callable[[], Any], first: Callable[[Transaction], None] | None = None) -> list[Any]:
        """What each of *writes* is told; *first* is what the one before them does when all of them wait."""
        begun, go = threading.Event(), threading.Event()

        def hold(tx: Transaction) -> None:
            begun.set()
            assert go.wait(PATIENCE_SECONDS)
            if first is not None:
                first(tx)

        with ThreadPoolExecutor(1 + len(writes)) as pool:
            try:
                self.holder = pool.submit(outcome, lambda: self._books.service.write(hold))
                assert begun.wait(PATIENCE_SECONDS)
                self.commits = self.savepoints = 0
                for number, write in enumerate(writes, start=1):
                    self.futures.append(pool.submit(outcome, write))
                    wait_until(partial(self._are_waiting, number))
            finally:
                go.set()
            return [future.result(PATIENCE_SECONDS) for future in self.futures]

    def _are_waiting(self, number: int) -> bool:
        return len(self._grouping._waiting) == number


@pytest.fixture
def crowd(books: Books) -> Crowd:
    return Crowd(books)


def claims(books: Books, provider: str, amounts: Sequence[int]) -> list[Callable[[], None]]:
    """A claim of a new consumer for each of *amounts*; the names that they need are there already."""
    books.claim(consumer := fresh_uuid(), {provider: {"VCPU": 1}})
    books.release(consumer)
    return [partial(books.claim, fresh_uuid(), {provider: {"VCPU": amount}}, None) for amount in amounts]


def test_writers_that_wait_share_one_commit(books: Books, crowd: Crowd) -> None:
    host = books.provider(VCPU=10)
    writes = claims(books, host, [1] * 10)
    ticks = books.scalar("SELECT SUM(tick) FROM stead_clock")
    assert crowd.writes(*writes) == [None] * 10
    # The writer that held the database is the first of the group, and needs no savepoint.
    assert (crowd.commits, crowd.savepoints) == (1, 10)
    assert books.used(host) == 10
    assert books.scalar("SELECT SUM(tick) FROM stead_clock") == ticks + 10


def test_a_writer_that_is_alone_has_a_commit_and_no_savepoint(books: Books, crowd: Crowd) -> None:
    host = books.provider(VCPU=10)
    (claim,) = claims(books, host, [1])
    crowd.commits = crowd.savepoints = 0
    claim()
    assert (crowd.commits, crowd.savepoints) == (1, 0)


def test_a_member_that_is_refused_leaves_nothing_and_the_others_stand(books: Books, crowd: Crowd) -> None:
    host, half_made = books.provider(VCPU=3), fresh_uuid()
    before, _, after = claims(books, host, [1, 0, 2])
    ticks = books.scalar("SELECT SUM(tick) FROM stead_clock")

    def fail_late(tx: Transaction) -> None:
        providers.create(tx, half_made, half_made, None)
        raise BadRequest("on second thoughts")

    told = crowd.writes(before, lambda: books.service.write(fail_late), after)
    assert told == [None, BadRequest.__name__, None]
    assert crowd.commits == 1
    assert books.scalar("SELECT COUNT(*) FROM resource_providers WHERE uuid = :uuid", uuid=half_made) == 0
    assert books.used(host) == 3
    assert books.scalar("SELECT SUM(tick) FROM stead_clock") == ticks + 2


def test_members_write_in_the_order_in_which_they_came_and_see_what_was_written_before(
    books: Books, crowd: Crowd
) -> None:
    host = books.provider(VCPU=10)
    told = crowd.writes(*claims(books, host, [4, 4, 4, 2, 1]))
    assert told == [None, None, CapacityExceeded.__name__, None, CapacityExceeded.__name__]
    assert crowd.commits == 1
    assert books.used(host) == 10


def test_the_first_of_a_group_may_fail_without_harm_to_those_who_wait(books: Books, crowd: Crowd) -> None:
    host, half_made = books.provider(VCPU=10), fresh_uuid()

    def fail(tx: Transaction) -> None:
        providers.create(tx, half_made, half_made, None)
        raise BadRequest("nobody joined it yet")

    assert crowd.writes(*claims(books, host, [1, 2]), first=fail) == [None, None]
    assert crowd.commits == 1
    assert books.scalar("SELECT COUNT(*) FROM resource_providers WHERE uuid = :uuid", uuid=half_made) == 0
    assert books.used(host) == 3


def full_disk() -> sa.exc.OperationalError:
    error = sqlite3.OperationalError("database or disk is full")
    error.sqlite_errorcode = sqlite3.SQLITE_FULL
    return sa.exc.OperationalError("COMMIT", {}, error)


def test_nobody_is_told_anything_before_the_commit_and_no_success_if_it_fails(books: Books, crowd: Crowd) -> None:
    """Not even a refusal, which may rest on what was written before it in the same group."""
    host = books.provider(VCPU=2)
    told_at_commit: list[bool] = []

    def at_commit(_connection: object) -> None:
        told_at_commit.extend(future.done() for future in crowd.futures)
        raise full_disk()

    writes = claims(books, host, [1, 2, 1])
    sa.event.listen(books.store.writer, "commit", at_commit)
    try:
        told = crowd.writes(*writes)
    finally:
        sa.event.remove(books.store.writer, "commit", at_commit)
    assert told == [Unavailable.__name__] * 3
    assert told_at_commit == [False] * 3
    assert books.used(host) == 0
    assert outcome(claims(books, host, [2])[0]) is None


def test_an_error_for_which_the_database_rolled_back_everything_is_told_to_all(books: Books, crowd: Crowd) -> None:
    host = books.provider(VCPU=10)
    before, after = claims(books, host, [1, 2])

    def end_all(tx: Transaction) -> None:
        driver: Any = tx.connection.connection.dbapi_connection
        driver.execute("ROLLBACK")  # as SQLite does by itself when the disk is full
        raise full_disk()

    told = crowd.writes(before, lambda: books.service.write(end_all), after)
    assert told == [Unavailable.__name__, Unavailable.__name__, None]
    assert books.used(host) == 2


def test_a_group_is_bounded(books: Books, crowd: Crowd, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "MOST_MEMBERS", 3)
    host = books.provider(VCPU=10)
    assert crowd.writes(*claims(books, host, [1] * 8)) == [None] * 8
    assert crowd.commits == 3


def test_nobody_joins_a_group_that_has_run_for_long(
    books: Books, crowd: Crowd, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "LONGEST_SECONDS", -1.0)
    host = books.provider(VCPU=10)
    assert crowd.writes(*claims(books, host, [1] * 4)) == [None] * 4
    assert crowd.commits == 5
    assert books.used(host) == 4


def test_who_waits_for_too_long_leaves_the_queue(books: Books) -> None:
    impatient = Books(books.url, write_timeout=0.1, upgrade=False)
    host = books.provider(VCPU=10)
    (claim,) = claims(impatient, host, [1])

    told: list[Any] = []
    begun = threading.Event()

    def hold(_tx: Transaction) -> None:
        begun.set()
        wait_until(lambda: bool(told))

    with ThreadPoolExecutor(1) as pool:
        holder = pool.submit(impatient.service.write, hold)
        assert begun.wait(PATIENCE_SECONDS)
        told.append(outcome(claim))
        holder.result(PATIENCE_SECONDS)
    assert told == [Unavailable.__name__]
    assert impatient.used(host) == 0
    claim()
    assert impatient.used(host) == 1
    impatient.close()


def test_who_is_being_run_when_his_patience_ends_is_told_what_became_of_it() -> None:
    """On a machine so busy that the patience ends before, it is not run at all."""
    patience, ran = 0.2, []

    queue = Grouping(sa.create_engine("sqlite://").begin, patience=patience)
    begun, waits = threading.Event(), threading.Event()

    def lead(_connection: object) -> None:
        begun.set()
        wait_until(lambda: bool(queue._waiting) or waits.is_set())

    def run(_connection: object) -> None:
        ran.append(True)
        over = time.monotonic() + 2 * patience
        wait_until(lambda: time.monotonic() > over)  # the state that is waited for is that a time is over

    with ThreadPoolExecutor(1) as pool:
        leader = pool.submit(queue.run, lead)
        assert begun.wait(PATIENCE_SECONDS)
        told = outcome(lambda: queue.run(run))
        waits.set()
        leader.result(PATIENCE_SECONDS)
    assert told == (None if ran else Unavailable.__name__)


def test_a_begin_that_fails_is_told_to_all_who_waited_for_it() -> None:
    begun, others = threading.Event(), 3

    @contextmanager
    def begin() -> Iterator[Any]:
        begun.set()
        wait_until(lambda: len(queue._waiting) == 1 + others)
        raise Unavailable("another process has the database")
        yield  # pragma: no cover - it is a generator

    queue = Grouping(begin, patience=PATIENCE_SECONDS)
    with ThreadPoolExecutor(1 + others) as pool:
        first = pool.submit(outcome, lambda: queue.run(lambda _: None))
        assert begun.wait(PATIENCE_SECONDS)
        rest = [pool.submit(outcome, lambda: queue.run(lambda _: None)) for _ in range(others)]
        assert [each.result(PATIENCE_SECONDS) for each in (first, *rest)] == [Unavailable.__name__] * 4


def interrupt(thread: threading.Thread) -> None:
    """Have KeyboardInterrupt raised in a thread that waits, when it wakes up."""
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident or 0), ctypes.py_object(KeyboardInterrupt))


def test_a_leader_who_does_not_come_is_replaced(books: Books, crowd: Crowd, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "LONGEST_SECONDS", -1.0)  # so the first who waits is called to lead
    host = books.provider(VCPU=10)
    first, second = claims(books, host, [1, 2])
    threads: list[threading.Thread] = []

    def interrupted() -> str:
        threads.append(threading.current_thread())
        try:
            first()
        except KeyboardInterrupt:
            return "interrupted"
        return "not interrupted"

    told = crowd.writes(interrupted, second, first=lambda _: interrupt(threads[0]))
    assert told == ["interrupted", None]
    assert books.used(host) == 2


def test_a_group_whose_leader_is_interrupted_has_written_nothing(books: Books, crowd: Crowd) -> None:
    host = books.provider(VCPU=10)
    before, after = claims(books, host, [1, 2])

    def interrupted(_tx: Transaction) -> None:
        raise KeyboardInterrupt

    told = crowd.writes(before, lambda: books.service.write(interrupted), after)
    assert isinstance(crowd.holder.exception(), KeyboardInterrupt)
    assert told == [Unavailable.__name__, Unavailable.__name__, None]
    assert books.used(host) == 2
