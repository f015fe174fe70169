"""Match: resolves the names of a request, and finds the providers that can serve each open choice of a group.

A suffixed group is one choice: one provider gives all of it. The unsuffixed group is one choice per resource class. A
choice becomes a pool. From here on, the two differ only in the required traits: all choices of the unsuffixed group
meet them together.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from stead.domain.errors import UnknownResourceClass, UnknownTraits
from stead.domain.request import UNSUFFIXED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from numpy.typing import NDArray

    from stead.catalog.columns import Shares
    from stead.catalog.snapshot import Snapshot
    from stead.domain.changes import NameRow
    from stead.domain.request import RequestGroup, Terms

    Mask = NDArray[np.bool_]


# Resolve: converts names to ids of this snapshot. An unknown name is an error, or makes the answer empty.
#
# The order of the checks is part of the contract: the first unknown name, or the first condition that no provider can
# meet, decides the answer. Source: "Checks against the database", docs/api.md.


@dataclass(frozen=True, slots=True)
class Members:
    """Terms in ids: a provider needs at least one member of every clause, and must have no forbidden one."""

    clauses: tuple[tuple[int, ...], ...] = ()
    forbidden: tuple[int, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.clauses or self.forbidden)


NO_MEMBERS = Members()

NOWHERE = -2
"""Stands for the slot of a provider that does not exist. It equals no slot, and not the root of a free slot."""


@dataclass(frozen=True, slots=True)
class ResolvedGroup:
    """A request group in ids.

    ``tree`` is the root of the only tree that may serve it, ``top`` the top of the only subtree; None for any.
    ``can_split`` has ids of classes.
    """

    suffix: str
    amounts: Mapping[int, int]
    traits: Members
    aggregates: Members
    tree: int | None
    top: int | None = None
    can_split: frozenset[int] = frozenset()
    like_any_other: bool = False


def resolve(snapshot: Snapshot, group: RequestGroup) -> ResolvedGroup | None:
    """The group in ids of *snapshot*; None if its names already exclude every provider.

    Raises:
        UnknownResourceClass, UnknownTraits
    """
    amounts = resolve_classes(snapshot, group.resources)
    aggregates = resolve_aggregates(snapshot, group.aggregates)
    # Before the traits are resolved: if no provider is in the aggregates, unknown traits are no error.
    if not meetable(snapshot, aggregates):
        return None
    traits = resolve_traits(snapshot, group.traits)
    tree = None
    if group.in_tree is not None:
        named = snapshot.find_referenced(group.in_tree)
        if named is None:
            return None
        tree = int(snapshot.forest.root[named])
    top = None
    if group.in_subtree is not None:
        top = snapshot.find_referenced(group.in_subtree)
        if top is None:
            return None
    can_split = frozenset(resolve_classes(snapshot, dict.fromkeys(group.can_split, 0)))
    return ResolvedGroup(group.suffix, amounts, traits, aggregates, tree, top, can_split, group.like_any_other)


def in_ids(snapshot: Snapshot, group: RequestGroup) -> ResolvedGroup:
    """The group in ids of *snapshot*, without errors: no provider has what does not exist."""
    classes = snapshot.class_names.by_name
    tree, top = _place(snapshot, group.in_tree), _place(snapshot, group.in_subtree)
    return ResolvedGroup(
        group.suffix,
        {_class_id(classes, name, place): amount for place, (name, amount) in enumerate(group.resources.items())},
        known_traits(snapshot, group.traits),
        resolve_aggregates(snapshot, group.aggregates),
        tree if tree is None or tree == NOWHERE else int(snapshot.forest.root[tree]),
        top,
        frozenset(classes[name].id for name in group.can_split if name in classes),
        group.like_any_other,
    )


def _class_id(classes: Mapping[str, NameRow], name: str, place: int) -> int:
    """The id of a class; for an unknown class an id that no class has, a different one in each place."""
    # Amounts are by id, so two unknown classes with the same id would become one.
    return classes[name].id if name in classes else NOWHERE - place


def _place(snapshot: Snapshot, reference: str | None) -> int | None:
    if reference is None:
        return None
    slot = snapshot.find_referenced(reference)
    return NOWHERE if slot is None else slot


def known_traits(snapshot: Snapshot, terms: Terms) -> Members:
    """Trait terms in ids, without errors: no provider has an unknown trait."""
    rows = snapshot.trait_names.by_name
    clauses = tuple(tuple(rows[name].id for name in clause if name in rows) for clause in terms.clauses)
    return Members(clauses, tuple(rows[name].id for name in terms.forbidden if name in rows))


def resolve_classes(snapshot: Snapshot, resources: Mapping[str, int]) -> dict[int, int]:
    """Amounts by class id.

    Raises:
        UnknownResourceClass: with the first name that does not exist.
    """
    rows = snapshot.class_names.by_name
    for name in resources:
        if name not in rows:
            raise UnknownResourceClass(name)
    return {rows[name].id: amount for name, amount in resources.items()}


def resolve_traits(snapshot: Snapshot, terms: Terms) -> Members:
    """Trait terms in ids.

    Raises:
        UnknownTraits: with the required traits that do not exist, or else with the forbidden ones.
    """
    if not terms:
        return NO_MEMBERS
    clauses = resolve_required(snapshot, terms)
    return Members(clauses, resolve_forbidden(snapshot, terms))


def resolve_required(snapshot: Snapshot, terms: Terms) -> tuple[tuple[int, ...], ...]:
    """The clauses of trait terms in ids.

    Raises:
        UnknownTraits: with all names that do not exist.
    """
    _require_traits(snapshot, {name for clause in terms.clauses for name in clause})
    rows = snapshot.trait_names.by_name
    return tuple([tuple([rows[name].id for name in clause]) for clause in terms.clauses])


def resolve_forbidden(snapshot: Snapshot, terms: Terms) -> tuple[int, ...]:
    """The forbidden traits in ids.

    Raises:
        UnknownTraits: with all names that do not exist.
    """
    _require_traits(snapshot, terms.forbidden)
    rows = snapshot.trait_names.by_name
    return tuple([rows[name].id for name in sorted(terms.forbidden)])


def _require_traits(snapshot: Snapshot, names: Iterable[str]) -> None:
    rows = snapshot.trait_names.by_name
    unknown = [name for name in names if name not in rows]
    if unknown:
        raise UnknownTraits(sorted(unknown))


def resolve_aggregates(snapshot: Snapshot, terms: Terms) -> Members:
    """Aggregate terms in ids. An unknown aggregate has no members, so it meets no clause and excludes no provider."""
    if not terms:
        return NO_MEMBERS
    ids = snapshot.aggregate_ids
    clauses = tuple([tuple([ids[uuid] for uuid in clause if uuid in ids]) for clause in terms.clauses])
    return Members(clauses, tuple([ids[uuid] for uuid in terms.forbidden if uuid in ids]))


def meetable(snapshot: Snapshot, aggregates: Members) -> bool:
    """Whether any provider meets every clause."""
    if not aggregates.clauses:
        return True
    return bool(snapshot.in_aggregates(aggregates.clauses, ()).any())


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


# Trees: the roots under which every pool has a provider.


_GREATEST = 2**63 - 1
"""The greatest integer of NumPy."""


def anchors_of(
    snapshot: Snapshot, eligible: NDArray[np.bool_], pools: Iterable[Pool], give_way: Callable[[], object]
) -> NDArray[np.int64]:
    """Slots of the roots in *eligible* that every pool can serve, ascending. *give_way* lets other requests run."""
    matching = eligible
    for pool in pools:
        give_way()
        matching = matching & served(snapshot, pool)
    return matching.nonzero()[0]


def served(snapshot: Snapshot, pool: Pool) -> NDArray[np.bool_]:
    """Mask of the anchors that *pool* can serve; read-only."""
    serving = pool.own
    if pool.shares is not None:
        # An upper bound: all parts of a tree together. `splits` decides per kind of tree whether they make the amount.
        own = np.flatnonzero(pool.own)
        most = np.zeros(snapshot.size, np.int64)
        np.add.at(most, snapshot.forest.root.at(own), pool.shares.most[own])
        (amount,) = pool.amounts.values()
        serving = most >= min(amount, _GREATEST)
    elif snapshot.forest.has_nested:
        serving = np.zeros(snapshot.size, np.bool_)
        serving[snapshot.forest.root.at(np.flatnonzero(pool.own))] = True
    if pool.shared.size:
        serving = serving | snapshot.sharing.served(pool.shared)
    return serving if pool.barred is None else serving & ~pool.barred
