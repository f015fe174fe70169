"""A service on one database, in few words, and an audit of what the database holds afterwards."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import uuid4

import sqlalchemy as sa

from stead.candidates.engine import Enumeration
from stead.domain.claim import UNCHECKED, Claim
from stead.domain.provider import Inventory
from stead.service.service import Service
from stead.store import allocations, consumer_listing, inventories, names, providers, traits
from stead.store.allocations import NewInventories
from stead.store.feed.refresh_source import ChangeSource
from stead.store.protocol.store import Store
from stead.store.schema import schema
from stead.store.sql.dialects import Database

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stead.catalog.snapshot import Snapshot
    from stead.domain.claim import Expected
    from stead.domain.provider import Provider

PROJECT, USER = "a project", "a user"

Amounts = dict[str, dict[str, int]]
"""By provider uuid, then by class."""


def fresh_uuid() -> str:
    return str(uuid4())


def fresh_custom(kind: str = "THING") -> str:
    return f"CUSTOM_{kind}_{uuid4().hex.upper()}"


class Books:
    """Everything a client could do, without HTTP."""

    def __init__(
        self, url: str, *, write_timeout: float = 60.0, upgrade: bool = True, names_places: bool = False
    ) -> None:
        self.url = url
        database = Database(url, max_pool_size=20, max_overflow=20, names_places=names_places)
        self.store = Store(database, write_timeout=write_timeout, claim_timeout=write_timeout)
        self.service = Service(self.store, Enumeration())
        schema.prepare(self.store.writer, may_upgrade=upgrade)
        self.service.start()

    def close(self) -> None:
        self.service.close()

    def provider(self, *, parent: str | None = None, **stock: int) -> str:
        """A new provider; amounts by class."""
        uuid = fresh_uuid()
        self.service.write(providers.create, uuid, f"provider {uuid}", parent)
        self.stock(uuid, **stock)
        return uuid

    def stock(self, provider: str, **stock: int) -> None:
        for name, total in stock.items():
            self.service.write(inventories.add, provider, name, Inventory(total))

    def restock(self, provider: str, **stock: int) -> int:
        """Replace all inventory, as a client that has just read the generation."""
        stocked = {name: Inventory(total) for name, total in stock.items()}
        return self.service.write(inventories.replace_all, provider, stocked, self.generation(provider))

    def drop(self, provider: str) -> None:
        self.service.write(providers.delete, provider)

    def move(self, provider: str, parent: str | None) -> Provider:
        return self.service.write(providers.update, provider, f"provider {provider}", parent)

    def rename(self, provider: str, name: str) -> Provider:
        return self.service.write(providers.update, provider, name, providers.KEEP)

    def claim(self, consumer: str, amounts: Amounts, expected: Expected = UNCHECKED) -> None:
        self.service.claim([claim_of(consumer, amounts, expected)])

    def release(self, consumer: str) -> None:
        self.service.write(allocations.release, consumer)

    def reshape(self, shapes: Mapping[str, NewInventories], claims: Mapping[str, Amounts]) -> None:
        """New inventories by provider, new allocations by consumer."""
        self.service.reshape(shapes, [claim_of(consumer, amounts) for consumer, amounts in claims.items()])

    def shape(self, provider: str, **stock: int) -> NewInventories:
        """New inventories, for a reshape at the generation that the provider has now."""
        return NewInventories(self.generation(provider), {name: Inventory(total) for name, total in stock.items()})

    def aggregate(self, provider: str, *uuids: str) -> int:
        return self.service.replace_aggregates(provider, list(uuids), None)

    def trait(self, provider: str, *names: str) -> int:
        return self.service.write(traits.replace, provider, set(names), self.generation(provider))

    def claim_elsewhere(self, consumer: str, provider: str, resource_class_id: int, amount: int) -> bool:
        """A new consumer's claim by a service that knows nothing of ours; returns whether it fitted.

        It reads, writes, and raises the provider's generation if that is what it read; else it starts again.
        """
        names.project_ids(self.store, {PROJECT})
        names.user_ids(self.store, {USER})
        while True:
            try:
                with self.store.writer.connect() as connection, connection.begin() as transaction:
                    about: dict[str, Any] = {"p": provider, "c": resource_class_id, "a": amount, "consumer": consumer}
                    id_, generation = connection.execute(
                        sa.text("SELECT id, generation FROM resource_providers WHERE uuid = :p"), about
                    ).one()
                    about |= {"id": id_, "g": generation}
                    if connection.execute(sa.text(FREE), about).scalar_one() < amount:
                        return False
                    for statement in TAKEN_ELSEWHERE:
                        connection.execute(sa.text(statement), about)
                    if connection.execute(sa.text(RAISED_ELSEWHERE), about).rowcount == 1:
                        return True
                    transaction.rollback()
            except sa.exc.DBAPIError as error:
                if not self.store.dialect.is_undone(
                    error
                ):  # the database ended this one of two that waited in a circle
                    raise

    def release_elsewhere(self, consumer: str) -> None:
        """By a service that knows nothing of ours; no generation rises."""
        self.execute("DELETE FROM allocations WHERE consumer_id = :consumer", consumer=consumer)
        self.execute("DELETE FROM consumers WHERE uuid = :consumer", consumer=consumer)

    def generation(self, provider: str) -> int:
        """As SQL has it, not memory."""
        return self.service.read(_generation, provider)

    def held(self, consumer: str) -> Amounts:
        """What SQL says that a consumer holds."""
        holding = self.service.read(consumer_listing.of_consumer, consumer)
        return {} if holding is None else {uuid: dict(amounts) for uuid, (_, amounts) in holding.providers.items()}

    def consumer_generation(self, consumer: str) -> int | None:
        holding = self.service.read(consumer_listing.of_consumer, consumer)
        return None if holding is None else holding.generation

    def used(self, provider: str, resource_class: str = "VCPU") -> int:
        """What memory says is taken."""
        snapshot = self.service.snapshot()
        slot = snapshot.find(provider)
        assert slot is not None, "memory does not know this provider"
        return snapshot.inventories(slot)[resource_class].used

    def knows(self, provider: str) -> bool:
        return self.service.snapshot().find(provider) is not None

    def scalar(self, statement: str, **values: object) -> Any:
        return self.service.read(lambda connection: connection.execute(sa.text(statement), values).scalar())

    def execute(self, statement: str, **values: object) -> int:
        """Change the database behind the service's back; returns the count of rows."""
        with self.store.writer.begin() as connection:
            return connection.execute(sa.text(statement), values).rowcount


