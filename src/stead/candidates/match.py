"""Match: the providers that can serve each open choice of a group, by a few vector operations.

A suffixed group is one choice: one provider gives all of it. The unsuffixed group is one choice per resource class. A
choice becomes a pool. From here on, the two differ only in the required traits: all choices of the unsuffixed group
meet them together.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
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
    """The providers among which one choice is made. Masks have the shape ``(slots,)`` and are read-only.

    Providers in ``own`` may serve their own tree. ``shared`` has the slots of sharing providers that may serve other
    trees, ascending. Anchors in ``barred`` must not be served. With ``shares``, several providers of ``own`` may give a
    part each; providers of ``shared`` can only give the whole amount.
    """

    suffix: str
    amounts: Mapping[int, int]
    own: Mask
    shared: NDArray[np.int64]
    barred: Mask | None = None
    shares: Shares | None = None


@dataclass(frozen=True, slots=True)
class MatchedGroup:
    """A group with its pools. ``clauses`` are the required traits that all its choices meet together."""

    suffix: str
    pools: tuple[Pool, ...]
    clauses: tuple[tuple[int, ...], ...] = ()

    @property
    def is_hopeless(self) -> bool:
        """Whether some pool has no provider."""
        return any(not (pool.own.any() or pool.shared.size) for pool in self.pools)


def match(snapshot: Snapshot, group: ResolvedGroup) -> MatchedGroup:
    """The pools of *group*."""
    return (_match_unsuffixed if group.suffix == UNSUFFIXED else _match_suffixed)(snapshot, group)


def eligible_anchors(snapshot: Snapshot, traits: Members, aggregates: Members = NO_MEMBERS) -> Mask:
    """Mask of the roots that meet ``root_required`` and ``root_member_of``; read-only."""
    matching = snapshot.roots
    if traits:
        matching = matching & snapshot.with_traits(traits.clauses, traits.forbidden)
    if aggregates:
        matching = matching & snapshot.in_aggregates(aggregates.clauses, aggregates.forbidden)
    return matching


def _match_suffixed(snapshot: Snapshot, group: ResolvedGroup) -> MatchedGroup:
    """One provider must meet all terms itself; the traits and aggregates of its root do not count."""
    matching = snapshot.enabled
    for class_id, amount in group.amounts.items():
        matching = matching & snapshot.serving(class_id, amount)
    if group.traits:
        matching = matching & snapshot.with_traits(group.traits.clauses, group.traits.forbidden)
    if group.aggregates:
        matching = matching & snapshot.in_aggregates(group.aggregates.clauses, group.aggregates.forbidden)
    if group.amounts or group.like_any_other:
        if group.tree is not None:
            matching = matching & (snapshot.forest.root.whole == group.tree)
    elif not (group.traits.clauses or group.aggregates.clauses):
        # Source: rules R1 and R2 for resourceless groups, docs/api.md: in_tree does not restrict them, and without a
        # positive term they match nothing.
        matching = np.zeros(snapshot.size, np.bool_)
    if group.top is not None:
        matching = matching & _subtree(snapshot, group.top)
    return MatchedGroup(group.suffix, (Pool(group.suffix, group.amounts, matching, _sharing(snapshot, matching)),))


def _match_unsuffixed(snapshot: Snapshot, group: ResolvedGroup) -> MatchedGroup:
    """Each class may come from another provider of the tree. Aggregates of the root apply to the whole tree."""
    own, shared, barred = _admitted(snapshot, group)
    pools = []
    for class_id, amount in group.amounts.items():
        able = snapshot.serving(class_id, amount)
        # Sharing providers always give the whole amount, even if it may be split among the tree's own providers.
        sharing, shares, giving = shared[able[shared]], None, able
        if class_id in group.can_split:
            shares = snapshot.shares(class_id, amount)
            giving = shares.any
        pools.append(Pool(UNSUFFIXED, {class_id: amount}, own & giving, sharing, barred, shares))
    return MatchedGroup(UNSUFFIXED, tuple(pools), group.traits.clauses)


def admitted(snapshot: Snapshot, group: ResolvedGroup) -> Mask:
    """Mask of the providers that meet all terms of *group*, whatever they have free."""
    if group.suffix == UNSUFFIXED:
        own, shared, _ = _admitted(snapshot, group)
        mask = own.copy()
        mask[shared] = True
        return mask
    return match(snapshot, replace(group, amounts={}, like_any_other=True)).pools[0].own


def _admitted(snapshot: Snapshot, group: ResolvedGroup) -> tuple[Mask, NDArray[np.int64], Mask | None]:
    """The providers that an unsuffixed group may use for their own tree, and for other trees; the barred anchors.

    Those for other trees are slots, as in `Pool`.
    """
    own = snapshot.enabled
    barred = None
    if group.traits.forbidden:
        own = own & snapshot.with_traits((), group.traits.forbidden)
    # With `in_tree`, the anchor is the root of that tree, and sharing providers serve no other one.
    shared = _sharing(snapshot, own) if group.tree is None and group.top is None else np.empty(0, np.int64)
    if group.aggregates.clauses:
        member = snapshot.in_aggregates(group.aggregates.clauses, ())
        own, shared = own & _with_trees(snapshot, member), shared[member[shared]]
    if group.aggregates.forbidden:
        barred = ~snapshot.in_aggregates((), group.aggregates.forbidden)
        own, shared = own & ~_with_trees(snapshot, barred), shared[~barred[shared]]
    if group.tree is not None:
        own = own & (snapshot.forest.root.whole == group.tree)
    if group.top is not None:
        own = own & _subtree(snapshot, group.top)
    return own, shared, barred


def _with_trees(snapshot: Snapshot, mask: Mask) -> Mask:
    """*mask*, and all slots in trees whose root is in *mask*; values of free slots are arbitrary."""
    # Without nested providers, every provider is its own root, so the mask itself is the result.
    return mask | mask[snapshot.forest.root.whole] if snapshot.forest.has_nested else mask


def _subtree(snapshot: Snapshot, top: int) -> Mask:
    """Mask of the providers of one subtree."""
    mask = np.zeros(snapshot.size, np.bool_)
    if top != NOWHERE:
        mask[list(snapshot.forest.subtree(top))] = True
    return mask


def _sharing(snapshot: Snapshot, mask: Mask) -> NDArray[np.int64]:
    """Slots of the sharing providers in *mask*, ascending."""
    providers = snapshot.sharing.providers
    return providers[mask[providers]]
