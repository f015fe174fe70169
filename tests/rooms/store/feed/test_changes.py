"""Every token gets all changes since its moment, or `StartOver`; after any writes and any pruning.

The model keeps what every write changed, as a comparison of the tables before and after it shows.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test

from stead.domain.errors import StartOver, SteadError
from stead.domain.provider import Inventory
from stead.service import claims
from stead.store import inventories, providers
from stead.store.feed import changes, pruning
from stead.store.feed.changes import changes_since
from stead.store.feed.pruning import Pruning
from stead.store.protocol import clock
from stead.store.protocol import store as epoch
from stead.store.tables import metadata
from tests.rooms.store.books import Books, claim_of
from tests.selection import examples

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from stead.store.protocol.clock import Clock

UUIDS = tuple(f"00000000-0000-4000-8000-00000000000{number}" for number in range(6))
"""Of providers and of consumers: nothing forbids that one of each has the same."""

SLOTS = (0, 63)
MOST, TOO_MANY, PORTION, MOST_TOKENS = 3, 4, 2, 6

choices = st.integers(0, 2**16 - 1)
"""Which of the things there are; taken modulo their number."""

uuids = st.sampled_from(UUIDS)
writers = st.tuples(st.sampled_from((0, 1)), st.sampled_from(SLOTS))
Writer = tuple[int, int]
"""A process, and the slot that it ticks."""

State = dict[str, dict[str, Any]]
"""``providers`` and ``consumers``: by uuid all that the tables say of one."""


@dataclass(frozen=True)
class Write:
    """What one write changed, by the tables; ``listed`` bounds its rows in the log."""

    providers: frozenset[str]
    consumers: frozenset[str]
    listed: int


@dataclass
class Moment:
    """A token that a watcher holds, the clock it is of, and all that happened since."""

    token: str
    clock: Clock
    writes: list[Write] = field(default_factory=list)
    may_be_refused: bool = False
    """Something was pruned since, a write was too large to be listed, or the epoch changed."""
    is_refreshable: bool = True
    """The change rows have everything since."""

    @property
    def must_be_told(self) -> bool:
        return not self.may_be_refused and sum(write.listed for write in self.writes) <= MOST

    def changed(self, what: str) -> set[str]:
        return set().union(*(getattr(write, what) for write in self.writes))


class Watching(RuleBasedStateMachine):
    """Two processes write and prune; watchers ask from time to time."""

    def __init__(self, processes: tuple[Books, Books]) -> None:
        super().__init__()
        self.processes = processes
        self.books = processes[0]
        empty(self.books)
        self.moments: list[Moment] = []
        for uuid in UUIDS[:2]:
            self.books.service.write(providers.create, uuid, f"provider {uuid}", None)
            self.books.stock(uuid, VCPU=100)
        self.state = self.look()
        self.begin()

    def look(self) -> State:
        return self.books.store.read(state)

    def wrote(self, change: Callable[[], object], listed: int) -> None:
        """Run a write, which may be refused, and note what it changed for all who watch."""
        large = self.large_writes()
        try:
            change()
        except SteadError:
            assert self.look() == self.state, "what was refused changed something"
        before, self.state = self.state, self.look()
        write = Write(*(frozenset(differing(before[what], self.state[what])) for what in before), listed)
        for moment in self.moments:
            moment.writes.append(write)
            moment.may_be_refused |= self.large_writes() != large
        self.begin()

    def large_writes(self) -> list[Any]:
        """The rows that say of a write no more than that it was large."""

        def rows(connection: sa.Connection) -> list[Any]:
            whole = "SELECT slot, tick FROM stead_provider_change WHERE provider_id = 0"
            log = "SELECT slot, tick FROM stead_change_log WHERE uuid = ''"
            return [sorted(map(tuple, connection.execute(sa.text(query)))) for query in (whole, log)]

        return self.books.store.read(rows)

    def writes(self, writer: Writer) -> Books:
        """A process, which writes in a slot of its choice next."""
        process, slot = writer
        books = self.processes[process]
        books.store._slots._mine.slot = slot
        return books

    @rule(writer=writers, uuid=uuids, below=st.none() | uuids)
    def create(self, writer: Writer, uuid: str, below: str | None) -> None:
        books = self.writes(writer)
        self.wrote(lambda: books.service.write(providers.create, uuid, f"provider {uuid}", below), 0)

    @rule(writer=writers, choice=choices, change=st.sampled_from(("delete", "move", "stock")), parent=st.none() | uuids)
    def change_a_provider(self, writer: Writer, choice: int, change: str, parent: str | None) -> None:
        books, provider = self.writes(writer), self.one("providers", choice)
        match change:
            case "delete":
                self.wrote(lambda: books.drop(provider), 1)
            case "move":
                self.wrote(lambda: books.move(provider, parent), 0)
            case "stock":
                generation = self.state["providers"].get(provider, {"generation": 0})["generation"]
                stock = {"VCPU": Inventory(100)}
                self.wrote(lambda: books.service.write(inventories.replace_all, provider, stock, generation), 0)

    @rule(writer=writers, choice=choices, consumers=st.sets(uuids, min_size=1))
    def claim(self, writer: Writer, choice: int, consumers: set[str]) -> None:
        books = self.writes(writer)
        amounts = {self.one("providers", choice): {"VCPU": 1}}
        claims = [claim_of(consumer, amounts) for consumer in sorted(consumers)]
        self.wrote(lambda: books.service.claim(claims), len(claims))

    @rule(writer=writers, choice=choices)
    def claim_or_release(self, writer: Writer, choice: int) -> None:
        """Of one consumer: what happens most."""
        books, consumer = self.writes(writer), UUIDS[choice % len(UUIDS)]
        if consumer in self.state["consumers"]:
            self.wrote(lambda: books.release(consumer), 1)
        else:
            self.claim(writer=writer, choice=choice, consumers={consumer})

    @rule(
        seldom=st.sampled_from(("a commit in doubt is settled", "the epoch changes", "change rows are pruned")),
        choice=choices,
    )
    def happens_seldom(self, seldom: str, choice: int) -> None:
        store = self.processes[0].store
        match seldom:
            case "a commit in doubt is settled":
                with store.writer.begin() as connection:
                    clock.tick(connection, SLOTS[choice % len(SLOTS)], (), ())
            case "the epoch changes":
                store.write(epoch.renew_epoch)
                self.refusable()
            case "change rows are pruned":
                Pruning(store, 0).prune_change_rows(self.read_earlier(choice).ticks)
                for moment in self.moments:
                    moment.is_refreshable &= self.now().can_follow(moment.clock)

    @rule(writer=writers, most_writes=st.integers(0, 3), choice=choices)
    def prune_the_log(self, writer: Writer, most_writes: int, choice: int) -> None:
        Pruning(self.writes(writer).store, most_writes).prune_log(self.read_earlier(choice).ticks)
        self.refusable()

    def read_earlier(self, choice: int) -> Clock:
        """The clock as a process read it now, or at one of the moments."""
        read = [self.now(), *(moment.clock for moment in self.moments)]
        return read[choice % len(read)]

    def refusable(self) -> None:
        for moment in self.moments:
            moment.may_be_refused = True
        self.all_ask()

    def begin(self) -> None:
        """A watcher begins with the token of now."""

        def read(connection: sa.Connection) -> Moment:
            return Moment(changes_since(connection, None).token, clock.read_clock(connection))

        self.moments = [*self.moments, self.books.store.read(read)][-MOST_TOKENS:]

    @rule(choice=choices)
    def go_on(self, choice: int) -> None:
        """A watcher goes on from the token that it was given with the last changes."""
        told = self.told(self.moments[choice % len(self.moments)])
        if told is not None:
            self.moments = [*self.moments, Moment(told.token, self.now())][-MOST_TOKENS:]

    @rule()
    def all_ask(self) -> None:
        """Everybody is told everything, or to start over."""
        for moment in self.moments:
            self.told(moment)
            self.changed_consumers_are_noticed(moment)

    def teardown(self) -> None:
        self.all_ask()

    def told(self, moment: Moment) -> changes.ChangeSet | None:
        try:
            told = self.books.store.read(changes_since, moment.token)
        except StartOver:
            assert not moment.must_be_told, "a token is refused for no reason"
            return None
        for what in ("providers", "consumers"):
            listed = getattr(told, what)
            assert moment.changed(what) <= listed.keys(), f"changes of {what} were lost"
            now = {uuid: self.state[what].get(uuid) for uuid in listed}
            assert listed == {uuid: state and state["generation"] for uuid, state in now.items()}
        return told

    def changed_consumers_are_noticed(self, moment: Moment) -> None:
        """A claim by query that finds no place asks whether its consumers changed since its snapshot."""
        _, changed = self.books.store.read(claims._consumers_since, UUIDS, moment.clock)
        if moment.changed("consumers"):
            assert changed
        elif moment.must_be_told and moment.is_refreshable:
            assert not changed

    def now(self) -> Clock:
        return self.books.store.read(clock.read_clock)

    def one(self, what: str, choice: int) -> str:
        """One of those that exist, or one that does not if none does."""
        there = sorted(self.state[what]) or UUIDS
        return there[choice % len(there)]


def state(connection: sa.Connection) -> State:
    """All that the tables say of providers and consumers, each thing by uuid."""
    seen: State = {"providers": {}, "consumers": {}}
    rows = {
        name: [row._asdict() for row in connection.execute(sa.select(metadata.tables[name]))]
        for name in ("resource_providers", "consumers", "inventories", "allocations")
    }
    of_provider, of_consumer = defaultdict(list), defaultdict(list)
    for row in (*rows["inventories"], *rows["allocations"]):
        of_provider[row["resource_provider_id"]].append(row)
        of_consumer[row.get("consumer_id")].append(row)
    for row in rows["resource_providers"]:
        seen["providers"][row["uuid"]] = row | {"rows": sorted(map(str, of_provider[row["id"]]))}
    for row in rows["consumers"]:
        seen["consumers"][row["uuid"]] = row | {"rows": sorted(map(str, of_consumer[row["uuid"]]))}
    return seen


def differing(before: dict[str, Any], after: dict[str, Any]) -> set[str]:
    return {uuid for uuid in before.keys() | after.keys() if before.get(uuid) != after.get(uuid)}


def empty(books: Books) -> None:
    """Remove all providers, consumers and changes, and set the clock to zero."""
    with books.store.writer.begin() as connection:
        connection.execute(sa.text("UPDATE resource_providers SET parent_provider_id = NULL, root_provider_id = NULL"))
        for table in (
            *("allocations", "consumers", "inventories", "resource_providers", "stead_provider_change"),
            *("stead_usage_change", "stead_change_log", "stead_usage"),
        ):
            connection.execute(sa.text(f"DELETE FROM {table}"))
        for zero in (
            "UPDATE stead_clock SET tick = 0, stamp = 0, floor = 0, earlier = ''",
            "UPDATE stead_change_floor SET floor = 0",
        ):
            assert connection.execute(sa.text(zero)).rowcount == clock.SLOTS


@pytest.fixture
def processes(empty_books: Books, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Books, Books]]:
    """Two services on one database that list little and remove little at a time."""
    monkeypatch.setattr(changes, "MOST", MOST)
    monkeypatch.setattr(clock, "TOO_MANY", TOO_MANY)
    monkeypatch.setattr(pruning, "PORTION", PORTION)
    another = Books(empty_books.url, upgrade=False)
    yield empty_books, another
    another.close()


@pytest.mark.property
@pytest.mark.timeout(600)  # 40 histories of two processes
def test_every_token_gets_everything_since_or_start_over(processes: tuple[Books, Books]) -> None:
    run_state_machine_as_test(
        lambda: Watching(processes),
        settings=settings(
            max_examples=examples(40, quick=8),
            stateful_step_count=25,
            deadline=None,
            phases=(Phase.reuse, Phase.generate, Phase.shrink),
            report_multiple_bugs=False,
            suppress_health_check=[HealthCheck.too_slow],
        ),
    )
