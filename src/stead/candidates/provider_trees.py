"""Provider trees: the trees that match a query, one page of them, and their providers down to a depth.

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

    Roots = NDArray[np.int64]
    """Slots of roots, ascending."""


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
        slices.give_way()
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
            slices.give_way()
        stop, shown = start + len(of_tree), levels.shown_of(root)
        by_level = sorted(zip(levels.of(root), names[start:stop], of_tree, strict=False))  # or the root only
        trees.append(ShownTree(root, [slot for _, _, slot in by_level[:shown]], len(levels.of(root))))
        start = stop
    return trees
