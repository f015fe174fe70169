"""The rules of the write and refresh protocol: each is taken away here, and what it guards then breaks.

That the books hold with the rules in place, other modules say; these tests say that they would notice.
"""

from __future__ import annotations

import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa

from stead.catalog.catalog import Catalog
from stead.domain.errors import Unavailable
from stead.store import allocations, tables, usages
from stead.store.feed import refresh_source
from stead.store.feed.refresh_source import ChangeSource
from stead.store.protocol import clock, store
from stead.store.protocol import store as writing
from stead.store.protocol.store import Transaction
from stead.store.provider_filter import with_ids
from stead.store.sql import dialects
from tests.rooms.catalog.test_waiting_for_a_refresh import Numbers
from tests.rooms.store.books import Books, faults, fresh_uuid, picture, reloaded
from tests.rooms.store.feed.test_reconcile import pass_over
from tests.rooms.store.protocol.interleaving import interleavings, orders, outcome
from tests.rooms.store.protocol.test_concurrency import at_once, retryable_errors
from tests.rooms.store.protocol.test_interleavings import (
    a_first_claim_and_a_claim_of_nothing,
    a_new_child_and_the_deletion_of_its_parent,
    two_claims_of_the_last_unit,
    two_moves_that_would_close_a_loop,
    two_next_claims_of_one_consumer,
)
from tests.rooms.store.protocol.test_outcomes import elsewhere, one_commit
from tests.waiting import PATIENCE_SECONDS, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from stead.catalog.snapshot import Snapshot
    from tests.rooms.store.protocol.interleaving import Case


@pytest.fixture
def books(ready_database_url: str) -> Iterator[Books]:
    """A service whose books may end up wrong."""
    books = Books(ready_database_url)
    yield books
    books.close()


@pytest.fixture
def row_locks(books: Books) -> None:
    if not books.store.dialect.locks_rows:
        pytest.skip("a writer is alone from its first statement on: there is nothing between its statements")


def is_explained(books: Books, case: Callable[[Books], Case]) -> bool:
    """Whether whatever comes between is before or after."""
    allowed = orders(lambda: case(books))
    return all(end in allowed for _, end in interleavings(books, lambda: case(books)))


def do_not_lock(_tx: Transaction, *_args: object, **_options: object) -> None:
    pass


def do_not_count(*_args: object) -> None:
    pass


