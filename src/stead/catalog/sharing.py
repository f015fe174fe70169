"""Who shares with whom: sharing providers serve every tree with which they have an aggregate in common.

The anchors of a sharing provider are its own root and the roots of all providers in one of its own aggregates.
"""

from __future__ import annotations

from collections import defaultdict
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from stead.domain.provider import Slot

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stead.catalog.forest import Forest
    from stead.catalog.memberships import Memberships


class Sharing:
    """What follows from one forest with its traits and aggregates; never changes, and is worked out when asked for."""

    def __init__(self, forest: Forest, traits: Memberships, aggregates: Memberships, sharing_trait: int | None) -> None:
        """Nothing is computed yet. *sharing_trait* is the id of the trait that makes a provider share."""
        self._forest = forest
        self._traits = traits
        self._aggregates = aggregates
        self._sharing_trait = sharing_trait
        self._roots: dict[int, NDArray[np.int64]] = {}

    def still_holds(self, forest: Forest, traits: Memberships, aggregates: Memberships, trait: int | None) -> bool:
        """Whether it was made of the very same parts."""
        mine = (self._forest, self._traits, self._aggregates)
        same = all(old is new for old, new in zip(mine, (forest, traits, aggregates), strict=True))
        return same and self._sharing_trait == trait

    @cached_property
    def providers(self) -> NDArray[np.int64]:
        """All sharing providers, ascending."""
        if self._sharing_trait is None:
            return np.empty(0, np.int64)
        return np.flatnonzero(self._traits.passing([(self._sharing_trait,)], ()))

    @cached_property
    def by_aggregate(self) -> dict[int, list[Slot]]:
        """Sharing providers by each of their aggregates."""
        found: dict[int, list[Slot]] = defaultdict(list)
        for slot in self.providers:
            for aggregate in self._aggregates.of(slot):
                found[aggregate].append(Slot(int(slot)))
        return dict(found)

    def anchors(self, slot: Slot) -> NDArray[np.int64]:
        """Roots of the trees that a sharing provider serves."""
        own = np.array([self._forest.root[slot]], np.int64)
        return np.unique(np.concatenate([own, *map(self._roots_of, self._aggregates.of(slot))]))

    def _roots_of(self, aggregate: int) -> NDArray[np.int64]:
        """Roots of all providers in an aggregate."""
        roots = self._roots.get(aggregate)
        if roots is None:
            members = self._aggregates.passing([(aggregate,)], ())
            roots = self._roots[aggregate] = np.unique(self._forest.root[members])
        return roots

    def reaching(self, anchor: int) -> list[Slot]:
        """Sharing providers of other trees that serve the tree of *anchor*, ascending."""
        if not self.by_aggregate:
            return []
        aggregates = {some for slot in self._forest.members(anchor) for some in self._aggregates.of(slot)}
        found = {slot for some in aggregates for slot in self.by_aggregate.get(some, ())}
        return sorted(slot for slot in found if self._forest.root[slot] != anchor)
