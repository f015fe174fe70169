"""What is taken of each provider is kept as sums: they are those of the allocations, and nobody adds those up again."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stead.domain.errors import CapacityExceeded, GenerationConflict, InventoryInUse, ProviderInUse
from stead.domain.provider import Inventory
from stead.store import inventories, providers, resource_classes, usages
from stead.store.provider_filter import all_in_portions, with_ids
from tests.rooms.store.books import Books, claim_of, faults, fresh_custom, fresh_uuid, picture, reloaded
from tests.rooms.store.protocol.interleaving import outcome
from tests.rooms.store.protocol.storm import storm
from tests.rooms.store.protocol.test_clock import id_of
from tests.selection import examples

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = pytest.mark.timeout(300)  # histories of many writes, each followed by an audit

VCPU = 0
MANY_CONSUMERS = 300


@contextmanager
def added_up(*all_books: Books) -> Iterator[list[str]]:
    """The statements that add up allocations, of writes and reads alike."""
    seen: list[str] = []

    def note(_connection: object, _cursor: object, statement: str, *_: object) -> None:
        if "sum(" in statement.lower() and "allocations" in statement:
            seen.append(statement)

    engines = [
        engine for books in all_books for engine in (books.store.writer, books.store.reader, books.store.refresher)
    ]
    for engine in engines:
        sa.event.listen(engine, "before_cursor_execute", note)
    try:
        yield seen
    finally:
        for engine in engines:
            sa.event.remove(engine, "before_cursor_execute", note)


def crowded(books: Books) -> tuple[str, list[str]]:
    """A provider with many consumers, and those."""
    pool, crowd = books.provider(DISK_GB=10_000, VCPU=10_000), [fresh_uuid() for _ in range(MANY_CONSUMERS)]
    books.service.claim([claim_of(consumer, {pool: {"DISK_GB": 2, "VCPU": 1}}, None) for consumer in crowd])
    return pool, crowd


def sums_of(books: Books, ids: list[int] | None) -> dict[tuple[int, int], int]:
    if ids is not None:
        return books.service.read(usages.current, with_ids(ids))
    return books.service.read(lambda connection: usages.current(connection, *all_in_portions(connection, 2)))


WRITES = ("claim", "move", "release", "traits", "inventories", "reshape", "claim elsewhere", "replace provider")


class Site:
    """Three providers and some consumers, to which things happen."""

    def __init__(self, books: Books) -> None:
        self.books = books
        self.hosts = [books.provider(VCPU=20, DISK_GB=20) for _ in range(3)]
        self.held: list[str] = []

    def happen(self, write: str, number: int) -> None:
        books, host = self.books, self.hosts[number % 3]
        other = self.hosts[(number + 1) % 3]
        consumer = self.held[number % len(self.held)] if self.held else None
        if write == "claim":
            self.held.append(fresh_uuid())
            amounts = [
                {host: {"VCPU": 1}},
                {host: {"DISK_GB": 2}},
                {host: {"VCPU": 1, "DISK_GB": 1}, other: {"VCPU": 1}},
            ]
            books.claim(self.held[-1], amounts[number % 2 + (number % 5 == 0)])
        elif write == "claim elsewhere":
            self.held.append(fresh_uuid())
            assert books.claim_elsewhere(self.held[-1], host, VCPU, 1)
        elif write == "move" and consumer:
            books.claim(consumer, {other: {"VCPU": 2}})
        elif write == "release" and consumer:
            self.held.remove(consumer)
            books.release(consumer) if number % 2 else books.claim(consumer, {})
        elif write == "traits":
            books.trait(host, *(["HW_NUMA_ROOT"] if number % 2 else []))
        elif write == "inventories":
            books.restock(host, VCPU=20 + number % 4, DISK_GB=20)
        elif write == "reshape" and consumer:
            shapes = {host: books.shape(host, VCPU=20, DISK_GB=20 + number % 3)}
            books.reshape(shapes, {consumer: {host: {"VCPU": 1}, other: {"DISK_GB": 1}}})
        elif write == "replace provider":
            with suppress(ProviderInUse):
                books.drop(host)
                self.hosts[number % 3] = books.provider(VCPU=20, DISK_GB=20)


@settings(
    max_examples=examples(12, quick=5), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.lists(st.tuples(st.sampled_from(WRITES), st.integers(0, 60)), min_size=5, max_size=16))
def test_the_sums_are_those_of_the_allocations_whatever_happens(books: Books, steps: list[tuple[str, int]]) -> None:
    site = Site(books)
    for write, number in steps:
        site.happen(write, number)
        ids = [id_of(books, host) for host in site.hosts]
        true = books.service.read(usages.added_up, ids)
        assert sums_of(books, ids) == true
        every = sums_of(books, None)
        assert {place: used for place, used in every.items() if place[0] in ids} == true
    assert faults(books) == {}
    for consumer in site.held:
        books.release(consumer)
    assert sums_of(books, ids) == {}


def test_a_crowd_is_never_added_up_again(empty_books: Books) -> None:
    """Neither by a claim, a release, a reshape or a write of anything else, nor by who reads what they did."""
    books = empty_books
    pool, crowd = crowded(books)
    other, consumer = books.provider(VCPU=10), fresh_uuid()
    books.claim(fresh_uuid(), {other: {"VCPU": 1}})
    second = Books(books.url, upgrade=False)
    second.service.snapshot()
    writes: list[Callable[[], Any]] = [
        lambda: books.claim(consumer, {pool: {"DISK_GB": 5, "VCPU": 1}}),
        lambda: books.claim(consumer, {pool: {"DISK_GB": 6}}),
        lambda: books.claim(consumer, {other: {"VCPU": 1}}),
        lambda: books.claim(crowd[0], {}),
        lambda: books.release(crowd[1]),
        lambda: books.trait(pool, "HW_NUMA_ROOT"),
        lambda: books.restock(pool, DISK_GB=20_000, VCPU=20_000),
        lambda: books.aggregate(pool, fresh_uuid()),
        lambda: books.rename(pool, fresh_uuid()),
        lambda: books.reshape({pool: books.shape(pool, DISK_GB=9_000, VCPU=9_000)}, {}),
        lambda: books.reshape({other: books.shape(other, VCPU=9)}, {crowd[2]: {other: {"VCPU": 1}}}),
    ]
    with added_up(books, second) as seen:
        for write in writes:
            write()
            used = (second.used(pool, "DISK_GB"), second.used(pool, "VCPU"))
        assert picture(second.service.snapshot()) == reloaded(books)
    assert seen == []
    assert used == (2 * (MANY_CONSUMERS - 3), MANY_CONSUMERS - 3)
    second.close()


def test_what_another_service_claimed_is_added_up_once(books: Books) -> None:
    pool, crowd = crowded(books)
    other = books.provider(VCPU=10)
    books.claim(fresh_uuid(), {other: {"VCPU": 1}})
    assert books.claim_elsewhere(fresh_uuid(), pool, VCPU, 7)
    with added_up(books) as seen:
        books.release(crowd[0])
        books.claim(crowd[1], {other: {"VCPU": 1}})
        books.trait(pool, "HW_NUMA_ROOT")
    assert seen == [], "nobody had to know"
    with added_up(books) as seen:
        books.claim(fresh_uuid(), {pool: {"VCPU": 1}})
        books.claim(fresh_uuid(), {pool: {"VCPU": 1}})
    assert len(seen) == 1
    assert books.used(pool, "VCPU") == MANY_CONSUMERS - 2 + 7 + 2


def test_a_stale_sum_is_written_over_even_of_a_class_that_nobody_holds_any_more(books: Books) -> None:
    host, consumer = books.provider(VCPU=4, DISK_GB=4), fresh_uuid()
    books.claim(consumer, {host: {"VCPU": 1, "DISK_GB": 1}})
    books.release_elsewhere(consumer)
    assert books.claim_elsewhere(fresh_uuid(), host, VCPU, 3)
    books.claim(fresh_uuid(), {host: {"VCPU": 1}})
    assert sums_of(books, [id_of(books, host)]) == {(id_of(books, host), VCPU): 4}


def test_what_another_service_released_is_missed_until_it_claims_but_never_over_commits(
    ready_database_url: str,
) -> None:
    books = Books(ready_database_url)
    host, consumer = books.provider(VCPU=4), fresh_uuid()
    books.claim(consumer, {host: {"VCPU": 3}})
    books.release_elsewhere(consumer)
    assert outcome(lambda: books.claim(fresh_uuid(), {host: {"VCPU": 2}})) == CapacityExceeded.__name__
    assert books.claim_elsewhere(fresh_uuid(), host, VCPU, 1)
    books.claim(fresh_uuid(), {host: {"VCPU": 2}})
    assert faults(books) == {}
    books.close()


def test_all_kept_sums_may_be_thrown_away_at_any_time(books: Books) -> None:
    pool, crowd = crowded(books)
    for write in (
        lambda: books.claim(crowd[0], {pool: {"VCPU": 3}}),
        lambda: books.release(crowd[1]),
        lambda: books.trait(pool, "HW_NUMA_ROOT"),
        lambda: books.claim(crowd[2], {}),
    ):
        books.execute("DELETE FROM stead_usage")
        write()
        assert picture(books.service.snapshot()) == reloaded(books)
        assert faults(books) == {}
    assert books.used(pool, "VCPU") == MANY_CONSUMERS


def test_a_provider_takes_its_sums_with_it(books: Books) -> None:
    host, consumer = books.provider(VCPU=4), fresh_uuid()
    id_ = id_of(books, host)
    books.claim(consumer, {host: {"VCPU": 3}})
    books.release(consumer)
    number_of_sums = "SELECT COUNT(*) FROM stead_usage WHERE provider_id = :id"
    assert books.scalar(number_of_sums, id=id_) == 1
    books.drop(host)
    assert books.scalar(number_of_sums, id=id_) == 0


def test_a_new_provider_inherits_nothing_of_one_that_had_its_id(books: Books) -> None:
    host, consumer = books.provider(VCPU=4), fresh_uuid()
    id_ = id_of(books, host)
    books.claim(consumer, {host: {"VCPU": 3}})
    books.release_elsewhere(consumer)
    books.execute("DELETE FROM inventories WHERE resource_provider_id = :id", id=id_)
    books.execute("UPDATE resource_providers SET root_provider_id = NULL WHERE id = :id", id=id_)
    books.execute("DELETE FROM resource_providers WHERE id = :id", id=id_)
    new = books.provider(VCPU=4)
    if id_of(books, new) != id_:
        books.execute("DELETE FROM stead_usage WHERE provider_id = :id", id=id_)
        pytest.skip("this database never gives an id again")
    books.restock(new, VCPU=4)
    books.claim(fresh_uuid(), {new: {"VCPU": 4}})
    assert books.used(new) == 4


def test_a_sum_of_nothing_does_not_keep_a_class(books: Books) -> None:
    name, consumer = fresh_custom(), fresh_uuid()
    books.service.write(resource_classes.create, name)
    host = books.provider(VCPU=1, **{name: 4})
    books.claim(consumer, {host: {name: 3}})
    books.release(consumer)
    assert books.scalar("SELECT used FROM stead_usage WHERE provider_id = :id", id=id_of(books, host)) == 0
    books.restock(host, VCPU=1)
    books.service.write(resource_classes.delete, name)
    books.claim(consumer, {host: {"VCPU": 1}})
    assert picture(books.service.snapshot()) == reloaded(books)


def test_the_sums_survive_a_storm_of_every_kind_of_write(empty_books: Books) -> None:
    books = empty_books
    hosts = [books.provider(VCPU=8) for _ in range(4)]
    done = threading.Event()

    def change(write: Callable[[str, int], Any]) -> None:
        number = 0
        while not done.is_set():
            number += 1
            with suppress(GenerationConflict, InventoryInUse, CapacityExceeded):
                write(hosts[number % 4], number)

    def claim_elsewhere(host: str, _: int) -> None:
        consumer = fresh_uuid()
        if books.claim_elsewhere(consumer, host, VCPU, 1):
            books.release(consumer)

    def reshape(host: str, number: int) -> None:
        books.reshape({host: books.shape(host, VCPU=8, DISK_GB=number)}, {})

    changes: list[Callable[[str, int], Any]] = [
        lambda host, number: books.trait(host, *(["HW_NUMA_ROOT"] if number % 2 else [])),
        lambda host, number: books.service.write(
            inventories.replace_one, host, "VCPU", Inventory(8, max_unit=2 + number % 3), books.generation(host)
        ),
        claim_elsewhere,
        reshape,
    ]
    with ThreadPoolExecutor(len(changes) + 3) as pool:
        others = [pool.submit(change, write) for write in changes]
        storms = [pool.submit(storm, books, seed, hosts, 12) for seed in range(3)]
        try:
            allocations = {consumer: amounts for each in storms for consumer, amounts in each.result()["held"].items()}
        finally:
            done.set()
        for other in others:
            other.result()
    assert {consumer: books.held(consumer) for consumer in allocations} == allocations
    ids = books.service.read(providers.ids_by_uuid, hosts)
    assert sums_of(books, None) == books.service.read(usages.added_up, list(ids.values()))
