"""Many writers at once, in threads and in processes: nothing is over-committed, lost, half done, falsely refused."""

from __future__ import annotations

import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest
import sqlalchemy as sa

from stead.domain.errors import CapacityExceeded, ConsumerConflict, ParentRefused, ProviderInUse
from stead.store import names, providers, traits
from tests.rooms.store.books import Books, faults, fresh_custom, fresh_uuid, picture, reloaded
from tests.rooms.store.protocol.interleaving import outcome
from tests.rooms.store.protocol.other_process import OtherProcess
from tests.rooms.store.protocol.storm import storm
from tests.waiting import PATIENCE_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any


pytestmark = pytest.mark.timeout(300)  # many clients, in several processes


def at_once(writes: Sequence[Callable[[], Any]]) -> list[Any]:
    """What each of them is told; all begin together."""
    begin = threading.Barrier(len(writes))

    def run(write: Callable[[], Any]) -> Any:
        begin.wait(PATIENCE_SECONDS)
        return outcome(write)

    with ThreadPoolExecutor(len(writes)) as pool:
        return list(pool.map(run, writes))


def retryable_errors(books: Books) -> list[str]:
    """A list that grows with every deadlock, duplicate key or lost lock that the database reports to this process."""
    seen: list[str] = []

    def on_error(context: sa.engine.ExceptionContext) -> None:
        seen.append(str(context.original_exception))

    sa.event.listen(books.store.writer, "handle_error", on_error)
    return seen


def test_a_storm_of_claims_in_threads_and_processes_is_in_the_books_to_the_last_unit(empty_books: Books) -> None:
    books = empty_books
    hosts = [books.provider(VCPU=6) for _ in range(6)]
    ticks = "SELECT SUM(tick) FROM stead_clock"
    before = books.scalar(ticks)
    clients, rounds = 4, 12
    with OtherProcess(books.url) as first, OtherProcess(books.url) as second, ThreadPoolExecutor(clients) as pool:
        for number, process in enumerate((first, second)):
            process.send("storm", -1 - number, hosts, rounds)
        ours = [pool.submit(storm, books, seed, hosts, rounds) for seed in range(clients)]
        told = [*(future.result() for future in ours), first.receive(), second.receive()]
    allocations = {consumer: amounts for each in told for consumer, amounts in each["held"].items()}
    assert {consumer: books.held(consumer) for consumer in allocations} == allocations
    assert books.scalar("SELECT COUNT(*) FROM consumers") == len(allocations)
    taken: Counter[str] = sum((Counter(each["taken"]) for each in told), Counter())
    assert {host: books.generation(host) for host in hosts} == {host: 1 + taken[host] for host in hosts}
    used = Counter(dict.fromkeys(hosts, 0))
    for amounts in allocations.values():
        used.update({uuid: resources["VCPU"] for uuid, resources in amounts.items()})
    assert {host: books.used(host) for host in hosts} == dict(used)
    assert sum(each["refused"] for each in told) > 0, "the storm was too weak to fill anything"
    assert books.scalar(ticks) - before == sum(each["writes"] for each in told), "every write ticks once"


def test_no_claim_on_a_hot_provider_is_refused_while_something_is_left(books: Books) -> None:
    host = books.provider(VCPU=30)
    consumers = [fresh_uuid() for _ in range(40)]
    with ThreadPoolExecutor(8) as pool:
        told = list(
            pool.map(lambda consumer: outcome(lambda: books.claim(consumer, {host: {"VCPU": 1}}, None)), consumers)
        )
    assert Counter(told) == {None: 30, CapacityExceeded.__name__: 10}
    assert books.used(host) == 30
    assert books.generation(host) == 31


def test_claims_in_opposite_orders_do_not_deadlock(empty_books: Books) -> None:
    books = empty_books
    hosts = [books.provider(VCPU=1000) for _ in range(5)]
    books.claim(fresh_uuid(), {hosts[0]: {"VCPU": 1}})  # the project and the user are there from now on
    errors = retryable_errors(books)

    def claims(number: int) -> None:
        ordered = hosts if number % 2 else hosts[::-1]
        for _ in range(6):
            books.claim(fresh_uuid(), {host: {"VCPU": 1} for host in ordered}, None)

    at_once([lambda number=number: claims(number) for number in range(6)])
    assert errors == []
    assert books.used(hosts[0]) == 37


def test_one_of_many_first_claims_of_a_consumer_wins(books: Books) -> None:
    hosts, consumer = [books.provider(VCPU=4) for _ in range(8)], fresh_uuid()
    told = at_once([lambda host=host: books.claim(consumer, {host: {"VCPU": 1}}, None) for host in hosts])
    assert Counter(told) == {None: 1, ConsumerConflict.__name__: 7}
    assert sum(books.used(host) for host in hosts) == 1
    assert books.consumer_generation(consumer) == 1


