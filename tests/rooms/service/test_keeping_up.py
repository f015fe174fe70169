"""A service looks for changes while nobody asks."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

from stead.catalog import catalog
from stead.service import service
from tests.rooms.store.books import Books
from tests.waiting import PATIENCE_SECONDS, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def idle(books: Books, monkeypatch: pytest.MonkeyPatch) -> Iterator[Books]:
    """A service that nobody asks anything."""
    monkeypatch.setattr(catalog, "IDLE_SECONDS", 0.05)
    idle = Books(books.url, upgrade=False)
    yield idle
    idle.close()


def test_what_another_process_changes_is_known_before_anybody_asks(books: Books, idle: Books) -> None:
    idle.service.keep_up()
    host = books.provider(VCPU=1)
    wait_until(lambda: idle.service._catalog._snapshot.find(host) is not None)
    books.drop(host)
    wait_until(lambda: idle.service._catalog._snapshot.find(host) is None)


def test_without_a_look_it_is_not(books: Books, idle: Books) -> None:
    host = books.provider(VCPU=1)
    assert idle.service._catalog._snapshot.find(host) is None


def test_the_threads_end_when_the_service_is_closed(idle: Books) -> None:
    before = set(threading.enumerate())
    idle.service.keep_up()
    threads = set(threading.enumerate()) - before
    assert threads
    assert all(thread.daemon for thread in threads)
    idle.close()
    assert not any(thread.is_alive() for thread in threads)


def test_a_refresh_that_takes_long_does_not_keep_the_readiness_check_waiting(
    books: Books, monkeypatch: pytest.MonkeyPatch
) -> None:
    has_begun, may_end = threading.Event(), threading.Event()

    def refreshed(_kind: str, _seconds: float) -> None:
        has_begun.set()
        may_end.wait(PATIENCE_SECONDS)

    another = Books(books.url, upgrade=False)
    monkeypatch.setattr(another.service._catalog, "_on_refresh", refreshed)
    reader = threading.Thread(target=another.service.snapshot)
    reader.start()
    try:
        assert has_begun.wait(PATIENCE_SECONDS)
        another.service.reach()
        assert reader.is_alive(), "the check waited for the refresh"
        # A refresh that has run for long may have lost its connection. The check waits for it.
        monkeypatch.setattr(service, "LONG_REFRESH_SECONDS", 0.0)
        check = threading.Thread(target=another.service.reach)
        check.start()
        check.join(0.2)
        assert check.is_alive()
        may_end.set()
        check.join(PATIENCE_SECONDS)
        assert not check.is_alive()
    finally:
        may_end.set()
        reader.join(PATIENCE_SECONDS)
        another.close()
