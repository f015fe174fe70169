"""Draining: a new place for each consumer of some trees, one after another, each valid when its turn comes.

Only allocations are known, not the request that led to them. So each provider of a consumer becomes a request group
with what the consumer has there; different providers are replaced by different providers, all of one tree.

Source: "POST /whatif", docs/api.md; decision 42.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from stead.candidates.engine import find
from stead.candidates.placing import Amounts, summed, taken_by
from stead.domain.request import CandidateRequest, RequestGroup, Terms

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from stead.candidates.engine import Enumeration
    from stead.candidates.work import Work
    from stead.catalog.snapshot import Snapshot
    from stead.domain.what_if import Drain


@dataclass(frozen=True, slots=True)
class Tenant:
    """A consumer and all its allocations; ``drain`` is the change that moves it."""

    consumer: str
    amounts: Amounts
    drain: Drain


@dataclass(frozen=True, slots=True)
class Move:
    """All new allocations of a consumer."""

    tenant: Tenant
    amounts: Amounts


@dataclass(frozen=True, slots=True)
class Stuck:
    """A consumer without a new place, for which ``request`` was made. ``gave_up``: the work was used up first."""

    tenant: Tenant
    request: CandidateRequest
    gave_up: bool


@dataclass(frozen=True, slots=True)
class Relocation:
    """The moves in their order, the consumers that stay, and the change of usage by slot and class id."""

    moves: Sequence[Move]
    stuck: Sequence[Stuck]
    amounts: Amounts


def relocate(
    snapshot: Snapshot, tenants: Sequence[Tenant], roots: Collection[int], enumeration: Enumeration, work: Work
) -> Relocation:
    """Find new places, the largest consumers first. The trees of *roots* are already disabled in *snapshot*."""
    enumeration = replace(enumeration, maximum=None, randomize=False)
    moves, stuck, changes = list[Move](), list[Stuck](), list[Amounts]()
    for tenant in sorted(tenants, key=lambda one: _size(snapshot, one), reverse=True):
        request, staying = _request(snapshot, tenant, roots)
        asked = {slot: amounts for slot, amounts in tenant.amounts.items() if slot not in staying}
        free = snapshot.with_taken(_negative(asked))
        candidate = None if work.is_cut else next(find(free, request, enumeration, work=work), None)
        if candidate is None:
            stuck.append(Stuck(tenant, request, work.is_cut))
            continue
        taken = taken_by(candidate)
        snapshot = free.with_taken(taken)
        moves.append(Move(tenant, summed([taken, staying])))
        changes += [_negative(asked), taken]
    return Relocation(moves, stuck, summed(changes))


def _size(snapshot: Snapshot, tenant: Tenant) -> tuple[int, float, str]:
    """The number of providers, then the largest share of an inventory; the uuid makes the order definite."""
    shares = [
        amount / max(held.inventory.total, 1)
        for slot, amounts in tenant.amounts.items()
        for class_id, amount in amounts.items()
        if class_id in snapshot.inventory and (held := snapshot.inventory[class_id].at(slot)) is not None
    ]
    return len(tenant.amounts), max(shares, default=0.0), tenant.consumer


def _request(snapshot: Snapshot, tenant: Tenant, roots: Collection[int]) -> tuple[CandidateRequest, Amounts]:
    """The request for a new place, and the allocations of other trees, which stay.

    Allocations from a sharing provider are part of the request, at the same provider: the new tree must reach it.
    """
    names, forest = snapshot.class_names.by_id, snapshot.forest
    groups, staying = list[RequestGroup](), Amounts()
    aggregates: set[str] = set()
    for slot, amounts in sorted(tenant.amounts.items()):
        root = forest.root[slot]
        is_drained = root in roots
        if not is_drained and not snapshot.sharing.mask[slot]:
            staying[slot] = amounts
            continue
        terms = Terms()
        if is_drained:
            aggregates.update(snapshot.aggregates(root))
            if tenant.drain.same_traits:
                terms = Terms(tuple(frozenset({row.name}) for row in snapshot.traits(slot)))
        resources = {names[class_id].name: amount for class_id, amount in amounts.items()}
        pool = None if is_drained else snapshot.uuid(slot)
        groups.append(RequestGroup(f"_{len(groups) + 1}", resources, terms, in_tree=pool))
    root_aggregates = Terms((frozenset(aggregates),)) if tenant.drain.same_aggregates else Terms()
    request = CandidateRequest(tuple(groups), isolate=len(groups) > 1, root_aggregates=root_aggregates, limit=1)
    return request, staying


def _negative(amounts: Amounts) -> Amounts:
    return {slot: {class_id: -amount for class_id, amount in of.items()} for slot, of in amounts.items()}
