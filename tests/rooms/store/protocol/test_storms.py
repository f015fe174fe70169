"""64 writers at once: while something is left, everybody gets it. Nobody is told of a conflict that is not his own."""

from __future__ import annotations

import random
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from stead.candidates.engine import Enumeration
from stead.domain.errors import CapacityExceeded, GenerationConflict
from stead.domain.names import STANDARD_RESOURCE_CLASSES
from stead.domain.provider import Inventory
from stead.service.service import Service
from stead.store import inventories
from stead.store.protocol.store import Store
from stead.store.sql.dialects import Database
from tests.rooms.store.books import Books, claim_of, faults, fresh_uuid
from tests.rooms.store.protocol.interleaving import outcome

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from tests.rooms.store.books import Amounts

pytestmark = pytest.mark.timeout(600)  # 64 writers, and the patience of each is five minutes

WRITERS = 64
PATIENCE_SECONDS = 300.0
ROOM = 10_000  # more than anybody takes
RARELY = 8  # one of so many changes inventories


@pytest.fixture
def cloud(ready_database_url: str) -> Iterator[Books]:
    """A service with as many connections as by default; how long a busy machine takes is not what is tested."""
    books = Books(ready_database_url)
    books.close()
    books.store = Store(Database(ready_database_url, pool_timeout=PATIENCE_SECONDS), write_timeout=PATIENCE_SECONDS)
    books.service = Service(books.store, Enumeration())
    books.service.start()
    yield books
    assert faults(books) == {}
    books.close()


def all_at_once(writer: Callable[[int], Iterable[Any]]) -> Counter[Any]:
    """How often what was told; each writer has a thread of its own and a number, and all of them begin together."""
    begin = threading.Barrier(WRITERS)

    def run(number: int) -> Counter[Any]:
        begin.wait(PATIENCE_SECONDS)
        return Counter(writer(number))

    with ThreadPoolExecutor(WRITERS) as pool:
        return sum(pool.map(run, range(WRITERS)), Counter())


def test_64_writers_take_the_last_unit_of_a_hot_provider_without_a_conflict(cloud: Books) -> None:
    books, each = cloud, 3
    host = books.provider(VCPU=WRITERS * each)

    def claim_some(_number: int) -> list[Any]:
        return [outcome(lambda: books.claim(fresh_uuid(), {host: {"VCPU": 1}}, None)) for _ in range(each)]

    assert all_at_once(claim_some) == {None: WRITERS * each}
    assert outcome(lambda: books.claim(fresh_uuid(), {host: {"VCPU": 1}}, None)) == CapacityExceeded.__name__
    assert books.used(host) == WRITERS * each
    assert books.generation(host) == 1 + WRITERS * each
    assert books.scalar("SELECT COUNT(*) FROM consumers") == WRITERS * each
    assert books.scalar("SELECT SUM(used) FROM allocations") == WRITERS * each


class Client:
    """Does what a cloud does to a few providers that everybody uses; only its own consumers and class are its own."""

    ROUNDS = 3

    def __init__(self, books: Books, providers: list[str], number: int) -> None:
        self._books = books
        self._providers = providers
        self._chance = random.Random(number)
        self._number = number
        self.held: dict[str, Amounts] = {}
        self._generations: dict[str, int] = {}

    def run(self) -> list[Any]:
        return [told for _ in range(self.ROUNDS) for told in self._chance.choice(self._habits())()]

    def _habits(self) -> list[Callable[[], list[Any]]]:
        mine = [self._move, self._release] if self.held else []
        # Few writers change inventories in a cloud; what they do excludes all claims for a moment.
        return [self._claim, self._claim_several, *mine] + ([self._restock] if self._number % RARELY == 0 else [])

    def _some(self) -> Amounts:
        return {uuid: {"VCPU": 1} for uuid in self._chance.sample(self._providers, self._chance.randint(1, 4))}

    def _write(self, amounts: dict[str, Amounts]) -> list[Any]:
        claims = [claim_of(consumer, amounts[consumer], self._generations.get(consumer)) for consumer in amounts]
        told = outcome(partial(self._books.service.claim, claims))
        if told is None:
            self.held |= amounts
            self._generations |= {consumer: self._generations.get(consumer, 0) + 1 for consumer in amounts}
        return [told]

    def _claim(self) -> list[Any]:
        return self._write({fresh_uuid(): self._some()})

    def _claim_several(self) -> list[Any]:
        return self._write({fresh_uuid(): self._some() for _ in range(3)})

    def _move(self) -> list[Any]:
        return self._write({self._chance.choice(sorted(self.held)): self._some()})

    def _release(self) -> list[Any]:
        consumer = self._chance.choice(sorted(self.held))
        del self.held[consumer], self._generations[consumer]
        return [outcome(partial(self._books.release, consumer))]

    def _restock(self) -> list[Any]:
        """A class of its own comes and goes; the total of all changes, if nobody changed anything since it was read."""
        provider, write = self._chance.choice(self._providers), self._books.service.write
        generation, more = self._books.generation(provider), Inventory(ROOM + self._number)
        changed = outcome(partial(write, inventories.replace_one, provider, "VCPU", more, generation))
        return [
            outcome(partial(self._books.stock, provider, **{self._own_class: 1})),
            outcome(partial(write, inventories.delete_one, provider, self._own_class)),
            None if changed == generation + 1 else changed,
        ]

    @property
    def _own_class(self) -> str:
        return STANDARD_RESOURCE_CLASSES[2 + self._number // RARELY]


def test_64_clients_who_do_everything_at_once_are_told_of_no_conflict_but_their_own(cloud: Books) -> None:
    books = cloud
    hosts = [books.provider(VCPU=ROOM) for _ in range(5)]
    clients = [Client(books, hosts, number) for number in range(WRITERS)]
    told = all_at_once(lambda number: clients[number].run())
    assert told.keys() <= {None, GenerationConflict.__name__}, told  # the second by who changes a total
    assert told[None] >= WRITERS * Client.ROUNDS
    allocations = {consumer: amounts for client in clients for consumer, amounts in client.held.items()}
    used = Counter(uuid for amounts in allocations.values() for uuid in amounts)
    assert {host: books.used(host) for host in hosts} == {host: used[host] for host in hosts}
    assert {consumer: books.held(consumer) for consumer in allocations} == allocations
    assert books.scalar("SELECT COUNT(*) FROM consumers") == len(allocations)
