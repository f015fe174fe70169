"""Advice rests on the consumers in the database and on the usage in a snapshot, which must be of one moment."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stead.candidates.engine import Enumeration
from stead.domain.request import CandidateRequest, RequestGroup
from stead.service.what_if import Advised, Likeness, advice
from stead.store.consumer_listing import of_trees
from tests.rooms.store.books import Books, fresh_uuid

if TYPE_CHECKING:
    from stead.catalog.snapshot import Snapshot
    from stead.domain.changes import Moment

WHOLE_HOST = CandidateRequest((RequestGroup("", {"VCPU": 8}),))


class Remembered:
    """The catalog as it was when this was made."""

    def __init__(self, books: Books) -> None:
        self._snapshot = books.service.snapshot()

    def view(self) -> tuple[Snapshot, Moment | None]:
        return self._snapshot, None


def advised(books: Books, catalog: Remembered) -> Advised:
    return advice(books.store, catalog, Enumeration(), WHOLE_HOST, 1, Likeness(False, False), 1000)


def test_a_consumer_that_changed_after_the_snapshot_does_not_move(empty_books: Books) -> None:
    books = empty_books
    hosts = [books.provider(VCPU=8) for _ in range(2)]
    consumers = [fresh_uuid() for _ in hosts]
    for consumer, host, amount in zip(consumers, hosts, (1, 2), strict=True):
        books.claim(consumer, {host: {"VCPU": amount}})
    before = Remembered(books)
    assert [move.holdings.consumer for move in advised(books, before).advice.moves or ()] == consumers[:1]
    books.claim(consumers[0], {hosts[0]: {"VCPU": 3}})
    assert [move.holdings.consumer for move in advised(books, before).advice.moves or ()] == consumers[1:]
    books.release(consumers[1])
    without = advised(books, before).advice
    assert (without.moves, without.at_least) == (None, 1)


def test_a_consumer_with_a_provider_that_is_new_does_not_move(empty_books: Books) -> None:
    """Its allocations from the new provider would be lost."""
    books = empty_books
    hosts = [books.provider(VCPU=8) for _ in range(2)]
    consumers = [fresh_uuid() for _ in hosts]
    for consumer, host in zip(consumers, hosts, strict=True):
        books.claim(consumer, {host: {"VCPU": 1}})
    before = Remembered(books)
    new = books.provider(DISK_GB=8)
    books.claim(consumers[0], {hosts[0]: {"VCPU": 1}, new: {"DISK_GB": 1}})
    assert [move.holdings.consumer for move in advised(books, before).advice.moves or ()] == consumers[1:]


def test_the_consumers_of_some_trees_are_read_with_all_their_allocations(empty_books: Books) -> None:
    books = empty_books
    roots = [books.provider(VCPU=8) for _ in range(3)]
    child = books.provider(parent=roots[0], DISK_GB=8)
    allocations = {
        fresh_uuid(): {child: {"DISK_GB": 1}, roots[2]: {"VCPU": 2}},
        fresh_uuid(): {roots[1]: {"VCPU": 1}},
        fresh_uuid(): {roots[2]: {"VCPU": 1}},
    }
    for consumer, amounts in allocations.items():
        books.claim(consumer, amounts)
    snapshot = books.service.snapshot()
    ids = [snapshot.identities.ids[snapshot.find(uuid) or 0] for uuid in roots[:2]]
    holders = books.service.read(of_trees, ids, 10)
    assert {consumer: holder.amounts() for consumer, holder in holders.items()} == dict(list(allocations.items())[:2])
    assert len(books.service.read(of_trees, ids, 1)) == 1
