"""A candidate request that was asked before is answered without computing, and never with what was before a change."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from stead.api.query.candidates import request_of
from stead.api.resources.allocation_candidates import form_of
from stead.api.versions import ALL_FEATURES, NEWEST, Agreed, V
from stead.candidates.engine import Answer, Enumeration, Timed
from stead.catalog.snapshot import Snapshot
from stead.service import service
from stead.service.service import BESIDE, Answers
from stead.store import resource_classes
from tests.rooms.store.books import fresh_custom

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.rooms.store.books import Books

pytestmark = pytest.mark.one_database


class Asking:
    """Asks a service for candidates."""

    def __init__(self, books: Books, lamp: str) -> None:
        self.books = books
        self.query = f"resources={lamp}:1"

    def answer(self, more: str = "", agreed: Agreed = ALL_FEATURES) -> tuple[Answer, bool]:
        """The answer, and whether it was computed for this request."""
        asked = (self.query + more, agreed)
        marks: list[tuple[str, float]] = []
        answer = self.books.service.candidates(request_of(*asked), form_of(agreed.placement), Timed(marks), asked)
        phases = [name for name, _ in marks]
        assert phases[0] == "refresh"  # each request reads the clock
        return answer, len(phases) > 1

    def is_computed(self, more: str = "", agreed: Agreed = ALL_FEATURES) -> bool:
        return self.answer(more, agreed)[1]


@pytest.fixture
def lamp(books: Books) -> str:
    """A class of which three hosts have some."""
    lamp = fresh_custom("LAMP")
    books.service.write(resource_classes.create, lamp)
    for _ in range(3):
        books.provider(**{lamp: 8})
    return lamp


@pytest.fixture
def asking(books: Books, lamp: str) -> Asking:
    return Asking(books, lamp)


@pytest.fixture
def elsewhere(second: Books, lamp: str) -> Asking:
    """The same with another service on the same database."""
    return Asking(second, lamp)


def test_while_nothing_changes_an_answer_is_computed_once(asking: Asking) -> None:
    (first, was_computed), (again, is_computed_again) = asking.answer(), asking.answer()
    assert first == again
    assert first.number == 3
    assert was_computed
    assert not is_computed_again


def test_after_a_change_by_either_service_both_compute_it_again(asking: Asking, elsewhere: Asking) -> None:
    for writer in (asking, elsewhere):
        for asker in (asking, elsewhere):
            asker.answer()
            assert not asker.is_computed()
        host = writer.books.provider(**{asking.query.removeprefix("resources=").removesuffix(":1"): 1})
        for asker in (asking, elsewhere):
            answer, is_computed = asker.answer()
            assert is_computed
            assert host.encode() in b"".join(answer.body)


def test_other_queries_and_versions_have_other_answers(asking: Asking) -> None:
    versions = [ALL_FEATURES, Agreed(NEWEST), Agreed(V.LIMIT), Agreed(V.WHOLE_SUMMARIES)]
    questions = [(more, agreed) for more in ("", "&limit=1", "&limit=2") for agreed in versions]
    computed = [asking.answer(*question) for question in questions]
    assert all(is_computed for _, is_computed in computed)
    assert [asking.answer(*question) for question in questions] == [(answer, False) for answer, _ in computed]
    assert len({b"".join(answer.body) for answer, _ in computed}) == 9  # the first two versions differ in nothing here


@pytest.mark.parametrize(
    ("randomize", "more", "is_repeatable"),
    [(False, "&order_by=random", False), (True, "", False), (True, "&order_by=pack", True), (False, "", True)],
)
def test_what_is_drawn_is_drawn_again(asking: Asking, randomize: bool, more: str, is_repeatable: bool) -> None:
    before, asking.books.service._enumeration = asking.books.service._enumeration, Enumeration(randomize=randomize)
    try:
        asking.answer(more)
        assert asking.is_computed(more) is not is_repeatable
    finally:
        asking.books.service._enumeration = before


def test_an_answer_that_the_work_cut_says_so_again(asking: Asking) -> None:
    before, asking.books.service._enumeration = asking.books.service._enumeration, Enumeration(work=60)
    try:
        (first, _), (again, is_computed_again) = asking.answer(), asking.answer()
    finally:
        asking.books.service._enumeration = before
    assert first.is_cut
    assert first == again
    assert not is_computed_again


def test_a_request_that_does_not_say_what_determines_it_is_computed(asking: Asking) -> None:
    request, form = request_of(asking.query, ALL_FEATURES), form_of(NEWEST)
    for _ in range(2):
        marks: list[tuple[str, float]] = []
        asking.books.service.candidates(request, form, Timed(marks))
        assert len(marks) > 1


def made(size: int = 1) -> Answer:
    return Answer([b"x" * size], is_cut=False, number=1)


class Unknown(Exception):
    """An answer would have to be computed."""


def unknown() -> Answer:
    raise Unknown


def is_kept(cache: Answers, snapshot: Snapshot, query: str) -> bool:
    try:
        cache.get(snapshot, (query, 0), unknown)
    except Unknown:
        return False
    return True


def test_a_reader_cannot_change_what_others_get() -> None:
    cache, snapshot = Answers(), Snapshot.empty()
    for make in (made, unknown, unknown):
        body = cache.get(snapshot, ("a", 0), make).body
        assert body == [b"x"]
        body.clear()


def test_the_oldest_answers_go_when_they_have_too_many_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "MOST_BYTES", 3 * (BESIDE + 100))
    cache, snapshot = Answers(), Snapshot.empty()
    for query in "abcd":
        cache.get(snapshot, (query, 0), lambda: made(99))
    assert [is_kept(cache, snapshot, query) for query in "abcd"] == [False, True, True, True]
    # An answer that needs the bytes of two.
    cache.get(snapshot, ("e" * (BESIDE + 100), 0), lambda: made(100))
    assert [is_kept(cache, snapshot, query) for query in "bcd"] == [False, False, True]


def test_an_answer_with_too_many_bytes_alone_removes_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "MOST_BYTES", 2 * BESIDE)
    cache, snapshot = Answers(), Snapshot.empty()
    cache.get(snapshot, ("a", 0), made)
    cache.get(snapshot, ("b", 0), lambda: made(2 * BESIDE))
    assert [is_kept(cache, snapshot, query) for query in "ab"] == [True, False]


def test_an_answer_that_was_computed_while_the_site_changed_is_not_kept_for_the_new_snapshot() -> None:
    cache, before, after = Answers(), Snapshot.empty(), Snapshot.empty()

    def changes_meanwhile() -> Answer:
        cache.get(after, ("b", 0), made)
        return made(7)

    assert cache.get(before, ("a", 0), changes_meanwhile) == made(7)
    assert [is_kept(cache, after, query) for query in "ab"] == [False, True]


def test_a_replaced_snapshot_is_not_kept_alive(asking: Asking) -> None:
    asking.answer()
    holds: Callable[[], Snapshot | None] = asking.books.service._answers._snapshot
    assert holds() is not None
    asking.books.provider(VCPU=1)
    asking.books.service.snapshot()
    assert holds() is None
