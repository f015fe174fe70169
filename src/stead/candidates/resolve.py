"""Resolve: converts names to ids of this snapshot. An unknown name is an error, or makes the answer empty.

The order of the checks is part of the contract: the first unknown name, or the first condition that no provider can
meet, decides the answer. Source: "Checks against the database", docs/api.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from stead.domain.errors import UnknownResourceClass, UnknownTraits

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from stead.catalog.snapshot import Snapshot
    from stead.domain.changes import NameRow
    from stead.domain.request import RequestGroup, Terms


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
