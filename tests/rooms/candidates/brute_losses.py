"""The value of a tree for a mix, and what a candidate loses of it, by the definitions alone.

Slow and plain on purpose. It shares no line with the engine. Source: "Order", docs/stead-api.md.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from stead.domain.request import UNSUFFIXED
from stead.printing import class_order
from tests.rooms.candidates.brute_force import (
    eligible_anchors,
    has_traits,
    in_aggregates,
    is_barred,
    is_sharing,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from stead.domain.request import CandidateRequest, RequestGroup, Wanted
    from tests.rooms.candidates.brute_force import Way
    from tests.rooms.candidates.plain import Forest, PlainInventory, PlainProvider

Free = dict[tuple[str, str], int]
"""By provider and class, what is free."""

Need = tuple[str, "RequestGroup", dict[str, int], int, bool]
"""What identifies it, its group, its amounts, how many equal ones there are, and whether it may be split."""


def free_in(forest: Forest, way: Way | None = None) -> Free:
    """What is free, after a candidate if there is one."""
    free = {
        (provider.name, name): held.capacity - held.used
        for provider in forest.providers
        for name, held in provider.inventories.items()
    }
    for giver, name, amount in way.takes if way else ():
        free[giver, name] -= amount
    return free


def counts(forest: Forest, request: CandidateRequest) -> bool:
    """Whether a form of the mix counts at all."""
    names = {name for group in request.groups for name in group.resources}
    return names <= forest.classes and not any(group.in_tree or group.in_subtree for group in request.groups)


def scarcest(forest: Forest, mix: Sequence[Wanted]) -> str | None:
    """The class of which the mix takes the greatest part."""
    taken, capacity = Counter[str](), Counter[str]()
    for request, weight in mix:
        for group in request.groups if counts(forest, request) else ():
            for name, amount in group.resources.items():
                taken[name] += weight * amount  # type: ignore[assignment]
    for provider in forest.providers:
        for name, held in provider.inventories.items() if forest.is_enabled(provider.name) else ():
            capacity[name] += max(held.capacity, 0)
    best, most = None, 0.0
    for name in sorted(taken, key=class_order):
        if capacity[name] > 0 and taken[name] / capacity[name] > most * (1 + 1e-9):
            best, most = name, taken[name] / capacity[name]
    return best


def value_of(forest: Forest, mix: Sequence[Wanted], root: PlainProvider, free: Free) -> float:
    """The value of the tree of *root*."""
    scarce = scarcest(forest, mix)
    forms = [(request, weight) for request, weight in mix if counts(forest, request)]
    amounts = [sum(group.resources.get(scarce or "", 0) for group in request.groups) for request, _ in forms]
    mean = sum(weight * amount for (_, weight), amount in zip(forms, amounts, strict=True))
    total = 0.0
    for (request, weight), amount in zip(forms, amounts, strict=True):
        if amount and root in eligible_anchors(forest, request):
            fits, reach = fitting(forest, request, root, free, scarce or "")
            total += weight / mean * (amount * fits**0.7 + 10 * (reach if fits else 0))
    return total


def fitting(forest: Forest, request: CandidateRequest, root: PlainProvider, free: Free, scarce: str) -> tuple[int, int]:
    """How many times a form fits into a tree, and what of the scarce class it can reach there."""
    members = [provider for provider in forest.providers if forest.root(provider.name) == root.name]
    shared = {name for provider in forest.providers if is_sharing(provider) for name in provider.inventories}
    bounds: list[int] = []
    reaching: list[int] = []
    of_class: dict[str, list[tuple[int, set[str]]]] = {}
    if not meets_clauses(request, members):
        return 0, 0
    for _, group, amounts, number, is_split in needs_of(request):
        if shared & amounts.keys():
            continue
        able = [
            member
            for member in members
            if may_serve(forest, group, root, member)
            and (is_split or all(admits(member.inventories.get(name), n) for name, n in amounts.items()))
        ]
        if not able:
            return 0, 0
        for name, amount in amounts.items():
            of_class.setdefault(name, []).append((amount * number, {member.name for member in able}))
        bound, reached = pooled(free, able, amounts) if is_split else apart(free, able, amounts, scarce)
        bounds.append(bound // number)
        if scarce in amounts:
            reaching.append(reached)
    for name, several in of_class.items():
        if len(several) > 1:
            either = set().union(*(able for _, able in several))
            room = sum(max(free.get((member, name), 0), 0) for member in either)
            bounds.append(room // sum(amount for amount, _ in several))
            reaching += [room] if name == scarce else []
    return (min(bounds), (reaching or [0])[0]) if bounds else (0, 0)


def meets_clauses(request: CandidateRequest, members: Sequence[PlainProvider]) -> bool:
    """Whether some provider of the tree has a trait of each clause of the unsuffixed group."""
    clauses = [clause for group in request.groups if group.suffix == UNSUFFIXED for clause in group.traits.clauses]
    return all(any(clause & member.traits for member in members) for clause in clauses)


def pooled(free: Free, able: Sequence[PlainProvider], amounts: Mapping[str, int]) -> tuple[int, int]:
    """How many times an amount fits that may be split, and what it can reach."""
    ((name, amount),) = amounts.items()
    room = sum(max(free.get((member.name, name), 0), 0) for member in able)
    return room // amount, room if room >= amount else 0


def apart(free: Free, able: Sequence[PlainProvider], amounts: Mapping[str, int], scarce: str) -> tuple[int, int]:
    """How many times amounts fit, each time into one provider, and what they can reach of the scarce class."""
    times = {m.name: min(max(free[m.name, name], 0) // n for name, n in amounts.items()) for m in able}
    reached = sum(max(free.get((name, scarce), 0), 0) for name, n in times.items() if n)
    return sum(times.values()), reached


def needs_of(request: CandidateRequest) -> list[Need]:
    """The choices of a form; equal suffixed groups are one."""
    needs: list[Need] = []
    for group in request.groups:
        if group.suffix == UNSUFFIXED:
            needs += [("", group, {name: n}, 1, name in group.can_split) for name, n in group.resources.items()]
        elif group.resources:
            same = repr((sorted(group.resources.items()), group.traits, group.aggregates))
            number = next((place for place, need in enumerate(needs) if need[0] == same), None)
            if number is None:
                needs.append((same, group, dict(group.resources), 1, False))
            else:
                needs[number] = (*needs[number][:3], needs[number][3] + 1, False)
    return needs


def may_serve(forest: Forest, group: RequestGroup, root: PlainProvider, member: PlainProvider) -> bool:
    """Whether a provider of a tree meets the terms of a group, whatever it has."""
    terms = group.aggregates
    if not forest.is_enabled(member.name) or is_barred(member, terms):
        return False
    if group.suffix == UNSUFFIXED:
        is_member = in_aggregates(member, terms) or in_aggregates(root, terms)
        return is_member and not is_barred(root, terms) and not member.traits & group.traits.forbidden
    return in_aggregates(member, terms) and has_traits(member.traits, group.traits)


def admits(held: PlainInventory | None, amount: int) -> bool:
    """Whether the units of an inventory admit an amount."""
    return held is not None and held.min_unit <= amount <= held.max_unit and amount % held.step_size == 0


def loss(forest: Forest, mix: Sequence[Wanted], root: PlainProvider, way: Way, before: Mapping[str, float]) -> float:
    """How much a candidate lowers the value of its tree."""
    own = {take for take in way.takes if forest.root(take[0]) == root.name}
    after = free_in(forest)
    for giver, name, amount in own:
        after[giver, name] -= amount
    return before[root.name] - value_of(forest, mix, root, after)
