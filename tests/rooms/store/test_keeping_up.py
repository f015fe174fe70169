"""What a process does by itself: it looks for changes while nobody asks, and does so quietly."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest

from stead.catalog import catalog
from stead.catalog.catalog import Catalog
from stead.domain.errors import Unavailable
from stead.process.background import LONGEST_PAUSE_SECONDS, Background
from tests.rooms.store.books import Books
from tests.waiting import wait_until

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


class Counting:
    """A source that has nothing, and counts who asks."""

    def __init__(self) -> None:
        self.asked = 0

    def changes(self, _since: Any) -> Any:
        self.asked += 1
        return iter(())


def test_nobody_looks_who_has_just_been_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr(catalog, "time", type("Clock", (), {"monotonic": lambda: now, "perf_counter": lambda: now}))
    source = Counting()
    known = Catalog(source)
    known.fresh()
    now = 0.75
    assert (known.look(), source.asked) == (0.25, 1)
    now = 1.0
    assert (known.look(), source.asked) == (1.0, 2)
    now = 1.5
    assert (known.look(), source.asked) == (0.5, 2)


class Pauses:
    """Stands for the event of a thread: nobody waits, and it ends after so many pauses."""

    def __init__(self, number: int) -> None:
        self.seen: list[float] = []
        self._number = number

    def wait(self, seconds: float) -> bool:
        self.seen.append(seconds)
        return len(self.seen) == self._number


@pytest.mark.parametrize("error", [Unavailable("away"), ZeroDivisionError()])
def test_a_step_that_fails_is_tried_again_ever_more_seldom(error: Exception, caplog: pytest.LogCaptureFixture) -> None:
    def step() -> float:
        steps.append(1)
        if len(steps) < 9:
            raise error
        return 1.0

    steps: list[int] = []
    background = Background("a step", step, 1.0)
    background._stopped = pauses = Pauses(11)  # type: ignore[assignment]  # an event, as far as it is asked
    background._run()
    assert pauses.seen == [1, 2, 4, 8, 16, *[LONGEST_PAUSE_SECONDS] * 4, 1, 1]
    assert len(caplog.records) == (0 if isinstance(error, Unavailable) else 8)


def test_a_pause_longer_than_that_stays_as_it_is() -> None:
    def step() -> float:
        raise Unavailable("away")

    background = Background("a step", step, 600.0)
    background._stopped = pauses = Pauses(3)  # type: ignore[assignment]  # an event, as far as it is asked
    background._run()
    assert pauses.seen == [600, 600, 600]
