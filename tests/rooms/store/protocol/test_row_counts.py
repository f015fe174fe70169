"""A write that changes fewer rows than it read is never taken for done: every row count is checked.

Each UPDATE and DELETE of each write is run once so that it hits nothing, as if another had changed its rows since they
were read, where locks do not hold that other off. The write must start again, or be refused.

Source: "The write and refresh protocol" (rule 4), docs/protocol.md.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa

from stead.domain.errors import SteadError
from stead.domain.provider import Inventory
from stead.store import inventories, providers, resource_classes, traits
from stead.store.audit.checks import audit
from stead.store.audit.repairs import repair
from stead.store.feed.pruning import Pruning
from stead.store.protocol.clock import read_clock
from stead.store.schema import adoption
from tests.rooms.store.books import Books, fresh_custom, fresh_uuid

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Write = Callable[[], Any]

CHANGES = re.compile(r"\s*(UPDATE|DELETE)\s")

MAY_HIT_NOTHING = {
    "(UPDATE|DELETE FROM) stead_usage .*": "kept sums may be missing, or not stand, and are then added up",
    r"DELETE FROM (inventories|resource_provider_\w+) WHERE \w+\.resource_provider_id = ?": (
        "all that a locked provider has when it is deleted, which may be nothing"
    ),
    "DELETE FROM stead_disabled_provider .*": "few providers are disabled",
    r"DELETE FROM stead_(change_log|(provider|usage|part)_change) .*": "another process may have pruned it already",
}
"""Statements that are right about rows that are not there, and why."""


def may_hit_nothing(statement: str) -> bool:
    plain = re.sub(r"(%\(\w+\)s|%s|\?)(::\w+)?", "?", " ".join(statement.split()))
    return any(re.fullmatch(pattern.replace("= ?", r"= \?"), plain) for pattern in MAY_HIT_NOTHING)


class Sabotage:
    """Counts the statements of the writer that change rows, and lets the one of a given number hit none, once."""

    def __init__(self, books: Books) -> None:
        self.seen: list[str] = []
        self.number: int | None = None
        self.struck: str | None = None
        sa.event.listen(books.store.writer, "before_cursor_execute", self._before, retval=True)

    def begin(self, number: int | None) -> None:
        self.seen, self.number, self.struck = [], number, None

    def _before(self, _connection: Any, _cursor: Any, text: str, arguments: Any, *_: Any) -> tuple[str, Any]:
        if CHANGES.match(text) is not None:
            self.seen.append(text)
            if len(self.seen) - 1 == self.number and self.struck is None:
                self.struck = text
                head, where, condition = text.partition(" WHERE ")
                condition, returning, rest = condition.partition(" RETURNING ")
                return f"{head}{where or ' WHERE '}1 = 0 AND ({condition or '1 = 1'}){returning}{rest}", arguments
        return text, arguments


@pytest.fixture
def retries(books: Books) -> Iterator[list[str]]:
    """Why writes were begun again."""
    told: list[str] = []
    books.store._on_retry = told.append
    yield told
    books.store._on_retry = None


@pytest.fixture
def sabotage(books: Books) -> Iterator[Sabotage]:
    sabotage = Sabotage(books)
    yield sabotage
    sa.event.remove(books.store.writer, "before_cursor_execute", sabotage._before)


def host(books: Books, parent: str | None = None) -> str:
    """With all that a provider may have."""
    uuid = books.provider(parent=parent, VCPU=8, DISK_GB=100)
    books.trait(uuid, "HW_CPU_X86_VMX")
    books.aggregate(uuid, fresh_uuid())
    return uuid


def a_root(books: Books) -> Write:
    return lambda: books.service.write(providers.create, fresh_uuid(), fresh_uuid(), None)


def a_child(books: Books) -> Write:
    parent = host(books)
    return lambda: books.service.write(providers.create, fresh_uuid(), fresh_uuid(), parent)


def a_renaming(books: Books) -> Write:
    uuid = host(books)
    return lambda: books.rename(uuid, fresh_uuid())


def a_move(books: Books) -> Write:
    above, top = host(books), host(books)
    host(books, top)
    return lambda: books.move(top, above)


def a_deletion(books: Books) -> Write:
    child = host(books, host(books))
    return lambda: books.drop(child)


def a_deletion_of_a_root(books: Books) -> Write:
    root = host(books)
    return lambda: books.drop(root)


def inventories_replaced(books: Books) -> Write:
    uuid = host(books)
    return lambda: books.restock(uuid, VCPU=4, MEMORY_MB=10)


def one_inventory_replaced(books: Books) -> Write:
    uuid = host(books)
    generation = books.generation(uuid)
    return lambda: books.service.write(inventories.replace_one, uuid, "VCPU", Inventory(5), generation)


def an_inventory_added(books: Books) -> Write:
    uuid = host(books)
    return lambda: books.stock(uuid, MEMORY_MB=10)


def an_inventory_deleted(books: Books) -> Write:
    uuid = host(books)
    return lambda: books.service.write(inventories.delete_one, uuid, "VCPU")


def inventories_deleted(books: Books) -> Write:
    uuid = host(books)
    return lambda: books.service.write(inventories.delete_all, uuid)


def traits_replaced(books: Books) -> Write:
    uuid = host(books)
    return lambda: books.trait(uuid, "HW_CPU_X86_AVX")


def traits_cleared(books: Books) -> Write:
    uuid = host(books)
    return lambda: books.service.write(traits.clear, uuid)


def aggregates_replaced(books: Books) -> Write:
    uuid = host(books)
    return lambda: books.aggregate(uuid, fresh_uuid())


def a_trait_deleted(books: Books) -> Write:
    name = fresh_custom()
    books.service.write(traits.create, name)
    return lambda: books.service.write(traits.delete, name)


def a_class_renamed(books: Books) -> Write:
    name = fresh_custom()
    books.service.write(resource_classes.create, name)
    return lambda: books.service.write(resource_classes.rename, name, fresh_custom())


def a_class_deleted(books: Books) -> Write:
    name = fresh_custom()
    books.service.write(resource_classes.create, name)
    return lambda: books.service.write(resource_classes.delete, name)


def a_class_created(books: Books) -> Write:
    return lambda: books.service.write(resource_classes.create, fresh_custom())


def a_claim(books: Books) -> Write:
    first, second = host(books), host(books)
    return lambda: books.claim(fresh_uuid(), {first: {"VCPU": 1}, second: {"DISK_GB": 1}})


def a_claim_that_replaces(books: Books) -> Write:
    first, second, consumer = host(books), host(books), fresh_uuid()
    books.claim(consumer, {first: {"VCPU": 1, "DISK_GB": 1}})
    return lambda: books.claim(consumer, {second: {"VCPU": 1}}, 1)


def a_claim_of_nothing(books: Books) -> Write:
    first, consumer = host(books), fresh_uuid()
    books.claim(consumer, {first: {"VCPU": 1, "DISK_GB": 1}})
    return lambda: books.claim(consumer, {}, 1)


def a_release(books: Books) -> Write:
    first, second, consumer = host(books), host(books), fresh_uuid()
    books.claim(consumer, {first: {"VCPU": 1, "DISK_GB": 1}, second: {"VCPU": 1}})
    return lambda: books.release(consumer)


def a_reshape(books: Books) -> Write:
    first, second, consumer = host(books), host(books), fresh_uuid()
    books.claim(consumer, {first: {"VCPU": 1}})
    shapes = {first: books.shape(first, DISK_GB=100), second: books.shape(second, VCPU=9)}
    return lambda: books.reshape(shapes, {consumer: {second: {"VCPU": 1}}})


def a_repair(books: Books) -> Write:
    child, spare, trait = host(books, host(books)), host(books), fresh_uuid()
    books.execute("UPDATE resource_providers SET root_provider_id = NULL WHERE uuid = :uuid", uuid=child)
    books.execute("UPDATE stead_usage SET used = used + 1")
    idle = """INSERT INTO consumers (uuid, project_id, user_id, generation)
        SELECT :uuid, MIN(p.id), MIN(u.id), 0 FROM projects p CROSS JOIN users u"""
    books.claim(fresh_uuid(), {spare: {"VCPU": 1}})
    books.execute(idle, uuid=trait)
    findings = books.store.read(audit, lambda _done, _total: None)
    return lambda: repair(books.store, findings, lambda _done, _total: None)


def roots_set(books: Books) -> Write:
    uuid = host(books)
    books.execute("UPDATE resource_providers SET root_provider_id = NULL WHERE uuid = :uuid", uuid=uuid)
    return lambda: adoption.set_root_provider_ids(books.store, 10)


def a_pruning(books: Books) -> Write:
    consumer, uuid = fresh_uuid(), host(books)
    books.claim(consumer, {uuid: {"VCPU": 1}})
    books.release(consumer)
    books.drop(uuid)
    ticks = books.service.read(lambda connection: read_clock(connection).ticks)

    def prune() -> None:
        pruning = Pruning(books.store, 0)
        pruning.prune_log(ticks)
        pruning.prune_change_rows(ticks)

    return prune


WRITES = [
    *(a_root, a_child, a_renaming, a_move, a_deletion, a_deletion_of_a_root),
    *(inventories_replaced, one_inventory_replaced, an_inventory_added, an_inventory_deleted, inventories_deleted),
    *(traits_replaced, traits_cleared, aggregates_replaced, a_trait_deleted),
    *(a_class_created, a_class_renamed, a_class_deleted),
    *(a_claim, a_claim_that_replaces, a_claim_of_nothing, a_release, a_reshape),
    *(a_repair, roots_set, a_pruning),
]


@pytest.mark.parametrize("make", WRITES, ids=lambda make: make.__name__)
def test_a_change_that_hits_no_row_is_noticed(
    books: Books, retries: list[str], sabotage: Sabotage, make: Callable[[Books], Write]
) -> None:
    write = make(books)
    sabotage.begin(None)
    write()
    statements = list(sabotage.seen)
    assert statements
    unnoticed = []
    for number in [place for place, statement in enumerate(statements) if not may_hit_nothing(statement)]:
        sabotage.begin(None)
        write = make(books)
        retries.clear()
        sabotage.begin(number)
        try:
            write()
        except SteadError:
            retries.append("refused")
            write()  # it was refused as a whole
        # A background write may have been counted before, so that the number is that of another statement now.
        if sabotage.struck is not None and not retries and not may_hit_nothing(sabotage.struck):
            unnoticed.append(sabotage.struck)
    sabotage.begin(None)
    assert unnoticed == []
