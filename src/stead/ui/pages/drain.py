"""``/ui/providers/{uuid}/drain``: where the consumers of a host would move if it were drained. It changes nothing."""

from __future__ import annotations

import re
from collections import Counter
from itertools import zip_longest
from typing import TYPE_CHECKING, NamedTuple

from stead.api.query.candidates import Pairs, parse_order
from stead.api.request import normalised_uuid
from stead.api.versions import ALL_FEATURES
from stead.catalog.listing import sums
from stead.domain.errors import ProviderNotFound
from stead.domain.what_if import BadChange, Drain
from stead.service.what_if import Bounds, TooManyConsumers
from stead.store.usages import UNKNOWN
from stead.ui.pages.ask import Why, why
from stead.ui.sessions import may

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence
    from typing import Any

    from stead.api.request import Request, Response
    from stead.candidates.draining import ConsumerHoldings
    from stead.candidates.placing import Amounts
    from stead.catalog.snapshot import Snapshot
    from stead.domain.limits import RequestLimits
    from stead.domain.provider import Provider
    from stead.service.service import Service
    from stead.service.what_if import WhatIf
    from stead.ui.rendering import Rendering


LIKENESS = ("same_traits", "same_aggregates")

ORDERS = {"headroom": "that leaves the most room", "pack": "on the fullest host", "spread": "on the emptiest host"}
"""The orders that the page offers, by their spelling in a query."""


class Drained:
    """The page. Its query has the conditions of a drain of POST ``/whatif``, whose policy rule it needs."""

    def __init__(self, service: Service, rendering: Rendering, limits: RequestLimits) -> None:
        self._service = service
        self._rendering = rendering
        self._limits = limits

    def on_get(self, req: Request, resp: Response, uuid: str) -> None:
        """Show the page of a root; a provider below a root leads to the page of its root.

        Raises:
            ProviderNotFound, ChangedThingNotFound, ConcurrentUpdate, Unavailable
        """
        req.require("stead:whatif:show", None)
        snapshot = self._service.snapshot()
        slot = snapshot.find(normalised_uuid(uuid) or uuid)
        if slot is None:
            raise ProviderNotFound(uuid)
        root = snapshot.provider(snapshot.forest.root[slot])
        if snapshot.forest.root[slot] != slot:
            resp.status = "303 See Other"
            resp.set_header("location", f"{req.root_path}/ui/providers/{root.uuid}/drain")
            return
        given = {key for key, value in Pairs.of(req) if key in LIKENESS and value.strip()}
        by = next((value for key, value in Pairs.of(req) if key == "order_by" and value in ORDERS), "")
        order = parse_order(by or None, ALL_FEATURES)
        drain = Drain(root.uuid, "same_traits" in given, "same_aggregates" in given, order)
        values: dict[str, Any] = {"plan": None, "problem": ""}
        try:
            outcome, _ = self._service.what_if([drain], Bounds(self._limits.tree_providers, self._limits.claims))
            values["plan"] = plan(outcome, root.uuid)
        except TooManyConsumers:
            resp.status = "413 Content Too Large"
            values["problem"] = (
                f"The host has more than {self._limits.claims:,} consumers. A plan can have this number."
            )
        except BadChange as error:
            resp.status = "400 Bad Request"
            values["problem"] = f"The host cannot be drained: {error.reason}."
        self._rendering.show(
            req,
            resp,
            "drain",
            host=root,
            given=given,
            order=by,
            orders=ORDERS,
            at_once=AT_ONCE,
            command=command(root, drain, by),
            may_list_consumers=may(req, "stead:consumers:list", {"project_id": None}),
            **values,
        )


# The page of a drain: the moves of consumers, those without a place and why, and what remains free elsewhere.


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
    moves = [_leaving(outcome, move.holdings, members, move.amounts) for move in outcome.moves]
    stuck = [
        Stays(_leaving(outcome, each.holdings, members, {}), each.gave_up, reason)
        for each, reason in zip_longest(outcome.stuck, reasons)
    ]
    return Plan(moves, stuck, _remaining(outcome, members), outcome.is_complete)


def command(host: Provider, drain: Drain, order: str = "") -> str:
    """The command line that lists the same plan; *order* is that of *drain* in its usual spelling."""
    name = host.name if _PLAIN_NAME.fullmatch(host.name) else host.uuid
    options = [("--same-traits", drain.same_traits), ("--same-aggregates", drain.same_aggregates)]
    words = ["stead plan drain", name, *(option for option, is_given in options if is_given)]
    return " ".join([*words, *(["--order", order] if order else [])])


def _leaving(outcome: WhatIf, holdings: ConsumerHoldings, members: Collection[int], new: Amounts) -> Leaving:
    """A consumer, with its allocations from *members*, the slots of the tree, and those of *new* that it lacks."""
    allocations = outcome.allocations[holdings.consumer]
    amounts_of = {slot: amounts for slot, amounts in holdings.amounts.items() if slot in members}
    to = {slot: amounts for slot, amounts in new.items() if holdings.amounts.get(slot) != amounts}
    return Leaving(
        holdings.consumer,
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
        for sign, allocations in ((1, move.amounts), (-1, move.holdings.amounts)):
            for slot, amounts in allocations.items():
                if slot not in members:
                    taken.update({names[class_id].name: sign * amount for class_id, amount in amounts.items()})
    for holdings in (*(move.holdings for move in outcome.moves), *(stuck.holdings for stuck in outcome.stuck)):
        for slot in holdings.amounts.keys() & members:
            concerned.update(names[class_id].name for class_id in holdings.amounts[slot])
    out = snapshot.service_states.out_of_service
    enabled = snapshot.live if out is None else snapshot.live & ~out
    return [
        Remaining(total.resource_class, total.capacity, total.used, free + taken[total.resource_class], free)
        for total in sums(snapshot, enabled)
        if total.resource_class in concerned
        for free in [total.capacity - total.used]
    ]
