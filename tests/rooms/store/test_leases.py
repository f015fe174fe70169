"""Leases end once, never before their time, through the ordinary release; a model with its own clock says when.

Source: "Leases", docs/stead-api.md; rule 21 of docs/protocol.md.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stead.domain.claim import UNCHANGED, HeldLease, Lease, OnExpiry
from stead.domain.errors import AllocationsNotFound, CapacityExceeded, LeaseRefused
from stead.service.leases import Expiry
from stead.store import allocations, consumer_listing
from stead.store.extensions import leases
from stead.store.feed.changes import changes_since
from tests.rooms.store.books import Books, claim_of, faults, fresh_uuid
from tests.rooms.store.test_statements import counted
from tests.selection import examples

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from stead.domain.claim import Unchanged

pytestmark = pytest.mark.timeout(300)  # histories of many writes

START = 2_000_000_000
"""A time after all leases of other tests, in seconds since 1970."""


class DatabaseClock:
    """The time that the database tells, and that which passes: the database's clock may jump.

    Attributes:
        worker: looks for ended leases.
        ended: what it ended.
    """

    def __init__(self, books: Books, now: int) -> None:
        self.now = now
        self.passed = 0.0
        self.ended: list[tuple[str, int]] = []
        self.worker = self.new_worker(books, lambda happened, count: self.ended.append((happened, count)))

    def new_worker(self, books: Books, on_end: Callable[[str, int], None] | None = None) -> Expiry:
        return Expiry(books.store, on_end=on_end, elapsed=lambda: self.passed)

    def passes(self, seconds: int) -> None:
        self.now += seconds
        self.passed += seconds

    def jumps(self, seconds: int) -> None:
        self.now += seconds


@pytest.fixture
def clock(books: Books, monkeypatch: pytest.MonkeyPatch) -> DatabaseClock:
    """The clock of the database, which only the test moves; there are no leases yet."""
    books.execute("DELETE FROM stead_lease")
    books.execute("DELETE FROM stead_counter WHERE name = 'lease_clock'")
    clock = DatabaseClock(books, START)
    monkeypatch.setattr(leases, "database_time", lambda _dialect: sa.literal_column(str(clock.now), sa.Integer))
    return clock


def leased(
    books: Books, host: str, lease: Lease | Unchanged | None, consumer: str | None = None, amount: int = 1
) -> str:
    uuid = consumer or fresh_uuid()
    books.service.claim([replace(claim_of(uuid, {host: {"VCPU": amount}}), lease=lease)])
    return uuid


def lease_of(books: Books, consumer: str) -> HeldLease | None:
    stored = books.service.read(consumer_listing.of_consumer, consumer)
    return stored.lease if stored else None


def generation_of(books: Books, consumer: str) -> int:
    stored = books.service.read(consumer_listing.of_consumer, consumer)
    assert stored is not None
    assert stored.generation is not None
    return stored.generation


def released_elsewhere(books: Books, consumer: str) -> None:
    books.release_elsewhere(consumer)
    books.execute("DELETE FROM stead_usage")  # such a release leaves sums that are too high


def after(clock: DatabaseClock, seconds: int) -> None:
    """Let time pass as the worker sees it: it looks at each second."""
    for _ in range(seconds):
        clock.passes(1)
        clock.worker.step()


class TestOneLease:
    def test_ends_after_its_seconds_and_releases(self, books: Books, clock: DatabaseClock) -> None:
        host = books.provider(VCPU=2)
        consumer, other = leased(books, host, Lease(5)), leased(books, host, UNCHANGED)
        assert lease_of(books, consumer) == HeldLease(START + 5, OnExpiry.RELEASE)
        after(clock, 5)
        assert books.held(consumer)
        assert books.used(host) == 2, "until it is removed, it counts as used"
        after(clock, 1)
        assert books.held(consumer) == {}
        assert books.used(host) == 1
        assert books.held(other)
        assert books.scalar("SELECT COUNT(*) FROM stead_lease") == 0
        assert faults(books) == {}

    def test_may_end_at_a_time(self, books: Books, clock: DatabaseClock) -> None:
        consumer = leased(books, books.provider(VCPU=2), Lease(expires_at=START + 3))
        after(clock, 3)
        assert books.held(consumer)
        after(clock, 1)
        assert books.held(consumer) == {}

    def test_to_be_marked_keeps_its_allocations(self, books: Books, clock: DatabaseClock) -> None:
        host = books.provider(VCPU=2)
        consumer = leased(books, host, Lease(5, on_expiry=OnExpiry.MARK))
        expiry = Expiry(books.store)
        after(clock, 8)
        assert books.held(consumer)
        assert lease_of(books, consumer) == HeldLease(START + 5, OnExpiry.MARK, is_overdue=True)
        expiry.step()
        assert expiry.overdue == 1
        books.service.write(leases.renew, {consumer: 5})
        assert lease_of(books, consumer) == HeldLease(clock.now + 5, OnExpiry.MARK)
        expiry.step()
        assert expiry.overdue == 0
        books.release(consumer)
        assert books.scalar("SELECT COUNT(*) FROM stead_lease") == 0

    def test_is_kept_by_a_claim_that_says_nothing_of_it(self, books: Books, clock: DatabaseClock) -> None:
        host, other = books.provider(VCPU=2), books.provider(VCPU=2)
        consumer = leased(books, host, Lease(50, on_expiry=OnExpiry.MARK))
        before = lease_of(books, consumer)
        clock.passes(7)
        books.claim(consumer, {other: {"VCPU": 2}})
        assert lease_of(books, consumer) == before
        books.reshape({other: books.shape(other, VCPU=9)}, {consumer: {other: {"VCPU": 3}}})
        assert lease_of(books, consumer) == before

    def test_is_taken_from_a_claim_without_an_end(self, books: Books, clock: DatabaseClock) -> None:
        host = books.provider(VCPU=2)
        consumer = leased(books, host, Lease(5))
        leased(books, host, None, consumer)
        assert lease_of(books, consumer) is None
        after(clock, 9)
        assert books.held(consumer)

    def test_is_replaced_by_a_claim_with_another(self, books: Books, clock: DatabaseClock) -> None:
        host = books.provider(VCPU=2)
        consumer = leased(books, host, Lease(5))
        clock.passes(1)
        leased(books, host, Lease(70, on_expiry=OnExpiry.MARK), consumer)
        assert lease_of(books, consumer) == HeldLease(START + 71, OnExpiry.MARK)

    @pytest.mark.parametrize("end", [START, START - 1, 0])
    def test_must_not_end_in_the_past(self, books: Books, clock: DatabaseClock, end: int) -> None:
        host, consumer = books.provider(VCPU=2), fresh_uuid()
        with pytest.raises(LeaseRefused, match=consumer):
            leased(books, host, Lease(expires_at=end), consumer)
        assert books.held(consumer) == {}
        assert clock.now == START

    def test_may_be_repeated_when_it_is_overdue(self, books: Books, clock: DatabaseClock) -> None:
        host = books.provider(VCPU=2)
        consumer = leased(books, host, Lease(5, on_expiry=OnExpiry.MARK))
        after(clock, 9)
        leased(books, host, Lease(expires_at=START + 5, on_expiry=OnExpiry.MARK), consumer, amount=2)
        assert books.held(consumer) == {host: {"VCPU": 2}}

    def test_is_at_most_as_long_as_the_operator_allows(self, books: Books, clock: DatabaseClock) -> None:
        host = books.provider(VCPU=2)
        leased(books, host, Lease(60, most=60))
        for lease in (Lease(61, most=60), Lease(expires_at=clock.now + 61, most=60)):
            with pytest.raises(LeaseRefused, match="max_lease"):
                leased(books, host, lease)

    def test_is_told_to_watchers_once(self, books: Books, clock: DatabaseClock) -> None:
        host = books.provider(VCPU=2)
        consumer, marked = leased(books, host, Lease(5)), leased(books, host, Lease(5, on_expiry=OnExpiry.MARK))
        token = books.service.read(changes_since, None).token
        after(clock, 6)
        told = books.service.read(changes_since, token)
        assert told.consumers == {consumer: None, marked: generation_of(books, marked)}
        assert set(told.ended) == {consumer, marked}
        assert told.ends == {marked: START + 5}
        assert host in told.providers
        after(clock, 5)
        assert not books.service.read(changes_since, told.token)


class TestRenewals:
    def test_name_those_that_are_gone_and_those_that_have_no_lease(self, books: Books, clock: DatabaseClock) -> None:
        host = books.provider(VCPU=4)
        consumer, forever, gone = (
            leased(books, host, Lease(5)),
            leased(books, host, None),
            leased(books, host, Lease(5)),
        )
        books.release(gone)
        unknown = fresh_uuid()
        clock.passes(3)
        renewed = books.service.write(leases.renew, dict.fromkeys([unknown, consumer, forever, gone], 8))
        assert renewed == ([unknown, gone], [forever])
        assert lease_of(books, consumer) == HeldLease(START + 11, OnExpiry.RELEASE)

    def test_succeed_after_the_end_if_the_claim_still_stands(self, books: Books, clock: DatabaseClock) -> None:
        consumer = leased(books, books.provider(VCPU=4), Lease(5))
        clock.worker.step()
        clock.passes(7)
        assert books.service.write(leases.renew, {consumer: 5}) == ([], [])
        clock.worker.step()
        assert books.held(consumer)

    def test_of_an_earlier_claim_change_no_later_one(self, books: Books, clock: DatabaseClock) -> None:
        """Neither in its first nor in a later version."""
        host = books.provider(VCPU=4)
        consumer = leased(books, host, Lease(5))
        old = generation_of(books, consumer)
        leased(books, host, UNCHANGED, consumer, amount=2)
        assert generation_of(books, consumer) == old + 1
        assert books.service.write(leases.renew, {consumer: 7}, {consumer: old}) == ([], []), "it was moved"
        for amounts in ((1,), (1, 2, 1)):
            books.release(consumer)
            for amount in amounts:
                leased(books, host, Lease(5), consumer, amount)
            assert books.service.write(leases.renew, {consumer: 90}, {consumer: old}) == ([consumer], [])
            assert lease_of(books, consumer) == HeldLease(START + 5, OnExpiry.RELEASE)

    def test_know_a_consumer_that_is_released_and_claimed_meanwhile_as_gone(
        self, books: Books, clock: DatabaseClock, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Between the two statements of a renewal: it has a lease, and is not one without."""
        if not books.store.dialect.locks_rows:
            pytest.skip("a writer locks the whole database")
        host = books.provider(VCPU=4)
        consumer = leased(books, host, Lease(5))
        old, lock = generation_of(books, consumer), leases.lock

        def after_another_client(tx: Any, ids: Any) -> set[int]:
            monkeypatch.setattr(leases, "lock", lock)
            books.release(consumer)
            leased(books, host, Lease(5), consumer)
            return lock(tx, ids)

        monkeypatch.setattr(leases, "lock", after_another_client)
        assert books.service.write(leases.renew, {consumer: 90}, {consumer: old}) == ([consumer], [])
        assert lease_of(books, consumer) == HeldLease(START + 5, OnExpiry.RELEASE)

    def test_have_their_own_lengths(self, books: Books, clock: DatabaseClock) -> None:
        host = books.provider(VCPU=4)
        consumers = [leased(books, host, Lease(5)) for _ in range(3)]
        books.service.write(leases.renew, dict(zip(consumers, (7, 3, 7), strict=True)))
        ends = [lease.expires_at - clock.now for consumer in consumers if (lease := lease_of(books, consumer))]
        assert ends == [7, 3, 7]

    def test_of_many_take_few_statements(self, books: Books, clock: DatabaseClock) -> None:
        host, consumers = books.provider(VCPU=2_000), [fresh_uuid() for _ in range(1_500)]
        books.service.claim([replace(claim_of(uuid, {host: {"VCPU": 1}}), lease=Lease(5)) for uuid in consumers])
        with counted(books) as seen:
            assert books.service.write(leases.renew, dict.fromkeys(consumers, 90)) == ([], [])
        assert seen.commits == 1
        assert seen.statements <= 2 + 2 + 2 + 1 + 1  # consumers, locks and changes in portions; the clock; BEGIN
        ends = books.scalar("SELECT COUNT(*) FROM stead_lease WHERE expires_at = :end", end=clock.now + 90)
        assert ends == 1_500

    def test_wait_for_no_claim(self, books: Books, clock: DatabaseClock) -> None:
        """The claim holds its provider and its consumer."""
        if not books.store.dialect.locks_rows:
            pytest.skip("a writer locks the whole database")
        host = books.provider(VCPU=4)
        consumer, other = leased(books, host, Lease(5)), leased(books, host, Lease(5))
        holds, may_end = threading.Event(), threading.Event()

        def claim() -> None:
            def body(tx: Any) -> None:
                allocations.replace(tx, [claim_of(consumer, {host: {"VCPU": 2}})])
                holds.set()
                may_end.wait(30)

            books.store.write(body)

        thread = threading.Thread(target=claim)
        thread.start()
        try:
            assert holds.wait(30)
            assert books.service.write(leases.renew, {other: 50}) == ([], [])
        finally:
            may_end.set()
            thread.join()
        assert lease_of(books, other) == HeldLease(clock.now + 50, OnExpiry.RELEASE)


