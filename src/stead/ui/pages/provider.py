"""``/ui/providers/{uuid}``: one provider in its tree, and who uses it."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from stead.api.request import Refused, normalised_uuid
from stead.api.resources.provider_trees import REASON_LENGTH
from stead.domain.errors import ProviderNotFound
from stead.domain.request import Page
from stead.store import consumer_listing, provider_trees
from stead.store.consumer_listing import ConsumerFilter
from stead.ui.sessions import may, read_own_form

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from stead.api.request import Request, Response
    from stead.catalog.snapshot import Snapshot
    from stead.domain.provider import Disabled, HeldInventory, Provider
    from stead.service.service import Service
    from stead.store.consumer_listing import HeldAllocations
    from stead.ui.rendering import Rendering


_CONSUMERS = 200
"""Consumers in the page and in its drawing; the page Consumers has all."""


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
        values = values_of(req, self._service, snapshot, slot)
        may_disable = self._rendering.writes and may(req, "stead:provider_trees:disable")
        folded = _FAMILIES["HW_CPU_"]
        self._rendering.show(req, resp, "provider", **values, folded=folded, may_disable=may_disable)

    def on_post(self, req: Request, resp: Response, uuid: str) -> None:
        """Disable the provider for the reason in the form, or enable it without one.

        Raises:
            Refused: 403 if the web interface only reads, or the form is not from this session; 400 without a reason.
            Forbidden, ProviderNotFound, Unavailable
        """
        if not self._rendering.writes:
            raise Refused(403, "The web interface only reads ([stead] ui_writes).")
        form = read_own_form(req)
        req.require("stead:provider_trees:disable", None)
        provider = normalised_uuid(uuid) or uuid
        if form.get("state") == "enabled":
            self._service.write(provider_trees.enable, provider)
        else:
            reason = form.get("reason", "").strip()
            if not (0 < len(reason) <= REASON_LENGTH and reason.isprintable()):
                raise Refused(400, f"A reason has 1 to {REASON_LENGTH} characters in one line.")
            self._service.write(provider_trees.disable, provider, reason, None)
        resp.status = "303 See Other"
        resp.set_header("location", f"{req.root_path}/ui/providers/{provider}")


def values_of(req: Request, service: Service, snapshot: Snapshot, slot: int) -> dict[str, Any]:
    """What a page needs to draw the tree of the provider at *slot*, and the consumers that the user may see."""
    shown = provider_view(snapshot, slot)
    page = None
    if may(req, "stead:consumers:list", {"project_id": None}):
        whose = ConsumerFilter(in_tree=shown.provider.uuid)
        page = service.read(consumer_listing.page_of, whose, Page(), _CONSUMERS)
    held = page.allocations if page else {}
    marked = req.get_param("holder")
    return {
        "shown": shown,
        "boxes": boxes(shown.tree, held, marked),
        "holders": None if page is None else list(holders_of(held, {node.uuid for node in shown.tree})),
        "is_more": page is not None and page.goes_on,
        "marked": marked,
        "families": trait_families(shown.traits),
        "may_drain": not shown.above and may(req, "stead:whatif:show"),
    }


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


# The drawing: each provider is a box in the box of its parent, and each class a bar with the parts of its consumers.


HUES = 8
"""Colours of consumers. The ninth has that of the first again: the words of each part name its consumer."""

_DEEP = 6
"""Boxes in more boxes than this stand below each other, since a browser takes long to fit them side by side."""


class Part(NamedTuple):
    """A part of a bar, in percent of the capacity: what one consumer holds, or all whose consumers are not known.

    ``look``: its class in the stylesheet: ``h0`` to ``h7`` for consumers, ``r`` for unknown ones, ``lit`` for what a
    candidate would take.
    """

    look: str
    start: float
    width: float
    consumer: str | None
    project: str
    amount: int
    is_marked: bool


class Bar(NamedTuple):
    """One class of a provider."""

    resource_class: str
    used: int
    capacity: int
    parts: Sequence[Part]


class Box(NamedTuple):
    """One provider of the drawing. ``label``: its name without that of a box around it; ``is_device``: it has one class
    only, and nothing below it.
    """

    node: Node
    label: str
    is_device: bool
    is_deep: bool
    is_marked: bool
    bars: Sequence[Bar]


def boxes(tree: Sequence[Node], held: Mapping[str, HeldAllocations], marked: str | None) -> list[Box]:
    """The providers of *tree* as boxes, with what the consumers of *held* hold. *marked* is one of these consumers."""
    shares: dict[tuple[str, str], list[tuple[int, str, int]]] = {}
    for number, (consumer, allocations) in enumerate(held.items()):
        for uuid, amounts in allocations.amounts().items():
            for resource_class, amount in amounts.items():
                shares.setdefault((uuid, resource_class), []).append((number % HUES, consumer, amount))
    return _in_boxes(
        tree,
        lambda node, amount: _parts(amount, shares.get((node.uuid, amount.resource_class), ()), held, marked),
    )


def boxes_of_candidate(tree: Sequence[Node], given: Mapping[str, Mapping[str, int]]) -> list[Box]:
    """The providers of *tree* as boxes, with the classes of which the candidate takes what *given* says, by uuid."""

    def parts(node: Node, amount: Amount) -> Iterator[Part]:
        whole, taken = max(amount.capacity, 1), given[node.uuid][amount.resource_class]
        if amount.used:
            yield Part("r", 0.0, percent(amount.used, whole), None, "in use", amount.used, is_marked=False)
        start, width = percent(amount.used, whole), percent(taken, whole)
        yield Part("lit", start, width, None, "of this candidate", taken, is_marked=False)

    bare = [
        node._replace(amounts=[each for each in node.amounts if each.resource_class in given.get(node.uuid, {})])
        for node in tree
    ]
    return _in_boxes(bare, parts)


def _in_boxes(tree: Sequence[Node], parts: Callable[[Node, Amount], Iterator[Part]]) -> list[Box]:
    """The providers of *tree*, which are in preorder, as boxes."""
    drawn = []
    above: list[str] = []  # the names of the providers whose boxes are open
    for node in tree:
        del above[node.level :]
        bars = [Bar(*amount, list(parts(node, amount))) for amount in node.amounts]
        drawn.append(
            Box(
                node,
                _label(node.name, above),
                node.level > 0 and len(bars) <= 1 and not node.opens,
                node.level >= _DEEP,
                any(part.is_marked for bar in bars for part in bar.parts),
                bars,
            )
        )
        above.append(node.name)
    return drawn


def _label(name: str, above: Sequence[str]) -> str:
    """*name* without the longest name of a provider above with which it begins."""
    for other in sorted(above, key=len, reverse=True):
        if name.startswith(other) and (rest := name[len(other) :].lstrip("-_.:/ ")):
            return rest
    return name


def _parts(
    amount: Amount, shares: Sequence[tuple[int, str, int]], held: Mapping[str, HeldAllocations], marked: str | None
) -> Iterator[Part]:
    # More may be used than there is capacity for, after an inventory was lowered: then the bar shows the use.
    whole = max(amount.capacity, amount.used, 1)
    start = 0
    for hue, consumer, part in shares:
        width = min(part, whole - start)  # a claim after the snapshot may hold more than it shows as used
        if width > 0:
            yield Part(
                f"h{hue}", percent(start, whole), percent(width, whole), consumer, held[consumer].project, part,
                consumer == marked,
            )  # fmt: skip
        start += width
    if amount.used > start:
        rest = amount.used - start
        yield Part("r", percent(start, whole), percent(rest, whole), None, "", rest, is_marked=False)


def percent(part: float, whole: float) -> float:
    """*part* of *whole* in percent."""
    return round(100 * part / whole, 3)


class Holder(NamedTuple):
    """A consumer of the tree: its colour, and what it holds of the providers that the page shows, by class."""

    hue: int
    uuid: str
    held: HeldAllocations
    amounts: Mapping[str, int]


def holders_of(held: Mapping[str, HeldAllocations], shown: set[str]) -> Iterator[Holder]:
    """The consumers of *held* that hold something of the providers *shown*."""
    for number, (uuid, allocations) in enumerate(held.items()):
        sums: Counter[str] = Counter()
        for provider, amounts in allocations.amounts().items():
            if provider in shown:
                sums.update(amounts)
        if sums:
            yield Holder(number % HUES, uuid, allocations, sums)


_FAMILIES = {
    "HW_CPU_": "Features of the CPU",
    "HW_GPU_": "Features of GPUs",
    "HW_NIC_": "Features of network cards",
    "HW_": "Hardware",
    "COMPUTE_": "Compute service",
    "STORAGE_": "Storage",
    "CUSTOM_": "Of this site",
}
"""Words for traits by the beginning of their names. Source: the names of the library os-traits."""


def trait_families(traits: Sequence[str]) -> dict[str, list[str]]:
    """*traits* by family: those of this site first, and the features of the CPU, which are many, last."""
    families: dict[str, list[str]] = {words: [] for words in [*reversed(_FAMILIES.values()), "Others"]}
    for trait in traits:
        words = next((words for start, words in _FAMILIES.items() if trait.startswith(start)), "Others")
        families[words].append(trait)
    return {words: names for words, names in families.items() if names}


def recent(snapshot: Snapshot, members: Sequence[int]) -> list[Recent]:
    """The last writes to the providers at *members* and to their inventories, the newest first."""
    writes = []
    for slot in members:
        provider = snapshot.provider(slot)
        writes.append(Recent(provider.uuid, provider.name, "provider", provider.modified))
        for name, inventory in snapshot.inventories(slot).items():
            writes.append(Recent(provider.uuid, provider.name, f"inventory of {name}", inventory.modified))
    return sorted(writes, key=lambda each: -each.moment)