FREE = """
    SELECT i.total - COALESCE(SUM(a.used), 0) FROM inventories i LEFT JOIN allocations a
      ON a.resource_provider_id = i.resource_provider_id AND a.resource_class_id = i.resource_class_id
    WHERE i.resource_provider_id = :id AND i.resource_class_id = :c GROUP BY i.total"""

TAKEN_ELSEWHERE = (
    """INSERT INTO consumers (uuid, project_id, user_id, generation)
    SELECT :consumer, p.id, u.id, 1 FROM projects p CROSS JOIN users u ORDER BY p.id, u.id LIMIT 1""",
    """INSERT INTO allocations (resource_provider_id, consumer_id, resource_class_id, used)
    VALUES (:id, :consumer, :c, :a)""",
)

BUMP_ELSEWHERE = "UPDATE resource_providers SET generation = generation + 1 WHERE id = :id"

RAISED_ELSEWHERE = "UPDATE resource_providers SET generation = generation + 1 WHERE id = :id AND generation = :g"


def _generation(connection: sa.Connection, provider: str) -> int:
    query = sa.text("SELECT generation FROM resource_providers WHERE uuid = :uuid")
    return int(connection.execute(query, {"uuid": provider}).scalar_one())


def claim_of(consumer: str, amounts: Amounts, expected: Expected = UNCHECKED) -> Claim:
    return Claim(consumer, amounts, PROJECT, USER, expected=expected)


def picture(snapshot: Snapshot) -> dict[str, Any]:
    """All that a snapshot says, in a form that two of them can be compared by."""
    seen: dict[str, Any] = {"traits": snapshot.trait_names.rows, "classes": snapshot.class_names.rows}
    for slot in snapshot.live.nonzero()[0].tolist():
        seen[snapshot.uuid(slot)] = (
            snapshot.provider(slot),
            snapshot.inventories(slot),
            snapshot.traits(slot),
            snapshot.aggregates(slot),
        )
    return seen


def reloaded(books: Books) -> dict[str, Any]:
    """The picture of somebody who starts now."""
    from stead.catalog.catalog import Catalog

    source = ChangeSource(books.store)
    try:
        return picture(Catalog(source).fresh())
    finally:
        source.close()


