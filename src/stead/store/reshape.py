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


def reshape(tx: Transaction, wanted: Mapping[str, NewInventories], claims: Sequence[Claim]) -> None:
    """Give providers (by uuid) new inventories and consumers new allocations, all at once.

    First every provider gets the union of its old and new inventories, then the allocations move, then the inventories
    that are not in *wanted* are deleted. A reserved amount above the total is not refused here.

    Raises:
        OwnersUnknown
        UnknownProvider, GenerationConflict, ConsumerConflict, UnknownResourceClass, InventoryInUse, AllocationRefused
    """
    owners = Owners.of(tx.connection, claims)
    known = providers.ids_by_uuid(tx.connection, wanted)
    present = consumers.lock_claiming(tx, claims, owners)
    held = allocations.held_by(tx.connection, present)
    taken = providers.ids_by_uuid(tx.connection, {uuid for claim in claims for uuid in claim.allocations})
    rows = providers.lock(tx, {*known.values(), *taken.values(), *(row.provider_id for row in held)})
    _require_as_known(wanted, known, rows)
    consumers.require_expected(claims, present)
    ids = allocations.resolve_providers(tx.connection, claims)
    allocations.require_still_there(ids, rows)
    tx.touch(rows)
    tx.touch_usage(rows)  # also needed: releases touch nothing else, and must not pass the sums read here unnoticed

    stock = {known[uuid]: new.inventories for uuid, new in wanted.items()}
    inventories.add_or_overwrite(tx, stock)
    generations = {id_: row.generation for id_, row in rows.items()}
    sums = usages.of_locked(tx.connection, generations, needed=ids.values())
    allocations.settle(tx, claims, present, ids, rows, held, sums, may_shift=True)
    inventories.remove_others(tx, rows, stock)

    tx.tell(Part.INVENTORIES, known.values())
    rises = dict.fromkeys(rows, 0)
    for uuid, new in wanted.items():
        rises[known[uuid]] += 2 if new.inventories else 1
    for id_ in allocations.rising(claims, ids, held):
        rises[id_] += 1
    raised = tx.bump_generations({id_: generations[id_] for id_, by in rises.items() if by}, by=rises, writes_sums=True)
    usages.keep(tx, sums, generations | raised)
    consumers.write(tx, claims, present, owners)


def _require_as_known(
    wanted: Mapping[str, NewInventories], known: Mapping[str, int], rows: Mapping[int, providers.Row]
) -> None:
    for uuid, new in wanted.items():
        row = rows.get(known[uuid]) if uuid in known else None
        if row is None or row.uuid != uuid:
            raise UnknownProvider(uuid, among="Inventory")
        providers.require_generation(row, new.expected)
