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
from stead.service.placed_amounts import are_usage_of, are_whole, slots
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

    ``allocations`` has the present allocations of the consumers, by uuid.
    """

    snapshot: Snapshot
    moment: Moment | None
    before: Headroom
    advice: Advice
    after: Headroom | None
    allocations: Mapping[str, HeldAllocations]

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
    trees = sources(snapshot, request, before, budget())
    roots = [*trees.gaining, *trees.others][:_MOST_TREES]
    allocations_of = store.read(_consumers_of, [snapshot.identities.ids[root] for root in roots], most)
    amounts = {consumer: slots(snapshot, allocations.amounts()) for consumer, allocations in allocations_of.items()}
    # A tree whose consumers changed since the snapshot, or were not all read, has no part in the search.
    total = summed(amounts.values())
    countable = {root for root in roots if are_usage_of(snapshot, root, total)}
    tenants = [Tenant(consumer, of_consumer, *likeness) for consumer, of_consumer in amounts.items()]
    leavers = [
        leaver
        for leaver in leavers_of(snapshot, tenants)
        if leaver.root in countable and are_whole(snapshot, allocations_of[leaver.tenant.consumer].amounts())
    ]
    advised = advise(
        snapshot, request, number, before, leavers, countable, set(trees.gaining), enumeration, (budget(), budget())
    )
    if advised.moves is None:
        return Advised(snapshot, moment, before, advised, None, allocations_of)
    changes = [change for move in advised.moves for change in (negated(move.tenant.amounts), move.amounts)]
    after = headroom(snapshot.with_taken(summed(changes)), request, budget())
    return Advised(snapshot, moment, before, advised, after, allocations_of)


def _consumers_of(connection: Connection, roots: Sequence[int], most: int) -> dict[str, HeldAllocations]:
    """The consumers of the first of some trees, until there are *most* of them."""
    allocations_of: dict[str, HeldAllocations] = {}
    for start in range(0, len(roots), _TOGETHER):
        allocations_of |= of_trees(connection, roots[start : start + _TOGETHER], most)
        if len(allocations_of) >= most:
            break
    return allocations_of