@pytest.mark.usefixtures("row_locks")
class TestReadAfterTheLocks:
    """Rules 2 to 4."""

    def test_sums_read_before_the_locks_over_commit(self, books: Books, monkeypatch: pytest.MonkeyPatch) -> None:
        old: dict[Transaction | int, Any] = {}

        def lock_and_read_early(tx: Transaction, uuids: Any, **options: Any) -> Any:
            query = sa.text("SELECT id, generation FROM resource_providers")
            generations = dict(map(tuple, tx.connection.execute(query)))
            old.pop(id(tx.connection), None)
            old[id(tx.connection)] = usages.of_locked(tx.connection, generations, needed=generations)
            return real_lock(tx, uuids, **options)

        def stale(connection: sa.Connection, rows: Any, generations: Any, needed: Any = ()) -> Any:
            sums = old.get(id(connection)) or real_sums(connection, rows, generations, needed)
            return {id_: sums[id_] for id_ in generations}

        assert is_explained(books, two_claims_of_the_last_unit)
        real_lock, real_sums = allocations.lock, usages.of_rows
        monkeypatch.setattr(allocations, "lock", lock_and_read_early)
        monkeypatch.setattr(usages, "of_rows", stale)
        assert not is_explained(books, two_claims_of_the_last_unit)

    def test_without_locks_the_compare_and_swap_still_holds_and_without_both_nothing_does(
        self, books: Books, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(Transaction, "lock", do_not_lock)
        assert is_explained(books, two_claims_of_the_last_unit)
        monkeypatch.setattr(Transaction, "require_count", do_not_count)
        assert not is_explained(books, two_claims_of_the_last_unit)

    def test_trees_have_no_generation_and_need_the_locks(self, books: Books, monkeypatch: pytest.MonkeyPatch) -> None:
        assert is_explained(books, two_moves_that_would_close_a_loop)
        monkeypatch.setattr(Transaction, "lock", do_not_lock)
        assert not is_explained(books, two_moves_that_would_close_a_loop)

    def test_a_parent_that_was_not_checked_again_lets_go_of_its_child(
        self, books: Books, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        assert is_explained(books, a_new_child_and_the_deletion_of_its_parent)
        monkeypatch.setattr(Transaction, "lock", do_not_lock)
        with suppress(sa.exc.IntegrityError):  # or it is the foreign key that stands in the way
            assert not is_explained(books, a_new_child_and_the_deletion_of_its_parent)

    def test_without_the_consumers_generation_two_clients_win(
        self, books: Books, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        told = [end[:2] for end in orders(lambda: two_next_claims_of_one_consumer(books))]
        assert told == [(None, "ConsumerConflict"), ("ConsumerConflict", None)]
        monkeypatch.setattr(allocations, "require_expected", lambda *_: None)
        told = [end[:2] for end in orders(lambda: two_next_claims_of_one_consumer(books))]
        assert told == [(None, None), (None, None)]

    def test_what_an_unlocked_consumer_holds_is_not_to_be_removed(
        self, books: Books, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def held_by_all(connection: sa.Connection, _locked: object) -> list[allocations.StoredAllocation]:
            every = connection.scalars(sa.text("SELECT DISTINCT consumer_id FROM allocations"))
            return real(connection, list(every))

        def swapped(books: Books) -> Case:
            return a_first_claim_and_a_claim_of_nothing(books).swapped()

        assert is_explained(books, swapped)
        real = allocations.held_by
        monkeypatch.setattr(allocations, "held_by", held_by_all)
        assert not is_explained(books, swapped)


class TestKeptSumsStandWhileTheyCarryTheGeneration:
    """Rule 16."""

    def test_trusted_blindly_they_over_commit(self, books: Books, monkeypatch: pytest.MonkeyPatch) -> None:
        def blindly(connection: sa.Connection, rows: Any, generations: Any, needed: Any = ()) -> Any:
            query = sa.text("SELECT provider_id, generation FROM stead_usage")
            marks = dict(map(tuple, connection.execute(query)))
            return real(connection, rows, {id_: marks.get(id_, now) for id_, now in generations.items()}, needed)

        def refused(host: str) -> bool:
            books.claim(fresh_uuid(), {host: {"VCPU": 1}})
            assert books.claim_elsewhere(fresh_uuid(), host, 0, 1)
            return outcome(lambda: books.claim(fresh_uuid(), {host: {"VCPU": 1}})) == "CapacityExceeded"

        assert refused(books.provider(VCPU=2))
        real = usages.of_rows
        monkeypatch.setattr(usages, "of_rows", blindly)
        assert not refused(books.provider(VCPU=2))
        assert "a place is over-committed" in faults(books)

    def test_one_that_is_missing_beside_others_counts_as_nothing(
        self, books: Books, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """So all classes of a provider are written, whichever of them a claim is about."""

        def one_less(tx: Transaction, sums: usages.Sums, generations: Any) -> None:
            real(tx, {id_: {0: by_class[0]} for id_, by_class in sums.items()}, generations)

        host = books.provider(VCPU=9, MEMORY_MB=1)
        books.claim(fresh_uuid(), {host: {"VCPU": 1, "MEMORY_MB": 1}})
        books.execute("DELETE FROM stead_usage")
        real = usages.store_sums
        monkeypatch.setattr(usages, "store_sums", one_less)
        books.claim(fresh_uuid(), {host: {"VCPU": 1}})
        books.claim(fresh_uuid(), {host: {"MEMORY_MB": 1}})
        assert "a place is over-committed" in faults(books)


@pytest.mark.usefixtures("row_locks")
def test_locks_in_any_order_deadlock(books: Books, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rule 3; the attempts are repeated, so that clients do not notice."""

    def lock_in_any_order(tx: Transaction, table: sa.Table, ids: Iterable[int], *, shared: bool = False) -> None:
        shuffled = list(ids)
        rng.shuffle(shuffled)
        for id_ in shuffled:
            tx.connection.execute(sa.select(table.c.id).where(table.c.id == id_).with_for_update(read=shared)).all()

    rng = random.Random(1)
    hosts = [books.provider(VCPU=1000) for _ in range(6)]
    errors = retryable_errors(books)
    monkeypatch.setattr(Transaction, "lock", lock_in_any_order)

    def claim() -> None:
        while not errors:
            books.claim(fresh_uuid(), {host: {"VCPU": 1} for host in hosts}, None)

    assert at_once([claim] * 3) == [None] * 3
    assert errors


class TestWhatIsNotNotedIsNotSeen:
    """Rules 5, 6 and 11."""

    @pytest.fixture
    def second(self, books: Books) -> Iterator[Books]:
        second = Books(books.url)
        yield second
        second.close()

    def test_a_write_that_does_not_touch(self, books: Books, second: Books, monkeypatch: pytest.MonkeyPatch) -> None:
        host, consumer = books.provider(VCPU=4), fresh_uuid()
        books.claim(consumer, {host: {"VCPU": 1}})
        assert picture(second.service.snapshot()) == reloaded(books)
        monkeypatch.setattr(Transaction, "touch_usage", lambda _tx, _ids: None)
        books.release(consumer)
        assert picture(second.service.snapshot()) != reloaded(books)

    def test_a_write_that_does_not_tick(self, books: Books, second: Books, monkeypatch: pytest.MonkeyPatch) -> None:
        second.service.snapshot()
        monkeypatch.setattr(writing, "tick", lambda *_: clock.Ticked(0, 0, 0))
        books.provider()
        assert picture(second.service.snapshot()) != reloaded(books)


class TestACommitThatIsNotAnswered:
    """Rule 8. That it is found out, test_outcomes says."""

    def test_repeated_at_once_it_is_refused_to_the_client_who_made_it(
        self, books: Books, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        host, consumer = books.provider(VCPU=4), fresh_uuid()
        books.claim(fresh_uuid(), {host: {"VCPU": 1}})
        monkeypatch.setattr(writing, "has_happened", lambda *_: False)
        with one_commit(books, reaches=True):
            assert outcome(lambda: books.claim(consumer, {host: {"VCPU": 1}}, None)) == "ConsumerConflict"
        assert books.held(consumer) == {host: {"VCPU": 1}}

    def test_taken_for_done_it_is_lost(self, books: Books, monkeypatch: pytest.MonkeyPatch) -> None:
        host, consumer = books.provider(VCPU=4), fresh_uuid()
        books.claim(fresh_uuid(), {host: {"VCPU": 1}})
        monkeypatch.setattr(writing, "has_happened", lambda *_: True)
        with one_commit(books, reaches=False):
            assert outcome(lambda: books.claim(consumer, {host: {"VCPU": 1}}, None)) is None
        assert books.held(consumer) == {}

    def test_by_the_last_stamp_alone_it_is_not_found(self, books: Books, monkeypatch: pytest.MonkeyPatch) -> None:
        """Others tick the same slot."""

        def by_the_last(writer: sa.Engine, ticked: clock.Ticked, until: float) -> bool:
            with writer.begin() as connection:
                query = sa.text("SELECT stamp FROM stead_clock WHERE slot = :slot")
                return bool(connection.scalar(query, {"slot": ticked.slot}) == ticked.stamp)

        def told(others: int) -> Any:
            with one_commit(books, reaches=True, then=elsewhere(books, times=others)):
                return outcome(lambda: books.claim(fresh_uuid(), {host: {"VCPU": 1}}, None))

        host = books.provider(VCPU=9)
        books.claim(fresh_uuid(), {host: {"VCPU": 1}})
        assert told(1) is None
        monkeypatch.setattr(writing, "has_happened", by_the_last)
        assert (told(0), told(1)) == (None, "ConsumerConflict")

    @pytest.mark.usefixtures("row_locks")
    def test_without_the_slots_lock_it_happens_after_all(self, books: Books, monkeypatch: pytest.MonkeyPatch) -> None:
        """The connection is lost, the transaction lives on: who only looks sees nothing yet, and does it twice."""

        def by_looking(writer: sa.Engine, ticked: clock.Ticked, until: float) -> bool:
            with writer.begin() as connection:
                query = sa.text("SELECT stamp FROM stead_clock WHERE slot = :slot")
                return bool(connection.scalar(query, {"slot": ticked.slot}) == ticked.stamp)

        real = writing.has_happened
        assert zombie_found(books, real)
        assert not zombie_found(books, by_looking)


def zombie_found(books: Books, has_happened: Callable[..., bool]) -> bool:
    """Whether a transaction that commits while somebody finds out about it is found."""
    with ThreadPoolExecutor(1) as pool, books.store.writer.connect() as connection:
        ending = connection.begin()
        ticked = clock.tick(connection, 5, (), ())
        answer = pool.submit(has_happened, books.store.writer, ticked, time.monotonic() + 60)
        with suppress(TimeoutError):
            answer.result(0.5)
        ending.commit()
        return answer.result(60)


class TestWhatAnotherServiceWrote:
    """Rule 15. That a pass finds it, test_reconcile says."""

    @pytest.fixture
    def host(self, books: Books) -> str:
        """A provider of which another service let go of 2 units of 3."""
        host, consumer = books.provider(VCPU=3), fresh_uuid()
        books.claim(fresh_uuid(), {host: {"VCPU": 1}})
        books.claim(consumer, {host: {"VCPU": 2}})
        books.service.snapshot()
        books.release_elsewhere(consumer)
        return host

    def test_found(self, books: Books, host: str) -> None:
        pass_over(books)
        assert books.used(host) == 1
        books.claim(fresh_uuid(), {host: {"VCPU": 2}})

    def test_by_the_kept_sums_it_is_not_found(self, books: Books, host: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(usages, "added_up", lambda connection, ids: usages.current(connection, with_ids(ids)))
        pass_over(books)
        assert books.used(host) == 3

    def test_with_the_kept_sums_left_it_is_refused_for_ever(
        self, books: Books, host: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(refresh_source, "_touch", lambda tx, ids, _uuids: tx.touch(ids))
        pass_over(books)
        assert books.used(host) == 3
        assert outcome(lambda: books.claim(fresh_uuid(), {host: {"VCPU": 2}})) == "CapacityExceeded"

    def test_with_the_same_epoch_a_restore_is_not_noticed(self, books: Books, monkeypatch: pytest.MonkeyPatch) -> None:
        same = books.scalar("SELECT epoch FROM stead_epoch")
        host = books.provider()
        books.service.snapshot()
        books.execute("UPDATE resource_providers SET name = 'restored' WHERE uuid = :uuid", uuid=host)
        monkeypatch.setattr(store, "uuid4", lambda: same)
        books.service.write(store.renew_epoch)
        assert books.service.snapshot().find_named("restored") is None
        monkeypatch.undo()
        books.service.write(store.renew_epoch)
        assert books.service.snapshot().find_named("restored") is not None


def moving_one_unit(books: Books) -> tuple[Callable[[], None], Callable[[Snapshot], bool]]:
    """A write that takes a unit here and puts it there, and whether a snapshot shows what was ever true."""
    hosts, consumer = [books.provider(VCPU=1), books.provider(VCPU=1)], fresh_uuid()
    books.claim(consumer, {hosts[0]: {"VCPU": 1}}, None)

    def seen(snapshot: Snapshot) -> Any:
        slots = [slot for host in sorted(hosts) if (slot := snapshot.find(host)) is not None]
        return [(snapshot.provider(slot), snapshot.inventories(slot)["VCPU"].used) for slot in slots]

    def move() -> None:
        hosts.reverse()
        books.claim(consumer, {hosts[0]: {"VCPU": 1}})
        truths.append(seen(books.service.snapshot()))

    truths = [seen(books.service.snapshot())]
    return move, lambda snapshot: seen(snapshot) in truths


def restocking(books: Books) -> tuple[Callable[[], None], Callable[[Snapshot], bool]]:
    """A write that changes what there is of a class, and with it the provider's generation; and as above."""
    host = books.provider(VCPU=1)

    def seen(snapshot: Snapshot) -> Any:
        slot = snapshot.find(host)
        return slot is not None and (snapshot.provider(slot), snapshot.inventories(slot)["VCPU"].inventory)

    def restock() -> None:
        books.restock(host, VCPU=len(truths) + 1)
        truths.append(seen(books.service.snapshot()))

    truths = [seen(books.service.snapshot())]
    return restock, lambda snapshot: seen(snapshot) in truths


STATEMENTS = {moving_one_unit: 3, restocking: 6}
"""How many a refresh after it takes at least: the clock, the change rows, and the state of what they name."""


def torn(books: Books, writing: Callable[[Books], tuple[Callable[[], None], Callable[[Snapshot], bool]]]) -> list[int]:
    """After which statements of a refresh a write makes it show what never was."""
    move, is_true = writing(books)
    source = ChangeSource(books.store)
    catalog = Catalog(source)
    wrong, at, statements = [], 1, 99
    while at <= statements:
        catalog.fresh()
        move()
        statements = 0

        def step_in(*_: object) -> None:
            nonlocal statements
            statements += 1
            if statements == at:  # noqa: B023  # removed in the same round
                move()

        sa.event.listen(books.store.refresher, "after_cursor_execute", step_in)
        try:
            snapshot = catalog.fresh()
        finally:
            sa.event.remove(books.store.refresher, "after_cursor_execute", step_in)
        if not (is_true(snapshot) and is_true(catalog.fresh())):
            wrong.append(at)
        at += 1
    assert at > STATEMENTS[writing], "the refresh has fewer statements than it needs"
    source.close()
    return wrong


class TestOneSnapshotPerRefresh:
    """Rules 9 and 10."""

    def test_a_write_after_any_statement_of_a_refresh_is_seen_whole_or_not_at_all(self, books: Books) -> None:
        assert torn(books, moving_one_unit) == torn(books, restocking) == []

    @pytest.mark.usefixtures("row_locks")
    def test_a_refresh_of_more_than_one_snapshot_is_torn(self, books: Books, monkeypatch: pytest.MonkeyPatch) -> None:
        committed = books.store.refresher.execution_options(isolation_level="READ COMMITTED")
        monkeypatch.setattr(books.store, "refresher", committed)
        assert torn(books, restocking) != []

    @pytest.mark.usefixtures("row_locks")
    def test_a_clock_that_is_read_last_misses_writes(self, books: Books, monkeypatch: pytest.MonkeyPatch) -> None:
        """Without one snapshot it is the order alone that saves what a torn refresh missed."""

        def clock_last(reading: Any, earlier: Any, commits: Any, own_writes: Any) -> Any:
            portions = list(real(reading, earlier, commits, own_writes))
            if between:
                between.pop()()
            moment = refresh_source._Moment(refresh_source.read_clock(reading._connection), commits)
            return iter([replace(portion, moment=moment) for portion in portions])

        host = books.provider(VCPU=1)
        between: list[Callable[[], Any]] = []
        catalog = Catalog(ChangeSource(books.store))
        committed = books.store.refresher.execution_options(isolation_level="READ COMMITTED")
        monkeypatch.setattr(books.store, "refresher", committed)
        real = refresh_source._Reading.changes
        monkeypatch.setattr(refresh_source._Reading, "changes", clock_last)
        catalog.fresh()
        books.rename(host, fresh_uuid())
        between.append(lambda: books.rename(host, fresh_uuid()))
        catalog.fresh()
        assert picture(catalog.fresh()) != reloaded(books)


class Gate:
    """A source whose answers are held back, once they are read, until the gate is opened."""

    def __init__(self, source: ChangeSource) -> None:
        self._source = source
        self.opened, self.has_read = threading.Event(), threading.Event()

    def changes(self, since: Any) -> Any:
        portions = list(self._source.changes(since))
        self.has_read.set()
        assert self.opened.wait(PATIENCE_SECONDS)
        return portions


def test_who_comes_after_a_refresh_began_waits_for_the_next(books: Books, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rule 10."""
    source = ChangeSource(books.store)
    gate = Gate(source)
    catalog, numbers = Catalog(gate), Numbers()
    monkeypatch.setattr(catalog, "_order", numbers)
    with ThreadPoolExecutor(2) as pool:
        early = pool.submit(catalog.fresh)
        assert gate.has_read.wait(PATIENCE_SECONDS)
        host = books.provider()
        late = pool.submit(catalog.fresh)
        wait_until(lambda: numbers.given == 3)  # it came after the refresh began, and waits for that
        gate.opened.set()
        assert early.result().find(host) is None
        assert late.result().find(host) is not None
    source.close()


def test_a_commit_between_the_count_of_commits_and_the_clock_is_not_missed(
    books: Books, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rule 13: the count is read first, so that what comes after it is at worst read twice."""
    if not books.store.dialect.counts_commits:
        pytest.skip("this database is asked for its clock every time")
    real = refresh_source.read_clock
    host = books.provider(VCPU=1)
    writes: list[Callable[[], Any]] = []

    def read_clock(connection: sa.Connection) -> Any:
        before = [write() for write in writes]
        clock = real(connection)
        assert before == [None] * len(before)
        after = [write() for write in writes]
        assert after == before
        return clock

    monkeypatch.setattr(refresh_source, "read_clock", read_clock)
    catalog = Catalog(ChangeSource(books.store))
    catalog.fresh()
    writes.append(lambda: books.stock(fresh(books), VCPU=1))
    books.rename(host, fresh_uuid())
    catalog.fresh()
    writes.clear()
    assert picture(catalog.fresh()) == reloaded(books)


def fresh(books: Books) -> str:
    return books.provider()


def test_reads_and_writes_are_isolated_as_the_protocol_says(books: Books) -> None:
    """Rules 2 and 9; where a writer is alone there is nothing to say."""
    if books.store.dialect.locks_rows:
        with books.store.writer.connect() as connection:
            assert connection.get_isolation_level() == "READ COMMITTED"
        with books.store.reader.connect() as connection:
            assert connection.get_isolation_level() == "REPEATABLE READ"


def test_who_waits_for_a_lock_gives_up_and_begins_anew(books: Books, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rule 7: a writer that hangs with its locks must not hang the others for ever."""
    monkeypatch.setattr(dialects, "LOCK_WAIT_SECONDS", 1)
    hasty = Books(books.url, write_timeout=0.5)
    host = books.provider(VCPU=1)
    with books.store.writer.begin() as connection:
        Transaction(connection, books.store.dialect, datetime(2026, 1, 1)).lock(tables.resource_providers, [1])
        with pytest.raises(Unavailable):
            hasty.claim(fresh_uuid(), {host: {"VCPU": 1}})
    hasty.claim(fresh_uuid(), {host: {"VCPU": 1}})
    hasty.close()
