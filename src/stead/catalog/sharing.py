"""Sharing providers, and the trees they serve: those with a provider in one of their aggregates.

The anchors of a sharing provider are its own root and the roots of all providers in one of its own aggregates.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from stead.domain.provider import Slot

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from stead.catalog.forest import Forest
    from stead.catalog.masks import Masks
    from stead.catalog.memberships import Memberships


class Sharing:
    """What follows from a forest with its traits and aggregates; immutable, computed on first use."""

    def __init__(
        self,
        forest: Forest,
        traits: Memberships,
        aggregates: Memberships,
        sharing_trait: int | None,
        masks: Masks,
    ) -> None:
        """Nothing is computed yet. *sharing_trait* is the id of the trait of sharing providers."""
        self._forest = forest
        self._traits = traits
        self._aggregates = aggregates
        self._sharing_trait = sharing_trait
        self._masks = masks
        self._anchors: dict[int, NDArray[np.int64]] = {}
        self._roots: dict[int, NDArray[np.int64]] = {}

    def still_holds(self, forest: Forest, traits: Memberships, aggregates: Memberships, trait: int | None) -> bool:
        """Whether it was computed from exactly these objects."""
        same = self._forest is forest and self._traits is traits and self._aggregates is aggregates
        return same and self._sharing_trait == trait

    @property
    def mask(self) -> NDArray[np.bool_]:
        """Mask of the slots with a sharing provider; read-only."""
        if self._sharing_trait is None:
            return np.zeros(self._forest.size, np.bool_)
        return self._traits.passing([(self._sharing_trait,)], (), self._masks)

    @cached_property
    def providers(self) -> NDArray[np.int64]:
        """Slots of all sharing providers, ascending."""
        return np.flatnonzero(self.mask)

    def anchors(self, slot: int) -> NDArray[np.int64]:
        """Roots of the trees that a sharing provider serves, ascending."""
        anchors = self._anchors.get(slot)
        if anchors is None:
            own = np.array([self._forest.root[slot]], np.int64)
            anchors = np.unique(np.concatenate([own, *map(self._roots_of, self._aggregates.of(slot))]))
            self._anchors[slot] = anchors
        return anchors

    def _roots_of(self, aggregate: int) -> NDArray[np.int64]:
        """Roots of all providers in an aggregate."""
        roots = self._roots.get(aggregate)
        if roots is None:
            members = np.flatnonzero(self._aggregates.passing([(aggregate,)], (), self._masks))
            roots = self._roots[aggregate] = np.unique(self._forest.root.at(members)).astype(np.int64)
        return roots

    def reaching(self, anchor: int) -> Sequence[Slot]:
        """Sharing providers of other trees that serve the tree of *anchor*, ascending."""
        return self.circles[int(self.circle[anchor])]

    @property
    def circle(self) -> NDArray[np.int32]:
        """By slot of a root, the number of the set in :attr:`circles` that serves its tree, shape ``(slots,)``."""
        return self._reach[0]

    @property
    def circles(self) -> Sequence[tuple[Slot, ...]]:
        """The distinct sets of sharing providers that serve a tree from outside, each ascending."""
        return self._reach[1]

    @cached_property
    def _reach(self) -> tuple[NDArray[np.int32], list[tuple[Slot, ...]]]:
        circle = np.zeros(self._forest.size, np.int32)
        circles: list[tuple[Slot, ...]] = [()]
        for slot in map(Slot, self.providers.tolist()):
            anchors = self.anchors(slot)
            others = anchors[anchors != self._forest.root[slot]]
            # Trees with the same set so far get the same new one, so equal sets have one number.
            before, place = np.unique(circle[others], return_inverse=True)
            circle[others] = len(circles) + place
            circles += [(*circles[number], slot) for number in before.tolist()]
        return circle, circles