def test_a_claim_without_a_lease_costs_what_it_cost_before(books: Books) -> None:
    host = books.provider(VCPU=9)
    books.claim(fresh_uuid(), {host: {"VCPU": 1}})
    consumer = fresh_uuid()
    with counted(books) as claimed:
        books.claim(consumer, {host: {"VCPU": 1}})
    with counted(books) as released:
        books.release(consumer)
    extra = 1  # BEGIN, where that is a statement
    assert claimed.statements <= 12 + extra
    assert released.statements <= 14 + extra


class TestTheClock:
    def test_that_jumps_forward_ends_nothing_early(
        self, books: Books, clock: DatabaseClock, caplog: pytest.LogCaptureFixture
    ) -> None:
        host = books.provider(VCPU=4)
        consumer = leased(books, host, Lease(20))
        after(clock, 4)
        clock.jumps(10_000)
        later = leased(books, host, Lease(20))
        after(clock, 10)
        assert "2 leases end later" in caplog.text
        assert books.held(consumer)
        assert lease_of(books, later) == HeldLease(START + 10_025, OnExpiry.RELEASE), "it was given by the new time"
        after(clock, 20)
        assert books.held(consumer) == {}
        assert books.held(later) == {}

    def test_that_jumps_back_ends_nothing_early(self, books: Books, clock: DatabaseClock) -> None:
        consumer = leased(books, books.provider(VCPU=4), Lease(20))
        after(clock, 4)
        clock.jumps(-10_000)
        after(clock, 60)
        assert books.held(consumer)
        clock.jumps(9_935)  # nearly back; the step is as if it jumped forward
        after(clock, 15)
        assert books.held(consumer)

    def test_that_nobody_read_ends_nothing_at_once(self, books: Books, clock: DatabaseClock) -> None:
        """No worker ran for an hour, so no client could renew."""
        consumer = leased(books, books.provider(VCPU=4), Lease(20))
        after(clock, 4)
        clock.passes(3_600)
        after(clock, 15)
        assert books.held(consumer)
        after(clock, 3)
        assert books.held(consumer) == {}

    def test_is_not_stored_while_there_are_no_leases(self, books: Books, clock: DatabaseClock) -> None:
        leased(books, books.provider(VCPU=4), None)
        with counted(books) as seen:
            after(clock, 20)
        assert seen.commits == 0