def test_one_of_many_claims_at_a_consumers_generation_wins(books: Books) -> None:
    hosts, consumer = [books.provider(VCPU=4) for _ in range(8)], fresh_uuid()
    books.claim(consumer, {hosts[0]: {"VCPU": 1}}, None)
    told = at_once([lambda host=host: books.claim(consumer, {host: {"VCPU": 2}}, 1) for host in hosts])
    assert Counter(told) == {None: 1, ConsumerConflict.__name__: 7}
    assert sum(books.used(host) for host in hosts) == 2
    assert books.consumer_generation(consumer) == 2


def test_moves_in_a_ring_never_close_it(books: Books) -> None:
    ring = [books.provider() for _ in range(5)]
    pairs = list(zip(ring, [*ring[1:], ring[0]], strict=True))
    told = at_once([lambda a=a, b=b: books.move(a, b).uuid == a for a, b in pairs])
    assert Counter(told) == {True: 4, ParentRefused.__name__: 1}


def test_children_come_and_parents_move_and_go(books: Books) -> None:
    parents = [books.provider() for _ in range(3)]
    children = [fresh_uuid() for _ in range(6)]
    create = [
        lambda child=child, parent=parents[n % 3]: books.service.write(providers.create, child, child, parent).uuid
        for n, child in enumerate(children)
    ]
    told = at_once([*create, lambda: books.move(parents[0], parents[1]).uuid, lambda: books.drop(parents[2])])
    assert faults(books) == {}
    assert told[6] == parents[0]
    gone = told[7] is None
    assert gone != any(child in told for child in children[2::3])


def test_the_same_new_names_at_the_same_time_are_made_once(books: Books) -> None:
    fresh = [fresh_uuid() for _ in range(3)]
    for ensure, table in (
        (names.project_ids, "projects"),
        (names.user_ids, "users"),
        (names.consumer_type_ids, "consumer_types"),
        (names.aggregate_ids, "placement_aggregates"),
    ):
        before = books.scalar(f"SELECT COUNT(*) FROM {table}")
        told = at_once([lambda n=n: ensure(books.store, fresh if n % 2 else fresh[::-1]) for n in range(6)])  # noqa: B023  # ends in its round
        assert all(ids == told[0] for ids in told), table
        assert sorted(told[0]) == sorted(fresh)
        assert books.scalar(f"SELECT COUNT(*) FROM {table}") == before + 3


def test_a_trait_is_made_by_one_of_many(books: Books) -> None:
    name = fresh_custom()
    told = at_once([lambda: books.service.write(traits.create, name) for _ in range(6)])
    assert Counter(told) == {True: 1, False: 5}


def test_services_that_start_together_on_an_empty_database_all_start(database_url: str) -> None:
    started: list[Books] = []
    at_once([lambda: started.append(Books(database_url)) for _ in range(3)])
    assert len(started) == 3
    pictures = [picture(books.service.snapshot()) for books in started]
    assert pictures == [reloaded(started[0])] * 3
    assert started[0].scalar("SELECT COUNT(*) FROM resource_classes") == 21
    for books in started:
        books.close()


def test_processes_that_start_together_on_an_empty_database_all_start(database_url: str) -> None:
    with OtherProcess(database_url) as first, OtherProcess(database_url) as second:
        host = first.call("provider", VCPU=1)
        assert second.call("knows", host)


@pytest.mark.parametrize("change", ["rename", "move", "delete"])
def test_a_provider_that_is_claimed_all_the_time_can_be_changed_at_once(
    books: Books, change: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The generations that claims raise are nothing that a rename, a move or a deletion rests on."""
    caplog.set_level("DEBUG", "stead.store.protocol.store")
    host, target = books.provider(VCPU=10_000), books.provider()
    changes: dict[str, Callable[[], Any]] = {
        "rename": lambda: books.rename(host, f"renamed {host}").uuid == host,
        "move": lambda: books.move(host, target).root == target,
        "delete": lambda: outcome(lambda: books.drop(host)) == ProviderInUse.__name__,
    }
    done = threading.Event()

    def claim() -> None:
        consumer = fresh_uuid()
        while not done.is_set():
            books.claim(consumer, {host: {"VCPU": 1}})

    with ThreadPoolExecutor(3) as pool:
        claims = [pool.submit(claim) for _ in range(3)]
        try:
            while books.generation(host) < 10:
                pass
            told = [changes[change]() for _ in range(5)]
        finally:
            done.set()
        for each in claims:
            each.result()
    assert told == [True] * 5
    assert [record.getMessage() for record in caplog.records if "tried again" in record.getMessage()] == []
