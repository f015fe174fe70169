"""The forest: every provider's parent and root, and intervals that make "is below" two comparisons."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from stead.catalog.arrays import places, with_values
from stead.domain.provider import Slot

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

NOBODY = -1
"""The parent of a root; the root of a slot that holds no provider."""


@dataclass(frozen=True, slots=True)
class Forest:
    """The trees that providers stand in; never changes. Arrays have shape ``(slots,)``.

    Within one tree, ``enter`` numbers the providers parents first, and ``leave`` is the first number after a
    provider's subtree. ``trees`` holds the members of every tree of more than one, in that order, by its root.
    """

    parent: NDArray[np.int64]
    root: NDArray[np.int64]
    enter: NDArray[np.int32]
    leave: NDArray[np.int32]
    trees: Mapping[int, tuple[Slot, ...]]

    @classmethod
    def empty(cls) -> Forest:
        """No slots at all."""
        return cls(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.int32), np.empty(0, np.int32), {})

    @property
    def size(self) -> int:
        """Number of slots, those that hold no provider included."""
        return len(self.root)

    @property
    def has_nested(self) -> bool:
        """Whether any provider has a parent."""
        return bool(self.trees)

    def roots(self) -> NDArray[np.bool_]:
        """Which slots are roots."""
        return np.equal(self.root, np.arange(self.size))

    def members(self, root: int) -> Sequence[Slot]:
        """The providers of one tree, parents first."""
        return self.trees.get(root) or (Slot(root),)

    def is_below(self, slot: int, top: int) -> bool:
        """Whether *slot* is *top* or in its subtree."""
        return bool(self.root[slot] == self.root[top] and self.enter[top] <= self.enter[slot] < self.leave[top])

    def replanted(self, parents: Mapping[int, int], roots: Mapping[int, int], size: int) -> Forest:
        """The same with other parents and roots (by slot, NOBODY for none), for *size* slots.

        Every provider whose root changes must be named.
        """
        slots = places(list(roots))
        parent = with_values(self.parent, slots, [parents[slot] for slot in roots], size=size, fill=NOBODY)
        root = with_values(self.root, slots, list(roots.values()), size=size, fill=NOBODY)
        if parent is self.parent and root is self.root:
            return self
        old_roots = {int(self.root[slot]) for slot in roots if slot < self.size}
        affected = (old_roots | set(roots.values())) - {NOBODY}
        members: dict[int, set[int]] = defaultdict(set)
        for slot in {*roots, *(slot for top in affected for slot in self._old_members(top))}:
            if root[slot] != NOBODY:
                members[int(root[slot])].add(slot)
        return self._renumbered(parent, root, affected, members)

    def _old_members(self, root: int) -> Iterable[int]:
        return self.members(root) if root < self.size and self.root[root] == root else ()

    def _renumbered(
        self,
        parent: NDArray[np.int64],
        root: NDArray[np.int64],
        affected: set[int],
        members: Mapping[int, set[int]],
    ) -> Forest:
        size = len(root)
        enter, leave = np.zeros(size, np.int32), np.ones(size, np.int32)
        enter[: self.size], leave[: self.size] = self.enter, self.leave
        alone = places([slot for some in members.values() for slot in some])
        enter[alone], leave[alone] = 0, 1
        nested = {top: _preorder(top, some, parent) for top, some in members.items() if len(some) > 1}
        for order in nested.values():
            for number, (slot, after) in enumerate(order):
                enter[slot], leave[slot] = number, after
        if not nested and affected.isdisjoint(self.trees):
            return Forest(parent, root, enter, leave, self.trees)
        kept = {top: order for top, order in self.trees.items() if top not in affected}
        new = {top: tuple(Slot(slot) for slot, _ in order) for top, order in nested.items()}
        return Forest(parent, root, enter, leave, {**kept, **new})


def _preorder(top: int, members: Iterable[int], parent: NDArray[np.int64]) -> list[tuple[int, int]]:
    """The members of one tree, parents first, each with the first number after its subtree."""
    children: dict[int, list[int]] = defaultdict(list)
    for slot in sorted(members, reverse=True):
        children[int(parent[slot])].append(slot)
    order: list[int] = []
    ahead = [top]
    while ahead:
        slot = ahead.pop()
        order.append(slot)
        ahead += children[slot]
    weight = dict.fromkeys(order, 1)
    for slot in reversed(order[1:]):
        weight[int(parent[slot])] += weight[slot]
    return [(slot, number + weight[slot]) for number, slot in enumerate(order)]
