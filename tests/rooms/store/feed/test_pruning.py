"""What is kept for who asks what changed is bounded, and change rows of providers that are gone do not stay for ever.

Source: "The write and refresh protocol" (rules 12 and 17), docs/protocol.md.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from stead.domain.errors import StartOver
from stead.store import providers
from stead.store.audit.checks import audit
from stead.store.feed import pruning
from stead.store.feed.changes import changes_since
from stead.store.feed.pruning import Pruning
from stead.store.protocol.clock import SLOTS, read_clock
from tests.rooms.store.books import Books, fresh_uuid, picture, reloaded

if TYPE_CHECKING:
    from collections.abc import Sequence

ROWS = ("stead_provider_change", "stead_usage_change")


def ticks(books: Books) -> Sequence[int]:
    return books.service.read(lambda connection: read_clock(connection).ticks)


def orphans(books: Books) -> int:
    gone = "provider_id > 0 AND provider_id NOT IN (SELECT id FROM resource_providers)"
    return sum(int(books.scalar(f"SELECT COUNT(*) FROM {table} WHERE {gone}")) for table in ROWS)


def token(books: Books) -> str:
    return books.service.watchers.look(None).token


def test_the_log_is_kept_for_so_many_writes(empty_books: Books) -> None:
    books = empty_books
    host = books.provider(VCPU=100)
    tokens, consumers = [], [fresh_uuid() for _ in range(12)]
    for consumer in consumers:
        tokens.append(token(books))
        books.claim(consumer, {host: {"VCPU": 1}})
    Pruning(books.store, 5).prune_log(ticks(books))
    assert 0 < int(books.scalar("SELECT COUNT(*) FROM stead_change_log")) <= 5
    told = books.store.read(changes_since, tokens[-3])
    assert set(told.consumers) == set(consumers[-3:])
    with pytest.raises(StartOver):
        books.store.read(changes_since, tokens[0])


def test_nothing_is_pruned_that_is_within_the_bound(empty_books: Books) -> None:
    books = empty_books
    host, before = books.provider(VCPU=100), token(books)
    consumers = [fresh_uuid() for _ in range(3)]
    for consumer in consumers:
        books.claim(consumer, {host: {"VCPU": 1}})
    Pruning(books.store, 1000).prune_log(ticks(books))
    assert set(books.store.read(changes_since, before).consumers) == set(consumers)


def test_without_its_floor_a_slot_tells_nothing_older_and_pruning_restores_it(empty_books: Books) -> None:
    books = empty_books
    host, before = books.provider(VCPU=100), token(books)
    books.claim(fresh_uuid(), {host: {"VCPU": 1}})
    assert books.execute("DELETE FROM stead_change_floor") == SLOTS
    with pytest.raises(StartOver):
        books.store.read(changes_since, before)
    Pruning(books.store, 0).prune_log(ticks(books))
    assert int(books.scalar("SELECT COUNT(*) FROM stead_change_floor")) == SLOTS
    with pytest.raises(StartOver):
        books.store.read(changes_since, before)
    after, consumer = token(books), fresh_uuid()
    books.claim(consumer, {host: {"VCPU": 1}})
    assert set(books.store.read(changes_since, after).consumers) == {consumer}


def test_a_long_log_is_removed_in_portions(empty_books: Books, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pruning, "PORTION", 2)
    books = empty_books
    host = books.provider(VCPU=100)
    for _ in range(9):
        books.claim(fresh_uuid(), {host: {"VCPU": 1}})
    Pruning(books.store, 1).prune_log(ticks(books))
    assert int(books.scalar("SELECT COUNT(*) FROM stead_change_log")) <= 1


def test_change_rows_of_who_is_gone_are_removed_after_a_while(books: Books, second: Books) -> None:
    gone, stays = books.provider(VCPU=4), books.provider(VCPU=4)
    consumer = fresh_uuid()
    books.claim(consumer, {gone: {"VCPU": 1}, stays: {"VCPU": 1}})
    books.claim(consumer, {})
    second.service.snapshot()
    before = ticks(books)
    books.service.write(providers.delete, gone)
    late = books.provider()
    books.service.write(providers.delete, late)
    Pruning(books.store, 10).prune_change_rows(before)
    assert orphans(books) >= 2  # which may not have been seen by everybody yet
    assert picture(second.service.snapshot()) == reloaded(second)
    Pruning(books.store, 10).prune_change_rows(ticks(books))
    assert orphans(books) == 0
    assert picture(second.service.snapshot()) == reloaded(second)


def test_an_audit_after_pruning_finds_no_fault(books: Books) -> None:
    for _ in range(3):  # so that some rows of existing providers are older than the deleted ones of their slot
        books.provider(VCPU=4)
        books.service.write(providers.delete, books.provider())
    Pruning(books.store, 10).prune_change_rows(ticks(books))
    assert orphans(books) == 0
    assert books.store.read(audit, lambda _done, _all: None) == []


def test_who_slept_meanwhile_loads_everything(books: Books, second: Books) -> None:
    gone = books.provider(VCPU=4)
    second.service.snapshot()
    books.service.write(providers.delete, gone)
    Pruning(books.store, 10).prune_change_rows(ticks(books))
    assert second.service.snapshot().find(gone) is None
    assert picture(second.service.snapshot()) == reloaded(second)


def test_steps_remember_the_clock_for_some_minutes(books: Books, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    pruning_ = Pruning(books.store, 1_000_000)
    gone = books.provider(VCPU=4)
    books.service.write(providers.delete, gone)
    assert pruning_.step() == pruning.PAUSE_SECONDS
    assert orphans(books) >= 1
    now[0] += pruning.KEPT_SECONDS
    pruning_.step()
    assert orphans(books) == 0
