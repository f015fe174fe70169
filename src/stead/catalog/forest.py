"""The forest: the parent and root of every provider, and the members of every tree in preorder.

In preorder a subtree is a range of positions, so "is below" is a comparison of two numbers.
"""

from __future__ import annotations

import itertools
from bisect import bisect_left
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from stead.catalog.blocks import Blocks, Directory, TreeIndex, ValueTable
from stead.domain.provider import Slot

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from stead.catalog.columns import Masks

NO_SLOT = -1
"""The parent of a root; the root of a slot that holds no provider."""


class Shape(NamedTuple):
    """The structure of a tree: its providers by position, parents before children, each subtree a range.

    ``leave`` has for each position the first position after its subtree.
    """

    leave: tuple[int, ...]

    @property
    def size(self) -> int:
        """Number of providers."""
        return len(self.leave)

    def is_below(self, position: int, top: int) -> bool:
        """Whether *position* is *top* or in its subtree."""
        return top <= position < self.leave[top]

    def among(self, positions: Sequence[int]) -> Shape:
        """The structure of some *positions* (ascending) alone: a subtree has those of its positions that are there."""
        return Shape(tuple(bisect_left(positions, self.leave[position]) for position in positions))


ALONE = Shape((1,))
"""A root without children."""


class Shapes(ValueTable[Shape]):
    """Shapes by number; number 0 is that of a provider alone."""

    def weight_of(self, value: Shape) -> int:
        # A tree that grows by one provider after the other leaves a shape behind at each step.
        return value.size


