"""``/ui/providers/{uuid}``: one provider in its tree, and who uses it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from stead.api.request import normalised_uuid
from stead.domain.errors import ProviderNotFound
from stead.domain.request import Page
from stead.store import consumer_listing
from stead.store.consumer_listing import ConsumerFilter
from stead.ui.sessions import may

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from stead.api.request import Request, Response
    from stead.catalog.snapshot import Snapshot
    from stead.domain.provider import Disabled, HeldInventory, Provider
    from stead.service.service import Service
    from stead.ui.rendering import Rendering


_CONSUMERS = 50
"""Consumers in the page; the page Consumers has all."""


class ProviderPage:
    """The page."""

    def __init__(self, service: Service, rendering: Rendering) -> None:
        self._service = service
        self._rendering = rendering

    def on_get(self, req: Request, resp: Response, uuid: str) -> None:
        """Show the page.

        Raises:
            ProviderNotFound
        """
        req.require("stead:provider_trees:list", None)
        snapshot = self._service.snapshot()
        slot = snapshot.find(normalised_uuid(uuid) or uuid)
        if slot is None:
            raise ProviderNotFound(uuid)
        shown = provider_view(snapshot, slot)
        holders = None
        if may(req, "stead:consumers:list", {"project_id": None}):
            whose = ConsumerFilter(provider=shown.provider.uuid)
            holders = self._service.read(consumer_listing.page_of, whose, Page(), _CONSUMERS)
        may_drain = not shown.above and may(req, "stead:whatif:show")
        self._rendering.show(req, resp, "provider", shown=shown, holders=holders, may_drain=may_drain)


# The page of one provider: its tree, inventories, traits, aggregates and state.


NODES = 500
"""Limit of the providers of a tree that are shown at once."""

RECENT = 10


class Amount(NamedTuple):
    """What one provider of a tree uses and has of a class."""

    resource_class: str
    used: int
    capacity: int


class Node(NamedTuple):
    """One provider of a tree, with what it uses and has by class. ``closes``: levels that end after it."""

    uuid: str
    name: str
    level: int
    is_disabled: bool
    amounts: Sequence[Amount]
    opens: bool
    closes: int


class Recent(NamedTuple):
    """What was written lately: the provider, what of it, and when (seconds since 1970)."""

    uuid: str
    name: str
    what: str
    moment: int


class ProviderView(NamedTuple):
    """The page. ``above`` are the ancestors, the root first; ``hidden`` counts the providers of the tree not shown."""

    provider: Provider
    above: Sequence[Provider]
    inventories: Mapping[str, HeldInventory]
    traits: Sequence[str]
    aggregates: Sequence[str]
    disabled: tuple[Provider, Disabled] | None
    tree: Sequence[Node]
    hidden: int
    recent: Sequence[Recent]


def provider_view(snapshot: Snapshot, slot: int) -> ProviderView:
    """What the page of the provider at *slot* shows."""
    root = snapshot.forest.root[slot]
    members = list(snapshot.forest.members(root))
    if len(members) > NODES:  # a large tree is shown from this provider downwards
        members = list(snapshot.forest.subtree(slot))[:NODES]
    cause = snapshot.service_states.cause(slot)
    return ProviderView(
        snapshot.provider(slot),
        list(_above(snapshot, slot)),
        snapshot.inventories(slot),
        sorted(row.name for row in snapshot.traits(slot)),
        snapshot.aggregates(slot),
        None if cause is None else (snapshot.provider(cause[0]), cause[1]),
        list(nodes(snapshot, members)),
        snapshot.forest.shape_of(root).size - len(members),
        recent(snapshot, members)[:RECENT],
    )


def _above(snapshot: Snapshot, slot: int) -> Iterator[Provider]:
    parents = []
    parent = snapshot.forest.parent[slot]
    while parent >= 0:
        parents.append(snapshot.provider(parent))
        parent = snapshot.forest.parent[parent]
    return reversed(parents)


def nodes(snapshot: Snapshot, members: Sequence[int]) -> Iterator[Node]:
    """The providers at *members*, which are in preorder, for nested lists."""
    parents: list[int] = snapshot.forest.parent.at(np.array(members, np.int64)).tolist()
    level: dict[int, int] = {}
    for slot, parent in zip(members, parents, strict=True):
        level[slot] = level.get(parent, -1) + 1
    levels = [level[slot] for slot in members]
    out = snapshot.service_states.out_of_service
    for place, (slot, here) in enumerate(zip(members, levels, strict=True)):
        following = levels[place + 1] if place + 1 < len(levels) else 0
        inventories = snapshot.inventories(slot)
        amounts = [Amount(name, each.used, each.inventory.capacity) for name, each in inventories.items()]
        yield Node(
            snapshot.uuid(slot),
            snapshot.identities.names[slot],
            here,
            out is not None and bool(out[slot]),
            amounts,
            following > here,
            max(0, here - following),
        )


def recent(snapshot: Snapshot, members: Sequence[int]) -> list[Recent]:
    """The last writes to the providers at *members* and to their inventories, the newest first."""
    writes = []
    for slot in members:
        provider = snapshot.provider(slot)
        writes.append(Recent(provider.uuid, provider.name, "provider", provider.modified))
        for name, inventory in snapshot.inventories(slot).items():
            writes.append(Recent(provider.uuid, provider.name, f"inventory of {name}", inventory.modified))
    return sorted(writes, key=lambda each: -each.moment)
