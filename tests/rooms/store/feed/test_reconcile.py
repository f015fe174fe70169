"""What another service does to the same database, which ticks no clock, is found by comparing."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa

from stead.store.feed import refresh_source
from stead.store.feed.refresh_source import Reconciling
from tests.rooms.store.books import BUMP_ELSEWHERE, Books, faults, fresh_custom, fresh_uuid, picture, reloaded
from tests.rooms.store.protocol.test_clock import id_of, ticks
from tests.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

VCPU = 0


def pass_over(books: Books) -> None:
    """One whole pass."""
    reconciling = Reconciling(books.store, books.service._catalog, 77.0)
    while reconciling.step() != 77.0:
        pass


@pytest.fixture
def host(books: Books) -> str:
    host = books.provider(VCPU=8, DISK_GB=100)
    books.claim(fresh_uuid(), {host: {"VCPU": 1}})
    return host


@pytest.fixture(params=[3, 1000], ids=["in portions", "at once"])
def portions(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(refresh_source, "PORTION", request.param)


def execute(books: Books, *statements: str, **values: object) -> None:
    for statement in statements:
        books.execute(statement, **{name: value for name, value in values.items() if f":{name}" in statement})


class Elsewhere:
    """What another service may do; each leaves its mark in the tables that it knows."""

    def __init__(self, books: Books, host: str) -> None:
        self.books, self.host = books, host
        self.consumer = fresh_uuid()
        books.claim(self.consumer, {host: {"VCPU": 2}})
        self.id = id_of(books, host)
        self.doomed = books.provider()

    def claim(self) -> None:
        assert self.books.claim_elsewhere(fresh_uuid(), self.host, VCPU, 3)

    def release(self) -> None:
        self.books.release_elsewhere(self.consumer)

    def claim_and_release(self) -> None:
        """As much as before is taken, by somebody else."""
        self.release()
        assert self.books.claim_elsewhere(fresh_uuid(), self.host, VCPU, 2)

    def make_a_provider(self) -> None:
        uuid = fresh_uuid()
        execute(
            self.books,
            "INSERT INTO resource_providers (uuid, name, generation, parent_provider_id, root_provider_id)"
            " VALUES (:uuid, :uuid, 0, :id, :id)",
            uuid=uuid, id=self.id,
        )  # fmt: skip
        execute(
            self.books,
            "INSERT INTO inventories (resource_provider_id, resource_class_id, total, reserved, min_unit, max_unit,"
            " step_size, allocation_ratio) VALUES (:id, 0, 7, 0, 1, 7, 1, 1.0)",
            BUMP_ELSEWHERE,
            id=id_of(self.books, uuid),
        )

    def delete_a_provider(self) -> None:
        execute(
            self.books,
            "UPDATE resource_providers SET root_provider_id = NULL WHERE uuid = :uuid",  # or InnoDB keeps its own root
            "DELETE FROM resource_providers WHERE uuid = :uuid",
            uuid=self.doomed,
        )

    def rename(self) -> None:
        execute(self.books, "UPDATE resource_providers SET name = :name WHERE id = :id", name=fresh_uuid(), id=self.id)

    def change_inventory(self) -> None:
        execute(
            self.books, "UPDATE inventories SET total = 9 WHERE resource_provider_id = :id AND resource_class_id = 0",
            BUMP_ELSEWHERE, id=self.id,
        )  # fmt: skip

    def change_traits(self) -> None:
        trait = self.books.scalar("SELECT id FROM traits WHERE name = 'HW_NUMA_ROOT'")
        execute(
            self.books, "INSERT INTO resource_provider_traits (trait_id, resource_provider_id) VALUES (:trait, :id)",
            BUMP_ELSEWHERE, trait=trait, id=self.id,
        )  # fmt: skip

    def change_aggregates(self) -> None:
        """Old microversions raise no generation for it."""
        uuid = fresh_uuid()
        execute(self.books, "INSERT INTO placement_aggregates (uuid) VALUES (:uuid)", uuid=uuid)
        aggregate = self.books.scalar("SELECT id FROM placement_aggregates WHERE uuid = :uuid", uuid=uuid)
        execute(
            self.books,
            "INSERT INTO resource_provider_aggregates (resource_provider_id, aggregate_id) VALUES (:id, :aggregate)",
            id=self.id, aggregate=aggregate,
        )  # fmt: skip

    def name_a_trait_and_a_class(self) -> None:
        number = self.books.scalar("SELECT MAX(id) + 1 FROM resource_classes")
        execute(self.books, "INSERT INTO traits (name) VALUES (:name)", name=fresh_custom())
        execute(
            self.books, "INSERT INTO resource_classes (id, name) VALUES (:number, :name)",
            number=number, name=fresh_custom(),
        )  # fmt: skip


WRITES = [name for name in vars(Elsewhere) if not name.startswith("_")]


@pytest.mark.usefixtures("portions")
@pytest.mark.parametrize("write", WRITES)
def test_every_process_knows_it_after_a_pass_of_one(books: Books, second: Books, host: str, write: str) -> None:
    elsewhere = Elsewhere(books, host)
    for service in (books, second):
        service.service.snapshot()
    getattr(elsewhere, write)()
    assert picture(second.service.snapshot()) != reloaded(books) or write == "release"  # which the kept sums hide
    pass_over(books)
    expected = reloaded(books)
    assert picture(second.service.snapshot()) == picture(books.service.snapshot()) == expected
    assert faults(books) == {}


def test_what_was_let_go_of_can_be_taken_again(books: Books, host: str) -> None:
    """No generation rose, so the kept sums stood, too high."""
    elsewhere = Elsewhere(books, host)
    elsewhere.release()
    assert books.used(host) == 3
    pass_over(books)
    assert books.used(host) == 1
    books.claim(fresh_uuid(), {host: {"VCPU": 7}})
    assert books.used(host) == 8


def test_a_pass_that_finds_nothing_writes_nothing(books: Books, host: str) -> None:
    before = ticks(books)
    pass_over(books)
    assert ticks(books) == before
    assert books.used(host) == 1


def test_our_own_writes_are_not_taken_for_those_of_others(
    books: Books, second: Books, host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that comes between the look at the database and that at memory is gone at the second look."""

    def state_of(*args: Any) -> Any:
        states = real(*args)
        while writes:
            writes.pop()()
        return states

    writes: list[Callable[[], Any]] = [lambda: second.claim(fresh_uuid(), {host: {"VCPU": 1}})]
    real = refresh_source.state_of
    monkeypatch.setattr(refresh_source, "state_of", state_of)
    before = sum(tick for tick, _ in ticks(books).values())
    pass_over(books)
    assert writes == []
    assert sum(tick for tick, _ in ticks(books).values()) == before + 1
    assert books.used(host) == 2


