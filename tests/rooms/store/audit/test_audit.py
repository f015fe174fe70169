"""The audit names every fault that is planted behind the service's back, and a repair repairs what it says it can."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa

from stead.domain.errors import StartOver
from stead.store.audit.checks import Fault, Finding, NoBooks, audit, cycles, roots_of
from stead.store.audit.repairs import repair
from stead.store.feed.changes import changes_since
from stead.store.protocol.clock import SLOTS
from stead.store.protocol.store import Store
from stead.store.schema import schema
from stead.store.sql.dialects import Database
from tests.rooms.store.books import Books, fresh_uuid, picture, reloaded
from tests.rooms.store.protocol.storm import storm

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.timeout(300)  # many faults, and a repair of each

GHOST = 999_999  # an id that nobody has
UNCHECKED = {
    "sqlite": "PRAGMA foreign_keys = OFF",
    "postgresql": "SET session_replication_role = replica",
    "mysql": "SET foreign_key_checks = 0",
}


class Site:
    """A host with a child, a spare provider of which nothing was ever taken, and a consumer."""

    def __init__(self, url: str) -> None:
        self.books = Books(url)
        self.host = self.books.provider(VCPU=8, DISK_GB=100)
        self.child = self.books.provider(parent=self.host, VCPU=8)
        self.spare = self.books.provider(VCPU=8)
        self.consumer = fresh_uuid()
        self.books.claim(self.consumer, {self.host: {"VCPU": 4, "DISK_GB": 10}, self.child: {"VCPU": 1}})
        uuids = {"host": self.host, "child": self.child, "spare": self.spare}
        find = "SELECT id FROM resource_providers WHERE uuid = :uuid"
        self.ids = {name: self.books.scalar(find, uuid=uuid) for name, uuid in uuids.items()}
        self.words: dict[str, Any] = {
            "ghost": GHOST,
            **self.ids,
            **{f"{name}_uuid": uuid for name, uuid in uuids.items()},
            "consumer": self.consumer,
        }

    def plant(self, statements: tuple[str, ...]) -> None:
        """Run statements, each of which must change something: else nothing is planted, and nothing is found."""
        self._run(statements, least=1)

    def undo(self, statements: tuple[str, ...]) -> None:
        self._run(statements, least=0)

    def _run(self, statements: tuple[str, ...], least: int) -> None:
        plant(self.books.store, [statement.format(**self.words) for statement in statements], least=least)

    def idle_slot(self) -> int:
        """A slot in which no change was noted. Which slots a process writes in is drawn."""
        used = "SELECT slot FROM stead_provider_change UNION SELECT slot FROM stead_usage_change"
        return min(set(range(SLOTS)) - set(self.books.service.read(lambda read: read.scalars(sa.text(used)).all())))

    def found(self) -> list[Finding]:
        return found(self.books.store)

    def repair(self) -> None:
        repair(self.books.store, self.found(), lambda _done, _total: None)


def plant(store: Store, statements: list[str], *, least: int = 1) -> None:
    """Run statements without the checks of foreign keys, which not all databases in the field have.

    Each must change *least* rows.
    """
    engine = sa.create_engine(store.writer.url, poolclass=sa.NullPool)
    with engine.connect() as connection:
        connection.exec_driver_sql(UNCHECKED[connection.dialect.name])
        connection.commit()
        for statement in statements:
            assert connection.exec_driver_sql(statement).rowcount >= least, statement
        connection.commit()


def found(store: Store) -> list[Finding]:
    return store.read(audit, lambda _done, _total: None)


@pytest.fixture(scope="module")
def module_site(module_ready_database_url: str) -> Iterator[Site]:
    site = Site(module_ready_database_url)
    yield site
    site.books.close()


@pytest.fixture
def site(module_site: Site) -> Iterator[Site]:
    """One whose books are right, before and after."""
    assert module_site.found() == []
    module_site.words["idle"] = module_site.idle_slot()
    yield module_site
    assert module_site.found() == []


@dataclass(frozen=True)
class Planted:
    fault: Fault
    subject: str
    plant: tuple[str, ...]
    undo: tuple[str, ...] = ()
    detail: str = ""
    times: int = 1


def _allocation(provider: str, consumer: str, class_id: str) -> tuple[str, ...]:
    return (
        "INSERT INTO allocations (resource_provider_id, consumer_id, resource_class_id, used)"
        f" VALUES ({provider}, '{consumer}', {class_id}, 3)",
    )


def _inventory(provider: str, class_id: str) -> tuple[str, ...]:
    return (
        "INSERT INTO inventories (resource_provider_id, resource_class_id, total, reserved, min_unit, max_unit,"
        f" step_size, allocation_ratio) VALUES ({provider}, {class_id}, 1, 0, 1, 1, 1, 1.0)",
    )


def _consumer(column: str, value: str) -> tuple[str, ...]:
    return (f"UPDATE consumers SET {column} = {value} WHERE uuid = '{{consumer}}'",)


def _provider(name: str, column: str, value: str) -> tuple[str, ...]:
    return (f"UPDATE resource_providers SET {column} = {value} WHERE id = {{{name}}}",)


def _total(total: int) -> tuple[str, ...]:
    return (f"UPDATE inventories SET total = {total} WHERE resource_provider_id = {{host}} AND resource_class_id = 0",)


_NO_GHOSTS = (
    "DELETE FROM allocations WHERE resource_provider_id = {ghost} OR consumer_id = 'ghost'",
    "DELETE FROM allocations WHERE resource_provider_id = {spare}",
    "DELETE FROM inventories WHERE resource_provider_id = {ghost} OR resource_class_id = {ghost}",
)
_IDLE = """INSERT INTO consumers (uuid, project_id, user_id, generation)
    SELECT 'idle', project_id, user_id, 0 FROM consumers WHERE uuid = '{consumer}'"""
_CHANGE = "UPDATE stead_provider_change SET {what} WHERE provider_id = {{spare}}"
_LEASE = "INSERT INTO stead_lease (expires_at, renewed_at, consumer_id, uuid, state) SELECT 9, 8, {values}"
_SUM = "UPDATE stead_usage SET {what} WHERE provider_id = {{host}} AND class_id = 0"

F = Fault
PLANTED = {
    "over-commitment": Planted(
        F.OVERCOMMITTED, "provider {host_uuid}", _total(3), _total(8), "VCPU: 4 used of (3 - 0) * 1.0"
    ),
    "unknown consumer": Planted(
        F.ALLOCATION_WITHOUT_CONSUMER, "consumer ghost", _allocation("{spare}", "ghost", "0"), _NO_GHOSTS
    ),
    "unknown provider": Planted(
        F.ALLOCATION_WITHOUT_PROVIDER, "provider id 999999", _allocation("{ghost}", "{consumer}", "0"), _NO_GHOSTS
    ),
    "unknown class": Planted(
        F.ALLOCATION_WITHOUT_CLASS, "class id 999999", _allocation("{spare}", "{consumer}", "{ghost}"), _NO_GHOSTS
    ),
    "no inventory": Planted(
        F.ALLOCATION_WITHOUT_INVENTORY,
        "provider {spare_uuid}",
        _allocation("{spare}", "{consumer}", "1"),
        _NO_GHOSTS,
        "MEMORY_MB: 3 used in 1 allocations",
    ),
    "amount of 0": Planted(
        F.ALLOCATION_AMOUNT,
        "consumer {consumer}",
        (_allocation("{spare}", "{consumer}", "0")[0].replace(", 3)", ", 0)"),),
        _NO_GHOSTS,
    ),
    "allocation in two parts": Planted(
        F.ALLOCATIONS_IN_PARTS,
        "consumer {consumer}",
        (
            "UPDATE allocations SET used = 1 WHERE resource_provider_id = {host} AND resource_class_id = 0",
            *_allocation("{host}", "{consumer}", "0"),
        ),
        detail="4 in 2 rows",
    ),
    "idle consumer": Planted(F.CONSUMER_WITHOUT_ALLOCATIONS, "consumer idle", (_IDLE,)),
    "unknown project": Planted(
        F.UNKNOWN_PROJECT,
        "consumer {consumer}",
        _consumer("project_id", "{ghost}"),
        _consumer("project_id", "(SELECT MIN(id) FROM projects)"),
    ),
    "unknown user": Planted(
        F.UNKNOWN_USER,
        "consumer {consumer}",
        _consumer("user_id", "{ghost}"),
        _consumer("user_id", "(SELECT MIN(id) FROM users)"),
    ),
    "unknown type": Planted(
        F.UNKNOWN_CONSUMER_TYPE,
        "consumer {consumer}",
        _consumer("consumer_type_id", "{ghost}"),
        _consumer("consumer_type_id", "NULL"),
    ),
    "unknown parent": Planted(
        F.UNKNOWN_PARENT,
        "provider {spare_uuid}",
        _provider("spare", "parent_provider_id", "{ghost}"),
        _provider("spare", "parent_provider_id", "NULL"),
        "parent id 999999",
    ),
    "cycle": Planted(
        F.CYCLE,
        "provider ",
        _provider("host", "parent_provider_id", "{child}"),
        _provider("host", "parent_provider_id", "NULL"),
        times=2,
    ),
    "own parent": Planted(
        F.CYCLE,
        "provider {spare_uuid}",
        _provider("spare", "parent_provider_id", "{spare}"),
        _provider("spare", "parent_provider_id", "NULL"),
    ),
    "no root": Planted(F.NO_ROOT, "provider {child_uuid}", _provider("child", "root_provider_id", "NULL")),
    "wrong root": Planted(F.WRONG_ROOT, "provider {child_uuid}", _provider("child", "root_provider_id", "{spare}")),
    "wrong root of a root": Planted(
        F.WRONG_ROOT, "provider {spare_uuid}", _provider("spare", "root_provider_id", "{host}")
    ),
    "no name": Planted(F.NO_NAME, "provider {spare_uuid}", _provider("spare", "name", "NULL")),
    "no generation": Planted(F.NO_GENERATION, "provider {spare_uuid}", _provider("spare", "generation", "NULL")),
    "aggregate without uuid": Planted(
        F.AGGREGATE_WITHOUT_UUID, "aggregate id ", ("INSERT INTO placement_aggregates (uuid) VALUES (NULL)",)
    ),
    "step of 0": Planted(
        F.INVENTORY_UNITS,
        "provider {spare_uuid}",
        ("UPDATE inventories SET step_size = 0 WHERE resource_provider_id = {spare}",),
        detail="step_size 0",
    ),
    "total of 0": Planted(
        F.INVENTORY_CAPACITY,
        "provider {spare_uuid}",
        ("UPDATE inventories SET total = 0 WHERE resource_provider_id = {spare}",),
        ("UPDATE inventories SET total = 8 WHERE resource_provider_id = {spare}",),
        detail="VCPU: total 0",
    ),
    "inventory of an unknown provider": Planted(
        F.INVENTORY_WITHOUT_PROVIDER, "provider id 999999", _inventory("{ghost}", "0"), _NO_GHOSTS
    ),
    "inventory of an unknown class": Planted(
        F.INVENTORY_WITHOUT_CLASS, "class id 999999", _inventory("{spare}", "{ghost}"), _NO_GHOSTS
    ),
    "unknown trait": Planted(
        F.DANGLING_TRAIT,
        "provider id {spare}",
        ("INSERT INTO resource_provider_traits (trait_id, resource_provider_id) VALUES ({ghost}, {spare})",),
        detail="trait id 999999",
    ),
    "trait of an unknown provider": Planted(
        F.DANGLING_TRAIT,
        "provider id 999999",
        ("INSERT INTO resource_provider_traits (trait_id, resource_provider_id) SELECT MIN(id), {ghost} FROM traits",),
    ),
    "unknown aggregate": Planted(
        F.DANGLING_AGGREGATE,
        "provider id {spare}",
        ("INSERT INTO resource_provider_aggregates (resource_provider_id, aggregate_id) VALUES ({spare}, {ghost})",),
        detail="aggregate id 999999",
    ),
    "missing slot": Planted(
        F.CLOCK_SLOTS, "slot {idle}", ("DELETE FROM stead_clock WHERE slot = {idle}",), detail="missing"
    ),
    "slot too many": Planted(
        F.CLOCK_SLOTS, "slot 70", ("INSERT INTO stead_clock (slot, tick, stamp, floor) VALUES (70, 1, 1, 0)",)
    ),
    "slot below its floor": Planted(
        F.CLOCK_SLOTS,
        "slot {idle}",
        ("UPDATE stead_clock SET floor = tick + 10 WHERE slot = {idle}",),
    ),
    "change ahead of its slot": Planted(
        F.CHANGE_OUT_OF_STEP, "stead_provider_change {spare}", (_CHANGE.format(what="tick = tick + 1000000"),)
    ),
    "change at no tick": Planted(
        F.CHANGE_OUT_OF_STEP, "stead_provider_change {spare}", (_CHANGE.format(what="tick = 0"),)
    ),
    "change of no slot": Planted(
        F.CHANGE_OUT_OF_STEP, "stead_provider_change {spare}", (_CHANGE.format(what="slot = 99"),)
    ),
    "usage change ahead of its slot": Planted(
        F.CHANGE_OUT_OF_STEP,
        "stead_usage_change {ghost}",
        ("INSERT INTO stead_usage_change (provider_id, slot, tick) VALUES ({ghost}, 3, 100000000)",),
    ),
    "kept sum too low": Planted(F.KEPT_SUM, "provider {host_uuid}", (_SUM.format(what="used = used - 1"),)),
    "kept sum missing": Planted(
        F.KEPT_SUM, "provider {host_uuid}", ("DELETE FROM stead_usage WHERE provider_id = {host} AND class_id = 0",)
    ),
    "kept sum of an unknown provider": Planted(
        F.KEPT_SUM,
        "provider unknown",
        ("INSERT INTO stead_usage (provider_id, class_id, used, generation) VALUES ({ghost}, 0, 1, 1)",),
    ),
    "lease of an unknown consumer": Planted(
        F.LEASE_WITHOUT_CONSUMER, "consumer x", (_LEASE.format(values="{ghost}, 'x', 0"),), detail="consumer id 999999"
    ),
    "lease of a consumer that was replaced": Planted(
        F.LEASE_WITHOUT_CONSUMER, "consumer x", (_LEASE.format(values="id, 'x', 0 FROM consumers"),)
    ),
    "lease without a known state": Planted(
        F.LEASE_STATE,
        "consumer ",
        (_LEASE.format(values="id, uuid, 9 FROM consumers"),),
        ("DELETE FROM stead_lease",),
        detail="state 9",
    ),
}


def test_every_fault_is_planted() -> None:
    assert {planted.fault for planted in PLANTED.values()} == set(Fault)


@pytest.mark.parametrize("name", PLANTED)
def test_what_is_planted_is_found_and_repaired_if_it_can_be(site: Site, name: str) -> None:
    planted = PLANTED[name]
    if planted.fault is Fault.KEPT_SUM:  # a claim, so that there are sums that stand
        site.books.claim(
            site.consumer, {site.host: {"VCPU": 4, "DISK_GB": 10}, site.child: {"VCPU": 1}}, generation(site)
        )
    site.plant(planted.plant)
    findings = site.found()
    assert {finding.fault for finding in findings} == {planted.fault}
    assert len(findings) == planted.times
    for finding in findings:
        assert finding.subject.startswith(planted.subject.format(**site.words))
        assert planted.detail in finding.detail
    site.repair()
    remaining = site.found()
    if planted.fault.value.is_repaired:
        assert remaining == []
        if planted.fault is Fault.ALLOCATION_WITHOUT_CONSUMER:
            site.books.release("ghost")
        assert picture(site.books.service.snapshot()) == reloaded(site.books)
    else:
        assert remaining == findings
        site.undo(planted.undo)


def generation(site: Site) -> int | None:
    return site.books.consumer_generation(site.consumer)


def test_a_service_that_read_what_was_wrong_sees_it_repaired(site: Site) -> None:
    books = site.books
    books.claim(site.consumer, {site.host: {"VCPU": 4, "DISK_GB": 10}, site.child: {"VCPU": 1}}, generation(site))
    site.plant((*PLANTED["wrong root"].plant, *PLANTED["kept sum too low"].plant, *PLANTED["unknown aggregate"].plant))
    second = Books(books.url, upgrade=False)
    assert (root_of(second, site.child), second.used(site.host)) == (site.spare, 3)
    site.repair()
    assert (root_of(second, site.child), second.used(site.host)) == (site.host, 4)
    assert picture(second.service.snapshot()) == picture(books.service.snapshot())
    second.close()


def root_of(books: Books, provider: str) -> str | None:
    snapshot = books.service.snapshot()
    slot = snapshot.find(provider)
    assert slot is not None
    return snapshot.provider(slot).root


def test_a_clock_without_a_slot_is_repaired_under_a_service_that_could_not_go_on(site: Site) -> None:
    slot = site.books.scalar("SELECT slot FROM stead_provider_change WHERE provider_id = :id", id=site.ids["spare"])
    site.plant((f"DELETE FROM stead_clock WHERE slot = {slot}",))
    site.repair()
    site.books.restock(site.spare, VCPU=9)
    assert picture(site.books.service.snapshot()) == reloaded(site.books)


@pytest.mark.parametrize("name", ["missing slot", "slot below its floor"])
def test_tokens_from_before_a_repair_of_the_clock_are_refused(site: Site, name: str) -> None:
    """Which ticks a damaged slot had is unknown, so that no token can be compared with it."""
    before = site.books.store.read(changes_since, None).token
    site.plant(PLANTED[name].plant)
    site.repair()
    with pytest.raises(StartOver):
        site.books.store.read(changes_since, before)


def test_a_consumer_that_a_repair_deletes_is_in_the_changes(site: Site) -> None:
    site.plant(PLANTED["idle consumer"].plant)
    before = site.books.store.read(changes_since, None).token
    site.repair()
    assert site.books.store.read(changes_since, before).consumers == {"idle": None}


def test_a_finding_that_is_not_true_any_more_changes_nothing(site: Site) -> None:
    site.plant((*PLANTED["idle consumer"].plant, *PLANTED["wrong root"].plant))
    old = site.found()
    site.books.execute(
        "UPDATE resource_providers SET root_provider_id = :host WHERE id = :child",
        host=site.ids["host"],
        child=site.ids["child"],
    )
    site.plant(_allocation("{spare}", "idle", "0"))
    repair(site.books.store, old, lambda _done, _total: None)
    assert site.books.scalar("SELECT COUNT(*) FROM consumers WHERE uuid = 'idle'") == 1
    site.undo((*_NO_GHOSTS, "DELETE FROM consumers WHERE uuid = 'idle'"))


def test_books_are_right_after_a_storm(empty_books: Books) -> None:
    hosts = [empty_books.provider(VCPU=10) for _ in range(4)]
    storm(empty_books, 1, hosts, 60)
    assert found(empty_books.store) == []


def test_books_are_right_at_every_moment_of_a_storm(empty_books: Books) -> None:
    hosts = [empty_books.provider(VCPU=10) for _ in range(4)]
    audits = 0
    with ThreadPoolExecutor(2) as pool:
        storms = [pool.submit(storm, empty_books, seed, hosts, 40) for seed in (2, 3)]
        while not all(each.done() for each in storms):
            assert found(empty_books.store) == []
            audits += 1
    assert sum(each.result()["writes"] for each in storms) > 0
    assert audits > 0


def test_a_repair_in_the_middle_of_a_storm_breaks_nothing(empty_books: Books) -> None:
    hosts = [empty_books.provider(VCPU=10) for _ in range(4)]
    storm(empty_books, 4, hosts, 10)
    words = {"host": empty_books.scalar("SELECT MIN(provider_id) FROM stead_usage"), "ghost": GHOST}
    planted = [PLANTED[name].plant for name in ("kept sum of an unknown provider", "kept sum missing")]
    with ThreadPoolExecutor(2) as pool:
        storms = [pool.submit(storm, empty_books, seed, hosts, 40) for seed in (5, 6)]
        statements = [statement.format(**words) for texts in planted for statement in texts]
        plant(empty_books.store, statements, least=0)  # a claim may be about to write the sums of this provider
        repair(empty_books.store, found(empty_books.store), lambda _done, _total: None)
        for each in storms:
            each.result()
    repair(empty_books.store, found(empty_books.store), lambda _done, _total: None)
    assert found(empty_books.store) == []
    assert picture(empty_books.service.snapshot()) == reloaded(empty_books)


def test_more_providers_are_not_more_statements(empty_books: Books) -> None:
    seen: list[str] = []

    def note(_connection: object, _cursor: object, statement: str, *_: object) -> None:
        seen.append(statement)

    sa.event.listen(empty_books.store.reader, "before_cursor_execute", note)
    counts = []
    for more in (1, 20):
        for host in [empty_books.provider(VCPU=10) for _ in range(more)]:
            empty_books.claim(fresh_uuid(), {host: {"VCPU": 1}})
        seen.clear()
        assert found(empty_books.store) == []
        counts.append(len(seen))
    assert counts[0] == counts[1]


def test_books_without_the_tables_of_stead_are_audited_and_repaired(database_url: str) -> None:
    books = Books(database_url)
    host = books.provider(VCPU=8)
    child = books.provider(parent=host, VCPU=1)
    books.claim(fresh_uuid(), {host: {"VCPU": 4}})
    store = books.store
    own = [name for name in sa.inspect(store.writer).get_table_names() if name.startswith("stead_")]
    books.close()
    with store.writer.begin() as connection:
        for name in own:
            connection.exec_driver_sql(f"DROP TABLE {name}")
    assert found(store) == []
    plant(
        store,
        [
            "UPDATE inventories SET total = 2",
            f"UPDATE resource_providers SET root_provider_id = NULL WHERE uuid = '{child}'",
            "INSERT INTO resource_provider_aggregates (resource_provider_id, aggregate_id) VALUES (1, 77)",
        ],
    )
    assert {f.fault for f in found(store)} == {Fault.OVERCOMMITTED, Fault.NO_ROOT, Fault.DANGLING_AGGREGATE}
    repair(store, found(store), lambda _done, _total: None)
    assert {f.fault for f in found(store)} == {Fault.OVERCOMMITTED}
    store.close()


def test_a_database_without_tables_has_no_books(database_url: str) -> None:
    store = Store(Database(database_url))
    with pytest.raises(NoBooks):
        found(store)
    schema.upgrade(store.writer)
    assert found(store) == []
    store.close()


@pytest.mark.parametrize("seed", range(20))
def test_roots_and_cycles_are_those_that_walking_finds(seed: int) -> None:
    rng = random.Random(seed)
    parents = {id_: rng.choice([None, *range(1, 15)]) for id_ in range(1, 13)}  # 13 and 14 are not known

    def walk(id_: int) -> tuple[int | None, bool]:
        at, seen = id_, set()
        while at not in seen:
            seen.add(at)
            above = parents[at]
            if above is None:
                return at, False
            if above == id_:
                return None, True
            if above not in parents:
                return None, False
            at = above
        return None, False

    roots = roots_of(parents)
    assert roots == {id_: walk(id_)[0] for id_ in parents}
    assert cycles(parents, roots) == {id_ for id_ in parents if walk(id_)[1]}


def test_a_reserve_above_the_total_of_which_nothing_is_taken_is_no_over_commitment(site: Site) -> None:
    reserved = "UPDATE inventories SET reserved = {} WHERE resource_provider_id = {{spare}}"
    site.plant((reserved.format(20),))
    assert site.found() == []
    site.plant((reserved.format(0),))