@dataclass(frozen=True, slots=True)
class Forest:
    """The trees of all providers; immutable.

    ``trees`` has the members of every tree with at least two providers, by root, in the order of their positions. Its
    index is ``indexed``. ``position`` has the position of each provider. ``shape`` has for each root the number of its
    tree's shape in ``shapes``.
    """

    parent: Blocks[np.int32]
    root: Blocks[np.int32]
    position: Blocks[np.int32]
    shape: Blocks[np.int32]
    shapes: Shapes
    indexed: TreeIndex
    trees: Directory[int, tuple[Slot, ...]]

    @classmethod
    def empty(cls) -> Forest:
        """No slots at all."""
        no_slot, zero = Blocks.none(np.int32, NO_SLOT), Blocks.none(np.int32, 0)
        nothing = TreeIndex.of({})
        return cls(no_slot, no_slot, zero, zero, Shapes(ALONE), nothing, Directory(nothing))

    @classmethod
    def of(cls, parents: NDArray[np.int32], roots: NDArray[np.int32]) -> Forest:
        """The forest of providers with these parents and roots, NO_SLOT for none.

        A provider with a root that is not at the top of its ancestors is no member of any tree.
        """
        empty, trees = cls.empty(), _Trees(parents, roots)
        leave = trees.in_order(trees.position + trees.weight).tobytes()
        width = trees.members.itemsize
        texts = [leave[start * width : end * width] for start, end in itertools.pairwise([0, *trees.ends.tolist()])]
        # A cloud has few shapes, so most trees have one that was converted before.
        numbers = {
            text: empty.shapes.numbers([Shape(tuple(np.frombuffer(text, np.int32).tolist()))])[0]
            for text in dict.fromkeys(texts)
        }
        shape = np.zeros(len(roots), np.int32)
        shape[trees.tops] = [numbers[text] for text in texts]
        index = TreeIndex(trees.tops, trees.ends, trees.members)
        return cls(
            empty.parent.holding(parents),
            empty.root.holding(roots),
            empty.position.holding(trees.position),
            empty.shape.holding(shape),
            empty.shapes,
            index,
            Directory(index),
        )

    @property
    def size(self) -> int:
        """Number of slots, those that hold no provider included."""
        return self.root.size

    @property
    def has_nested(self) -> bool:
        """Whether any provider has a parent."""
        return len(self.trees) > 0

    def live(self, masks: Masks) -> NDArray[np.bool_]:
        """Mask of the slots with a provider; read-only."""
        return masks.get("live", (self.root,), lambda root: np.not_equal(root, NO_SLOT))

    def roots(self, masks: Masks) -> NDArray[np.bool_]:
        """Mask of the slots with a root; read-only."""
        columns = (self.root, self.parent)
        return masks.get("roots", columns, lambda root, parent: (root != NO_SLOT) & (parent == NO_SLOT))

    def members(self, root: int) -> Sequence[Slot]:
        """The providers of one tree, parents first."""
        return self.trees.get(root) or (Slot(root),)

    def subtree(self, top: int) -> Sequence[Slot]:
        """*top* and all providers below it, parents first."""
        root, position = self.root[top], self.position[top]
        return self.members(root)[position : self.shape_of(root).leave[position]]

    def members_of(self, roots: NDArray[np.int64], shape: Shape) -> NDArray[np.int64]:
        """The members of trees of one shape, shape ``(roots, size)``."""
        if shape == ALONE:
            return roots[:, None]
        if self.trees.is_index:
            return self.indexed.matrix(roots, shape.size)
        is_changed = np.fromiter(map(self.trees.has_changed, roots.tolist()), np.bool_, len(roots))
        members = np.empty((len(roots), shape.size), np.int64)
        members[~is_changed] = self.indexed.matrix(roots[~is_changed], shape.size)
        changed = [self.members(root) for root in roots[is_changed].tolist()]
        members[is_changed] = np.array(changed, np.int64).reshape(-1, shape.size)
        return members

    def shape_of(self, root: int) -> Shape:
        """The shape of the tree of a root."""
        number: int = self.shape[root]
        return self.shapes.values[number]

    def is_below(self, slot: int, top: int) -> bool:
        """Whether *slot* is *top* or in its subtree."""
        root = self.root[slot]
        if root != self.root[top]:
            return False
        return self.shape_of(root).is_below(self.position[slot], self.position[top])

    def replanted(
        self, slots: NDArray[np.int64], parents: NDArray[np.int32], roots: NDArray[np.int32], size: int
    ) -> Forest:
        """A forest with other parents and roots at *slots* (ascending), NO_SLOT for none, for *size* slots.

        *slots* must include every provider whose root changes.
        """
        parent, root = self.parent.replaced(slots, parents, size), self.root.replaced(slots, roots, size)
        # The same object, so that sharing and service states, which follow from it, still hold.
        if parent is self.parent and root is self.root:
            return self
        members = self._regrouped(slots, roots)
        orders = {top: _preorder(top, slots_of, parent) for top, slots_of in members.items() if len(slots_of) > 1}
        trees = {top: tuple(Slot(slot) for slot, _ in order) for top, order in orders.items()}
        numbers = self.shapes.numbers(Shape(tuple(leave for _, leave in order)) for order in orders.values())
        # Providers that are alone in their tree have position 0 and shape 0.
        alone = dict.fromkeys(itertools.chain(slots.tolist(), *members.values()), 0)
        position = alone | {slot: place for order in trees.values() for place, slot in enumerate(order)}
        shape = alone | dict(zip(orders, numbers, strict=True))
        shapes, shape_of = self.shapes.compacted(_with(self.shape, shape, size))
        return Forest(
            parent,
            root,
            _with(self.position, position, size),
            shape_of,
            shapes,
            self.indexed,
            self.trees.replaced((top for top in members if self.trees.get(top)), trees),
        )

    def _regrouped(self, slots: NDArray[np.int64], roots: NDArray[np.int32]) -> dict[int, set[int]]:
        """The members of the changed trees, by root; trees of one provider before and after may be missing."""
        existing = slots[slots < self.size]
        before = dict(zip(existing.tolist(), self.root.at(existing).tolist(), strict=True))
        after = dict(zip(slots.tolist(), roots.tolist(), strict=True))
        affected = {
            root
            for slot, root in itertools.chain(before.items(), after.items())
            if root != NO_SLOT and (root != slot or self.trees.get(root))
        }
        members: dict[int, set[int]] = {
            top: {slot for slot in self.members(top) if slot not in after} for top in affected
        }
        for slot, top in after.items():
            if top in affected:
                members[top].add(slot)
        return members


