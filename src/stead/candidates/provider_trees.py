"""The providers and the provider trees that match a list query, one page of them, and their sums.

Source: "GET /provider_trees", docs/stead-api.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from heapq import nsmallest
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from stead.candidates.match import (
    eligible_anchors,
    meetable,
    resolve_aggregates,
    resolve_classes,
    resolve_forbidden,
    resolve_required,
    resolve_traits,
)
from stead.catalog.snapshot import NO_SLOT
from stead.domain.provider import Inventory
from stead.domain.provider_trees import CurrentProvider, CurrentTrees
from stead.process import runtime

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from numpy.typing import NDArray

    from stead.catalog.columns import InventoryColumns, Memberships
    from stead.catalog.snapshot import Forest, Shape, Snapshot
    from stead.domain.names import NamePattern
    from stead.domain.provider import Slot
    from stead.domain.provider_trees import TreeDocument
    from stead.domain.request import Page, ProviderQuery, TreeQuery

    Mask = NDArray[np.bool_]
    Roots = NDArray[np.int64]
    """Slots of roots, ascending."""
    Slots = NDArray[np.int64]


TREES_AT_ONCE = 256
"""Trees ordered before other requests may run; that takes about a millisecond."""


class ShownTree(NamedTuple):
    """A tree in an answer: ``slots`` has the providers shown, ``size`` is the number of all its providers."""

    root: int
    slots: Sequence[int]
    size: int


def matching_trees(snapshot: Snapshot, query: TreeQuery) -> Roots:
    """Roots of the trees that match, ascending.

    Raises:
        UnknownTraits, UnknownResourceClass: also if another filter excludes every tree.
    """
    root_traits = resolve_traits(snapshot, query.root_traits)
    matching = eligible_anchors(snapshot, root_traits, resolve_aggregates(snapshot, query.root_aggregates))
    if query.filters_providers:
        passing = np.zeros(snapshot.size, np.bool_)
        passing[snapshot.forest.root.at(_matching_providers(snapshot, query))] = True
        matching = matching & passing
    # Last, so that an unknown name is an error even if this filter excludes every tree.
    if query.in_tree is None:
        return np.flatnonzero(matching)
    slot = snapshot.find_referenced(query.in_tree)
    root = None if slot is None else snapshot.forest.root[slot]
    return np.array([root] if root is not None and matching[root] else [], np.int64)


def _matching_providers(snapshot: Snapshot, query: TreeQuery) -> NDArray[np.int64]:
    """Slots of the providers that each pass all filters, ascending."""
    traits = resolve_traits(snapshot, query.traits)
    aggregates = resolve_aggregates(snapshot, query.aggregates)
    passing = snapshot.live
    for class_id, amount in resolve_classes(snapshot, query.resources).items():
        passing = passing & snapshot.serving(class_id, amount)
    if traits:
        passing = passing & snapshot.with_traits(traits.clauses, traits.forbidden)
    if aggregates:
        passing = passing & snapshot.in_aggregates(aggregates.clauses, aggregates.forbidden)
    slots = np.flatnonzero(passing)
    return slots if query.name is None else _named(snapshot, slots, query.name)


def _named(snapshot: Snapshot, slots: NDArray[np.int64], pattern: NamePattern) -> NDArray[np.int64]:
    """Those of *slots* whose providers have a matching name."""
    if pattern.is_exact:
        slot = snapshot.find_named(pattern.text)
        return slots[:0] if slot is None else slots[slots == slot]
    names: list[str] = snapshot.identities.names.at(slots).tolist()
    matching = np.fromiter(map(pattern.matches, names), np.bool_, len(names))
    return slots[matching]


def count_providers(snapshot: Snapshot, roots: Roots) -> int:
    """Number of providers in the trees of *roots*."""
    numbers, trees = np.unique(snapshot.forest.shape.at(roots), return_counts=True)
    shapes = snapshot.forest.shapes.values
    return sum(shapes[number].size * count for number, count in zip(numbers.tolist(), trees.tolist(), strict=True))


def page_of(snapshot: Snapshot, roots: Roots, page: Page, depth: int | None, most: int) -> tuple[list[ShownTree], bool]:
    """One page of the trees of *roots*, ordered by the uuid of the root, and whether other pages follow.

    Args:
        depth: levels below the root that are shown; None shows all.
        most: limit of providers on a page. It ends before the tree that would exceed it, but has at least one tree.
    """
    uuids: list[str] = snapshot.identities.uuids.at(roots).tolist()
    after = [pair for pair in zip(uuids, roots.tolist(), strict=True) if page.marker is None or pair[0] > page.marker]
    following = sorted(after) if page.limit is None or page.limit >= len(after) else nsmallest(page.limit, after)
    levels = _Levels(snapshot.forest, depth)
    number, providers = 0, 0
    for _, root in following:
        providers += levels.shown_of(root)
        if number and providers > most:
            break
        number += 1
    shown = _ordered(snapshot, [root for _, root in following[:number]], levels)
    return shown, number < len(after)


def roots_of(snapshot: Snapshot, slots: Sequence[int]) -> Roots:
    """The roots of the trees that have a provider at one of *slots*."""
    return np.unique(snapshot.forest.root.at(np.array(slots, np.int64))).astype(np.int64)


def places_of(trees: Sequence[ShownTree], roots: Roots) -> list[int]:
    """The place of each tree among *roots*."""
    places: list[int] = np.searchsorted(roots, [tree.root for tree in trees]).tolist()
    return places


class TreeRows(NamedTuple):
    """Trees as rows: first all rows of the first tree, and so on. Within a tree, parents come first.

    The order is the same in every process: trees by the database id of their root, providers by level, then by id.

    Attributes:
        roots: slots of the roots, shape ``(trees,)``.
        slots: the providers shown, shape ``(rows,)``.
        first: for each tree the row of its root.
        sizes: for each tree the number of all its providers.
    """

    roots: NDArray[np.int64]
    slots: NDArray[np.int64]
    first: NDArray[np.int64]
    sizes: NDArray[np.int64]


def rows_of(snapshot: Snapshot, roots: NDArray[np.int64], depth: int | None) -> TreeRows:
    """All trees of *roots*; ``depth`` is in levels below the root, None shows all."""
    forest, ids = snapshot.forest, snapshot.identities.ids
    roots = roots[np.argsort(ids.at(roots), kind="stable")]
    shape_of = forest.shape.at(roots)
    slots, trees, levels = [], [], []
    sizes = np.empty(len(roots), np.int64)
    for number in np.unique(shape_of).tolist():
        shape = forest.shapes.values[number]
        here = np.flatnonzero(shape_of == number)
        level_of = np.array(_levels(shape))
        shown = level_of <= (len(level_of) if depth is None else depth)
        # If only roots are shown, no other member of a tree needs to be looked up.
        members = forest.members_of(roots[here], shape)[:, shown] if shown.sum() > 1 else roots[here][:, None]
        slots.append(members.ravel())
        trees.append(np.repeat(here, members.shape[1]))
        levels.append(np.tile(level_of[shown], len(here)))
        sizes[here] = shape.size
        runtime.give_way()
    slot, tree = (np.concatenate([*parts, np.empty(0, np.int64)]) for parts in (slots, trees))
    level = np.concatenate([*levels, np.empty(0, np.int64)])
    order = np.lexsort((ids.at(slot), level, tree))
    first = np.searchsorted(tree[order], np.arange(len(roots)))
    return TreeRows(roots, slot[order], first, sizes)


class _Levels:
    """By shape of a tree, the level of every position, and the number of positions shown."""

    def __init__(self, forest: Forest, depth: int | None) -> None:
        self._forest = forest
        self._depth = depth
        self._cached: dict[int, tuple[list[int], int]] = {}

    def of(self, root: int) -> list[int]:
        """The level of each member of a tree, in their order; the root is at level 0."""
        return self._of_shape(root)[0]

    def shown_of(self, root: int) -> int:
        """Number of the providers of a tree that are shown."""
        return self._of_shape(root)[1]

    def _of_shape(self, root: int) -> tuple[list[int], int]:
        number: int = self._forest.shape[root]
        cached = self._cached.get(number)
        if cached is None:
            levels = _levels(self._forest.shapes.values[number])
            shown = len(levels) if self._depth is None else sum(level <= self._depth for level in levels)
            cached = self._cached[number] = levels, shown
        return cached


def _levels(shape: Shape) -> list[int]:
    levels: list[int] = []
    above: list[int] = []
    for position, leave in enumerate(shape.leave):
        while above and above[-1] <= position:
            above.pop()
        levels.append(len(above))
        above.append(leave)
    return levels


def _ordered(snapshot: Snapshot, roots: Sequence[int], levels: _Levels) -> list[ShownTree]:
    """Trees with their shown providers, by level, then by name. The order is the same in every process."""
    members = [snapshot.forest.members(root) if levels.shown_of(root) > 1 else (root,) for root in roots]
    slots = np.fromiter(chain.from_iterable(members), np.int64)
    names: list[str] = snapshot.identities.names.at(slots).tolist()
    trees, start = [], 0
    for number, (root, of_tree) in enumerate(zip(roots, members, strict=True)):
        if not number % TREES_AT_ONCE:
            runtime.give_way()
        stop, shown = start + len(of_tree), levels.shown_of(root)
        by_level = sorted(zip(levels.of(root), names[start:stop], of_tree, strict=False))  # or the root only
        trees.append(ShownTree(root, [slot for _, _, slot in by_level[:shown]], len(levels.of(root))))
        start = stop
    return trees


# The filters of the provider list: the providers that each pass all of them.
#
# The order of the checks is part of the contract. It decides which unknown name is an error, and which is hidden
# because the answer is already empty.
#
# Source: "GET /resource_providers", docs/api.md.


_NONE = np.empty(0, np.int64)


def matching_providers(snapshot: Snapshot, query: ProviderQuery) -> NDArray[np.int64]:
    """Slots of the providers that pass, ascending.

    An unknown name is an error, unless an earlier filter already excludes every provider by itself.

    Raises:
        UnknownTraits, UnknownResourceClass
    """
    matching = snapshot.live
    if query.in_tree is not None:
        slot = snapshot.find_referenced(query.in_tree)
        if slot is None:
            return _NONE
        root = snapshot.forest.root[slot]
        matching = matching & _only(snapshot, snapshot.forest.members(root))
    if query.in_subtree is not None:
        top = snapshot.find_referenced(query.in_subtree)
        if top is None:
            return _NONE
        matching = matching & _only(snapshot, snapshot.forest.subtree(top))
    having = snapshot.with_traits(resolve_required(snapshot, query.traits), ())
    if query.traits.clauses and not having.any():
        return _NONE
    matching = matching & having & snapshot.with_traits((), resolve_forbidden(snapshot, query.traits))
    aggregates = resolve_aggregates(snapshot, query.aggregates)
    if not meetable(snapshot, aggregates):
        return _NONE
    matching = matching & snapshot.in_aggregates(aggregates.clauses, aggregates.forbidden)
    for class_id, amount in resolve_classes(snapshot, query.resources or {}).items():
        matching = matching & snapshot.serving(class_id, amount)
    if query.uuid is not None:
        matching = matching & _only(snapshot, [snapshot.find(query.uuid)])
    if query.name:
        matching = matching & _only(snapshot, [snapshot.find_named(query.name)])
    return np.flatnonzero(matching)


def page_of_providers(snapshot: Snapshot, slots: NDArray[np.int64], page: Page) -> tuple[NDArray[np.int64], bool]:
    """One page of the providers at *slots*, ordered by uuid, and whether others follow.

    Slots do not serve as an order, because they differ between processes. Ids do not either, because a deleted
    provider has none and may be the marker.
    """
    uuids: list[str] = snapshot.identities.uuids.at(slots).tolist()
    pairs = zip(uuids, slots.tolist(), strict=True)
    after = [pair for pair in pairs if page.marker is None or pair[0] > page.marker]
    shown = sorted(after) if page.limit is None else nsmallest(page.limit, after)
    return np.array([slot for _, slot in shown], np.int64), len(shown) < len(after)


def _only(snapshot: Snapshot, slots: Iterable[Slot | None]) -> NDArray[np.bool_]:
    mask = np.zeros(snapshot.size, np.bool_)
    mask[[slot for slot in slots if slot is not None]] = True
    return mask


# The provider trees that a document names, as they are in a snapshot. The plan for the document compares the two.
#
# Source: "PUT /provider_trees", docs/stead-api.md.


_AT_ONCE = 256
"""Providers read before other requests may run; reading them takes about a millisecond."""


def current_trees(snapshot: Snapshot, document: TreeDocument) -> CurrentTrees:
    """All providers of the trees of which *document* names a provider, each in full."""
    slots = {slot for name in document.references() if (slot := snapshot.find_referenced(name)) is not None}
    roots = sorted({snapshot.forest.root[slot] for slot in slots})
    runtime.give_way()
    members = np.fromiter(chain.from_iterable(map(snapshot.forest.members, roots)), np.int64)
    providers: dict[str, CurrentProvider] = {}
    for start in range(0, len(members), _AT_ONCE):
        runtime.give_way()
        for provider in _providers(snapshot, members[start : start + _AT_ONCE]):
            providers[provider.uuid] = provider
    return CurrentTrees(
        providers,
        {provider.name: uuid for uuid, provider in providers.items()},
        snapshot.class_names.by_name,
        snapshot.trait_names.by_name,
    )


def _providers(snapshot: Snapshot, slots: Slots) -> Iterable[CurrentProvider]:
    uuids = snapshot.identities.uuids
    parents = [None if parent == NO_SLOT else uuids[parent] for parent in snapshot.forest.parent.at(slots).tolist()]
    inventories, used = _amounts(snapshot, slots)
    return map(
        CurrentProvider,
        uuids.at(slots).tolist(),
        snapshot.identities.names.at(slots).tolist(),
        snapshot.generations.at(slots).tolist(),
        parents,
        uuids.at(snapshot.forest.root.at(slots)).tolist(),
        inventories,
        _sets(snapshot.trait_sets, slots, lambda slot: frozenset(row.name for row in snapshot.traits(slot))),
        _sets(snapshot.aggregate_sets, slots, lambda slot: frozenset(snapshot.aggregates(slot))),
        used,
    )


def _amounts(snapshot: Snapshot, slots: Slots) -> tuple[list[dict[str, Inventory]], list[dict[str, int]]]:
    """The inventories and the usages at each of *slots*, by the name of the class."""
    inventories: list[dict[str, Inventory]] = [{} for _ in slots]
    usages: list[dict[str, int]] = [{} for _ in slots]
    for class_id in snapshot.inventory.at(slots):
        columns = snapshot.inventory[class_id]
        kind = columns.kind.at(slots)
        having = np.flatnonzero(kind)
        name = snapshot.class_names.by_id[class_id].name
        inventory_of = {number: Inventory(*columns.kinds.values[number]) for number in np.unique(kind[having]).tolist()}
        amounts = columns.used(slots[having]).tolist()
        for place, number, used in zip(having.tolist(), kind[having].tolist(), amounts, strict=True):
            inventories[place][name] = inventory_of[number]
            if used:
                usages[place][name] = used
    return inventories, usages


def _sets(sets: Memberships, slots: Slots, members: Callable[[int], frozenset[str]]) -> list[frozenset[str]]:
    """The members at each of *slots*; equal sets are one object."""
    numbers = sets.set_of.at(slots).tolist()
    slot_of_set = dict(zip(numbers, slots.tolist(), strict=True))
    made = {number: members(slot) for number, slot in slot_of_set.items()}
    return [made[number] for number in numbers]


# Sums per resource class over provider trees, by vector operations on whole columns.
#
# Source: "GET /provider_trees", docs/stead-api.md.


_EXACT = 2**53
"""A float holds every integer up to this. Fast sums (`numpy.bincount`) use floats."""


@dataclass(frozen=True, slots=True)
class ClassTotals:
    """Sums of one resource class over those of some trees that have inventory of it.

    ``trees`` has their places among all these trees, ascending; the lists have a value for each of ``trees``.
    ``having`` counts the providers with inventory.
    """

    name: str
    trees: NDArray[np.int64]
    having: Sequence[int]
    total: Sequence[int]
    reserved: Sequence[int]
    capacity: Sequence[int]
    used: Sequence[int]

    def places(self, trees: Sequence[int]) -> list[int]:
        """The place of each of *trees* in the lists; -1 for one without inventory."""
        asked = np.asarray(trees, np.int64)
        places = self.trees.searchsorted(asked)
        own: list[int] = np.where(self.trees.take(places, mode="clip") == asked, places, -1).tolist()
        return own


def tree_totals(snapshot: Snapshot, roots: NDArray[np.int64]) -> list[ClassTotals]:
    """The sums over the trees of *roots*, in their order, for each class of which any of these trees has inventory."""
    tree_of_root = np.full(snapshot.size, -1, np.int64)
    tree_of_root[roots] = np.arange(len(roots))
    totals = []
    for class_id in snapshot.in_class_order(snapshot.inventory):
        runtime.give_way()
        columns = snapshot.inventory[class_id]
        slots = columns.slots
        tree = tree_of_root[snapshot.forest.root.at(slots)]
        matching = tree >= 0
        if matching.any():
            name = snapshot.class_names.by_id[class_id].name
            totals.append(_class_totals(name, columns, slots[matching], tree[matching], len(roots)))
    return totals


def site_totals(snapshot: Snapshot) -> list[ClassTotals]:
    """`tree_totals` of all trees."""
    return tree_totals(snapshot, np.flatnonzero(snapshot.roots))


def _class_totals(
    name: str, columns: InventoryColumns, slots: NDArray[np.int64], tree: NDArray[np.int64], number: int
) -> ClassTotals:
    if columns.is_rare:
        trees, place = np.unique(tree, return_inverse=True)
    else:  # faster for many: without sorting, but over all trees
        has = np.bincount(tree, minlength=number) > 0
        trees, place = np.flatnonzero(has), (np.cumsum(has) - 1)[tree]
    kinds, kind = np.unique(columns.kind.at(slots), return_inverse=True)
    inventories = [columns.kinds.values[number] for number in kinds.tolist()]

    def summed(values: list[int]) -> list[int]:
        """Sums of *values*, which has one per kind of inventory."""
        return _summed(np.array(values, _dtype(values, len(slots)))[kind], place, len(trees))

    used = columns.used(slots)
    largest = max(abs(int(used.min())), abs(int(used.max())))
    return ClassTotals(
        name,
        trees,
        np.bincount(place, minlength=len(trees)).tolist(),
        summed([inventory[0] for inventory in inventories]),
        summed([inventory[1] for inventory in inventories]),
        summed([columns.kinds.shown(number) for number in kinds.tolist()]),
        _summed(used.astype(_dtype([largest], len(slots))), place, len(trees)),
    )


def _dtype(values: Sequence[int], number: int) -> type[np.float64 | object]:
    """The type for exact sums of *number* values: floats if the largest possible sum fits, else Python integers."""
    return np.float64 if max(map(abs, values)) * number < _EXACT else object


def _summed(values: NDArray[np.float64] | NDArray[np.object_], tree: NDArray[np.int64], trees: int) -> list[int]:
    if values.dtype == np.float64:
        sums: list[int] = np.bincount(tree, weights=values, minlength=trees).astype(np.int64).tolist()
        return sums
    # `bincount` converts its weights to floats, so sums of Python integers are added one by one.
    exact = np.zeros(trees, object)
    np.add.at(exact, tree, values)
    return exact.tolist()
