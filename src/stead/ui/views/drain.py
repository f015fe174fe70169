"""The page of a drain: the moves of consumers, those without a place and why, and what remains free elsewhere."""

from __future__ import annotations

import re
from collections import Counter
from itertools import zip_longest
from typing import TYPE_CHECKING, NamedTuple

from stead.catalog.capacity import sums
from stead.store.usages import UNKNOWN
from stead.ui.views.ask import Why, why

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from stead.candidates.moving import Tenant
    from stead.candidates.placing import Amounts
    from stead.catalog.snapshot import Snapshot
    from stead.domain.provider import Provider
    from stead.domain.what_if import Drain
    from stead.service.what_if import WhatIf

AT_ONCE = 50
"""Moves that the page shows at once. It folds the others."""

_PLAIN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
"""A name that a shell takes as one word, and no command as an option."""


class Share(NamedTuple):
    """What a consumer has of one provider, by class."""

    uuid: str
    name: str
    amounts: Mapping[str, int]


class Leaving(NamedTuple):
    """A consumer of the host: whose it is, what it has of the host, and ``to``, what it would have of other providers.

    Allocations that stay as they are, such as those of other trees, are in neither.
    """

    consumer: str
    consumer_type: str
    project: str
    of: Sequence[Share]
    to: Sequence[Share]


class Remaining(NamedTuple):
    """What one class has at all enabled providers of other trees, before and after the moves."""

    resource_class: str
    capacity: float
    used: float
    free_before: float
    free: float


class Stays(NamedTuple):
    """A consumer without a place; ``why`` only for the first ones. ``gave_up``: the work was used up first."""

    leaving: Leaving
    gave_up: bool
    why: Why | None


class Plan(NamedTuple):
    """The page. ``moves`` are in their order, each valid when its turn comes."""

    moves: Sequence[Leaving]
    stuck: Sequence[Stays]
    remaining: Sequence[Remaining]
    is_complete: bool


def plan(outcome: WhatIf, host: str) -> Plan:
    """What the page shows of the drain of one tree, whose root has the uuid *host*."""
    snapshot = outcome.snapshot
    slot = snapshot.find(host)
    members = set() if slot is None else set(snapshot.forest.members(slot))
    reasons = [
        why(snapshot, explanation, (), stuck.request)
        for stuck, explanation in zip(outcome.stuck, outcome.explanations, strict=False)
    ]
    moves = [_leaving(outcome, move.tenant, members, move.amounts) for move in outcome.moves]
    stuck = [
        Stays(_leaving(outcome, each.tenant, members, {}), each.gave_up, reason)
        for each, reason in zip_longest(outcome.stuck, reasons)
    ]
    return Plan(moves, stuck, _remaining(outcome, members), outcome.is_complete)


def command(host: Provider, drain: Drain) -> str:
    """The command line that lists the same plan."""
    name = host.name if _PLAIN_NAME.fullmatch(host.name) else host.uuid
    options = [("--same-traits", drain.same_traits), ("--same-aggregates", drain.same_aggregates)]
    return " ".join(["stead plan drain", name, *(option for option, is_given in options if is_given)])


def _leaving(outcome: WhatIf, tenant: Tenant, members: Collection[int], new: Amounts) -> Leaving:
    """A consumer, with its allocations from *members*, the slots of the tree, and those of *new* that it lacks."""
    allocations = outcome.allocations[tenant.consumer]
    amounts_of = {slot: amounts for slot, amounts in tenant.amounts.items() if slot in members}
    to = {slot: amounts for slot, amounts in new.items() if tenant.amounts.get(slot) != amounts}
    return Leaving(
        tenant.consumer,
        allocations.consumer_type or UNKNOWN,
        allocations.project,
        list(_shares(outcome.snapshot, amounts_of)),
        list(_shares(outcome.snapshot, to)),
    )


def _shares(snapshot: Snapshot, amounts: Amounts) -> Iterator[Share]:
    names = snapshot.class_names.by_id
    for slot, of_slot in sorted(amounts.items()):
        by_name = {names[class_id].name: amount for class_id, amount in of_slot.items()}
        yield Share(snapshot.uuid(slot), snapshot.identities.names[slot], by_name)


def _remaining(outcome: WhatIf, members: Collection[int]) -> list[Remaining]:
    """The classes that consumers have of *members*, the slots of the tree."""
    snapshot = outcome.snapshot
    names = snapshot.class_names.by_id
    taken: Counter[str] = Counter()
    concerned = set[str]()
    for move in outcome.moves:
        for sign, allocations in ((1, move.amounts), (-1, move.tenant.amounts)):
            for slot, amounts in allocations.items():
                if slot not in members:
                    taken.update({names[class_id].name: sign * amount for class_id, amount in amounts.items()})
    for tenant in (*(move.tenant for move in outcome.moves), *(stuck.tenant for stuck in outcome.stuck)):
        for slot in tenant.amounts.keys() & members:
            concerned.update(names[class_id].name for class_id in tenant.amounts[slot])
    out = snapshot.service_states.out_of_service
    enabled = snapshot.live if out is None else snapshot.live & ~out
    return [
        Remaining(total.resource_class, total.capacity, total.used, free + taken[total.resource_class], free)
        for total in sums(snapshot, enabled)
        if total.resource_class in concerned
        for free in [total.capacity - total.used]
    ]
