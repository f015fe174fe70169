"""The funnel of one group: the providers that each constraint leaves, and those that fail exactly one constraint.

`match` applies the same masks at once. Here they are applied one after the other, and counted.

Source: "Explaining" of allocation candidates, docs/api.md.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from stead.candidates.resolve import known_traits, resolve_aggregates
from stead.domain.inventory import MAX_INT
from stead.domain.request import UNSUFFIXED, Terms

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from stead.catalog.snapshot import Snapshot
    from stead.domain.provider import Slot
    from stead.domain.request import RequestGroup

    Mask = NDArray[np.bool_]
    Holding = Callable[[Terms], Mask]
    """Mask of the slots that meet terms; unknown names are no error."""

INVENTORY, UNITS, ROOM, PART, SUM = "inventory", "units", "room", "part", "sum"
"""The checks of an amount. The last one is on the sum of all amounts that one provider gives."""

_AMOUNTS, _EXAMPLES = 3, 3
"""Limits of the shortfalls, and of the providers named, for each constraint."""


class Constraint(NamedTuple):
    """One constraint in the words of the query; ``check`` distinguishes the checks of an amount."""

    parameter: str
    value: str
    check: str | None = None


class Step(NamedTuple):
    """The number of providers that a constraint leaves, and the number that it removes."""

    constraint: Constraint
    left: int
    removed: int


@dataclass(frozen=True, slots=True)
class Miss:
    """Providers that fail this constraint alone.

    ``lacking`` has missing amounts, each with the number of providers that lack it, the least first. ``examples`` has
    some of the providers, those that lack least first.
    """

    constraint: Constraint
    providers: int
    lacking: tuple[tuple[int, int], ...] = ()
    examples: tuple[Slot, ...] = ()


@dataclass(frozen=True, slots=True)
class Choice:
    """One open choice of a group: all of a suffixed group, or a class of the unsuffixed one."""

    suffix: str
    resource_class: str | None
    in_play: int
    steps: tuple[Step, ...]
    misses: tuple[Miss, ...]


class Tested(NamedTuple):
    """A constraint with masks of the providers that pass it: ``own`` for their own tree, ``shared`` for other trees.

    ``lacking`` is by slot the amount that is missing.
    """

    constraint: Constraint
    own: Mask
    shared: Mask
    lacking: NDArray[np.int64] | None = None


def funnels(snapshot: Snapshot, group: RequestGroup) -> list[Choice]:
    """A funnel for each choice of *group*. No provider has an unknown name.

    The first constraint of each funnel is not a term of the group: its providers must be enabled.
    """
    states = list(_enabled(snapshot))
    if group.suffix == UNSUFFIXED:
        return [
            _funnel(snapshot, group, name, [*states, *_amounts(snapshot, group, name), *_unsuffixed(snapshot, group)])
            for name in group.resources
        ]
    classes = [test for name in group.resources for test in _amounts(snapshot, group, name)]
    return [_funnel(snapshot, group, None, [*states, *classes, *_suffixed(snapshot, group)])]


def _enabled(snapshot: Snapshot) -> Iterator[Tested]:
    out_of_service = snapshot.service_states.out_of_service
    if out_of_service is not None:
        yield Tested(Constraint("disabled", "false"), ~out_of_service, ~out_of_service)


def root_steps(snapshot: Snapshot, traits: Terms, aggregates: Terms) -> list[Step]:
    """The roots that each term on roots leaves."""
    tests = [*_each(traits, "root_required", _of_traits(snapshot))]
    tests += _each(aggregates, "root_member_of", _of_aggregates(snapshot))
    remaining, steps = snapshot.roots, []
    for constraint, passing in tests:
        passed = remaining & passing
        steps.append(Step(constraint, _count(passed), _count(remaining) - _count(passed)))
        remaining = passed
    return steps


def _funnel(snapshot: Snapshot, group: RequestGroup, name: str | None, tests: Sequence[Tested]) -> Choice:
    own = snapshot.live
    shared = snapshot.live & snapshot.sharing.mask
    number = in_play = _count(own)
    steps = []
    for test in tests:
        own, shared = own & test.own, shared & test.shared
        remaining = _count(own | shared)
        steps.append(Step(test.constraint, remaining, number - remaining))
        number = remaining
    return Choice(group.suffix, name, in_play, tuple(steps), tuple(_misses(snapshot, tests)))


def _misses(snapshot: Snapshot, tests: Sequence[Tested]) -> Iterator[Miss]:
    having = [test.own for test in tests if test.constraint.check == INVENTORY]
    others = [test for test in tests if test.constraint.check != INVENTORY]
    # Providers without inventory of the class are not near misses: they could never serve it.
    possible = reduce(and_, having, snapshot.live)
    failures = np.zeros(snapshot.size, np.int32)
    which = np.full(snapshot.size, -1, np.int32)
    for number, test in enumerate(others):
        failures += ~test.own
        # One number per provider is enough, because only providers with a single failure are kept below.
        which[~test.own] = number
    which[~possible | (failures != 1)] = -1
    missing = Counter(which[which >= 0].tolist())
    for number, providers in sorted(missing.items(), key=lambda item: (-item[1], item[0])):
        slots = np.flatnonzero(which == number)
        lacking: tuple[tuple[int, int], ...] = ()
        if (short := others[number].lacking) is not None:
            slots = slots[np.argsort(short[slots], kind="stable")]
            lacking = tuple(sorted(Counter(short[slots].tolist()).items())[:_AMOUNTS])
        yield Miss(others[number].constraint, providers, lacking, tuple(slots[:_EXAMPLES].tolist()))


def _amounts(snapshot: Snapshot, group: RequestGroup, name: str) -> Iterator[Tested]:
    amount = group.resources[name]
    row = snapshot.class_names.by_name.get(name)
    columns = None if row is None else snapshot.inventory.get(row.id)
    nowhere = np.zeros(snapshot.size, np.bool_)
    words = f"resources{group.suffix}", f"{name}:{amount}"
    having = nowhere if columns is None else columns.kind.whole > 0
    yield Tested(Constraint(*words, INVENTORY), having, having)
    if name in group.can_split:
        part = nowhere if row is None else snapshot.shares(row.id, amount).any
        yield Tested(Constraint(*words, PART), part, nowhere if row is None else snapshot.serving(row.id, amount))
        return
    if columns is None:
        yield Tested(Constraint(*words, UNITS), nowhere, nowhere)
        yield Tested(Constraint(*words, ROOM), nowhere, nowhere)
        return
    units = columns.admitting(amount)
    yield Tested(Constraint(*words, UNITS), units, units)
    if amount > MAX_INT:  # beyond the integers of the columns
        yield Tested(Constraint(*words, ROOM), nowhere, nowhere)
        return
    room = columns.room.whole
    yield Tested(Constraint(*words, ROOM), room >= amount, room >= amount, amount - room)


def _suffixed(snapshot: Snapshot, group: RequestGroup) -> Iterator[Tested]:
    suffix = group.suffix
    for constraint, passing in _each(group.traits, f"required{suffix}", _of_traits(snapshot)):
        yield Tested(constraint, passing, passing)
    for constraint, passing in _each(group.aggregates, f"member_of{suffix}", _of_aggregates(snapshot)):
        yield Tested(constraint, passing, passing)
    for constraint, passing in _places(snapshot, group):
        yield Tested(constraint, passing, passing)


def _unsuffixed(snapshot: Snapshot, group: RequestGroup) -> Iterator[Tested]:
    for constraint, passing in _each(Terms((), group.traits.forbidden), "required", _of_traits(snapshot)):
        yield Tested(constraint, passing, passing)
    members, roots = _of_aggregates(snapshot), snapshot.forest.root.whole
    clauses = group.aggregates.clauses
    if clauses:
        passing = members(Terms(clauses))
        yield Tested(Constraint("member_of", " and ".join(map(spelled, clauses))), passing | passing[roots], passing)
    for constraint, passing in _each(Terms((), group.aggregates.forbidden), "member_of", members):
        yield Tested(constraint, passing & passing[roots], passing)
    for constraint, passing in _places(snapshot, group):
        yield Tested(constraint, passing, np.zeros(snapshot.size, np.bool_))


def _places(snapshot: Snapshot, group: RequestGroup) -> Iterator[tuple[Constraint, Mask]]:
    forest = snapshot.forest
    for word, reference in (("in_tree", group.in_tree), ("in_subtree", group.in_subtree)):
        if reference is None:
            continue
        passing, slot = np.zeros(snapshot.size, np.bool_), snapshot.find_referenced(reference)
        if slot is not None:
            passing[list(forest.members(forest.root[slot]) if word == "in_tree" else forest.subtree(slot))] = True
        yield Constraint(f"{word}{group.suffix}", reference), passing


def spelled(clause: frozenset[str]) -> str:
    """A clause as a value of a query."""
    names = sorted(clause)
    return names[0] if len(names) == 1 else f"in:{','.join(names)}"


def _each(terms: Terms, parameter: str, holding: Holding) -> Iterator[tuple[Constraint, Mask]]:
    for clause in terms.clauses:
        yield Constraint(parameter, spelled(clause)), holding(Terms((clause,)))
    for name in sorted(terms.forbidden):
        yield Constraint(parameter, f"!{name}"), holding(Terms((), frozenset({name})))


def _of_traits(snapshot: Snapshot) -> Holding:
    def holding(terms: Terms) -> Mask:
        members = known_traits(snapshot, terms)
        return snapshot.with_traits(members.clauses, members.forbidden)

    return holding


def _of_aggregates(snapshot: Snapshot) -> Holding:
    def holding(terms: Terms) -> Mask:
        members = resolve_aggregates(snapshot, terms)
        return snapshot.in_aggregates(members.clauses, members.forbidden)

    return holding


def _count(mask: Mask) -> int:
    return int(np.count_nonzero(mask))
