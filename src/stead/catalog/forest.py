"""The forest: every provider's parent and root, and every tree's members in an order that makes "is below" simple."""

from __future__ import annotations

import itertools
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from stead.catalog.blocks import Blocks
from stead.catalog.directory import Directory
from stead.catalog.interned import Interned
from stead.domain.provider import Slot

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from stead.catalog.masks import Masks

NOBODY = -1
"""The parent of a root; the root of a slot that holds no provider."""


class Shape(NamedTuple):
    """How a tree is built: its providers by their positions in it, parents first, subtrees together.

    ``leave`` has for each position the first one after its subtree.
    """

    leave: tuple[int, ...]

    @property
    def size(self) -> int:
        """Number of providers."""
        return len(self.leave)

    def is_below(self, position: int, top: int) -> bool:
        """Whether *position* is *top* or in its subtree."""
        return top <= position < self.leave[top]


ALONE = Shape((1,))
"""A root without children."""


@dataclass(frozen=True, slots=True)
class Forest:
    """The trees that providers stand in; never changes.

    ``trees`` holds the members of every tree of more than one, by its root, in the order of their positions in it, and
    ``position`` each provider's own. ``shape`` is the number among ``shapes`` of the tree that a root has.
    """

    parent: Blocks[np.int32]
    root: Blocks[np.int32]
    position: Blocks[np.int32]
    shape: Blocks[np.int32]
    shapes: Interned[Shape]
    trees: Directory[int, tuple[Slot, ...]]

    @classmethod
    def empty(cls) -> Forest:
        """No slots at all."""
        nobody, zero = Blocks.none(np.int32, NOBODY), Blocks.none(np.int32, 0)
        return cls(nobody, nobody, zero, zero, Interned(ALONE), Directory())

    @property
    def size(self) -> int:
        """Number of slots, those that hold no provider included."""
        return self.root.size

    @property
    def has_nested(self) -> bool:
        """Whether any provider has a parent."""
        return len(self.trees) > 0

    def live(self, masks: Masks) -> NDArray[np.bool_]:
        """Which slots hold a provider; not to be written to."""
        return masks.get("live", (self.root,), lambda root: np.not_equal(root, NOBODY))

    def roots(self, masks: Masks) -> NDArray[np.bool_]:
        """Which slots are roots; not to be written to."""
        columns = (self.root, self.parent)
        return masks.get("roots", columns, lambda root, parent: (root != NOBODY) & (parent == NOBODY))

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
        return np.array([self.trees[root] for root in roots.tolist()], np.int64)

    def shape_of(self, root: int) -> Shape:
        """How the tree of a root is built."""
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
        """The same with other parents and roots at *slots* (ascending), NOBODY for none, for *size* slots.

        Every provider whose root changes must be named.
        """
        parent, root = self.parent.replaced(slots, parents, size), self.root.replaced(slots, roots, size)
        if parent is self.parent and root is self.root:
            return self
        members = self._regrouped(slots, roots)
        orders = {top: _preorder(top, some, parent) for top, some in members.items() if len(some) > 1}
        trees = {top: tuple(Slot(slot) for slot, _ in order) for top, order in orders.items()}
        shapes = self.shapes.numbers(Shape(tuple(leave for _, leave in order)) for order in orders.values())
        # Whoever is in no tree of more than one stands first in its own.
        alone = dict.fromkeys(itertools.chain(slots.tolist(), *members.values()), 0)
        position = alone | {slot: place for order in trees.values() for place, slot in enumerate(order)}
        shape = alone | dict(zip(orders, shapes, strict=True))
        return Forest(
            parent,
            root,
            _with(self.position, position, size),
            _with(self.shape, shape, size),
            self.shapes,
            self.trees.replaced((top for top in members if self.trees.get(top)), trees),
        )

    def _regrouped(self, slots: NDArray[np.int64], roots: NDArray[np.int32]) -> dict[int, set[int]]:
        """The members that trees have after the change, by root; trees of one provider before and after may lack."""
        known = slots[slots < self.size]
        before = dict(zip(known.tolist(), self.root.at(known).tolist(), strict=True))
        after = dict(zip(slots.tolist(), roots.tolist(), strict=True))
        affected = {
            root
            for slot, root in itertools.chain(before.items(), after.items())
            if root != NOBODY and (root != slot or self.trees.get(root))
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
    """The members of one tree, parents first, each with the first position after its subtree."""
    parent_of = {slot: parent[slot] for slot in members}
    children: dict[int, list[int]] = defaultdict(list)
    for slot in sorted(parent_of, reverse=True):
        children[parent_of[slot]].append(slot)
    order: list[int] = []
    ahead = [top]
    while ahead:
        slot = ahead.pop()
        order.append(slot)
        ahead += children[slot]
    weight = dict.fromkeys(order, 1)
    for slot in reversed(order[1:]):
        weight[parent_of[slot]] += weight[slot]
    return [(slot, number + weight[slot]) for number, slot in enumerate(order)]
