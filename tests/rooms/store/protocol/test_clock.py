"""The commit clock: what a write notes in it, and who sees the write because of it."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa

from stead.domain.errors import Unavailable
from stead.domain.provider import Inventory
from stead.store import consumer_listing, inventories, providers, resource_classes, tables, traits
from stead.store.protocol import clock, store
from stead.store.protocol.store import RaceLost
from tests.rooms.store.books import Books, fresh_custom, fresh_uuid, picture, reloaded
from tests.rooms.store.protocol.interleaving import outcome
from tests.rooms.store.protocol.other_process import OtherProcess

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from stead.store.protocol.store import Transaction


def ticks(books: Books) -> dict[int, tuple[int, int]]:
    """Tick and stamp by slot."""

    def read(connection: sa.Connection) -> dict[int, tuple[int, int]]:
        rows = connection.execute(sa.text("SELECT slot, tick, stamp FROM stead_clock")).all()
        return {slot: (tick, stamp) for slot, tick, stamp in rows}

    return books.service.read(read)


def noted(books: Books, slot: int, tick: int, table: str) -> set[int]:
    """The change rows of one tick."""

    def read(connection: sa.Connection) -> set[int]:
        query = sa.text(f"SELECT provider_id FROM {table} WHERE slot = :slot AND tick = :tick")
        return set(connection.scalars(query, {"slot": slot, "tick": tick}))

    return books.service.read(read)


def touched_by(books: Books, write: Callable[[], Any]) -> set[int]:
    """What a write notes that changes more than what is used."""
    whole, usage = all_touched_by(books, write)
    assert usage == set()
    return whole


def usage_touched_by(books: Books, write: Callable[[], Any]) -> set[int]:
    """What a write notes that changes only what is used."""
    whole, usage = all_touched_by(books, write)
    assert whole == set()
    return usage


def all_touched_by(books: Books, write: Callable[[], Any]) -> tuple[set[int], set[int]]:
    """Both kinds of what a write notes, which must tick one slot once."""
    before = ticks(books)
    write()
    after = ticks(books)
    [slot] = [slot for slot in after if after[slot] != before[slot]]
    assert after[slot][0] == before[slot][0] + 1
    assert after[slot][1] != before[slot][1], "the stamp is the old one"
    tick = after[slot][0]
    return noted(books, slot, tick, "stead_provider_change"), noted(books, slot, tick, "stead_usage_change")


@contextmanager
def statements(engine: sa.Engine) -> Iterator[list[str]]:
    seen: list[str] = []

    def note(_connection: object, _cursor: object, statement: str, *_: object) -> None:
        seen.append(" ".join(statement.split()[:3]))

    sa.event.listen(engine, "before_cursor_execute", note)
    sa.event.listen(engine, "commit", lambda _: seen.append("COMMIT"))
    try:
        yield seen
    finally:
        sa.event.remove(engine, "before_cursor_execute", note)


def everything(books: Books) -> dict[str, list[Any]]:
    """Every row of every table."""

    def read(connection: sa.Connection) -> dict[str, list[Any]]:
        return {
            table.name: sorted(map(tuple, connection.execute(sa.select(table))), key=repr)
            for table in tables.metadata.sorted_tables
        }

    return books.service.read(read)


def id_of(books: Books, uuid: str) -> int:
    return int(books.scalar("SELECT id FROM resource_providers WHERE uuid = :uuid", uuid=uuid))


def trait_id(books: Books, name: str) -> int:
    return int(books.scalar("SELECT id FROM traits WHERE name = :name", name=name))


def class_id(books: Books, name: str) -> int:
    return int(books.scalar("SELECT id FROM resource_classes WHERE name = :name", name=name))


def test_the_tick_is_the_last_thing_before_the_commit(books: Books) -> None:
    host = books.provider(VCPU=8)
    books.claim(fresh_uuid(), {host: {"VCPU": 1}})
    with statements(books.store.writer) as seen:
        books.claim(fresh_uuid(), {host: {"VCPU": 1}})
    assert seen[-4:] == [
        "UPDATE stead_clock SET",
        "INSERT INTO stead_usage_change",
        "INSERT INTO stead_change_log",
        "COMMIT",
    ]
    assert sum("stead_clock SET" in statement for statement in seen) == 1


class TestWhatIsTouched:
    def test_a_root_by_its_creation(self, books: Books) -> None:
        uuid = fresh_uuid()
        touched = touched_by(books, lambda: books.service.write(providers.create, uuid, uuid, None))
        assert touched == {id_of(books, uuid)}

    def test_parent_and_root_by_a_new_child(self, books: Books) -> None:
        root, uuid = books.provider(), fresh_uuid()
        parent = books.provider(parent=root)
        touched = touched_by(books, lambda: books.service.write(providers.create, uuid, uuid, parent))
        assert touched == {id_of(books, each) for each in (root, parent, uuid)}

    def test_a_subtree_and_all_around_it_by_a_move(self, books: Books) -> None:
        old_root, new_root = books.provider(), books.provider()
        old_parent, new_parent = books.provider(parent=old_root), books.provider(parent=new_root)
        branch = books.provider(parent=old_parent)
        leaf = books.provider(parent=branch)
        touched = touched_by(books, lambda: books.move(branch, new_parent))
        everyone = (old_root, new_root, old_parent, new_parent, branch, leaf)
        assert touched == {id_of(books, each) for each in everyone}

    def test_parent_and_root_by_the_deletion_of_a_child(self, books: Books) -> None:
        root = books.provider()
        parent = books.provider(parent=root)
        child = books.provider(parent=parent)
        ids = {id_of(books, each) for each in (root, parent, child)}
        assert touched_by(books, lambda: books.drop(child)) == ids

    def test_all_that_a_claim_takes_from_and_all_that_it_leaves(self, books: Books) -> None:
        a, b, c, consumer = *(books.provider(VCPU=1) for _ in range(3)), fresh_uuid()
        books.claim(consumer, {a: {"VCPU": 1}})
        touched = usage_touched_by(books, lambda: books.claim(consumer, {b: {"VCPU": 1}, c: {"VCPU": 1}}))
        assert touched == {id_of(books, each) for each in (a, b, c)}

    def test_all_that_a_release_leaves(self, books: Books) -> None:
        a, b, consumer = books.provider(VCPU=1), books.provider(VCPU=1), fresh_uuid()
        books.claim(consumer, {a: {"VCPU": 1}, b: {"VCPU": 1}})
        assert usage_touched_by(books, lambda: books.release(consumer)) == {id_of(books, each) for each in (a, b)}

    def test_no_name_by_a_claim(self, books: Books) -> None:
        """Claims of one custom class on many providers must not queue for its row."""
        name = fresh_custom()
        books.service.write(resource_classes.create, name)
        host = books.provider(**{name: 1})
        assert usage_touched_by(books, lambda: books.claim(fresh_uuid(), {host: {name: 1}})) == {id_of(books, host)}

    def test_both_ways_all_that_a_reshape_concerns(self, books: Books) -> None:
        """A release that comes at the same time, on another node, notes only what is used, and must collide."""
        a, b, c, consumer = books.provider(VCPU=1), books.provider(), books.provider(VCPU=1), fresh_uuid()
        books.claim(consumer, {a: {"VCPU": 1}, c: {"VCPU": 1}})
        shapes = {a: books.shape(a), b: books.shape(b, VCPU=1)}
        ids = {id_of(books, each) for each in (a, b, c)}
        touched = all_touched_by(books, lambda: books.reshape(shapes, {consumer: {b: {"VCPU": 1}}}))
        assert touched == (ids, ids)

    def test_the_class_by_a_new_inventory(self, books: Books) -> None:
        name, host = fresh_custom(), books.provider()
        books.service.write(resource_classes.create, name)
        touched = touched_by(books, lambda: books.service.write(inventories.add, host, name, Inventory(1)))
        assert touched == {id_of(books, host), clock.class_change(class_id(books, name))}

    def test_the_traits_by_their_association(self, books: Books) -> None:
        name, host = fresh_custom(), books.provider()
        books.service.write(traits.create, name)
        touched = touched_by(books, lambda: books.trait(host, name, "HW_NUMA_ROOT"))
        assert touched == {id_of(books, host), clock.trait_change(trait_id(books, name))}

    def test_the_name_by_its_coming_changing_and_going(self, books: Books) -> None:
        trait, name, new = fresh_custom(), fresh_custom(), fresh_custom()
        made = touched_by(books, lambda: books.service.write(traits.create, trait))
        assert made == {clock.trait_change(trait_id(books, trait))}
        assert touched_by(books, lambda: books.service.write(traits.delete, trait)) == made
        made = touched_by(books, lambda: books.service.write(resource_classes.create, name))
        assert made == {clock.class_change(class_id(books, name))}
        assert touched_by(books, lambda: books.service.write(resource_classes.rename, name, new)) == made
        assert touched_by(books, lambda: books.service.write(resource_classes.delete, new)) == made

    def test_everything_by_more_than_can_be_noted_one_by_one(self, books: Books) -> None:
        many = range(10_000_000, 10_000_000 + clock.TOO_MANY)
        assert len(touched_by(books, lambda: books.service.write(lambda tx: tx.touch(many)))) == clock.TOO_MANY
        more = range(10_000_000, 10_000_001 + clock.TOO_MANY)
        assert touched_by(books, lambda: books.service.write(lambda tx: tx.touch(more))) == {clock.EVERYTHING}

        def touch_both(tx: Transaction) -> None:
            tx.touch(more[:9])
            tx.touch_usage(more[9:])

        assert touched_by(books, lambda: books.service.write(touch_both)) == {clock.EVERYTHING}
        books.execute("DELETE FROM stead_provider_change WHERE provider_id >= 10000000")

    def test_names_and_providers_have_ids_that_never_meet(self) -> None:
        changes = [f(id_) for f in (clock.trait_change, clock.class_change) for id_ in range(1000)]
        assert max(changes) < clock.EVERYTHING
        assert len(set(changes)) == len(changes)


def test_the_sums_of_the_clock_change_with_every_tick_and_every_epoch(empty_books: Books) -> None:
    books, seen = empty_books, set()
    host = books.provider(VCPU=4)
    for write in (
        lambda: books.claim(fresh_uuid(), {host: {"VCPU": 1}}),
        lambda: books.execute(f"UPDATE stead_clock SET stamp = stamp + {2**40} WHERE slot = 3"),  # as after a restore
        lambda: books.execute("UPDATE stead_clock SET tick = tick - 1, stamp = 7 WHERE slot = 3"),
        lambda: books.service.write(store.renew_epoch),
    ):
        write()
        now, sums = books.service.read(lambda connection: (clock.read_clock(connection), clock.read_sums(connection)))
        assert now.sums() == sums
        seen.add(sums)
    assert len(seen) == 4


def test_what_changed_is_told_apart_and_nothing_is_told_twice(books: Books) -> None:
    a, b, consumer = books.provider(VCPU=4), books.provider(VCPU=4), fresh_uuid()
    ids = {provider: id_of(books, provider) for provider in (a, b)}
    moments = [books.service.read(clock.read_clock)]
    for write in (
        lambda: books.claim(consumer, {a: {"VCPU": 1}, b: {"VCPU": 1}}),
        lambda: books.trait(a, "HW_NUMA_ROOT"),
        lambda: books.release(consumer),
    ):
        write()
        moments.append(books.service.read(clock.read_clock))

    def since(moment: int) -> clock.Changed:
        return books.service.read(clock.changed_between, moments[moment], moments[-1])

    assert since(0) == since(1) == clock.Changed(frozenset({ids[a]}), frozenset({ids[b]}))
    assert since(2) == clock.Changed(frozenset(), frozenset(ids.values()))
    assert since(3) == clock.Changed(frozenset(), frozenset())


def refused_writes(books: Books) -> dict[str, Callable[[], Any]]:
    host, consumer, trait = books.provider(VCPU=2, DISK_GB=5), fresh_uuid(), fresh_custom()
    child = books.provider(parent=host)
    books.service.write(traits.create, trait)
    books.trait(host, trait)
    books.claim(consumer, {host: {"VCPU": 1}})
    write = books.service.write
    return {
        "a claim of too much, with another that fits": lambda: books.claim(
            fresh_uuid(), {host: {"DISK_GB": 1, "VCPU": 2}}
        ),
        "a claim at an old generation": lambda: books.claim(consumer, {host: {"VCPU": 1}}, 7),
        "a claim on an unknown provider": lambda: books.claim(consumer, {fresh_uuid(): {"VCPU": 1}}),
        "a claim of an unknown class": lambda: books.claim(consumer, {host: {"CUSTOM_UNKNOWN": 1}}),
        "inventories at an old generation": lambda: write(inventories.replace_all, host, {}, 99),
        "inventories without what is in use": lambda: books.restock(host, DISK_GB=9),
        "the deletion of a provider in use": lambda: books.drop(host),
        "a loop": lambda: books.move(host, child),
        "the deletion of a trait in use": lambda: write(traits.delete, trait),
        "a taken name": lambda: books.rename(host, f"provider {child}"),
        "a reshape that does not fit": lambda: books.reshape(
            {host: books.shape(host, DISK_GB=1), child: books.shape(child, VCPU=1)}, {consumer: {child: {"VCPU": 2}}}
        ),
        "a release of nothing": lambda: books.release(fresh_uuid()),
    }


REFUSED = [
    "a claim of too much, with another that fits", "a claim at an old generation", "a claim on an unknown provider",
    "a claim of an unknown class", "inventories at an old generation", "inventories without what is in use",
    "the deletion of a provider in use", "a loop", "the deletion of a trait in use", "a taken name",
    "a reshape that does not fit", "a release of nothing",
]  # fmt: skip


def test_whatever_is_refused_leaves_nothing_and_does_not_tick(empty_books: Books) -> None:
    writes = refused_writes(empty_books)
    assert list(writes) == REFUSED
    before = everything(empty_books)
    for name, write in writes.items():
        assert isinstance(outcome(write), str), f"{name} was not refused"
        assert everything(empty_books) == before, name


def test_an_attempt_that_fails_at_its_end_leaves_nothing_for_the_next(books: Books) -> None:
    uuid, failing, first = fresh_uuid(), iter([True, True, False]), books.provider()

    def create(tx: Transaction) -> None:
        if next(failing):
            providers.lock_one(tx, first)
            providers.create(tx, fresh_uuid(), fresh_uuid(), None)
            raise RaceLost("on purpose")
        providers.create(tx, uuid, uuid, None)

    count = "SELECT COUNT(*) FROM resource_providers"
    before = books.scalar(count)
    assert touched_by(books, lambda: books.service.write(create)) == {id_of(books, uuid)}
    assert books.scalar(count) == before + 1


def test_an_error_that_is_no_lost_race_is_not_tried_again(books: Books) -> None:
    calls: list[int] = []

    def fail(tx: Transaction) -> None:
        calls.append(1)
        providers.create(tx, fresh_uuid(), fresh_uuid(), None)
        raise ZeroDivisionError

    before = everything(books)
    with pytest.raises(ZeroDivisionError):
        books.service.write(fail)
    assert calls == [1]
    assert everything(books) == before


def test_a_race_that_is_lost_for_ever_ends_as_unavailable(books: Books) -> None:
    def lose(_tx: Transaction) -> None:
        raise RaceLost("on purpose")

    hasty = Books(books.url, write_timeout=0.05, upgrade=False)
    with pytest.raises(Unavailable):
        hasty.service.write(lose)
    hasty.close()


def all_kinds_of_writes(books: Books) -> Iterator[str]:
    """One after the other; each is acknowledged when its name comes out."""
    write = books.service.write
    trait, lamp, consumer = fresh_custom(), fresh_custom("LAMP"), fresh_uuid()
    write(traits.create, trait)
    yield "a new trait"
    write(resource_classes.create, lamp)
    yield "a new class"
    root, other = fresh_uuid(), fresh_uuid()
    write(providers.create, root, root, None)
    yield "a new root"
    other = books.provider()
    child = books.provider(parent=root)
    yield "a new child"
    write(inventories.add, child, lamp, Inventory(8))
    yield "a new inventory"
    books.restock(child, **{lamp: 9, "VCPU": 4})
    yield "other inventories"
    books.trait(child, trait, "HW_NUMA_ROOT")
    yield "traits"
    books.aggregate(child, fresh_uuid(), fresh_uuid())
    yield "aggregates"
    books.claim(consumer, {child: {lamp: 3, "VCPU": 1}})
    yield "a claim"
    books.reshape(
        {root: books.shape(root, VCPU=2), child: books.shape(child, **{lamp: 9})}, {consumer: {root: {"VCPU": 2}}}
    )
    yield "a reshape"
    books.release(consumer)
    yield "a release"
    write(resource_classes.rename, lamp, f"{lamp}_2")
    yield "a renamed class"
    books.rename(child, fresh_uuid())
    yield "a renamed provider"
    books.move(root, other)
    yield "a move"
    books.move(child, None)
    yield "a child made a root"
    write(inventories.delete_all, child)
    yield "no inventories"
    write(traits.clear, child)
    yield "no traits"
    write(traits.delete, trait)
    yield "a deleted trait"
    write(resource_classes.delete, f"{lamp}_2")
    yield "a deleted class"
    books.drop(child)
    yield "a deleted provider"
    again = books.provider(VCPU=1)
    yield "a provider that may have the id of a deleted one"
    books.drop(again)
    books.provider(parent=other, DISK_GB=2)
    yield "another one"


def test_a_second_service_sees_every_acknowledged_write(books: Books, second: Books) -> None:
    second.service.snapshot()
    for name in all_kinds_of_writes(books):
        assert picture(second.service.snapshot()) == reloaded(books), name
        assert picture(books.service.snapshot()) == reloaded(books), name


def test_a_snapshot_does_not_change_under_its_holder(books: Books, second: Books) -> None:
    pictures = [(snapshot := second.service.snapshot(), picture(snapshot))]
    pictures += [((snapshot := second.service.snapshot()), picture(snapshot)) for _ in all_kinds_of_writes(books)]
    for snapshot, before in pictures:
        assert picture(snapshot) == before


def test_memory_changes_by_refresh_alone(books: Books) -> None:
    before = books.service.snapshot()
    host = books.provider(VCPU=1)
    assert before.find(host) is None
    assert books.service._catalog._snapshot is before
    assert books.service.snapshot().find(host) is not None


def test_nothing_is_read_when_nothing_changed(books: Books) -> None:
    assert books.service.snapshot() is books.service.snapshot()


def test_other_processes_see_every_acknowledged_write_and_we_see_theirs(books: Books) -> None:
    host = books.provider(VCPU=100)
    with OtherProcess(books.url) as other:
        for n in range(1, 6):
            books.claim(fresh_uuid(), {host: {"VCPU": 1}})
            assert other.call("used", host) == 2 * n - 1
            other.call("claim", fresh_uuid(), {host: {"VCPU": 1}})
            assert books.used(host) == 2 * n
        theirs = other.call("provider", parent=host)
        assert books.knows(theirs)
        books.drop(theirs)
        assert not other.call("knows", theirs)


def test_readers_beside_a_writer_never_see_less_than_was_acknowledged(books: Books, second: Books) -> None:
    host = books.provider(VCPU=1)
    acknowledged, done = [1], threading.Event()
    failures: list[str] = []

    def total(snapshot: Any) -> int:
        return int(snapshot.inventories(snapshot.find(host))["VCPU"].inventory.total)

    def read() -> None:
        newest = 0
        while not done.is_set():
            at_least = acknowledged[-1]
            seen = total(second.service.snapshot())
            if seen < max(at_least, newest):
                failures.append(f"saw {seen} after {at_least} was acknowledged and {newest} seen")
            newest = seen

    readers = [threading.Thread(target=read) for _ in range(4)]
    for reader in readers:
        reader.start()
    with OtherProcess(books.url) as other:
        for n in range(2, 40):
            if n % 2:
                other.call("restock", host, VCPU=n)
            else:
                books.restock(host, VCPU=n)
            acknowledged.append(n)
    done.set()
    for reader in readers:
        reader.join(30)
    assert failures == []


class TestWhenTheDifferenceCanNotBeTold:
    """Each has a name changed behind the clock's back, which only who reloads everything can see."""

    @pytest.fixture
    def behind_the_back(self, books: Books, second: Books) -> Callable[[], bool]:
        host = books.provider(VCPU=4)
        books.claim(fresh_uuid(), {host: {"VCPU": 1}})
        second.service.snapshot()
        name = fresh_uuid()
        books.execute("UPDATE resource_providers SET name = :name WHERE uuid = :uuid", name=name, uuid=host)

        def is_seen() -> bool:
            snapshot = second.service.snapshot()
            slot = snapshot.find(host)
            assert slot is not None
            return snapshot.provider(slot).name == name

        return is_seen

    def test_what_nobody_ticked_for_is_not_seen(self, books: Books, behind_the_back: Callable[[], bool]) -> None:
        assert not behind_the_back()
        books.provider()
        assert not behind_the_back()

    @pytest.mark.parametrize(
        "statement",
        [
            "UPDATE stead_clock SET tick = tick - 1 WHERE tick = (SELECT * FROM (SELECT MAX(tick) FROM stead_clock) t)",
            "UPDATE stead_clock SET stamp = stamp + 1 WHERE slot = 3",
            "UPDATE stead_clock SET floor = tick + 1",
            "UPDATE stead_epoch SET epoch = 'another'",
        ],
        ids=["a tick fell", "another stamp", "a floor rose", "another epoch"],
    )
    def test_everything_is_reloaded_when(
        self, books: Books, behind_the_back: Callable[[], bool], statement: str
    ) -> None:
        before = ticks(books)
        books.execute(statement)
        assert behind_the_back()
        for slot, (tick, stamp) in before.items():
            books.execute(
                "UPDATE stead_clock SET floor = 0, tick = :tick, stamp = :stamp WHERE slot = :slot",
                tick=tick, stamp=stamp, slot=slot,
            )  # fmt: skip

    def test_everything_is_reloaded_when_everything_was_touched(
        self, books: Books, behind_the_back: Callable[[], bool]
    ) -> None:
        books.service.write(lambda tx: tx.touch(range(10_000_000, 10_000_001 + clock.TOO_MANY)))
        assert behind_the_back()

    def test_a_refresh_that_fails_fails_its_request_and_the_next_reloads_everything(
        self, books: Books, second: Books, behind_the_back: Callable[[], bool]
    ) -> None:
        last_good = second.service.snapshot()
        tick, stamp = ticks(books)[0]
        books.execute("DELETE FROM stead_clock WHERE slot = 0")
        with pytest.raises(Unavailable):
            second.service.snapshot()
        assert second.service._catalog._snapshot is last_good
        books.execute("INSERT INTO stead_clock VALUES (0, :tick, :stamp, 0, '')", tick=tick, stamp=stamp)
        assert behind_the_back()

    def test_everything_is_reloaded_after_the_connections_were_closed(
        self, second: Books, behind_the_back: Callable[[], bool]
    ) -> None:
        second.close()
        assert not behind_the_back(), "nothing was lost by closing them"
        assert picture(second.service.snapshot()).keys() == reloaded(second).keys()


def test_a_write_without_a_slot_to_tick_is_unavailable_and_leaves_nothing(books: Books) -> None:
    books.execute("UPDATE stead_clock SET slot = slot + 1000")
    try:
        before = everything(books)
        with pytest.raises(Unavailable):
            books.service.write(providers.create, fresh_uuid(), fresh_uuid(), None)
        assert everything(books) == before
    finally:
        books.execute("UPDATE stead_clock SET slot = slot - 1000")


def test_a_refresh_of_twenty_thousand_changes_gives_what_reloading_gives(books: Books, second: Books) -> None:
    hosts = [books.provider(VCPU=4) for _ in range(3)]
    second.service.snapshot()
    ids = [id_of(books, host) for host in hosts]
    books.execute("UPDATE resource_providers SET generation = 77 WHERE id = :id", id=ids[1])
    gone = range(20_000_000, 20_000_000 + clock.TOO_MANY - 3)
    books.service.write(lambda tx: tx.touch([*ids, *gone]))
    assert picture(second.service.snapshot()) == reloaded(books)
    books.execute("DELETE FROM stead_provider_change WHERE provider_id >= 20000000")
    assert books.service.read(consumer_listing.of_provider, hosts[1]).generation == 77
