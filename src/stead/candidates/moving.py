"""Moving: the request for a new place of a consumer, of which only the allocations are known.

Each provider that the consumer leaves becomes a request group with what the consumer has there. Different providers are
replaced by different providers, all of one tree.

Source: "POST /whatif", docs/api.md; decision 42.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from stead.candidates.placing import Amounts
from stead.domain.request import CandidateRequest, RequestGroup, Terms

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from stead.catalog.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Tenant:
    """A consumer and all its allocations.

    ``same_traits``: a new provider has all traits of the one that it replaces. ``same_aggregates``: the root of the new
    tree is in at least one aggregate of the root of the old one.
    """

    consumer: str
    amounts: Amounts
    same_traits: bool = False
    same_aggregates: bool = False


@dataclass(frozen=True, slots=True)
class Move:
    """All new allocations of a consumer."""

    tenant: Tenant
    amounts: Amounts


def largest_first(snapshot: Snapshot, tenants: Sequence[Tenant]) -> list[Tenant]:
    """*tenants* by the number of their providers, then by their largest share of an inventory."""
    return sorted(tenants, key=lambda tenant: _size(snapshot, tenant), reverse=True)


def _size(snapshot: Snapshot, tenant: Tenant) -> tuple[int, float, str]:
    """The uuid makes the order definite."""
    shares = [
        amount / max(stored.inventory.total, 1)
        for slot, amounts in tenant.amounts.items()
        for class_id, amount in amounts.items()
        if class_id in snapshot.inventory and (stored := snapshot.inventory[class_id].at(slot)) is not None
    ]
    return len(tenant.amounts), max(shares, default=0.0), tenant.consumer


def new_place(snapshot: Snapshot, tenant: Tenant, vacated: Collection[int]) -> tuple[CandidateRequest, Amounts]:
    """The request for a new place, and the allocations of other trees, which stay.

    Allocations from a sharing provider are part of the request, at the same provider: the new tree must reach it.

    Args:
        vacated: the slots that the consumer leaves.
    """
    names, forest = snapshot.class_names.by_id, snapshot.forest
    groups, staying = list[RequestGroup](), Amounts()
    aggregates: set[str] = set()
    for slot, amounts in sorted(tenant.amounts.items()):
        is_vacated = slot in vacated
        if not is_vacated and not snapshot.sharing.mask[slot]:
            staying[slot] = amounts
            continue
        terms = Terms()
        if is_vacated:
            aggregates.update(snapshot.aggregates(forest.root[slot]))
            if tenant.same_traits:
                terms = Terms(tuple(frozenset({row.name}) for row in snapshot.traits(slot)))
        resources = {names[class_id].name: amount for class_id, amount in amounts.items()}
        pool = None if is_vacated else snapshot.uuid(slot)
        groups.append(RequestGroup(f"_{len(groups) + 1}", resources, terms, in_subtree=pool))
    root_aggregates = Terms((frozenset(aggregates),)) if tenant.same_aggregates else Terms()
    # Isolated, because different providers of the old tree must be replaced by different providers.
    request = CandidateRequest(tuple(groups), isolate=len(groups) > 1, root_aggregates=root_aggregates, limit=1)
    return request, staying
