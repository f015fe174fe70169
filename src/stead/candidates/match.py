"""Match: for each choice that a group leaves open, which providers could be chosen. A handful of vector operations.

A suffixed group is one choice: one provider gives all of it. The unsuffixed group is a choice per resource class. Both
become pools, and from here on the only difference is that the traits of the unsuffixed group's choices count together.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from stead.domain.inventory import MAX_INT
from stead.domain.request import UNSUFFIXED

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from stead.candidates.resolve import Members, ResolvedGroup
    from stead.catalog.snapshot import Snapshot

    Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Pool:
    """The providers among which one choice is made. Masks have shape ``(slots,)``.

    ``own`` may serve the tree they stand in; ``shared`` are sharing providers that may serve other trees;
    ``barred`` are anchors that may not be served at all.
    """

    suffix: str
    amounts: Mapping[int, int]
    own: Mask
    shared: Mask
    barred: Mask | None = None


@dataclass(frozen=True, slots=True)
class MatchedGroup:
    """A group with its pools. ``clauses`` are the required traits that its choices must meet together."""

    suffix: str
    pools: tuple[Pool, ...]
    clauses: tuple[tuple[int, ...], ...] = ()

    @property
    def is_hopeless(self) -> bool:
        """Whether some pool is empty."""
        return any(not (pool.own.any() or pool.shared.any()) for pool in self.pools)


def match(snapshot: Snapshot, group: ResolvedGroup) -> MatchedGroup:
    """The pools of *group*."""
    return (_match_unsuffixed if group.suffix == UNSUFFIXED else _match_suffixed)(snapshot, group)


def eligible_anchors(snapshot: Snapshot, traits: Members) -> Mask:
    """Roots that meet the terms of ``root_required``."""
    roots = snapshot.forest.roots()
    return roots & snapshot.trait_sets.passing(traits.clauses, traits.forbidden) if traits else roots


def _match_suffixed(snapshot: Snapshot, group: ResolvedGroup) -> MatchedGroup:
    """One provider must have everything by itself; what its root has does not count."""
    kept = snapshot.live()
    for class_id, amount in group.amounts.items():
        kept &= serving(snapshot, class_id, amount)
    if group.traits:
        kept &= snapshot.trait_sets.passing(group.traits.clauses, group.traits.forbidden)
    if group.aggregates:
        kept &= snapshot.aggregate_sets.passing(group.aggregates.clauses, group.aggregates.forbidden)
    if group.amounts:
        if group.tree is not None:
            kept &= snapshot.forest.root == group.tree
    elif not (group.traits.clauses or group.aggregates.clauses):
        # Source: rules R1 and R2 for resourceless groups, docs/api.md: in_tree does not restrict them, and without a
        # positive term they match nothing.
        kept[:] = False
    return MatchedGroup(group.suffix, (Pool(group.suffix, group.amounts, kept, kept & _sharing(snapshot)),))


def _match_unsuffixed(snapshot: Snapshot, group: ResolvedGroup) -> MatchedGroup:
    """Each class may come from another provider of the tree, whose aggregates span it if they are its root's."""
    root = np.where(snapshot.live(), snapshot.forest.root, 0)
    allowed = snapshot.live() & snapshot.trait_sets.passing((), group.traits.forbidden)
    member = snapshot.aggregate_sets.passing(group.aggregates.clauses, ())
    barred = ~snapshot.aggregate_sets.passing((), group.aggregates.forbidden)
    own = allowed & (member | member[root]) & ~(barred | barred[root])
    shared = allowed & member & ~barred & _sharing(snapshot)
    if group.tree is not None:
        own &= snapshot.forest.root == group.tree
        shared[:] = False
    pools = []
    for class_id, amount in group.amounts.items():
        able = serving(snapshot, class_id, amount)
        pools.append(Pool(UNSUFFIXED, {class_id: amount}, own & able, shared & able, barred))
    return MatchedGroup(UNSUFFIXED, tuple(pools), group.traits.clauses)


def serving(snapshot: Snapshot, class_id: int, amount: int) -> Mask:
    """Which providers can serve *amount* of a class by themselves."""
    mask = np.zeros(snapshot.forest.size, np.bool_)
    columns = snapshot.inventory.get(class_id)
    if columns is not None and amount <= MAX_INT:
        mask[columns.serving(amount)] = True
    return mask


def _sharing(snapshot: Snapshot) -> Mask:
    mask = np.zeros(snapshot.forest.size, np.bool_)
    mask[snapshot.sharing.providers] = True
    return mask
