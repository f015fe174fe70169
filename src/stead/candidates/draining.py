"""Draining: a new place for each consumer of some trees, one after another, each valid when its turn comes.

Source: "POST /whatif", docs/stead-api.md; decision 42.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from stead.candidates.engine import find
from stead.candidates.gangs import rearranged
from stead.candidates.placing import Amounts, Member, negated, summed, taken_by
from stead.domain.request import CandidateRequest, RequestGroup, Terms

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from stead.candidates.engine import Enumeration
    from stead.candidates.kinds import Candidate
    from stead.candidates.work import Work
    from stead.catalog.snapshot import Snapshot
    from stead.domain.request import Order


@dataclass(frozen=True, slots=True)
class UnplacedConsumer:
    """A consumer without a new place, for which ``request`` was made.

    ``gave_up``: the work was used up before it was proved that not all consumers have a place at the same time.
    """

    holdings: ConsumerHoldings
    request: CandidateRequest
    gave_up: bool


@dataclass(frozen=True, slots=True)
class Relocation:
    """The moves in their order, the consumers that stay, and the change of usage by slot and class id."""

    moves: Sequence[Move]
    stuck: Sequence[UnplacedConsumer]
    amounts: Amounts


def relocate(
    snapshot: Snapshot,
    all_holdings: Sequence[ConsumerHoldings],
    roots: Collection[int],
    enumeration: Enumeration,
    work: Work,
) -> Relocation:
    """Find new places, the largest consumers first. The trees of *roots* are already disabled in *snapshot*.

    If a consumer finds none, the search gives the others other places, so that all have one.
    """
    enumeration = replace(enumeration, maximum=None, randomize=False)
    ordered = largest_first(snapshot, all_holdings)
    leaving = [
        {slot: amounts for slot, amounts in holdings.amounts.items() if snapshot.forest.root[slot] in roots}
        for holdings in ordered
    ]
    claim_requests = [
        new_place(snapshot, holdings, drained) for holdings, drained in zip(ordered, leaving, strict=True)
    ]
    released = [
        {slot: amounts for slot, amounts in holdings.amounts.items() if slot not in staying}
        for holdings, (_, staying) in zip(ordered, claim_requests, strict=True)
    ]
    placed: dict[int, Candidate] = {}
    free = snapshot
    for number, (request, _) in enumerate(claim_requests):
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
            for (request, _), of_tenant, drained in zip(claim_requests, released, leaving, strict=True)
        ]
        revised = rearranged(snapshot, members, enumeration, stuck[0], work)
        if revised is not None:
            placed, stuck = revised, []
    moves = [
        Move(ordered[number], summed([taken_by(candidate), claim_requests[number][1]]))
        for number, candidate in placed.items()
    ]
    changes = [
        change for number, candidate in placed.items() for change in (negated(released[number]), taken_by(candidate))
    ]
    return Relocation(
        moves,
        [UnplacedConsumer(ordered[number], claim_requests[number][0], work.is_cut) for number in stuck],
        summed(changes),
    )


# Moving: the request for a new place of a consumer, of which only the allocations are known.
#
# Each provider that the consumer leaves becomes a request group with what the consumer has there. Different providers
# are replaced by different providers, all of one tree.
#
# Source: "POST /whatif", docs/stead-api.md; decision 42.


@dataclass(frozen=True, slots=True)
class ConsumerHoldings:
    """A consumer and all its allocations.

    ``same_traits``: a new provider has all traits of the one that it replaces. ``same_aggregates``: the root of the new
    tree is in at least one aggregate of the root of the old one. ``order``: which new place is the best, None for any.
    """

    consumer: str
    amounts: Amounts
    same_traits: bool = False
    same_aggregates: bool = False
    order: Order | None = None


@dataclass(frozen=True, slots=True)
class Move:
    """All new allocations of a consumer."""

    holdings: ConsumerHoldings
    amounts: Amounts


def largest_first(snapshot: Snapshot, all_holdings: Sequence[ConsumerHoldings]) -> list[ConsumerHoldings]:
    """*all_holdings* by the number of their providers, then by their largest share of an inventory."""
    return sorted(all_holdings, key=lambda holdings: _size(snapshot, holdings), reverse=True)


def _size(snapshot: Snapshot, holdings: ConsumerHoldings) -> tuple[int, float, str]:
    """The uuid makes the order definite."""
    shares = [
        amount / max(stored.inventory.total, 1)
        for slot, amounts in holdings.amounts.items()
        for class_id, amount in amounts.items()
        if class_id in snapshot.inventory and (stored := snapshot.inventory[class_id].at(slot)) is not None
    ]
    return len(holdings.amounts), max(shares, default=0.0), holdings.consumer


def new_place(
    snapshot: Snapshot, holdings: ConsumerHoldings, vacated: Collection[int]
) -> tuple[CandidateRequest, Amounts]:
    """The request for a new place, and the allocations of other trees, which stay.

    Allocations from a sharing provider are part of the request, at the same provider: the new tree must reach it.

    Args:
        vacated: the slots that the consumer leaves.
    """
    names, forest = snapshot.class_names.by_id, snapshot.forest
    groups, staying = list[RequestGroup](), Amounts()
    aggregates: set[str] = set()
    for slot, amounts in sorted(holdings.amounts.items()):
        is_vacated = slot in vacated
        if not is_vacated and not snapshot.sharing.mask[slot]:
            staying[slot] = amounts
            continue
        terms = Terms()
        if is_vacated:
            aggregates.update(snapshot.aggregates(forest.root[slot]))
            if holdings.same_traits:
                terms = Terms(tuple(frozenset({row.name}) for row in snapshot.traits(slot)))
        resources = {names[class_id].name: amount for class_id, amount in amounts.items()}
        pool = None if is_vacated else snapshot.uuid(slot)
        groups.append(RequestGroup(f"_{len(groups) + 1}", resources, terms, in_subtree=pool))
    root_aggregates = Terms((frozenset(aggregates),)) if holdings.same_aggregates else Terms()
    # Isolated, because different providers of the old tree must be replaced by different providers.
    request = CandidateRequest(
        tuple(groups), isolate=len(groups) > 1, root_aggregates=root_aggregates, order=holdings.order, limit=1
    )
    return request, staying
