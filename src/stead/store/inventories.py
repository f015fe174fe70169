"""Inventories: what providers have of each resource class."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from stead.domain.errors import (
    InventoryExists,
    InventoryInUse,
    InventoryNotFound,
    NoInventoryRecord,
    ResourceClassNotFound,
)
from stead.domain.inventory import Inventory, require_sane_reserve
from stead.store import providers, resource_classes
from stead.store.tables import allocations, inventories
from stead.store.transaction import in_portions

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from sqlalchemy.engine import Connection

    from stead.store.providers import Row
    from stead.store.transaction import Transaction

_columns = inventories.c


def add(
    tx: Transaction, provider: str, resource_class: str, inventory: Inventory, *, may_reserve_all: bool = True
) -> int:
    """Give a provider inventory of one more class; returns the provider's new generation.

    Raises:
        ProviderNotFound, ReservedTooLarge, UnknownResourceClass, InventoryExists
    """
    row = providers.lock_one(tx, provider)
    require_sane_reserve({resource_class: inventory}, may_reserve_all=may_reserve_all)
    class_id = resource_classes.lock_names(tx, [resource_class])[resource_class]
    if class_id in _class_ids(tx.connection, row.id):
        raise InventoryExists(provider, resource_class)
    _insert(tx, row.id, {class_id: inventory})
    return _bump(tx, row)


def replace_all(
    tx: Transaction,
    provider: str,
    wanted: Mapping[str, Inventory],
    expected: int,
    *,
    may_reserve_all: bool = True,
) -> int:
    """Make *wanted* (by class name) all that a provider has; returns its new generation.

    Raises:
        ProviderNotFound, GenerationConflict, ReservedTooLarge, UnknownResourceClass, InventoryInUse
    """
    row = providers.lock_one(tx, provider)
    providers.require_generation(row, expected)
    require_sane_reserve(dict(wanted), may_reserve_all=may_reserve_all)
    write(tx, row, wanted)
    return _bump(tx, row)


def write(tx: Transaction, row: Row, wanted: Mapping[str, Inventory]) -> None:
    """Make *wanted* all that a locked provider has; its generation stays.

    Raises:
        UnknownResourceClass, InventoryInUse
    """
    ids = resource_classes.lock_names(tx, wanted)
    by_id = {ids[name]: inventory for name, inventory in wanted.items()}
    present = _class_ids(tx.connection, row.id)
    _remove(tx, row, present - set(by_id))
    _overwrite(tx, row.id, {id_: inventory for id_, inventory in by_id.items() if id_ in present})
    _insert(tx, row.id, {id_: inventory for id_, inventory in by_id.items() if id_ not in present})


def replace_one(
    tx: Transaction,
    provider: str,
    resource_class: str,
    inventory: Inventory,
    expected: int,
    *,
    may_reserve_all: bool = True,
) -> int:
    """Change what a provider has of one class; returns its new generation.

    Raises:
        ProviderNotFound, GenerationConflict, ReservedTooLarge
        ResourceClassNotFound: there is no such class at all.
        NoInventoryRecord: the provider has none of it.
    """
    row = providers.lock_one(tx, provider)
    providers.require_generation(row, expected)
    require_sane_reserve({resource_class: inventory}, may_reserve_all=may_reserve_all)
    class_id = resource_classes.find(tx.connection, resource_class)
    if class_id is None:
        raise ResourceClassNotFound(resource_class)
    if class_id not in _class_ids(tx.connection, row.id):
        raise NoInventoryRecord(resource_class)
    _overwrite(tx, row.id, {class_id: inventory})
    return _bump(tx, row)


def delete_all(tx: Transaction, provider: str) -> None:
    """Take all inventory from a provider.

    Raises:
        ProviderNotFound, InventoryInUse
    """
    row = providers.lock_one(tx, provider)
    _remove(tx, row, _class_ids(tx.connection, row.id))
    _bump(tx, row)


def delete_one(tx: Transaction, provider: str, resource_class: str) -> None:
    """Take the inventory of one class from a provider.

    Raises:
        ProviderNotFound, InventoryNotFound, InventoryInUse
    """
    row = providers.lock_one(tx, provider)
    class_id = resource_classes.find(tx.connection, resource_class)
    if class_id is None or class_id not in _class_ids(tx.connection, row.id):
        raise InventoryNotFound(provider, resource_class)
    _remove(tx, row, {class_id})
    _bump(tx, row)


def load(connection: Connection, provider_ids: Collection[int]) -> dict[tuple[int, int], Inventory]:
    """All inventories of some providers, by (provider id, class id)."""
    found: dict[tuple[int, int], Inventory] = {}
    for some in in_portions(sorted(provider_ids)):
        query = sa.select(
            _columns.resource_provider_id,
            _columns.resource_class_id,
            _columns.total,
            _columns.reserved,
            _columns.min_unit,
            _columns.max_unit,
            _columns.step_size,
            _columns.allocation_ratio,
        ).where(_columns.resource_provider_id.in_(some))
        for provider_id, class_id, *record in connection.execute(query):
            found[provider_id, class_id] = Inventory(*record)
    return found


def _bump(tx: Transaction, row: Row) -> int:
    return tx.bump_generations({row.id: row.generation})[row.id]


def _class_ids(connection: Connection, provider_id: int) -> set[int]:
    query = sa.select(_columns.resource_class_id).where(_columns.resource_provider_id == provider_id)
    return set(connection.scalars(query))


def _insert(tx: Transaction, provider_id: int, wanted: Mapping[int, Inventory]) -> None:
    rows: list[dict[str, Any]] = [
        {
            **asdict(inventory),
            "resource_provider_id": provider_id,
            "resource_class_id": class_id,
            "created_at": tx.now,
        }
        for class_id, inventory in wanted.items()
    ]
    if rows:
        tx.connection.execute(sa.insert(inventories), rows)


def _overwrite(tx: Transaction, provider_id: int, wanted: Mapping[int, Inventory]) -> None:
    statement = sa.update(inventories).where(
        _columns.resource_provider_id == provider_id, _columns.resource_class_id == sa.bindparam("p_class")
    )
    rows = [{**asdict(inventory), "p_class": class_id, "updated_at": tx.now} for class_id, inventory in wanted.items()]
    tx.change(statement, rows)


def _remove(tx: Transaction, row: Row, class_ids: set[int]) -> None:
    if not class_ids:
        return
    in_use = set(
        tx.connection.scalars(
            sa.select(allocations.c.resource_class_id)
            .where(allocations.c.resource_provider_id == row.id, allocations.c.resource_class_id.in_(class_ids))
            .distinct()
        )
    )
    if in_use:
        names = resource_classes.names_by_id(tx.connection, in_use)
        raise InventoryInUse(row.uuid, [names[id_] for id_ in sorted(in_use)])
    gone = tx.connection.execute(
        sa.delete(inventories).where(_columns.resource_provider_id == row.id, _columns.resource_class_id.in_(class_ids))
    )
    tx.require_count(gone, len(class_ids))
