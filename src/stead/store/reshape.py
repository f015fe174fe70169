"""Reshaping: moves inventories and their allocations between providers, in one transaction.

Source: "POST /reshaper", docs/api.md, with its arithmetic of generations.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from stead.domain.errors import UnknownProvider
from stead.store import allocations, consumers, inventories, providers, usages
from stead.store.consumers import Owners
from stead.store.protocol.clock import Part

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from stead.domain.claim import Claim
    from stead.domain.inventory import Inventory
    from stead.store.protocol.transaction import Transaction


@dataclass(frozen=True, slots=True)
class NewInventories:
    """The new inventories of a provider, and its generation as the client knows it."""

    expected: int
    inventories: Mapping[str, Inventory]


def reshape(tx: Transaction, new_inventories: Mapping[str, NewInventories], claims: Sequence[Claim]) -> None:
    """Give providers (by uuid) new inventories and consumers new allocations, all at once.

    First every provider gets the union of its old and new inventories, then the allocations move, then the inventories
    that are not in *new_inventories* are deleted. A reserved amount above the total is not refused here.

    Raises:
        OwnersUnknown
        UnknownProvider, GenerationConflict, ConsumerConflict, UnknownResourceClass, InventoryInUse, AllocationRefused
    """
    owners = Owners.of(tx.connection, claims)
    provider_ids = providers.ids_by_uuid(tx.connection, new_inventories)
    present = consumers.lock_claiming(tx, claims, owners)
    allocated = allocations.held_by(tx.connection, present)
    taken = providers.ids_by_uuid(tx.connection, {uuid for claim in claims for uuid in claim.allocations})
    rows = providers.lock(tx, {*provider_ids.values(), *taken.values(), *(row.provider_id for row in allocated)})
    _require_as_known(new_inventories, provider_ids, rows)
    consumers.require_expected(claims, present)
    ids = allocations.resolve_providers(tx.connection, claims)
    allocations.require_still_there(ids, rows)
    tx.touch(rows)
    tx.touch_usage(rows)  # also needed: releases touch nothing else, and must not pass the sums read here unnoticed

    stock = {provider_ids[uuid]: new.inventories for uuid, new in new_inventories.items()}
    inventories.add_or_overwrite(tx, stock)
    generations = {id_: row.generation for id_, row in rows.items()}
    sums = usages.of_locked(tx.connection, generations, needed=ids.values())
    allocations.settle(tx, claims, present, ids, rows, allocated, sums, may_shift=True)
    inventories.remove_others(tx, rows, stock)

    tx.tell(Part.INVENTORIES, provider_ids.values())
    rises = dict.fromkeys(rows, 0)
    for uuid, new in new_inventories.items():
        # One for each replacement of its inventories, of which the first is left out if there are no new ones.
        rises[provider_ids[uuid]] += 2 if new.inventories else 1
    for id_ in allocations.rising(claims, ids, allocated):
        rises[id_] += 1
    raised = tx.bump_generations({id_: generations[id_] for id_, by in rises.items() if by}, by=rises, writes_sums=True)
    usages.keep(tx, sums, generations | raised)
    consumers.write(tx, claims, present, owners)


def _require_as_known(
    new_inventories: Mapping[str, NewInventories], provider_ids: Mapping[str, int], rows: Mapping[int, providers.Row]
) -> None:
    for uuid, new in new_inventories.items():
        row = rows.get(provider_ids[uuid]) if uuid in provider_ids else None
        if row is None or row.uuid != uuid:
            raise UnknownProvider(uuid, among="Inventory")
        providers.require_generation(row, new.expected)
