"""Inventories: the amounts that providers have of each resource class."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import asdict, fields
from typing import TYPE_CHECKING, Any, NamedTuple

import sqlalchemy as sa

from stead.domain.errors import (
    InventoryExists,
    InventoryInUse,
    InventoryNotFound,
    NoInventoryRecord,
    ResourceClassNotFound,
)
from stead.domain.provider import Inventory, require_sane_reserve
from stead.store import providers, resource_classes
from stead.store.protocol.clock import Part
from stead.store.sql.statements import LISTED, Insert, Query, in_portions
from stead.store.tables import allocations, inventories
from stead.store.tables import resource_classes as class_table

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from sqlalchemy.engine import Connection

    from stead.store.protocol.store import Transaction
    from stead.store.providers import StoredProvider

_columns = inventories.c


def add(
    tx: Transaction, provider: str, resource_class: str, inventory: Inventory, *, may_reserve_all: bool = True
) -> int:
    """Create an inventory of one class; returns the provider's new generation.

    Raises:
        ProviderNotFound, ReservedTooLarge, UnknownResourceClass, InventoryExists
    """
    row = providers.lock_one(tx, provider)
    require_sane_reserve({resource_class: inventory}, may_reserve_all=may_reserve_all)
    class_id = resource_classes.lock_names(tx, [resource_class])[resource_class]
    if (row.id, resource_class) in by_class_name(tx.connection, [row.id]):
        raise InventoryExists(provider, resource_class)
    insert(tx, [as_row(row.id, class_id, inventory)])
    return _bump(tx, row)


def replace_all(
    tx: Transaction,
    provider: str,
    new: Mapping[str, Inventory],
    expected: int,
    *,
    may_reserve_all: bool = True,
) -> int:
    """Replace all inventories of a provider with *new* (by class name); returns its new generation.

    Raises:
        ProviderNotFound, GenerationConflict, ReservedTooLarge, UnknownResourceClass, InventoryInUse
    """
    row = providers.lock_one(tx, provider)
    providers.require_generation(row, expected)
    require_sane_reserve(dict(new), may_reserve_all=may_reserve_all)
    write(tx, row, new)
    return _bump(tx, row)


def write(tx: Transaction, row: StoredProvider, new: Mapping[str, Inventory]) -> None:
    """Replace all inventories of a locked provider with *new*; its generation does not rise.

    Raises:
        UnknownResourceClass, InventoryInUse
    """
    add_or_overwrite(tx, {row.id: new})
    remove_others(tx, {row.id: row}, {row.id: new})


def add_or_overwrite(tx: Transaction, inventories_of: Mapping[int, Mapping[str, Inventory]]) -> None:
    """Create or overwrite inventories (by class name) of locked providers (by id); inventories of other classes stay.

    Raises:
        UnknownResourceClass
    """
    ids = resource_classes.lock_names(tx, {name: None for of_one in inventories_of.values() for name in of_one})
    present = by_class_name(tx.connection, inventories_of)
    new, changed = [], []
    for provider_id, of_one in inventories_of.items():
        for name, inventory in of_one.items():
            stored = present.get((provider_id, name))
            if stored is None:
                new.append(as_row(provider_id, ids[name], inventory))
            else:
                changed.append({"id": stored.id, **as_row(provider_id, ids[name], inventory)})
    overwrite(tx, changed)
    insert(tx, new)


def remove_others(
    tx: Transaction, rows: Mapping[int, StoredProvider], remaining: Mapping[int, Collection[str]]
) -> None:
    """Delete all inventories of locked providers (by id) except those of some classes (by name).

    Raises:
        InventoryInUse: names the first provider of *remaining* with allocations from a deleted inventory.
    """
    gone: dict[int, list[Stored]] = {provider_id: [] for provider_id in remaining}
    for (provider_id, name), stored in by_class_name(tx.connection, remaining).items():
        if name not in remaining[provider_id]:
            gone[provider_id].append(stored)
    remove(tx, rows, gone)


def replace_one(
    tx: Transaction,
    provider: str,
    resource_class: str,
    inventory: Inventory,
    expected: int,
    *,
    may_reserve_all: bool = True,
) -> int:
    """Change the inventory of one class; returns the provider's new generation.

    Raises:
        ProviderNotFound, GenerationConflict, ReservedTooLarge
        ResourceClassNotFound: the class does not exist.
        NoInventoryRecord: the provider has no inventory of the class.
    """
    row = providers.lock_one(tx, provider)
    providers.require_generation(row, expected)
    require_sane_reserve({resource_class: inventory}, may_reserve_all=may_reserve_all)
    stored = by_class_name(tx.connection, [row.id]).get((row.id, resource_class))
    if stored is None:
        if resource_classes.find(tx.connection, resource_class) is None:
            raise ResourceClassNotFound(resource_class)
        raise NoInventoryRecord(resource_class)
    overwrite(tx, [{"id": stored.id, **as_row(row.id, stored.class_id, inventory)}])
    return _bump(tx, row)


def delete_all(tx: Transaction, provider: str) -> None:
    """Delete all inventories of a provider.

    Raises:
        ProviderNotFound, InventoryInUse
    """
    row = providers.lock_one(tx, provider)
    remove_others(tx, {row.id: row}, {row.id: ()})
    _bump(tx, row)


def delete_one(tx: Transaction, provider: str, resource_class: str) -> None:
    """Delete the inventory of one class of a provider.

    Raises:
        ProviderNotFound, ResourceClassNotFound, InventoryNotFound, InventoryInUse
    """
    row = providers.lock_one(tx, provider)
    stored = by_class_name(tx.connection, [row.id]).get((row.id, resource_class))
    if stored is None:
        if resource_classes.find(tx.connection, resource_class) is None:
            raise ResourceClassNotFound(resource_class)
        raise InventoryNotFound(provider, resource_class)
    remove(tx, {row.id: row}, {row.id: [stored]})
    _bump(tx, row)


class Stored(NamedTuple):
    """An inventory, and the ids of its row and its class."""

    id: int
    class_id: int
    inventory: Inventory


def by_class_name(connection: Connection, provider_ids: Collection[int]) -> dict[tuple[int, str], Stored]:
    """All inventories of some providers, by provider id and class name, ascending by class id."""
    return {
        (provider_id, name): Stored(id_, class_id, Inventory(*record))
        for id_, provider_id, class_id, name, *record in _BY_PROVIDER.rows(connection, sorted(provider_ids))
    }


_BY_PROVIDER = Query(
    sa.select(
        _columns.id,
        _columns.resource_provider_id,
        _columns.resource_class_id,
        class_table.c.name,
        _columns.total,
        _columns.reserved,
        _columns.min_unit,
        _columns.max_unit,
        _columns.step_size,
        _columns.allocation_ratio,
    )
    .select_from(inventories)
    .join(class_table, class_table.c.id == _columns.resource_class_id)
    .where(_columns.resource_provider_id.in_([LISTED]))
    .order_by(_columns.resource_class_id)
)


def _bump(tx: Transaction, row: StoredProvider) -> int:
    tx.note(Part.INVENTORIES, [row.id])
    return tx.bump_generations({row.id: row.generation})[row.id]


def as_row(provider_id: int, class_id: int, inventory: Inventory) -> dict[str, Any]:
    """A row without its id, by column."""
    return {**asdict(inventory), "resource_provider_id": provider_id, "resource_class_id": class_id}


def insert(tx: Transaction, records: Sequence[Mapping[str, Any]]) -> None:
    """Insert new inventories of locked providers."""
    _INSERT.run(tx.connection, [{**record, "created_at": tx.now} for record in records])


def overwrite(tx: Transaction, records: Sequence[Mapping[str, Any]]) -> None:
    """Overwrite inventories by the ids of their rows.

    Raises:
        RaceLost: a row no longer exists.
    """
    for portion in in_portions(records):
        # This counts and locks all rows first, so that the upsert below finds every one of them.
        overwritten = sa.update(inventories).where(_columns.id.in_([record["id"] for record in portion]))
        tx.require_count(tx.connection.execute(overwritten.values(updated_at=tx.now)), len(portion))
    _OVERWRITE.run(tx.connection, records)


_AMOUNTS = tuple(field.name for field in fields(Inventory))
_KEYS = ("resource_provider_id", "resource_class_id")
_INSERT = Insert(inventories, *_KEYS, *_AMOUNTS, "created_at")
_OVERWRITE = Insert(inventories, "id", *_KEYS, *_AMOUNTS, changing=_AMOUNTS)


def remove(tx: Transaction, rows: Mapping[int, StoredProvider], gone: Mapping[int, Sequence[Stored]]) -> None:
    """Delete inventories of locked providers, both by provider id.

    Raises:
        InventoryInUse: names the first provider, in the order of *gone*, with inventories in use.
    """
    ids = [stored.id for of_one in gone.values() for stored in of_one]
    in_use: dict[int, dict[int, str]] = defaultdict(dict)
    # Claims lock these providers too, so no allocation is added after this check.
    for provider_id, class_id, name in _IN_USE.rows(tx.connection, ids):
        in_use[provider_id][class_id] = name
    for provider_id in gone:
        if provider_id in in_use:
            raise InventoryInUse(rows[provider_id].uuid, [name for _, name in sorted(in_use[provider_id].items())])
    for portion in in_portions(ids):
        tx.require_count(tx.connection.execute(sa.delete(inventories).where(_columns.id.in_(portion))), len(portion))


_IN_USE = Query(
    # Without ORDER BY, and read as a set. MariaDB repeats rows of a semi-join that it reads by LooseScan and sorts by
    # a part of the key.
    sa.select(_columns.resource_provider_id, _columns.resource_class_id, class_table.c.name)
    .select_from(inventories)
    .join(class_table, class_table.c.id == _columns.resource_class_id)
    .where(_columns.id.in_([LISTED]))
    .where(
        sa.exists().where(
            allocations.c.resource_provider_id == _columns.resource_provider_id,
            allocations.c.resource_class_id == _columns.resource_class_id,
        )
    )
)