class TestAnotherService:
    def test_that_deletes_a_consumer_leaves_a_lease_that_means_nothing(
        self, books: Books, clock: DatabaseClock
    ) -> None:
        host = books.provider(VCPU=4)
        consumer = leased(books, host, Lease(5))
        released_elsewhere(books, consumer)
        other = leased(books, host, None)  # SQLite gives it the same id
        assert lease_of(books, other) is None
        after(clock, 9)
        assert books.held(other)
        assert books.scalar("SELECT COUNT(*) FROM stead_lease") == 0

    def test_that_reuses_the_id_does_not_keep_the_new_consumer_from_a_lease(
        self, books: Books, clock: DatabaseClock
    ) -> None:
        host = books.provider(VCPU=4)
        released_elsewhere(books, leased(books, host, Lease(500)))
        consumer = leased(books, host, Lease(5))
        assert lease_of(books, consumer) == HeldLease(clock.now + 5, OnExpiry.RELEASE)


def test_ends_of_many_are_carried_out_in_portions(
    books: Books, clock: DatabaseClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stead.service.leases.PORTION", 10)
    host = books.provider(VCPU=100)
    for _ in range(25):
        leased(books, host, Lease(3))
    clock.worker.step()
    clock.passes(5)
    with counted(books) as seen:
        clock.worker.step()
    assert clock.ended == [("release", 10), ("release", 10), ("release", 5)]
    assert seen.commits == 3 + 1  # and the reading
    assert books.used(host) == 0


def test_workers_that_look_at_the_same_time_end_each_lease_once(books: Books, clock: DatabaseClock) -> None:
    host, ended = books.provider(VCPU=400), []
    consumers = [fresh_uuid() for _ in range(300)]
    books.service.claim([replace(claim_of(uuid, {host: {"VCPU": 1}}), lease=Lease(3)) for uuid in consumers])
    clock.worker.step()
    others = [Books(books.url, upgrade=False) for _ in range(3)]
    workers = [clock.new_worker(other, lambda _happened, count: ended.append(count)) for other in others]
    for worker in workers:
        worker.step()
    clock.passes(5)
    starting = threading.Barrier(3)

    def look(worker: Expiry) -> None:
        starting.wait()
        worker.step()

    threads = [threading.Thread(target=look, args=[worker]) for worker in workers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for other in others:
        other.close()
    clock.worker.step()
    assert sum(ended) <= 300
    assert books.used(host) == 0
    assert books.scalar("SELECT COUNT(*) FROM stead_lease") == 0
    assert faults(books) == {}


# A property: random histories beside a model.


class Killed(Exception):
    """The worker died before a statement."""


@contextmanager
def killed_before(books: Books, number: int) -> Iterator[None]:
    """The worker dies before its statement of this number, if it has as many."""
    remaining = number

    def count(*_event: Any) -> None:
        nonlocal remaining
        remaining -= 1
        if remaining < 0:
            raise Killed

    sa.event.listen(books.store.writer, "before_cursor_execute", count)
    try:
        with suppress(Killed):
            yield
    finally:
        sa.event.remove(books.store.writer, "before_cursor_execute", count)


@dataclass
class ModelLease:
    """A lease: for how long it was requested, and at what moment, whatever any clock said."""

    seconds: int
    on_expiry: OnExpiry
    since: float
    is_overdue: bool = False


@dataclass
class Model:
    """Who has what, where, and until when, by the time that really passed; and workers on two sites of the database."""

    books: Books
    clock: DatabaseClock
    hosts: list[str]
    names: list[str]
    workers: list[Expiry]
    leases: dict[str, ModelLease | None] = field(default_factory=dict)
    places: dict[str, str] = field(default_factory=dict)
    told: int = 0
    offset: int = 0

    @property
    def running(self) -> list[ModelLease]:
        return [lease for lease in self.leases.values() if lease and not lease.is_overdue]

    def look(self) -> None:
        """Let all workers look, and compare what they did."""
        since = self.books.service.read(changes_since, None).token
        for worker in self.workers:
            worker.step()
        self.compare(since)

    def compare(self, since: str) -> None:
        """What has ended since a token ended not early, and watchers hear of that and of nothing else."""
        told = self.books.service.read(changes_since, since)
        changed = set(told.consumers)
        held = {name: found for name in self.names if (found := self.books.held(name))}
        ended = set()
        for name, lease in list(self.leases.items()):
            stored = lease_of(self.books, name)
            if lease is None:
                assert stored is None
            elif lease.on_expiry is OnExpiry.RELEASE and name not in held:
                ended.add(name)
                assert self.clock.passed - lease.since > lease.seconds, f"{name} ended early"
                del self.leases[name], self.places[name]
            elif stored is not None and stored.is_overdue and not lease.is_overdue:
                ended.add(name)
                assert self.clock.passed - lease.since > lease.seconds, f"{name} is overdue early"
                lease.is_overdue = True
            else:
                assert stored is not None
                assert stored.is_overdue == lease.is_overdue
        assert changed == ended
        assert set(told.ended) == ended
        self.told += len(changed)
        assert held == {name: {host: {"VCPU": 1}} for name, host in self.places.items()}
        assert [self.books.used(host) for host in self.hosts] == [
            list(self.places.values()).count(host) for host in self.hosts
        ]

    def passes(self, seconds: float) -> None:
        """Workers look at least once a second."""
        while seconds > 0:
            self.tick(min(seconds, 1.0))
            seconds -= 1.0
            self.look()

    def tick(self, seconds: float) -> None:
        self.clock.passed += seconds
        self.clock.now = START + self.offset + int(self.clock.passed)

    def jumps(self, seconds: int) -> None:
        self.offset += seconds
        self.tick(0)
        self.look()

    def claim(self, number: int, seconds: int | None, place: int) -> None:
        """With a lease; with 0 without an end; with None, it keeps what it has. Negative ones are to be marked."""
        consumer, host = self.names[number], self.hosts[place]
        on_expiry = OnExpiry.MARK if seconds is not None and seconds < 0 else OnExpiry.RELEASE
        lease = UNCHANGED if seconds is None else Lease(abs(seconds), on_expiry=on_expiry) if seconds else None
        try:
            self.books.service.claim([replace(claim_of(consumer, {host: {"VCPU": 1}}), lease=lease)])
        except CapacityExceeded:
            assert list(self.places.values()).count(host) == ROOM
            return
        self.places[consumer] = host
        if isinstance(lease, Lease):
            self.leases[consumer] = ModelLease(abs(seconds or 0), on_expiry, self.clock.passed)
        elif lease is None or consumer not in self.leases:
            self.leases[consumer] = None

    def renew(self, numbers: list[int], seconds: int) -> None:
        asked = [self.names[number] for number in numbers]
        gone, without = self.books.service.write(leases.renew, dict.fromkeys(asked, seconds))
        assert gone == [name for name in asked if name not in self.places]
        assert without == sorted(name for name in asked if name in self.places and not self.leases.get(name))
        for name in asked:
            if lease := self.leases.get(name):
                self.leases[name] = ModelLease(seconds, lease.on_expiry, self.clock.passed)

    def release(self, number: int) -> None:
        try:
            self.books.release(self.names[number])
        except AllocationsNotFound:
            assert self.names[number] not in self.places
        self.places.pop(self.names[number], None)
        self.leases.pop(self.names[number], None)

    def dies(self, worker: int, statement: int, seconds: float) -> None:
        """A worker dies before a statement, some time after it looked last; another process replaces it."""
        self.tick(seconds)
        since = self.books.service.read(changes_since, None).token
        with killed_before(self.books, statement):
            self.workers[worker].step()
        self.compare(since)
        self.workers[worker] = self.clock.new_worker(self.books)
        self.look()

    def are_away(self, seconds: float, jump: int) -> None:
        """All workers end, and the clock jumps, before others start."""
        self.tick(seconds)
        self.offset += jump
        self.tick(0)
        self.workers = [self.clock.new_worker(self.books) for _ in self.workers]
        self.look()


CONSUMERS = 5
ROOM = 3
consumer_numbers = st.integers(0, CONSUMERS - 1)
short = st.sampled_from([0.0, 0.3, 0.9])
steps = st.sampled_from([-5, -2, -1, 1, 2, 3, 5])
EVENTS = st.one_of(
    st.tuples(st.just("claim"), consumer_numbers, st.sampled_from([None, 0, 1, 2, 5, 9, -5]), st.integers(0, 1)),
    st.tuples(st.just("renew"), st.lists(consumer_numbers, min_size=1, unique=True), st.integers(1, 9)),
    st.tuples(st.just("release"), consumer_numbers),
    st.tuples(st.just("passes"), st.sampled_from([0.3, 1.0, 1.7, 4.0])),
    st.tuples(st.just("passes"), st.sampled_from([1.0, 2.0, 3.0])),
    st.tuples(st.just("jumps"), steps),
    st.tuples(st.just("jumps"), st.sampled_from([400, 5, 5, -30])),
    st.tuples(st.just("dies"), st.integers(0, 1), st.integers(0, 14), short),
    st.tuples(st.just("are_away"), st.sampled_from([0.5, 2.0, 7.0, 60.0]), st.just(0) | steps),
)
MOST_BACK_SECONDS = 30 * 25


@settings(
    max_examples=examples(60, quick=6),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(history=st.lists(EVENTS, min_size=5, max_size=25), start=short)
@pytest.mark.timeout(900)  # sixty histories of many writes, on a busy machine
def test_leases_end_once_and_never_early(
    books: Books, clock: DatabaseClock, history: list[tuple[Any, ...]], start: float
) -> None:
    """Whatever clocks do, and whichever workers die: as a model with a clock of its own says."""
    books.execute("DELETE FROM stead_counter WHERE name = 'lease_clock'")
    clock.passed += 1_000 + start
    hosts, names = [books.provider(VCPU=ROOM) for _ in range(2)], [fresh_uuid() for _ in range(CONSUMERS)]
    model = Model(books, clock, hosts, names, [clock.new_worker(books) for _ in range(2)])
    model.tick(0)
    try:
        for number, seconds in enumerate((6, 9, -12)):
            model.claim(number, seconds, 0)
            model.look()
        for name, *values in history:
            getattr(model, name)(*values)
            model.look()
        for _ in range(MOST_BACK_SECONDS):
            if not model.running:
                break
            model.passes(1.0)
        assert not model.running, "each lease ends"
        assert faults(books) == {}
    finally:
        for name in names:
            with suppress(AllocationsNotFound):
                books.release(name)
