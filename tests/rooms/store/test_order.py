"""What is promised in an order comes in it, and each once, whatever plan the database makes for a query."""

from __future__ import annotations

from contextlib import contextmanager
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa

from stead.domain.claim import NOBODY
from stead.domain.errors import InventoryInUse
from stead.domain.request import Page
from stead.store import consumer_listing, inventories
from stead.store.consumer_listing import ConsumerFilter
from stead.store.tables import consumers
from tests.rooms.store.books import PROJECT, Books, fresh_uuid

if TYPE_CHECKING:
    from collections.abc import Iterator

PLANS = {
    "sqlite": ["PRAGMA reverse_unordered_selects = OFF", "PRAGMA reverse_unordered_selects = ON"],
    "postgresql": ["SET enable_nestloop = off", "SET enable_hashjoin = off; SET enable_mergejoin = off"],
    "mysql": [
        "SET optimizer_switch = 'firstmatch=off,materialization=off'",  # LooseScan of the semi-joins
        "SET optimizer_switch = 'firstmatch=off,loosescan=off'",
        "SET optimizer_switch = 'semijoin=off'",
    ],
}
"""Settings of a connection under which plans differ, by kind of database."""

CLASSES = ["VCPU", "MEMORY_MB", "DISK_GB", "PCI_DEVICE", "SRIOV_NET_VF"]
"""In the order of their ids."""


@contextmanager
def planned(books: Books, setting: str) -> Iterator[None]:
    """New connections of *books* plan as *setting* says."""

    def plan(connection: Any, _record: object) -> None:
        connection.cursor().execute(setting)

    engines = (books.store.writer, books.store.reader)
    for engine in engines:
        sa.event.listen(engine, "connect", plan)
        engine.dispose()
    try:
        yield
    finally:
        for engine in engines:
            sa.event.remove(engine, "connect", plan)
            engine.dispose()


def every_plan(books: Books) -> Iterator[None]:
    """*books* plans in each way that its database has, one after the other."""
    for setting in PLANS[books.store.writer.dialect.name]:
        with planned(books, setting):
            yield


def test_classes_in_use_are_named_once_in_the_order_of_their_ids(books: Books) -> None:
    draw = Random(0)
    hosts = [books.provider() for _ in range(6)]
    for host in hosts:
        books.restock(host, **dict.fromkeys(draw.sample(CLASSES, len(CLASSES)), 99))
    taken: dict[str, set[str]] = {host: set() for host in hosts}
    for _ in range(3):
        for name in draw.sample(CLASSES[1:], 4):
            holders_of_it = draw.sample(hosts, 3)
            books.claim(fresh_uuid(), {host: {name: 1} for host in holders_of_it})
            for host in holders_of_it:
                taken[host].add(name)
        for _ in every_plan(books):
            for host in filter(taken.get, hosts):
                in_use = sorted(taken[host], key=CLASSES.index)
                with pytest.raises(InventoryInUse) as refused:
                    books.service.write(inventories.delete_all, host)
                assert refused.value.resource_classes == in_use
                others = [other for other in hosts if other != host]
                with pytest.raises(InventoryInUse) as refused:
                    books.reshape({provider: books.shape(provider, VCPU=99) for provider in (host, *others)}, {})
                assert refused.value.resource_classes == in_use


