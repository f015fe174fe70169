"""A refresh that takes this process's own writes from memory gives what reloading gives, whoever else writes."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime, timedelta
from random import Random
from typing import TYPE_CHECKING
from unittest.mock import ANY

import pytest
import sqlalchemy as sa

from stead.domain.errors import SteadError
from stead.store.feed import refresh_source
from stead.store.protocol import clock as own_writes
from stead.store.protocol import store as writing
from stead.store.protocol.clock import (
    MOST,
    MOST_TOUCHED,
    NOTHING,
    Changed,
    Clock,
    CommittedWrite,
    CommittedWrites,
    OwnChanges,
    ProviderUsage,
    Ticked,
)
from tests.rooms.store.books import Books, fresh_uuid, picture, reloaded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from stead.service.service import Service

STEPS = 25
SEEDS = range(2)
OUR_SLOTS, THEIR_SLOTS = (1, 2), (2, 3)


@pytest.fixture(scope="module")
def second(module_books: Books) -> Iterator[Books]:
    """Another service on the same database."""
    another = Books(module_books.url, upgrade=False)
    yield another
    another.close()


@pytest.fixture(scope="module")
def witness(module_books: Books) -> Iterator[Books]:
    """A service that never writes and always reloads."""
    another = Books(module_books.url, upgrade=False)
    yield another
    another.close()


@pytest.fixture(autouse=True)
def _each_write_has_a_second_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that the time of a lost write shows."""
    start, writes = datetime.now(UTC), iter(range(10**9))

    class Times(datetime):
        @classmethod
        def now(cls, tz: object = None) -> datetime:  # type: ignore[override]  # always UTC
            return start + timedelta(seconds=next(writes))

    monkeypatch.setattr(writing, "datetime", Times)


def played(first: Books, second: Books, witness: Books, seed: int) -> tuple[bool, int]:
    """Two services write, with slots of which they share one, until the first service's refreshed snapshot differs from
    a reload; returns whether it does, and how many standings it took from memory.
    """
    random, taken = Random(seed), [0]
    hosts = [first.provider(VCPU=100, MEMORY_MB=100) for _ in range(3)]
    consumers = [fresh_uuid() for _ in range(4)]
    original = first.store.committed_writes.take

    def take(earlier: Clock, now: Clock) -> OwnChanges:
        own = original(earlier, now)
        taken[0] += len(own.standings)
        return own

    def claim(books: Books) -> None:
        amounts = {host: {"VCPU": random.randint(1, 3)} for host in random.sample(hosts, random.randint(1, 2))}
        books.claim(random.choice(consumers), amounts)

    def release(books: Books) -> None:
        books.release(random.choice(consumers))

    def trait(books: Books) -> None:
        books.trait(random.choice(hosts), *random.sample(["HW_NUMA_ROOT", "HW_CPU_X86_SSE"], random.randint(0, 2)))

    def restock(books: Books) -> None:
        books.restock(random.choice(hosts), VCPU=random.randint(90, 110), MEMORY_MB=100)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(first.store.committed_writes, "take", take)
        patch.setattr(first.store._slots, "mine", lambda: random.choice(OUR_SLOTS))
        patch.setattr(second.store._slots, "mine", lambda: random.choice(THEIR_SLOTS))
        for _ in range(STEPS):
            for _ in range(random.randint(1, 4)):
                write = random.choice([claim, claim, claim, release, release, trait, restock])
                with suppress(SteadError):
                    write(random.choice([first, first, first, second]))
            if picture(first.service.snapshot()) != reloaded(witness):
                return True, taken[0]
    return False, taken[0]


@pytest.mark.parametrize("seed", SEEDS)
def test_refreshing_with_own_writes_gives_what_reloading_gives(
    books: Books, second: Books, witness: Books, seed: int
) -> None:
    is_wrong, taken = played(books, second, witness, seed)
    assert not is_wrong
    assert taken > STEPS / 4


def whatever_was_written_between(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_writes, "is_complete", lambda notes, *_: bool(notes))


def with_the_times_of_others_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    original = OwnChanges.merged_with
    monkeypatch.setattr(
        OwnChanges, "merged_with", lambda self, others, is_all: original(self, others, is_all=is_all or True)
    )


def with_standings_before_those_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    def merged_with(self: OwnChanges, others: Changed, *, is_all: bool) -> tuple[Changed, object]:
        whole = self.changed.whole | others.whole
        usage = (self.changed.usage | others.usage) - whole
        return Changed(whole, usage), {id_: usage_left for id_, usage_left in self.standings.items() if id_ in usage}

    monkeypatch.setattr(OwnChanges, "merged_with", merged_with)


