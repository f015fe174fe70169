"""Provider trees: which of them match a query, one page of them, and which of their providers are shown.

Source: "GET /provider_trees", docs/api.md.
"""

from __future__ import annotations

from heapq import nsmallest
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from stead.candidates.match import eligible_anchors
from stead.candidates.resolve import resolve_aggregates, resolve_classes, resolve_traits
from stead.process import slices

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from stead.catalog.forest import Forest, Shape
    from stead.catalog.snapshot import Snapshot
    from stead.domain.name_pattern import NamePattern
    from stead.domain.pages import Page
    from stead.domain.request import TreeQuery

    Mask = NDArray[np.bool_]


TREES_AT_ONCE = 256
"""Ordered together: that takes about a millisecond."""


class ShownTree(NamedTuple):
    """A tree in an answer: ``slots`` are the providers that are shown, ``size`` is the number of all of them."""

    root: int
    slots: Sequence[int]
    size: int


def matching_trees(snapshot: Snapshot, query: TreeQuery) -> NDArray[np.int64]:
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
    if query.in_tree is None:
        return np.flatnonzero(matching)
    slot = snapshot.find_referenced(query.in_tree)
    root = None if slot is None else snapshot.forest.root[slot]
    return np.array([root] if root is not None and matching[root] else [], np.int64)


def _matching_providers(snapshot: Snapshot, query: TreeQuery) -> NDArray[np.int64]:
    """Slots of the providers that pass all filters by themselves, ascending."""
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
    """Those of *slots* whose providers have a name that matches."""
    if pattern.is_exact:
        slot = snapshot.find_named(pattern.text)
        return slots[:0] if slot is None else slots[slots == slot]
    names: list[str] = snapshot.identities.names.at(slots).tolist()
    matching = np.fromiter(map(pattern.matches, names), np.bool_, len(names))
    return slots[matching]


def count_providers(snapshot: Snapshot, roots: NDArray[np.int64]) -> int:
    """The number of all providers of some trees."""
    numbers, trees = np.unique(snapshot.forest.shape.at(roots), return_counts=True)
    shapes = snapshot.forest.shapes.values
    return sum(shapes[number].size * count for number, count in zip(numbers.tolist(), trees.tolist(), strict=True))


def page_of(
    snapshot: Snapshot, roots: NDArray[np.int64], page: Page, depth: int | None, most: int
) -> tuple[list[ShownTree], bool]:
    """One page of the trees of *roots* in the order of their roots' uuids, and whether others follow.

    Args:
        depth: levels below the root that are shown; None shows all.
        most: the page ends before the tree with which it would show more providers; it has one tree at least.
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


class _Levels:
    """For each shape of a tree the level of every position, and the number of those that are shown."""

    def __init__(self, forest: Forest, depth: int | None) -> None:
        self._forest = forest
        self._depth = depth
        self._known: dict[int, tuple[list[int], int]] = {}

    def of(self, root: int) -> list[int]:
        """The levels of the members of a tree, in their order; the root's is 0."""
        return self._of_shape(root)[0]

    def shown_of(self, root: int) -> int:
        """The number of providers of a tree that are shown."""
        return self._of_shape(root)[1]

    def _of_shape(self, root: int) -> tuple[list[int], int]:
        number: int = self._forest.shape[root]
        known = self._known.get(number)
        if known is None:
            levels = _levels(self._forest.shapes.values[number])
            shown = len(levels) if self._depth is None else sum(level <= self._depth for level in levels)
            known = self._known[number] = levels, shown
        return known


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
    """Trees with their shown providers by level, then by name: an order that is the same in every process."""
    members = [snapshot.forest.members(root) if levels.shown_of(root) > 1 else (root,) for root in roots]
    slots = np.fromiter(chain.from_iterable(members), np.int64)
    names: list[str] = snapshot.identities.names.at(slots).tolist()
    trees, start = [], 0
    for number, (root, some) in enumerate(zip(roots, members, strict=True)):
        if not number % TREES_AT_ONCE:
            slices.give_way()
        stop, shown = start + len(some), levels.shown_of(root)
        by_level = sorted(zip(levels.of(root), names[start:stop], some, strict=False))  # of a root alone, the first
        trees.append(ShownTree(root, [slot for _, _, slot in by_level[:shown]], len(levels.of(root))))
        start = stop
    return trees
