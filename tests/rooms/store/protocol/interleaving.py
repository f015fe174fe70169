"""Two writes, the second of which comes right between two statements of the first: does some order explain the end?

Every statement of the first is tried. Where the second has to wait for a lock of the first, it ends after it.
"""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from stead.domain.errors import SteadError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.rooms.store.books import Books

    Write = Callable[[], Any]

STUCK_SECONDS = 0.1
"""Without a step for so long, the second is taken to wait for a lock; longer never finds what is not there."""

ENOUGH_WAITS = 2


@dataclass(frozen=True)
class Case:
    """Two writes on things of their own, and what is to be seen of them afterwards, uuids left out."""

    first: Write
    second: Write
    seen: Callable[[], Any]

    def swapped(self) -> Case:
        return Case(self.second, self.first, self.seen)


def outcome(write: Write) -> Any:
    """What a client would be told."""
    try:
        return write()
    except SteadError as error:
        return type(error).__name__


def orders(make: Callable[[], Case]) -> list[Any]:
    """What may come out: that of the first before the second, and the other way round."""
    case = make()
    forwards = outcome(case.first), outcome(case.second), case.seen()
    case = make()
    backwards = (outcome(case.second), outcome(case.first))[::-1]
    return [forwards, (*backwards, case.seen())]


def interleavings(books: Books, make: Callable[[], Case]) -> Iterator[tuple[int, Any]]:
    """What came out with the second after each statement of the first.

    Locks are kept to the end, so once the second has had to wait it has to wait after every later statement too: one
    more is tried, and then no more. (Where it has not, it only seemed so, on a busy machine.)
    """
    statement = waited = 0
    while waited < ENOUGH_WAITS:
        statement += 1
        case = make()
        result = _interleaved(books, case, statement)
        if result is None:
            return
        yield statement, result.end
        waited = waited + 1 if result.waited else 0  # who need not wait now did not have to before: he was only slow


@dataclass(frozen=True)
class Result:
    end: Any
    waited: bool


def _interleaved(books: Books, case: Case, after: int) -> Result | None:
    """None: the first has not so many statements."""
    steps: Counter[int] = Counter()
    results: list[Any] = []
    waits: list[bool] = []
    me = threading.get_ident()
    second = threading.Thread(target=lambda: results.append(outcome(case.second)))

    def step(*_: object) -> None:
        steps[threading.get_ident()] += 1
        if threading.get_ident() == me and steps[me] == after:
            second.start()
            waits.append(_has_to_wait(second, steps))

    sa.event.listen(books.store.writer, "after_cursor_execute", step)
    try:
        first = outcome(case.first)
    finally:
        sa.event.remove(books.store.writer, "after_cursor_execute", step)
    if not waits:
        return None
    second.join(60)
    assert not second.is_alive(), "the second write never ended"
    assert results, "the second write failed in a way no client should see"
    return Result((first, results[0], case.seen()), waits[0])


def _has_to_wait(second: threading.Thread, steps: Counter[int]) -> bool:
    before = -1
    while second.is_alive() and steps[second.ident or 0] > before:
        before = steps[second.ident or 0]
        second.join(STUCK_SECONDS)
    return second.is_alive()
