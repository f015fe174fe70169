"""The funnel of one group: what each of its constraints leaves of all providers, and who fails one of them alone.

`match` applies the same masks all at once; here they are applied one after the other, and counted.

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
    """Which slots meet terms, whatever they name."""

INVENTORY, UNITS, ROOM, PART, SUM = "inventory", "units", "room", "part", "sum"
"""What is asked of a provider for an amount; the last of all that one provider gives."""

_AMOUNTS, _EXAMPLES = 3, 3
"""So many shortfalls are told of a constraint, and so many providers named."""


class Constraint(NamedTuple):
    """One thing that is asked for, in the words of the query; ``check`` tells apart what an amount asks."""

    parameter: str
    value: str
    check: str | None = None


class Step(NamedTuple):
    """What is left after a constraint, and how many it removed."""

    constraint: Constraint
    left: int
    removed: int


@dataclass(frozen=True, slots=True)
class Miss:
    """Providers that fail this constraint alone.

    ``lacking``: amounts that are missing, each with the number of providers that lack so much, the least first.
    ``examples``: some of them, who lack least first.
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
    """A constraint with who passes it: in their own tree, and of the sharing providers for the trees of others.

    ``lacking`` is by slot how much is missing there.
    """

    constraint: Constraint
    own: Mask
    shared: Mask
    lacking: NDArray[np.int64] | None = None


def funnels(snapshot: Snapshot, group: RequestGroup) -> list[Choice]:
    """A funnel for each choice of *group*. A name that does not exist is one that nobody has."""
    if group.suffix == UNSUFFIXED:
        return [
            _funnel(snapshot, group, name, [*_amounts(snapshot, group, name), *_unsuffixed(snapshot, group)])
            for name in group.resources
        ]
    classes = [test for name in group.resources for test in _amounts(snapshot, group, name)]
    return [_funnel(snapshot, group, None, [*classes, *_suffixed(snapshot, group)])]


def root_steps(snapshot: Snapshot, traits: Terms, aggregates: Terms) -> list[Step]:
    """What each term that is asked of roots leaves of them."""
    tests = [*_each(traits, "root_required", _of_traits(snapshot))]
    tests += _each(aggregates, "root_member_of", _of_aggregates(snapshot))
    kept, steps = snapshot.roots, []
    for constraint, passing in tests:
        passed = kept & passing
        steps.append(Step(constraint, _count(passed), _count(kept) - _count(passed)))
        kept = passed
    return steps


def _funnel(snapshot: Snapshot, group: RequestGroup, name: str | None, tests: Sequence[Tested]) -> Choice:
    own = snapshot.live
    shared = snapshot.live & snapshot.sharing.mask
    left = in_play = _count(own)
    steps = []
    for test in tests:
        own, shared = own & test.own, shared & test.shared
        now = _count(own | shared)
        steps.append(Step(test.constraint, now, left - now))
        left = now
    return Choice(group.suffix, name, in_play, tuple(steps), tuple(_misses(snapshot, tests)))


def _misses(snapshot: Snapshot, tests: Sequence[Tested]) -> Iterator[Miss]:
    having = [test.own for test in tests if test.constraint.check == INVENTORY]
    others = [test for test in tests if test.constraint.check != INVENTORY]
    kept = reduce(and_, having, snapshot.live)
    failures = np.zeros(snapshot.size, np.int32)
    which = np.full(snapshot.size, -1, np.int32)
    for number, test in enumerate(others):
        failures += ~test.own
        which[~test.own] = number
    which[~kept | (failures != 1)] = -1
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
    nobody = np.zeros(snapshot.size, np.bool_)
    words = f"resources{group.suffix}", f"{name}:{amount}"
    having = nobody if columns is None else columns.kind.whole > 0
    yield Tested(Constraint(*words, INVENTORY), having, having)
    if name in group.can_split:
        part = nobody if row is None else snapshot.shares(row.id, amount).any
        yield Tested(Constraint(*words, PART), part, nobody if row is None else snapshot.serving(row.id, amount))
        return
    if columns is None:
        yield Tested(Constraint(*words, UNITS), nobody, nobody)
        yield Tested(Constraint(*words, ROOM), nobody, nobody)
        return
    units = columns.admitting(amount)
    yield Tested(Constraint(*words, UNITS), units, units)
    if amount > MAX_INT:  # nothing can hold so much
        yield Tested(Constraint(*words, ROOM), nobody, nobody)
        return
    left = columns.room.whole
    yield Tested(Constraint(*words, ROOM), left >= amount, left >= amount, amount - left)


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
    """A clause as one value of a query."""
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
