"""Match: for each choice that a group leaves open, which providers could be chosen. A handful of vector operations.

A suffixed group is one choice: one provider gives all of it. The unsuffixed group is a choice per resource class. Both
become pools, and from here on the only difference is that the traits of the unsuffixed group's choices count together.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from stead.candidates.resolve import NO_MEMBERS, NOWHERE
from stead.domain.request import UNSUFFIXED

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from stead.candidates.resolve import Members, ResolvedGroup
    from stead.catalog.columns import Shares
    from stead.catalog.snapshot import Snapshot

    Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Pool:
    """The providers among which one choice is made. Masks have shape ``(slots,)`` and are not to be written to.

    ``own`` may serve the tree they stand in. ``shared`` are the slots of sharing providers that may serve other trees,
    ascending. ``barred`` are anchors that may not be served at all. With ``shares``, several of ``own`` may give a part
    each, within the share each has in it; those of ``shared`` give all of it.
    """

    suffix: str
    amounts: Mapping[int, int]
    own: Mask
    shared: NDArray[np.int64]
    barred: Mask | None = None
    shares: Shares | None = None


@dataclass(frozen=True, slots=True)
class MatchedGroup:
    """A group with its pools. ``clauses`` are the required traits that its choices must meet together."""

    suffix: str
    pools: tuple[Pool, ...]
    clauses: tuple[tuple[int, ...], ...] = ()

    @property
    def is_hopeless(self) -> bool:
        """Whether some pool is empty."""
        return any(not (pool.own.any() or pool.shared.size) for pool in self.pools)


def match(snapshot: Snapshot, group: ResolvedGroup) -> MatchedGroup:
    """The pools of *group*."""
    return (_match_unsuffixed if group.suffix == UNSUFFIXED else _match_suffixed)(snapshot, group)


def eligible_anchors(snapshot: Snapshot, traits: Members, aggregates: Members = NO_MEMBERS) -> Mask:
    """Roots that meet the terms of ``root_required`` and ``root_member_of``; not to be written to."""
    kept = snapshot.roots
    if traits:
        kept = kept & snapshot.with_traits(traits.clauses, traits.forbidden)
    if aggregates:
        kept = kept & snapshot.in_aggregates(aggregates.clauses, aggregates.forbidden)
    return kept


def _match_suffixed(snapshot: Snapshot, group: ResolvedGroup) -> MatchedGroup:
    """One provider must have everything by itself; what its root has does not count."""
    kept = snapshot.live
    for class_id, amount in group.amounts.items():
        kept = kept & snapshot.serving(class_id, amount)
    if group.traits:
        kept = kept & snapshot.with_traits(group.traits.clauses, group.traits.forbidden)
    if group.aggregates:
        kept = kept & snapshot.in_aggregates(group.aggregates.clauses, group.aggregates.forbidden)
    if group.amounts or group.like_any_other:
        if group.tree is not None:
            kept = kept & (snapshot.forest.root.whole == group.tree)
    elif not (group.traits.clauses or group.aggregates.clauses):
        # Source: rules R1 and R2 for resourceless groups, docs/api.md: in_tree does not restrict them, and without a
        # positive term they match nothing.
        kept = np.zeros(snapshot.size, np.bool_)
    if group.top is not None:
        kept = kept & _subtree(snapshot, group.top)
    return MatchedGroup(group.suffix, (Pool(group.suffix, group.amounts, kept, _sharing(snapshot, kept)),))


def _match_unsuffixed(snapshot: Snapshot, group: ResolvedGroup) -> MatchedGroup:
    """Each class may come from another provider of the tree, whose aggregates span it if they are its root's."""
    own = shared = snapshot.live
    barred = None
    if group.traits.forbidden:
        own = shared = own & snapshot.with_traits((), group.traits.forbidden)
    if group.aggregates.clauses:
        member = snapshot.in_aggregates(group.aggregates.clauses, ())
        own, shared = own & (member | _of_roots(snapshot, member)), shared & member
    if group.aggregates.forbidden:
        barred = ~snapshot.in_aggregates((), group.aggregates.forbidden)
        own, shared = own & ~(barred | _of_roots(snapshot, barred)), shared & ~barred
    if group.tree is not None:
        own, shared = own & (snapshot.forest.root.whole == group.tree), np.zeros(snapshot.size, np.bool_)
    if group.top is not None:
        own, shared = own & _subtree(snapshot, group.top), np.zeros(snapshot.size, np.bool_)
    pools = []
    for class_id, amount in group.amounts.items():
        able = snapshot.serving(class_id, amount)
        sharing, shares, giving = _sharing(snapshot, shared & able), None, able
        if class_id in group.can_split:
            shares = snapshot.shares(class_id, amount)
            giving = shares.any
        pools.append(Pool(UNSUFFIXED, {class_id: amount}, own & giving, sharing, barred, shares))
    return MatchedGroup(UNSUFFIXED, tuple(pools), group.traits.clauses)


def _of_roots(snapshot: Snapshot, mask: Mask) -> Mask:
    """Which slots are in the tree of a root in *mask*; free slots may be."""
    return mask[snapshot.forest.root.whole] if snapshot.forest.has_nested else mask


def _subtree(snapshot: Snapshot, top: int) -> Mask:
    """The providers of one subtree."""
    mask = np.zeros(snapshot.size, np.bool_)
    if top != NOWHERE:
        mask[list(snapshot.forest.subtree(top))] = True
    return mask


def _sharing(snapshot: Snapshot, mask: Mask) -> NDArray[np.int64]:
    """The sharing providers in *mask*, ascending."""
    providers = snapshot.sharing.providers
    return providers[mask[providers]]
