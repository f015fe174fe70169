"""Sites, written straight into the database of a running server, which sees them as another process's writes."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from bench.sites import Plan
from stead.store import inventories, providers, traits
from stead.store.dialect import Database
from stead.store.transaction import Store, Transaction

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

AT_ONCE = 500
"""Providers made in one transaction."""


def load(plans: Iterable[Plan], database: Path, loaded: Callable[[int], None]) -> None:
    """Write *plans* into the SQLite file *database*; *loaded* hears of every portion how many there were."""
    store = Store(Database(f"sqlite:///{database}"))
    try:
        for portion in portions(plans):
            store.write(create_all, portion)
            loaded(len(portion))
    finally:
        store.close()


def create_all(tx: Transaction, plans: Sequence[Plan]) -> None:
    for plan in plans:
        parent = None if plan.parent is None else Plan(plan.parent).uuid
        generation = providers.create(tx, plan.uuid, plan.name, parent).generation
        if plan.inventories:
            generation = inventories.replace_all(tx, plan.uuid, plan.inventories, generation)
        if plan.traits:
            traits.replace(tx, plan.uuid, plan.traits, generation)


def portions(plans: Iterable[Plan]) -> Iterator[list[Plan]]:
    left = iter(plans)
    while portion := list(islice(left, AT_ONCE)):
        yield portion
