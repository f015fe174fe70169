"""One round: a world of its own, clients that write its history, faults, and the verdict."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

import sqlalchemy as sa

from stead.store.tables import (
    allocations,
    consumers,
    inventories,
    resource_providers,
    stead_disabled_provider,
    users,
)
from tests.system.torture.checker import check
from tests.system.torture.clients import Client, Knowledge
from tests.system.torture.faults import Faults
from tests.system.torture.history import History, Operation
from tests.system.torture.model import Books, Holding, Provider, ReadBooks
from tests.system.torture.speech import FIRST_UNIT, Caller, World, set_up

if TYPE_CHECKING:
    from tests.system.torture.site import Site

CLIENTS = 6
TOTALS = {"a": 5, "b": 4, "c": 3}


class Round(NamedTuple):
    """What one round was: answers by kind, and the faults there were."""

    operations: list[Operation]
    initial: Books
    answers: Counter[str]
    faults: Counter[str]
    most_situations: int

    def told(self) -> str:
        """How often what was answered, and what was done to the site, in one line."""
        return ", ".join(f"{number} × {what}" for what, number in sorted((self.answers + self.faults).items()))


def play(site: Site, *, seconds: float, seed: int, faults: bool = True) -> Round:
    """Let clients write a history for so long, and check it.

    Raises:
        Unexplained, Undecided
    """
    initial, operations, harm = _record(site, seconds=seconds, seed=seed, faults=faults)
    most = check(operations, initial)
    answers = Counter(_kind(operation) for operation in operations)
    return Round(operations, initial, answers, Counter(harm), most)


def _kind(operation: Operation) -> str:
    answer = operation.answer if isinstance(operation.answer, str) else "told"
    return f"{type(operation.request).__name__} {answer}"


def _record(site: Site, *, seconds: float, seed: int, faults: bool) -> tuple[Books, list[Operation], list[str]]:
    chance, world, history, stop = random.Random(seed), World(), History(list(TOTALS)), threading.Event()
    setter = Caller(world, site.urls, chance)
    initial = set_up(setter, world, TOTALS)
    setter.close()
    knowledge = Knowledge(list(TOTALS))
    threads: list[Client | Faults] = [
        Client(
            number, Caller(world, site.urls, random.Random(chance.random())), history, knowledge, stop,
            seed=chance.randrange(10**9),
        )
        for number in range(CLIENTS)
    ]  # fmt: skip
    harm = Faults(site, stop, chance.randrange(10**9))
    if faults:
        threads.append(harm)
    for thread in threads:
        thread.start()
    time.sleep(seconds)
    stop.set()
    for thread in threads:
        thread.join()
    for thread in threads:
        if thread.failure is not None:
            raise thread.failure
    history.record(CLIENTS, ReadBooks(), lambda _request: books_of(site, world))
    return initial, history.operations, harm.done


def books_of(site: Site, world: World) -> Books:
    """The books of a world as the tables have them; a consumer without allocations is in them, and should not be."""
    provider, inventory, consumer, allocation = resource_providers.c, inventories.c, consumers.c, allocations.c
    with site.database.engine().connect() as connection:
        connection = connection.execution_options(isolation_level=_snapshot(site))
        stocks = connection.execute(
            sa.select(
                provider.uuid,
                provider.generation,
                inventory.total,
                inventory.max_unit,
                stead_disabled_provider.c.reason,
            )
            .select_from(resource_providers)
            .outerjoin(inventories, inventory.resource_provider_id == provider.id)
            .outerjoin(stead_disabled_provider, stead_disabled_provider.c.provider_id == provider.id)
        ).all()
        owners = connection.execute(
            sa.select(consumer.uuid, consumer.generation, users.c.external_id)
            .select_from(consumers)
            .join(users, users.c.id == consumer.user_id)
        ).all()
        held = connection.execute(
            sa.select(allocation.consumer_id, provider.uuid, allocation.used)
            .select_from(allocations)
            .join(resource_providers, provider.id == allocation.resource_provider_id)
        ).all()
    amounts: dict[str, list[tuple[str, int]]] = {row.uuid: [] for row in owners}
    for row in held:
        if world.is_ours(row.uuid):
            amounts.setdefault(row.consumer_id, []).append((world.name(row.uuid), row.used))
    known = {row.uuid: (row.generation, int(row.external_id)) for row in owners}
    return Books(
        tuple(
            sorted(
                Provider(
                    world.name(row.uuid), row.generation, row.total, row.max_unit - FIRST_UNIT, int(row.reason or 0)
                )
                for row in stocks
                if world.is_ours(row.uuid)
            )
        ),
        tuple(
            sorted(
                Holding(world.name(uuid), *known.get(uuid, (0, 0)), tuple(sorted(some)))
                for uuid, some in amounts.items()
                if world.is_ours(uuid)
            )
        ),
    )


def _snapshot(site: Site) -> str:
    return "SERIALIZABLE" if site.database.kind == "sqlite" else "REPEATABLE READ"