@pytest.mark.parametrize("few", [consumer_listing.FEW_ALLOCATIONS, 0])
def test_pages_of_consumers_have_each_once_in_the_order_of_their_uuids(
    empty_books: Books, few: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consumer_listing, "FEW_ALLOCATIONS", few)
    root = empty_books.provider(VCPU=99, DISK_GB=99)
    hosts = [root, *(empty_books.provider(parent=root, VCPU=99, DISK_GB=99) for _ in range(2))]
    uuids = [fresh_uuid() for _ in range(10)]
    for consumer in uuids:
        empty_books.claim(consumer, {host: {"DISK_GB": 1, "VCPU": 1} for host in hosts})
    empty_books.claim(fresh_uuid(), {(apart := empty_books.provider(VCPU=9)): {"VCPU": 1}})
    filters = [
        ConsumerFilter(in_tree=root),
        ConsumerFilter(in_tree=hosts[1]),
        ConsumerFilter(provider=hosts[2]),
        ConsumerFilter(project=PROJECT, in_tree=root),
    ]
    for _ in every_plan(empty_books):
        for whose in filters:
            marker, shown, goes_on = None, [], True
            while goes_on and len(shown) < len(uuids):
                page = empty_books.service.read(consumer_listing.page_of, whose, Page(limit=3, marker=marker), 1000)
                shown += page.allocations
                marker, goes_on = shown[-1], page.goes_on
            assert (shown, goes_on) == (sorted(uuids), False)
        both = ConsumerFilter(in_tree=root, provider=apart)
        assert not empty_books.service.read(consumer_listing.page_of, both, Page(), 1000).allocations
        everyone = empty_books.service.read(consumer_listing.page_of, ConsumerFilter(), Page(), 1000).allocations
        assert len(everyone) == len(uuids) + 1


@pytest.mark.parametrize("few", [consumer_listing.FEW_ALLOCATIONS, 0])
def test_consumers_without_a_row_are_listed_among_the_others(
    empty_books: Books, few: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consumer_listing, "FEW_ALLOCATIONS", few)
    host, apart = (empty_books.provider(VCPU=99) for _ in range(2))
    uuids = sorted(fresh_uuid() for _ in range(12))
    for uuid in uuids:
        empty_books.claim(uuid, {host: {"VCPU": 1}, apart: {"VCPU": 1}})
    # Alone, side by side, and at both ends.
    lost = {uuids[place] for place in (0, 1, 4, 7, 8, 9, 11)}
    with empty_books.store.writer.begin() as connection:
        connection.execute(sa.delete(consumers).where(consumers.c.uuid.in_(lost)))
    everyone, rest = uuids, [uuid for uuid in uuids if uuid not in lost]
    expected: dict[ConsumerFilter, list[str]] = {
        ConsumerFilter(): everyone,
        ConsumerFilter(consumer_type="unknown"): everyone,
        ConsumerFilter(in_tree=host): everyone,
        ConsumerFilter(provider=apart, consumer_type="unknown"): everyone,
        ConsumerFilter(project=PROJECT): rest,
        ConsumerFilter(project=PROJECT, consumer_type="unknown", provider=host): rest,
    }
    for _ in every_plan(empty_books):
        for whose, listed in expected.items():
            for limit in (1, 2, 5, 12, 20):
                marker, shown, goes_on = None, [], True
                while goes_on and len(shown) < len(uuids):
                    page = empty_books.service.read(
                        consumer_listing.page_of, whose, Page(limit, marker), 1000, with_totals=True
                    )
                    shown += page.allocations
                    marker, goes_on = shown[-1], page.goes_on
                assert (shown, goes_on) == (listed, False), (whose, limit)
                assert page.totals is not None
                counts = {project: totals.consumer_count for project, totals in page.totals.items()}
                assert counts == {PROJECT: len(rest), **({NOBODY: len(lost)} if listed is everyone else {})}
                assert all(held.amounts()[host] == {"VCPU": 1} for held in page.allocations.values())
        everyone_held = empty_books.service.read(consumer_listing.page_of, ConsumerFilter(), Page(), 1000).allocations
        assert {uuid for uuid, held in everyone_held.items() if held.generation is None} == lost
    for uuid in lost:  # so that the audit after the test finds no fault
        empty_books.release(uuid)


def test_allocations_are_shown_in_the_order_in_which_they_were_written(books: Books) -> None:
    """Clients up to 1.11 see them in a list."""
    hosts = [books.provider(VCPU=99, DISK_GB=99) for _ in range(3)]
    consumers = [fresh_uuid() for _ in range(5)]
    for consumer in consumers:
        books.claim(consumer, {host: {"VCPU": 1} for host in reversed(hosts)})
    for _ in every_plan(books):
        for consumer in consumers:
            holding = books.service.read(consumer_listing.of_consumer, consumer)
            assert holding is not None
            assert list(holding.providers) == hosts[::-1]
        assert list(books.service.read(consumer_listing.of_provider, hosts[0]).consumers) == consumers
