"""Draining: a new place for each consumer of some trees, one after another, each valid when its turn comes.

Source: "POST /whatif", docs/api.md; decision 42.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from stead.candidates.engine import find
from stead.candidates.gangs import rearranged
from stead.candidates.moving import Move, largest_first, new_place
from stead.candidates.placing import Amounts, Member, negated, summed, taken_by

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from stead.candidates.candidate import Candidate
    from stead.candidates.engine import Enumeration
    from stead.candidates.moving import Tenant
    from stead.candidates.work import Work
    from stead.catalog.snapshot import Snapshot
    from stead.domain.request import CandidateRequest


@dataclass(frozen=True, slots=True)
class Stuck:
    """A consumer without a new place, for which ``request`` was made.

    ``gave_up``: the work was used up before it was proved that not all consumers have a place at the same time.
    """

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
    """Find new places, the largest consumers first. The trees of *roots* are already disabled in *snapshot*.

    If a consumer finds none, the search gives the others other places, so that all have one.
    """
    enumeration = replace(enumeration, maximum=None, randomize=False)
    ordered = largest_first(snapshot, tenants)
    leaving = [
        {slot: amounts for slot, amounts in tenant.amounts.items() if snapshot.forest.root[slot] in roots}
        for tenant in ordered
    ]
    wishes = [new_place(snapshot, tenant, drained) for tenant, drained in zip(ordered, leaving, strict=True)]
    released = [
        {slot: amounts for slot, amounts in tenant.amounts.items() if slot not in staying}
        for tenant, (_, staying) in zip(ordered, wishes, strict=True)
    ]
    placed: dict[int, Candidate] = {}
    free = snapshot
    for number, (request, _) in enumerate(wishes):
        # The request asks for the amounts at sharing providers again, so they must be free first.
        before = free.with_taken(negated(released[number]))
        candidate = None if work.is_cut else next(find(before, request, enumeration, work=work), None)
        if candidate is not None:
            placed[number] = candidate
            free = before.with_taken(taken_by(candidate))
    stuck = [number for number in range(len(ordered)) if number not in placed]
    if stuck and not work.is_cut:
        # What is released in the drained trees is of no use to the others, since these trees are disabled.
        members = [
            Member(request, {slot: amounts for slot, amounts in of_tenant.items() if slot not in drained})
            for (request, _), of_tenant, drained in zip(wishes, released, leaving, strict=True)
        ]
        revised = rearranged(snapshot, members, enumeration, stuck[0], work)
        if revised is not None:
            placed, stuck = revised, []
    moves = [
        Move(ordered[number], summed([taken_by(candidate), wishes[number][1]])) for number, candidate in placed.items()
    ]
    changes = [
        change for number, candidate in placed.items() for change in (negated(released[number]), taken_by(candidate))
    ]
    return Relocation(
        moves, [Stuck(ordered[number], wishes[number][0], work.is_cut) for number in stuck], summed(changes)
    )