def _with(column: Blocks[np.int32], values: Mapping[int, int], size: int) -> Blocks[np.int32]:
    slots = np.array(sorted(values), np.int64)
    return column.replaced(slots, [values[slot] for slot in slots.tolist()], size)


def _preorder(top: int, members: Iterable[int], parent: Blocks[np.int32]) -> list[tuple[int, int]]:
    """The members of one tree in preorder, each with the first position after its subtree."""
    parent_of = {slot: parent[slot] for slot in members}
    children: dict[int, list[int]] = defaultdict(list)
    # In reverse, since the stack below takes the last child first. Without the top, which wrong data may place below.
    for slot in sorted(parent_of.keys() - {top}, reverse=True):
        children[parent_of[slot]].append(slot)
    order: list[int] = []
    ahead = [top]
    while ahead:
        slot = ahead.pop()
        order.append(slot)
        ahead += children[slot]
    weight = dict.fromkeys(order, 1)
    # From the end, since the weight of a provider is known after those of all its descendants.
    for slot in reversed(order[1:]):
        weight[parent_of[slot]] += weight[slot]
    return [(slot, number + weight[slot]) for number, slot in enumerate(order)]


class _Trees:
    """The trees of several providers in a whole forest, level by level, as `_preorder` orders each.

    ``tops`` are their roots, ascending; ``members`` has the providers of one tree after the other, and ``ends`` their
    ends there. ``position`` and ``weight`` are by slot.
    """

    def __init__(self, parents: NDArray[np.int32], roots: NDArray[np.int32]) -> None:
        below = np.flatnonzero((roots != NO_SLOT) & (roots != np.arange(len(roots))))
        self.tops = np.unique(roots[below])
        self._tree = roots.copy()
        self._tree[self.tops] = self.tops
        self._levels = self._by_level(below[self._tree[below] != below], parents)
        self.weight = np.ones(len(roots), np.int32)
        # From the lowest level, since the weight of a provider is known after those of its children.
        for level in reversed(self._levels[1:]):
            np.add.at(self.weight, parents[level], self.weight[level])
        self.position = np.zeros(len(roots), np.int32)
        for level in self._levels[1:]:
            siblings = level[np.argsort(parents[level], kind="stable")]
            above, weight = parents[siblings], self.weight[siblings]
            before = np.cumsum(weight, dtype=np.int32) - weight
            self.position[siblings] = self.position[above] + 1 + before - before[np.searchsorted(above, above)]
        self.ends = np.cumsum(self.weight[self.tops], dtype=np.int32)
        self.members = self.in_order(np.arange(len(roots), dtype=np.int32))

    def _by_level(self, below: NDArray[np.int64], parents: NDArray[np.int32]) -> list[NDArray[np.int64]]:
        levels = [self.tops.astype(np.int64)]
        is_placed = np.zeros(len(parents), np.bool_)
        while len(levels[-1]):
            is_placed[levels[-1]] = True
            above = parents[below]
            reached = (above != NO_SLOT) & is_placed[above] & (self._tree[above] == self._tree[below])
            levels.append(below[reached])
            below = below[~reached]
        return levels

    def in_order(self, values: NDArray[np.int32]) -> NDArray[np.int32]:
        """The values of all members, which are by slot, in the order of ``members``."""
        slots = np.concatenate(self._levels)
        ordered = np.empty(len(slots), np.int32)
        starts = self.ends - self.weight[self.tops]
        ordered[starts[np.searchsorted(self.tops, self._tree[slots])] + self.position[slots]] = values[slots]
        return ordered