def with_the_first_of_several(monkeypatch: pytest.MonkeyPatch) -> None:
    original = own_writes._left_behind
    monkeypatch.setattr(own_writes, "_left_behind", lambda notes: original(notes[::-1]))


def whatever_the_clock_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(refresh_source, "read_sums", lambda _: ANY)


@pytest.mark.parametrize(
    "bug",
    [
        whatever_was_written_between,
        whatever_the_clock_shows,
        with_the_times_of_others_lost,
        with_standings_before_those_of_others,
        with_the_first_of_several,
    ],
)
def test_a_planted_bug_is_found(
    books: Books,
    second: Books,
    witness: Books,
    monkeypatch: pytest.MonkeyPatch,
    bug: Callable[[pytest.MonkeyPatch], None],
) -> None:
    bug(monkeypatch)
    assert any(played(books, second, witness, seed)[0] for seed in range(10))
    books.store.committed_writes.forget()


def refresh_statements(service: Service, books: Books) -> list[str]:
    statements: list[str] = []

    def receive(_connection: object, _cursor: object, text: str, *_: object) -> None:
        statements.append(text)

    sa.event.listen(books.store.refresher, "before_cursor_execute", receive)
    try:
        service.snapshot()
    finally:
        sa.event.remove(books.store.refresher, "before_cursor_execute", receive)
    return statements


def test_a_refresh_after_own_claims_and_releases_reads_the_clock_alone(books: Books) -> None:
    host, first, second = books.provider(VCPU=9), fresh_uuid(), fresh_uuid()
    books.claim(first, {host: {"VCPU": 1}})
    books.service.snapshot()
    books.claim(second, {host: {"VCPU": 2}})
    books.release(first)
    assert len(refresh_statements(books.service, books)) == 1
    snapshot = books.service.snapshot()
    assert snapshot.provider(snapshot.find(host)).generation == books.generation(host)  # type: ignore[arg-type]  # exists


def test_a_write_without_an_answer_is_read(books: Books, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not known to be committed, so it is not noted."""
    host = books.provider(VCPU=9)
    books.service.snapshot()
    original = writing.commit

    def commit(*args: object) -> None:
        original(*args)  # type: ignore[arg-type]  # passed on
        raise writing.OutcomeUnknown(args[-1])  # type: ignore[arg-type]  # the tick

    with monkeypatch.context() as patch:
        patch.setattr(writing, "commit", commit)
        books.claim(fresh_uuid(), {host: {"VCPU": 1}})
    assert len(refresh_statements(books.service, books)) > 1


def clock(*ticks: int) -> Clock:
    ticks += (0,) * (64 - len(ticks))
    return Clock("", ticks, tuple(tick * 10 for tick in ticks), (0,) * 64)


def written(tick: int, *ids: int, stamp: int | None = None) -> CommittedWrite:
    standings = {id_: ProviderUsage(tick, tick, {0: tick}) for id_ in ids}
    return CommittedWrite(
        Ticked(0, tick, tick * 10 if stamp is None else stamp), frozenset(), frozenset(ids), standings
    )


class TestNotes:
    def test_are_dropped_when_taken(self) -> None:
        own = CommittedWrites()
        own.note([written(1, 7)])
        assert own.take(clock(0), clock(1)).changed.usage == {7}
        assert own.take(clock(0), clock(1)) == OwnChanges()

    def test_stay_until_the_clock_shows_their_tick(self) -> None:
        own = CommittedWrites()
        own.note([written(1, 7), written(2, 8)])
        assert own.take(clock(0), clock(1)).changed.usage == {7}
        assert own.take(clock(1), clock(2)).changed.usage == {8}

    @pytest.mark.parametrize(
        "notes",
        [[written(2, 7)], [written(1, 7)], [written(2, 7), written(1, 8)], [written(1, 7), written(2, 7, stamp=5)]],
        ids=["the first is missing", "the last is missing", "in another order", "another stamp"],
    )
    def test_are_not_used_if_they_are_not_all(self, notes: list[CommittedWrite]) -> None:
        own = CommittedWrites()
        own.note(notes)
        assert own.take(clock(0), clock(2)) == OwnChanges()

    def test_are_bounded(self) -> None:
        own = CommittedWrites()
        own.note([written(tick, 7) for tick in range(1, MOST + 2)])
        assert own.take(clock(0), clock(MOST + 1)) == OwnChanges()
        own.note([written(1, *range(MOST_TOUCHED + 1))])
        assert own.take(clock(0), clock(1)) == OwnChanges()

    def test_are_forgotten_with_the_database(self) -> None:
        own = CommittedWrites()
        own.note([written(1, 7)])
        own.forget()
        assert own.take(clock(0), clock(1)) == OwnChanges()
        assert OwnChanges().merged_with(NOTHING, is_all=True) == (NOTHING, {})