def test_the_statements_of_a_pass_do_not_grow_with_what_is_in_a_portion(empty_books: Books) -> None:
    def counted() -> int:
        seen: list[str] = []

        def note(_connection: object, _cursor: object, statement: str, *_: object) -> None:
            seen.append(statement)

        sa.event.listen(books.store.reader, "after_cursor_execute", note)
        pass_over(books)
        sa.event.remove(books.store.reader, "after_cursor_execute", note)
        return len(seen)

    books = empty_books
    books.provider(VCPU=4)
    books.service.snapshot()
    few = counted()
    for _ in range(5):
        books.claim(fresh_uuid(), {books.provider(VCPU=4): {"VCPU": 1}})
    books.service.snapshot()
    assert counted() == few


@pytest.fixture
def switching(books: Books) -> Iterator[Books]:
    """A service that reconciles by itself, beside another."""
    switching = Books(books.url, upgrade=False)
    switching.service.keep_up(reconcile_interval=0.05)
    yield switching
    switching.close()


def test_it_goes_on_by_itself_until_the_service_is_closed(books: Books, switching: Books) -> None:
    host = books.provider(VCPU=8)
    elsewhere = Elsewhere(books, host)
    elsewhere.release()
    wait_until(lambda: switching.used(host) == 0)
    elsewhere.claim()
    wait_until(lambda: switching.used(host) == 3)
    threads = [thread for thread in threading.enumerate() if thread.name == "reconcile"]
    assert threads
    switching.close()
    assert not any(thread.is_alive() for thread in threads)


def test_without_an_interval_there_is_none(books: Books) -> None:
    another = Books(books.url, upgrade=False)
    another.service.keep_up()
    assert "reconcile" not in {thread.name for thread in threading.enumerate()}
    another.close()
