"""How many statements a write takes: as many for two hundred things as for twenty, portions of a thousand apart."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa

from stead.domain.claim import Claim
from stead.domain.provider import Inventory
from stead.store import inventories, providers
from stead.store.sql.dialects import MANY
from tests.rooms.store.books import Books, fresh_uuid, picture, reloaded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from stead.store.protocol.store import Transaction

pytestmark = pytest.mark.timeout(300)  # writes about thousands of rows

FEW, MORE = 20, 200


class Counted:
    """The statements that the database gets of the writer, and the transactions."""

    statements = 0
    commits = 0


@contextmanager
def counted(books: Books) -> Iterator[Counted]:
    """A statement for many rows of parameters counts for each: not every driver makes one of it."""
    seen = Counted()

    def count(*event: Any) -> None:
        _connection, _cursor, _text, parameters, _context, is_many = event
        seen.statements += len(parameters) if is_many else 1

    def commit(_connection: Any) -> None:
        seen.commits += 1

    sa.event.listen(books.store.writer, "before_cursor_execute", count)
    sa.event.listen(books.store.writer, "commit", commit)
    try:
        yield seen
    finally:
        sa.event.remove(books.store.writer, "before_cursor_execute", count)
        sa.event.remove(books.store.writer, "commit", commit)


def make_providers(books: Books, number: int, parent: str | None = None) -> list[str]:
    """New providers with VCPU and memory, all at once."""
    uuids = sorted(fresh_uuid() for _ in range(number))

    def make(tx: Transaction) -> None:
        ids_by_uuid = providers.ids_by_uuid(tx.connection, [parent] if parent else [])
        above = providers.rows_by_id(tx.connection, ids_by_uuid.values())
        row = next(iter(above.values()), None)
        place = {"parent_provider_id": row and row.id, "root_provider_id": row and row.root}
        rows = [{"uuid": uuid, "name": uuid, "generation": 0, **place} for uuid in uuids]
        tx.connection.execute(sa.insert(providers.resource_providers), rows)
        own = "UPDATE resource_providers SET root_provider_id = id WHERE root_provider_id IS NULL"
        tx.connection.execute(sa.text(own))
        ids = providers.ids_by_uuid(tx.connection, uuids).values()
        stock = {"VCPU": Inventory(8), "MEMORY_MB": Inventory(8)}
        inventories.add_or_overwrite(tx, dict.fromkeys(ids, stock))
        tx.touch([*ids, *above])

    books.service.write(make)
    return uuids


def claim(
    books: Books, consumers: Sequence[str], hosts: Sequence[str], owner: Callable[[str], str], amount: int
) -> None:
    """Each consumer takes two classes of its host."""
    taken = {"VCPU": amount, "MEMORY_MB": amount} if amount else {}
    books.service.claim(
        [
            Claim(consumer, {host: taken} if taken else {}, owner(consumer), owner(consumer), owner(consumer)[:30])
            for consumer, host in zip(consumers, hosts, strict=True)
        ]
    )


def one_owner(_consumer: str) -> str:
    return "somebody"


def own_owner(consumer: str) -> str:
    return f"owner of {consumer}"


def own_and_later_other_owner(consumer: str) -> str:
    return f"another owner of {consumer}"


class TestClaimsOfManyConsumers:
    """``POST /allocations``."""

    def counts(self, books: Books, number: int) -> list[int]:
        """Of a first claim, of one that changes who owns the consumers, of a move, of a claim of nothing."""
        consumers = sorted(fresh_uuid() for _ in range(number))
        hosts, others = make_providers(books, number), make_providers(books, number)
        claim(books, [fresh_uuid()], hosts[:1], one_owner, 1)
        counts = []
        for places, owner, amount in (
            (hosts, own_owner, 1),
            (hosts, own_and_later_other_owner, 2),
            (others, own_and_later_other_owner, 3),
            (others, own_and_later_other_owner, 0),
        ):
            with counted(books) as seen:
                claim(books, consumers, places, owner, amount)
            counts.append(seen.statements)
            assert [books.held(consumers[place]) for place in (0, -1)] == [
                {places[place]: {"VCPU": amount, "MEMORY_MB": amount}} if amount else {} for place in (0, -1)
            ]
        return counts

    def test_take_as_many_statements_as_those_of_few(self, books: Books) -> None:
        few = self.counts(books, FEW)
        assert self.counts(books, MORE) == few
        assert max(few) < 40

    def test_are_one_transaction(self, books: Books) -> None:
        consumers, hosts = sorted(fresh_uuid() for _ in range(MORE)), make_providers(books, MORE)
        claim(books, consumers[:1], hosts[:1], one_owner, 1)
        with counted(books) as seen:
            claim(books, consumers, hosts, one_owner, 1)
        assert seen.commits == 1

    def test_grow_by_portions_beyond_a_thousand(self, books: Books) -> None:
        def count(number: int) -> int:
            consumers, host = [fresh_uuid() for _ in range(number)], make_providers(books, 1)
            books.restock(host[0], VCPU=number, MEMORY_MB=number)
            with counted(books) as seen:
                claim(books, consumers, host * number, one_owner, 1)
            return seen.statements

        claim(books, [fresh_uuid()], make_providers(books, 1), one_owner, 1)
        looked_for, made, logged = 1, 1, 1  # more portions of consumers
        taken = 2  # and of their two allocations each
        assert count(MANY + MANY // 2) == count(MANY // 2) + looked_for + made + logged + taken


def test_a_common_claim_takes_few_statements(books: Books) -> None:
    """For a new consumer of a known owner: what is read before and after the locks, and what is written."""
    hosts = make_providers(books, 2)
    consumers = [fresh_uuid() for _ in range(3)]
    claim(books, consumers[:1], hosts[:1], one_owner, 1)
    with counted(books) as first:
        claim(books, consumers[1:2], hosts[:1], one_owner, 1)
    assert first.commits == 1
    assert first.statements <= 14 + 1  # and BEGIN, where that is a statement


def test_a_release_of_many_allocations_takes_as_many_statements_as_one_of_few(books: Books) -> None:
    def count(number: int) -> int:
        consumer, hosts = fresh_uuid(), make_providers(books, number)
        books.claim(consumer, {host: {"VCPU": 1, "MEMORY_MB": 1} for host in hosts})
        with counted(books) as seen:
            books.release(consumer)
        return seen.statements

    assert count(MORE) == count(FEW)


def test_a_reshape_of_many_providers_takes_as_many_statements_as_one_of_few(books: Books) -> None:
    """Memory moves from hosts to their children, which is what reshapes are for, and VCPU changes."""
    books.claim(fresh_uuid(), {make_providers(books, 1)[0]: {"VCPU": 1}})  # makes the owner, in commits of its own

    def count(number: int) -> int:
        hosts = make_providers(books, number)
        root = books.provider()
        numas = make_providers(books, number, root)
        consumers = [fresh_uuid() for _ in hosts]
        claim(books, consumers, hosts, one_owner, 1)
        shapes = {host: books.shape(host, VCPU=9) for host in hosts}
        shapes |= {numa: books.shape(numa, VCPU=8, MEMORY_MB=9, DISK_GB=1) for numa in numas}
        moved = {
            consumer: {host: {"VCPU": 1}, numa: {"MEMORY_MB": 1}}
            for consumer, host, numa in zip(consumers, hosts, numas, strict=True)
        }
        with counted(books) as seen:
            books.reshape(shapes, moved)
        assert seen.commits == 1
        assert books.held(consumers[-1]) == moved[consumers[-1]]
        assert books.used(numas[-1], "MEMORY_MB") == 1
        return seen.statements

    few = count(FEW)
    assert count(MORE) == few
    assert few < 40
    assert picture(books.service.snapshot()) == reloaded(books)


TREE_SIZE = """
    SELECT COUNT(*) FROM resource_providers p JOIN resource_providers r ON r.id = p.root_provider_id
    WHERE r.uuid = :uuid"""


def test_a_subtree_of_ten_thousand_moves_in_portions_of_a_thousand(books: Books) -> None:
    def count(number: int) -> int:
        old, new = books.provider(), books.provider()
        top = books.provider(parent=old)
        below = make_providers(books, number, top)
        with counted(books) as seen:
            moved = books.move(top, new)
        assert moved.root == new
        assert seen.commits == 1
        assert books.scalar(TREE_SIZE, uuid=new) == len(below) + 2
        return seen.statements

    portioned = [
        "rows read",
        "roots changed",
        "changes noted",
        "parts noted",
        *(["locks"] if books.store.dialect.locks_rows else []),
    ]
    assert count(10 * MANY - 10) == count(MANY - 10) + 9 * len(portioned)