FAULTS = {
    "a place is over-committed": """
        SELECT i.resource_provider_id FROM inventories i
        JOIN allocations a
          ON a.resource_provider_id = i.resource_provider_id AND a.resource_class_id = i.resource_class_id
        GROUP BY i.id, i.resource_provider_id, i.total, i.reserved, i.allocation_ratio
        HAVING SUM(a.used) > (i.total - i.reserved) * i.allocation_ratio""",
    "an allocation has no inventory": """
        SELECT a.id FROM allocations a LEFT JOIN inventories i
          ON a.resource_provider_id = i.resource_provider_id AND a.resource_class_id = i.resource_class_id
        WHERE i.id IS NULL""",
    "an allocation has no provider": """
        SELECT a.id FROM allocations a LEFT JOIN resource_providers p ON p.id = a.resource_provider_id
        WHERE p.id IS NULL""",
    "an allocation has no consumer": """
        SELECT a.id FROM allocations a LEFT JOIN consumers c ON c.uuid = a.consumer_id WHERE c.id IS NULL""",
    "a consumer holds nothing": """
        SELECT c.uuid FROM consumers c LEFT JOIN allocations a ON a.consumer_id = c.uuid WHERE a.id IS NULL""",
    "a consumer holds one class of one provider twice": """
        SELECT consumer_id FROM allocations GROUP BY consumer_id, resource_provider_id, resource_class_id
        HAVING COUNT(*) > 1""",
    "an inventory has no provider": """
        SELECT i.id FROM inventories i LEFT JOIN resource_providers p ON p.id = i.resource_provider_id
        WHERE p.id IS NULL""",
    "an inventory has no class": """
        SELECT i.id FROM inventories i LEFT JOIN resource_classes c ON c.id = i.resource_class_id
        WHERE c.id IS NULL""",
    "a trait is had that does not exist": """
        SELECT r.trait_id FROM resource_provider_traits r LEFT JOIN traits t ON t.id = r.trait_id
        WHERE t.id IS NULL""",
    "traits of a provider that does not exist": """
        SELECT r.trait_id FROM resource_provider_traits r LEFT JOIN resource_providers p
          ON p.id = r.resource_provider_id WHERE p.id IS NULL""",
    "a parent does not exist": """
        SELECT c.id FROM resource_providers c LEFT JOIN resource_providers p ON p.id = c.parent_provider_id
        WHERE c.parent_provider_id IS NOT NULL AND p.id IS NULL""",
    "a kept sum that stands is not that of the allocations": """
        SELECT k.provider_id FROM stead_usage k
        JOIN resource_providers p ON p.id = k.provider_id AND p.generation = k.generation
        LEFT JOIN allocations a ON a.resource_provider_id = k.provider_id AND a.resource_class_id = k.class_id
        GROUP BY k.provider_id, k.class_id, k.used HAVING k.used <> COALESCE(SUM(a.used), 0)""",
    "a class that is held has no sum beside those that stand": """
        SELECT a.id FROM allocations a JOIN resource_providers p ON p.id = a.resource_provider_id
        JOIN stead_usage other ON other.provider_id = p.id AND other.generation = p.generation
        LEFT JOIN stead_usage k ON k.provider_id = p.id AND k.class_id = a.resource_class_id
        WHERE k.provider_id IS NULL""",
    "kept sums of one provider carry different generations": """
        SELECT provider_id FROM stead_usage GROUP BY provider_id HAVING MIN(generation) <> MAX(generation)""",
    "a kept sum is of a provider or a generation that was never there": """
        SELECT k.provider_id FROM stead_usage k LEFT JOIN resource_providers p ON p.id = k.provider_id
        WHERE p.id IS NULL OR p.generation < k.generation""",
    "a root disagrees with the parent's": """
        SELECT c.id FROM resource_providers c JOIN resource_providers p ON p.id = c.parent_provider_id
        WHERE c.root_provider_id <> p.root_provider_id""",
    "a provider without a parent is not its own root": """
        SELECT id FROM resource_providers
        WHERE root_provider_id IS NULL OR (parent_provider_id IS NULL AND root_provider_id <> id)""",
}


def faults(books: Books) -> dict[str, list[Any]]:
    """What is wrong with the books: nothing, ever. Not by the checks of ``stead audit``, which is tested itself."""

    def look(connection: sa.Connection) -> dict[str, list[Any]]:
        rows_by_fault = {
            fault: [row[0] for row in connection.execute(sa.text(query))] for fault, query in FAULTS.items()
        }
        parents = dict(connection.execute(sa.text("SELECT id, parent_provider_id FROM resource_providers")).all())
        rows_by_fault["a cycle of parents"] = [id_ for id_ in parents if _is_in_a_cycle(id_, parents)]
        return {fault: rows for fault, rows in rows_by_fault.items() if rows}

    return books.service.read(look)


def _is_in_a_cycle(id_: int, parents: Mapping[int, int | None]) -> bool:
    above = parents[id_]
    for _ in parents:
        if above is None:
            return False
        above = parents.get(above)
    return True
