"""What-if: planned changes applied to a snapshot, with a new place for each consumer of drained trees.

Nothing here writes to the database. Source: "POST /whatif", docs/stead-api.md; decision 42.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

from stead.candidates.advice import Advice, MovableConsumer, advise, movable_consumers, sources
from stead.candidates.draining import ConsumerHoldings, Move, Relocation, UnplacedConsumer, relocate
from stead.candidates.explain import explain
from stead.candidates.headroom.headroom import Headroom, headroom
from stead.candidates.improving import Improvement, improve, promising
from stead.candidates.placing import negated, summed
from stead.candidates.work import Work, WorkSpent
from stead.catalog.refresh import Draft, with_usage_moved
from stead.domain.errors import ConcurrentUpdate, ReservedTooLarge
from stead.domain.provider import Inventory, require_sane_reserve
from stead.domain.request import Page
from stead.domain.what_if import (
    BadChange,
    ChangedThingNotFound,
    Copies,
    DeleteAggregate,
    Disable,
    Drain,
    SetInventory,
    SetTrait,
)
from stead.process import runtime
from stead.service.claims import are_usage_of, are_whole, slots
from stead.store.consumer_listing import ConsumerFilter, HeldAllocations, of_trees, page_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sqlalchemy.engine import Connection

    from stead.candidates.engine import Enumeration
    from stead.candidates.explain import Explanation
    from stead.catalog.snapshot import Snapshot
    from stead.domain.changes import Moment
    from stead.domain.provider import Slot
    from stead.domain.request import CandidateRequest, Order
    from stead.domain.what_if import Planned
    from stead.store.protocol.store import Store


_ATTEMPTS = 5
"""Consumers and the snapshot are read one after the other, this number of times if a write comes between."""

_EXPLAINED = 3
"""Consumers without a place that are explained; each explanation costs as much as a search."""


class TooManyProviders(BadChange):
    """The copies have too many providers together."""


class TooManyConsumers(BadChange):
    """The drained trees have too many consumers together."""


class View(Protocol):
    """The catalog of this process."""

    def view(self) -> tuple[Snapshot, Moment | None]:
        """A snapshot with everything acknowledged before the call, and its moment."""
        ...


@dataclass(frozen=True, slots=True)
class Bounds:
    """Limits of the providers that are added, and of the consumers that are moved."""

    providers: int
    consumers: int


@dataclass(frozen=True, slots=True)
class WhatIf:
    """A snapshot after planned changes.

    ``allocations`` has the present allocations of the consumers of drained trees, by uuid. ``explanations`` are of the
    first consumers without a place, and refer to ``snapshot``, in which all others have moved.
    """

    snapshot: Snapshot
    moment: Moment | None
    moves: Sequence[Move]
    stuck: Sequence[UnplacedConsumer]
    allocations: Mapping[str, HeldAllocations]
    explanations: Sequence[Explanation]
    is_complete: bool


def what_if(
    store: Store, catalog: View, enumeration: Enumeration, changes: Sequence[Planned], bounds: Bounds
) -> WhatIf:
    """The present state with *changes*, which apply in their order; drains come last.

    Raises:
        BadChange, ChangedThingNotFound, Unavailable
        ConcurrentUpdate: the consumers of drained trees changed during every attempt.
    """
    before: tuple[Snapshot, Mapping[str, HeldAllocations]] | None = None
    for _ in range(_ATTEMPTS):
        snapshot, moment = catalog.view()
        drains = _drains(snapshot, changes)
        allocations_of = _held(store, snapshot, drains, bounds.consumers)
        if _agree(snapshot, drains, allocations_of):
            break
        if before is not None and snapshot is before[0] and allocations_of == before[1]:
            number, _ = next(iter(drains.values()))
            raise BadChange(number, "provider", "its usage is not that of its consumers; run: stead audit")
        before = snapshot, allocations_of
    else:
        raise ConcurrentUpdate("The consumers of the drained hosts change too often; retry.")
    draft = Draft(snapshot)
    _Applying(snapshot, draft, bounds.providers).apply(changes)
    planned = draft.snapshot()
    if not drains:
        return WhatIf(planned, moment, (), (), {}, (), is_complete=True)
    all_holdings = []
    for consumer, allocations in allocations_of.items():
        amounts = slots(snapshot, allocations.amounts())
        drain = next(drains[root][1] for slot in amounts if (root := snapshot.forest.root[slot]) in drains)
        all_holdings.append(ConsumerHoldings(consumer, amounts, drain.same_traits, drain.same_aggregates, drain.order))
    work = Work(enumeration.work, give_way=runtime.give_way)
    relocation: Relocation = relocate(planned, all_holdings, drains.keys(), enumeration, work)
    planned = with_usage_moved(planned, relocation.amounts)
    explanations = []
    for stuck in relocation.stuck[:_EXPLAINED]:
        try:
            explanations.append(explain(planned, stuck.request, enumeration.work, give_way=runtime.give_way))
        except WorkSpent:
            break
    return WhatIf(planned, moment, relocation.moves, relocation.stuck, allocations_of, explanations, not work.is_cut)


def _drains(snapshot: Snapshot, changes: Sequence[Planned]) -> dict[int, tuple[int, Drain]]:
    """The drains with their numbers, by the root of the tree."""
    drains: dict[int, tuple[int, Drain]] = {}
    for number, change in enumerate(changes):
        if isinstance(change, Drain):
            root = snapshot.forest.root[_slot(snapshot, number, change.provider)]
            if root in drains:
                raise BadChange(number, "provider", f"changes[{drains[root][0]}] drains the same tree")
            if snapshot.sharing.mask[list(snapshot.forest.members(root))].any():
                raise BadChange(number, "provider", "its tree has a sharing provider, which cannot be drained")
            drains[root] = number, change
    return drains


def _held(
    store: Store, snapshot: Snapshot, drains: Mapping[int, tuple[int, Drain]], most: int
) -> dict[str, HeldAllocations]:
    """The allocations of all consumers of the drained trees, by uuid."""
    allocations_of: dict[str, HeldAllocations] = {}
    for root, (number, _) in drains.items():
        # One more than allowed shows that there are too many.
        page = store.read(page_of, ConsumerFilter(in_tree=snapshot.uuid(root)), Page(most + 1, None), most + 1)
        allocations_of |= page.allocations
        if len(allocations_of) > most:
            raise TooManyConsumers(number, "provider", f"the hosts to drain have more than {most} consumers")
    return allocations_of


def _agree(
    snapshot: Snapshot, drains: Mapping[int, tuple[int, Drain]], allocations_of: Mapping[str, HeldAllocations]
) -> bool:
    """Whether the consumers' allocations are those of the snapshot, as far as it can tell.

    The consumers are read after the snapshot. Meanwhile another client may create or move providers, and claim. A move
    of only the part that the snapshot knows would release the rest.
    """
    amounts = [allocations.amounts() for allocations in allocations_of.values()]
    if not all(are_whole(snapshot, each) for each in amounts):
        return False
    placed = [slots(snapshot, each) for each in amounts]
    if not all(any(snapshot.forest.root[slot] in drains for slot in each) for each in placed):
        return False
    total = summed(placed)
    return all(are_usage_of(snapshot, root, total) for root in drains)


def _slot(snapshot: Snapshot, number: int, provider: str) -> Slot:
    slot = snapshot.find_referenced(provider)
    if slot is None:
        raise ChangedThingNotFound(number, "provider", provider)
    return slot


class _Applying:
    """Applies changes to a draft, and refuses two changes of one thing."""

    def __init__(self, snapshot: Snapshot, draft: Draft, most_providers: int) -> None:
        self._snapshot = snapshot
        self._draft = draft
        self._most_providers = most_providers
        self._added = 0
        self._changed: dict[tuple[object, ...], int] = {}

    def apply(self, changes: Sequence[Planned]) -> None:
        for number, change in enumerate(changes):
            runtime.give_way()
            match change:
                case DeleteAggregate(aggregate):
                    self._delete_aggregate(number, aggregate)
                case Disable() | Drain():
                    slot = _slot(self._snapshot, number, change.provider)
                    if isinstance(change, Drain):
                        slot = self._snapshot.forest.members(self._snapshot.forest.root[slot])[0]
                    self._require_first(number, "provider", "state", slot)
                    self._draft.disable(slot)
                case Copies(provider, count):
                    self._copy(number, _slot(self._snapshot, number, provider), count)
                case SetInventory(provider, resource_class, fields):
                    self._set_inventory(number, _slot(self._snapshot, number, provider), resource_class, fields)
                case SetTrait(provider, trait, has):
                    slot = _slot(self._snapshot, number, provider)
                    row = self._snapshot.trait_names.by_name.get(trait)
                    if row is None:
                        raise BadChange(number, "trait", f"no trait {trait}")
                    self._require_first(number, "trait", slot, row.id)
                    self._draft.set_trait(slot, row.id, has=has)

    def _require_first(self, number: int, field: str, *thing: object) -> None:
        first = self._changed.setdefault((field, *thing), number)
        if first != number:
            raise BadChange(number, field, f"changes[{first}] changes the same {field}")

    def _delete_aggregate(self, number: int, aggregate: str) -> None:
        id_ = self._snapshot.aggregate_ids.get(aggregate)
        if id_ is None:
            raise ChangedThingNotFound(number, "aggregate", aggregate)
        self._require_first(number, "aggregate", id_)
        self._draft.delete_aggregate(id_)

    def _copy(self, number: int, slot: Slot, count: int) -> None:
        root = self._snapshot.forest.root[slot]
        self._require_first(number, "provider", "copies", root)
        self._added += count * len(self._snapshot.forest.members(root))
        if self._added > self._most_providers:
            raise TooManyProviders(number, "count", f"more than {self._most_providers} providers would be added")
        self._draft.copy(slot, count)

    def _set_inventory(
        self, number: int, slot: Slot, resource_class: str, fields: Mapping[str, int | float] | None
    ) -> None:
        row = self._snapshot.class_names.by_name.get(resource_class)
        if row is None:
            raise BadChange(number, "resource_class", f"no resource class {resource_class}")
        self._require_first(number, "resource_class", slot, row.id)
        columns = self._snapshot.inventory.get(row.id)
        stored = None if columns is None else columns.at(slot)
        if fields is None:
            if stored is None:
                raise BadChange(number, "resource_class", f"the provider has no inventory of {resource_class}")
            if stored.used:
                raise BadChange(number, "resource_class", f"{stored.used} of {resource_class} are in use")
            self._draft.set_inventory(slot, row.id, None)
            return
        if stored is None and "total" not in fields:
            raise BadChange(number, "total", f"the provider has no inventory of {resource_class}; state its total")
        changed: Inventory = replace(stored.inventory if stored else Inventory(0), **fields)  # type: ignore[arg-type]  # the keys are fields of an inventory
        try:
            require_sane_reserve({resource_class: changed}, may_reserve_all=True)
        except ReservedTooLarge as error:
            raise BadChange(number, "reserved", error.reason) from error
        self._draft.set_inventory(slot, row.id, changed)


# Advice: reads the consumers from which a plan may choose, and finds the plan in a snapshot.
#
# Nothing here writes to the database. Source: "GET /advice", docs/stead-api.md; decision 47.


_MOST_TREES = 512
"""Trees whose consumers are read."""

_TOGETHER = 16
"""Trees whose consumers are read by one statement."""


class Likeness(NamedTuple):
    """What new places must be like, and which is the best, see `ConsumerHoldings`."""

    same_traits: bool
    same_aggregates: bool
    order: Order | None = None


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
        return Work(enumeration.work, give_way=runtime.give_way)

    before = headroom(snapshot, request, budget())
    if before.at_least >= number:
        return Advised(snapshot, moment, before, Advice((), 0, is_complete=True), before, {})
    trees = sources(snapshot, request, before, budget())
    allocations_of, movable, countable = _movable_of(store, snapshot, [*trees.gaining, *trees.others], likeness, most)
    advised = advise(
        snapshot, request, number, before, movable, countable, set(trees.gaining), enumeration, (budget(), budget())
    )
    if advised.moves is None:
        return Advised(snapshot, moment, before, advised, None, allocations_of)
    changes = [change for move in advised.moves for change in (negated(move.holdings.amounts), move.amounts)]
    after = headroom(snapshot.with_taken(summed(changes)), request, budget())
    return Advised(snapshot, moment, before, advised, after, allocations_of)


@dataclass(frozen=True, slots=True)
class Improved:
    """Moves that raise the value of the site for its mix, and this value before and after them.

    ``improvement`` is None if there is no mix. ``allocations`` has the present allocations of the consumers, by uuid.
    ``is_complete``: all consumers had a part in the search, and no search was cut by its work.
    """

    snapshot: Snapshot
    moment: Moment | None
    before: float
    improvement: Improvement | None
    allocations: Mapping[str, HeldAllocations]
    is_complete: bool

    @property
    def after(self) -> float:
        """The value after the moves."""
        return self.before + (sum(self.improvement.gains) if self.improvement else 0.0)


def improvement(
    store: Store, catalog: View, enumeration: Enumeration, number: int, likeness: Likeness, most: int
) -> Improved:
    """Up to *number* consumers to move so that the site keeps the most room for its mix.

    Args:
        most: about this number of consumers are read, those of the most promising trees.

    Raises:
        Unavailable
    """
    snapshot, moment = catalog.view()
    losses = enumeration.losses
    if losses is None or not losses.has_mix():
        return Improved(snapshot, moment, 0.0, None, {}, is_complete=True)
    work = Work(enumeration.work, give_way=runtime.give_way)
    try:
        before = float(losses.values(snapshot, np.flatnonzero(snapshot.roots), work).sum())
        trees = promising(snapshot, losses, work)
    except WorkSpent:
        return Improved(snapshot, moment, 0.0, Improvement((), (), is_complete=False), {}, is_complete=False)
    allocations_of, movable, countable = _movable_of(store, snapshot, trees, likeness, most)
    improved = improve(
        snapshot, movable, number, losses, enumeration, Work(enumeration.work, give_way=runtime.give_way)
    )
    is_complete = improved.is_complete and len(countable) == len(trees)
    return Improved(snapshot, moment, before, improved, allocations_of, is_complete)


def _movable_of(
    store: Store, snapshot: Snapshot, trees: Sequence[int], likeness: Likeness, most: int
) -> tuple[dict[str, HeldAllocations], list[MovableConsumer], set[int]]:
    """The consumers of the first of *trees*: what they have, those that can move, and the trees that are fully known.

    Args:
        most: about this number of consumers are read.
    """
    roots = trees[:_MOST_TREES]
    allocations_of = store.read(_consumers_of, [snapshot.identities.ids[root] for root in roots], most)
    amounts = {consumer: slots(snapshot, allocations.amounts()) for consumer, allocations in allocations_of.items()}
    # A tree whose consumers changed since the snapshot, or were not all read, has no part in the search.
    total = summed(amounts.values())
    countable = {root for root in roots if are_usage_of(snapshot, root, total)}
    all_holdings = [ConsumerHoldings(consumer, of_consumer, *likeness) for consumer, of_consumer in amounts.items()]
    movable = [
        each
        for each in movable_consumers(snapshot, all_holdings)
        if each.root in countable and are_whole(snapshot, allocations_of[each.holdings.consumer].amounts())
    ]
    return allocations_of, movable, countable


def _consumers_of(connection: Connection, roots: Sequence[int], most: int) -> dict[str, HeldAllocations]:
    """The consumers of the first of some trees, until there are *most* of them."""
    allocations_of: dict[str, HeldAllocations] = {}
    for start in range(0, len(roots), _TOGETHER):
        allocations_of |= of_trees(connection, roots[start : start + _TOGETHER], most)
        if len(allocations_of) >= most:
            break
    return allocations_of
