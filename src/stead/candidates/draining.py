"""Draining: a new place for each consumer of some trees, one after another, each valid when its turn comes.

Source: "POST /whatif", docs/api.md; decision 42.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from stead.candidates.engine import find
from stead.candidates.moving import Move, largest_first, new_place
from stead.candidates.placing import Amounts, negated, summed, taken_by

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from stead.candidates.engine import Enumeration
    from stead.candidates.moving import Tenant
    from stead.candidates.work import Work
    from stead.catalog.snapshot import Snapshot
    from stead.domain.request import CandidateRequest


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
    for tenant in largest_first(snapshot, tenants):
        drained = {slot for slot in tenant.amounts if snapshot.forest.root[slot] in roots}
        request, staying = new_place(snapshot, tenant, drained)
        released = negated({slot: amounts for slot, amounts in tenant.amounts.items() if slot not in staying})
        # The request asks for the amounts at sharing providers again, so they must be free first.
        free = snapshot.with_taken(released)
        candidate = None if work.is_cut else next(find(free, request, enumeration, work=work), None)
        if candidate is None:
            stuck.append(Stuck(tenant, request, work.is_cut))
            continue
        taken = taken_by(candidate)
        snapshot = free.with_taken(taken)
        moves.append(Move(tenant, summed([taken, staying])))
        changes += [released, taken]
    return Relocation(moves, stuck, summed(changes))
