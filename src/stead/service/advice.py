"""Advice: reads the consumers from which a plan may choose, and finds the plan in a snapshot.

Nothing here writes to the database. Source: "GET /advice", docs/api.md; decision 47.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from stead.candidates.advice.advice import Advice, advise
from stead.candidates.advice.bound import sources
from stead.candidates.advice.leaving import leavers_of
from stead.candidates.headroom.headroom import Headroom, headroom
from stead.candidates.moving import Tenant
from stead.candidates.placing import negated, summed
from stead.candidates.work import Work
from stead.process import slices
from stead.service.placed_amounts import are_usage_of, slots
from stead.store.consumer_listing import HeldAllocations, of_trees

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sqlalchemy.engine import Connection

    from stead.candidates.engine import Enumeration
    from stead.catalog.snapshot import Snapshot
    from stead.domain.changes import Moment
    from stead.domain.request import CandidateRequest
    from stead.service.what_if import View
    from stead.store.protocol.store import Store

_MOST_TREES = 512
"""Trees whose consumers are read."""

_TOGETHER = 16
"""Trees whose consumers are read by one statement."""


class Likeness(NamedTuple):
    """What new places must be like, see `Tenant`."""

    same_traits: bool
    same_aggregates: bool


@dataclass(frozen=True, slots=True)
class Advised:
    """A plan, and how often the request fits before it and, if there is one, after it.

    ``held`` has the present allocations of the consumers, by uuid.
    """

    snapshot: Snapshot
    moment: Moment | None
    before: Headroom
    advice: Advice
    after: Headroom | None
    held: Mapping[str, HeldAllocations]

    @property
    def is_complete(self) -> bool:
        """Whether no search was cut by its work."""
        is_after_complete = self.after is None or self.after.is_complete
        return self.before.is_complete and self.advice.is_complete and is_after_complete


def advice(
    store: Store,
    catalog: View,
    enumeration: Enumeration,
    request: CandidateRequest,
    number: int,
    likeness: Likeness,
    most: int,
) -> Advised:
    """Which consumers to move so that *request* fits *number* times.

    Args:
        most: about this number of consumers are read, those of the most promising trees.

    Raises:
        UnknownResourceClass, UnknownTraits, Unavailable
    """
    snapshot, moment = catalog.view()

    def budget() -> Work:
        return Work(enumeration.work, give_way=slices.give_way)

    before = headroom(snapshot, request, budget())
    if before.at_least >= number:
        return Advised(snapshot, moment, before, Advice((), 0, is_complete=True), before, {})
    of = sources(snapshot, request, before, budget())
    roots = [*of.gaining, *of.others][:_MOST_TREES]
    held = store.read(_consumers_of, [snapshot.identities.ids[root] for root in roots], most)
    amounts = {consumer: slots(snapshot, allocations.amounts()) for consumer, allocations in held.items()}
    # A tree whose consumers changed since the snapshot, or were not all read, has no part in the search.
    total = summed(amounts.values())
    known = {root for root in roots if are_usage_of(snapshot, root, total)}
    tenants = [Tenant(consumer, of_consumer, *likeness) for consumer, of_consumer in amounts.items()]
    leavers = [
        leaver for leaver in leavers_of(snapshot, tenants) if leaver.root in known and _is_whole(held, leaver.tenant)
    ]
    found = advise(
        snapshot, request, number, before, leavers, known, set(of.gaining), enumeration, (budget(), budget())
    )
    if found.moves is None:
        return Advised(snapshot, moment, before, found, None, held)
    changes = [change for move in found.moves for change in (negated(move.tenant.amounts), move.amounts)]
    after = headroom(snapshot.with_taken(summed(changes)), request, budget())
    return Advised(snapshot, moment, before, found, after, held)


def _consumers_of(connection: Connection, roots: Sequence[int], most: int) -> dict[str, HeldAllocations]:
    """The consumers of the first of some trees, until there are *most* of them."""
    held: dict[str, HeldAllocations] = {}
    for start in range(0, len(roots), _TOGETHER):
        held |= of_trees(connection, roots[start : start + _TOGETHER], most)
        if len(held) >= most:
            break
    return held


def _is_whole(held: Mapping[str, HeldAllocations], tenant: Tenant) -> bool:
    """Whether the snapshot has all providers and classes of a consumer's allocations."""
    stored = held[tenant.consumer].amounts()
    return sum(map(len, stored.values())) == sum(map(len, tenant.amounts.values()))
