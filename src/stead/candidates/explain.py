"""Explain: why a request has the candidates it has, or none. It runs the phases of a query and counts.

Source: "Explaining" of allocation candidates, docs/stead-api.md.
"""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, replace
from functools import reduce
from itertools import islice
from math import inf
from operator import and_
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from stead.candidates.combine import divided, ways
from stead.candidates.engine import Enumeration, found_within
from stead.candidates.kinds import TreeKinds
from stead.candidates.match import (
    MatchedGroup,
    eligible_anchors,
    in_ids,
    known_traits,
    match,
    resolve_aggregates,
    resolve_traits,
    served,
)
from stead.candidates.work import Work, WorkSpent, keep_on, masked
from stead.domain.errors import UnknownResourceClass, UnknownTraits
from stead.domain.moments import in_utc
from stead.domain.provider import BY_NAME, MAX_INT
from stead.domain.request import UNSUFFIXED, Apart, Terms

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from stead.candidates.combine import Demand
    from stead.candidates.kinds import Kind
    from stead.candidates.match import Pool
    from stead.catalog.snapshot import Snapshot
    from stead.domain.provider import Slot
    from stead.domain.request import CandidateRequest, RequestGroup

    Mask = NDArray[np.bool_]
    Holding = Callable[[Terms], Mask]
    """Mask of the slots that meet terms; unknown names are no error."""


MOST_COUNTED = 100
"""Limit of the candidates counted for one request; beyond it, the answer only says that there are more."""

MOST_TRIED = 64
"""Limit of the relaxations tried for one request."""


class Count(NamedTuple):
    """A number of candidates; ``more``: there are more than this."""

    number: int
    more: bool


@dataclass(frozen=True, slots=True)
class Explanation:
    """The explanation of a request; ``is_complete`` unless the work was used up.

    ``summary`` is one sentence, or a few, for people: how many candidates there are, or why there are none.
    ``relaxations`` has those that have candidates, each with their number.
    """

    summary: str
    candidates: Count
    is_complete: bool
    roots: int
    root_steps: tuple[Step, ...]
    choices: tuple[Choice, ...]
    trees: Verdicts
    relaxations: tuple[tuple[Relaxation, Count], ...]


def explain(
    snapshot: Snapshot,
    request: CandidateRequest,
    most_work: int | None = None,
    *,
    until: float = inf,
    give_way: Callable[[], object] = keep_on,
) -> Explanation:
    """Explain the candidates of *request*, without its limit.

    Args:
        most_work: units of `stead.candidates.work`, a third for each part: counting, groups and trees, relaxations.
        until: time of the monotonic clock at which it gives up.
        give_way: lets other requests run.

    Raises:
        WorkSpent: the time ended.
        UnknownResourceClass, UnknownTraits: as finding candidates does.
    """
    request = replace(request, limit=None)
    share = None if most_work is None else most_work // 3
    counting, judging, relaxing = (Work(share, until=until, give_way=give_way) for _ in range(3))
    count = _count(snapshot, request, counting)
    groups, choices = list[MatchedGroup](), list[Choice]()
    try:
        for group in request.groups:
            judging.require_time()
            of_group = funnels(snapshot, group)
            choices += of_group
            groups.append(match(snapshot, in_ids(snapshot, group)))
            judging.spend(sum(len(choice.steps) for choice in of_group) * masked(snapshot.size))
    except WorkSpent:
        # Without units, the other parts still have budgets of their own; without time, no part has any.
        if time.monotonic() > until:
            raise
    traits = resolve_traits(snapshot, request.root_traits)
    eligible = eligible_anchors(snapshot, traits, resolve_aggregates(snapshot, request.root_aggregates))
    if judging.is_cut:
        roots = int(np.count_nonzero(eligible))
        trees = Verdicts(roots, (), roots)
    else:
        trees = verdicts(snapshot, request, groups, eligible, judging)
    helpful = () if count.number else tuple(_helpful(snapshot, request, tuple(choices), relaxing))
    steps = tuple(root_steps(snapshot, request.root_traits, request.root_aggregates))
    if count.number:
        summary = f"There {'is' if count.number == 1 else 'are'} {_counted(count)}."
    elif counting.is_cut:
        summary = "No candidate was found within the work of one query; there may be some."
    else:
        summary = reason(snapshot, request, steps, choices, trees, helpful)
    # Each part has a budget of its own, so an expensive count does not leave the cheaper parts empty.
    return Explanation(
        summary,
        count,
        not (counting.is_cut or judging.is_cut or relaxing.is_cut),
        int(snapshot.roots.sum()),
        steps,
        tuple(choices),
        trees,
        helpful,
    )


def _count(snapshot: Snapshot, request: CandidateRequest, work: Work) -> Count:
    number = sum(
        batch.size for batch in found_within(snapshot, replace(request, limit=MOST_COUNTED + 1), Enumeration(), work)
    )
    return Count(min(number, MOST_COUNTED), number > MOST_COUNTED)


def _helpful(
    snapshot: Snapshot, request: CandidateRequest, choices: tuple[Choice, ...], work: Work
) -> Iterator[tuple[Relaxation, Count]]:
    for relaxation in islice(relaxations(request, choices), MOST_TRIED):
        if work.is_cut:
            return
        try:
            count = _count(snapshot, relaxation.request, work)
        except (UnknownResourceClass, UnknownTraits):  # in the original request, a group without providers hides it
            continue
        if count.number:
            yield relaxation, count


# The funnel of one group: the providers that each constraint leaves, and those that fail exactly one constraint.
#
# `match` applies the same masks at once. Here they are applied one after the other, and counted.
#
# Source: "Explaining" of allocation candidates, docs/stead-api.md.


INVENTORY, UNITS, ROOM, PART, SUM = "inventory", "units", "room", "part", "sum"
"""The checks of an amount. The last one is on the sum of all amounts that one provider gives."""

EACH = "each"
"""Of a relaxation: as many groups of the amount as together make the amount of the group that they replace."""

MOST_SPLIT = 64
"""Limit of the groups that one group is split into."""

UNKNOWN = "unknown"
"""The check of a place that does not exist: no provider has the name or uuid, or is in the aggregate."""

_AMOUNTS, _EXAMPLES = 3, 3
"""Limits of the shortfalls, and of the providers named, for each constraint."""


class Constraint(NamedTuple):
    """One constraint in the words of the query; ``check`` distinguishes the checks of an amount, or is UNKNOWN."""

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
    tests += _each(aggregates, "root_member_of", _of_aggregates(snapshot), if_none=UNKNOWN)
    remaining, steps = snapshot.roots, []
    for constraint, passing in tests:
        passed = remaining & passing
        steps.append(Step(constraint, _number_in(passed), _number_in(remaining) - _number_in(passed)))
        remaining = passed
    return steps


def _funnel(snapshot: Snapshot, group: RequestGroup, name: str | None, tests: Sequence[Tested]) -> Choice:
    own = snapshot.live
    shared = snapshot.live & snapshot.sharing.mask
    number = in_play = _number_in(own)
    steps = []
    for test in tests:
        own, shared = own & test.own, shared & test.shared
        remaining = _number_in(own | shared)
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
        if others[number].constraint.check == UNKNOWN:  # no provider is near to a place that does not exist
            continue
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
    for constraint, passing in _each(group.aggregates, f"member_of{suffix}", _of_aggregates(snapshot), if_none=UNKNOWN):
        yield Tested(constraint, passing, passing)
    for constraint, passing in _places(snapshot, group):
        yield Tested(constraint, passing, passing)


def _unsuffixed(snapshot: Snapshot, group: RequestGroup) -> Iterator[Tested]:
    for constraint, passing in _each(Terms((), group.traits.forbidden), "required", _of_traits(snapshot)):
        yield Tested(constraint, passing, passing)
    members, roots = _of_aggregates(snapshot), snapshot.forest.root.whole
    clauses = []
    for clause in group.aggregates.clauses:
        if (passing := members(Terms((clause,)))).any():
            clauses.append(clause)
        else:
            yield Tested(Constraint("member_of", spelled(clause), UNKNOWN), passing, passing)
    if clauses:
        passing = members(Terms(tuple(clauses)))
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
        yield Constraint(f"{word}{group.suffix}", reference, UNKNOWN if slot is None else None), passing


def spelled(clause: frozenset[str]) -> str:
    """A clause as a value of a query."""
    names = sorted(clause)
    return names[0] if len(names) == 1 else f"in:{','.join(names)}"


def _each(
    terms: Terms, parameter: str, holding: Holding, if_none: str | None = None
) -> Iterator[tuple[Constraint, Mask]]:
    """Each term with its mask; *if_none* is the check of clauses that no provider meets."""
    for clause in terms.clauses:
        passing = holding(Terms((clause,)))
        yield Constraint(parameter, spelled(clause), None if passing.any() else if_none), passing
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


def _number_in(mask: Mask) -> int:
    return int(np.count_nonzero(mask))


# Verdicts on trees: the choice, or the constraint between choices, that excludes each tree.
#
# The constraints between choices are added one after the other. After each, `combine` searches for one way; trees of
# one kind are searched once.
#
# Source: "Explaining" of allocation candidates, docs/stead-api.md.


class Lost(NamedTuple):
    """The numbers of trees that a choice (group and class) or a constraint leaves, and that it removes."""

    by: Constraint | tuple[str, str | None]
    left: int
    removed: int


@dataclass(frozen=True, slots=True)
class Verdicts:
    """The verdicts on all trees; ``undecided`` is the number of trees for which the work was used up."""

    in_play: int
    steps: tuple[Lost, ...]
    undecided: int


class _Stage(NamedTuple):
    """The demand with a constraint and all before it; ``has_clauses``: with the required traits."""

    constraint: Constraint
    demand: Demand
    has_clauses: bool


def verdicts(
    snapshot: Snapshot,
    request: CandidateRequest,
    groups: Sequence[MatchedGroup],
    eligible: NDArray[np.bool_],
    work: Work,
) -> Verdicts:
    """The verdicts on the trees of the roots in *eligible*.

    When *work* is used up, the remaining trees are undecided.
    """
    in_play, remaining, steps = int(np.count_nonzero(eligible)), eligible, list[Lost]()
    for group, name, pool in _choices(request, groups):
        try:
            work.spend(masked(snapshot.size))
        except WorkSpent:
            return Verdicts(in_play, tuple(steps), int(np.count_nonzero(remaining)))
        after = remaining & served(snapshot, pool)
        number = int(np.count_nonzero(after))
        steps.append(Lost((group, name), number, int(np.count_nonzero(remaining)) - number))
        remaining = after
    tree_kinds = TreeKinds(snapshot, groups, work, request)
    stages = list(_stages(request, tree_kinds))
    removed: Counter[int] = Counter()
    number_of_trees = undecided = int(np.count_nonzero(remaining))
    fates: dict[Kind, int] = {}
    try:
        anchors = np.flatnonzero(remaining)
        for kind, trees in tree_kinds.runs(anchors) if stages else ():
            if kind not in fates:  # trees of one kind have one fate, so it is searched once
                fates[kind] = _fate(kind, stages, work)
            removed[fates[kind]] += len(trees)
            undecided -= len(trees)
    except WorkSpent:
        pass  # the trees without a verdict are counted as undecided
    for number, stage in enumerate(stages):
        number_of_trees -= removed[number]
        steps.append(Lost(stage.constraint, number_of_trees, removed[number]))
    return Verdicts(in_play, tuple(steps), undecided if stages else 0)


def _choices(request: CandidateRequest, groups: Sequence[MatchedGroup]) -> Iterator[tuple[str, str | None, Pool]]:
    for group, matched in zip(request.groups, groups, strict=True):
        names: Sequence[str | None] = list(group.resources) if group.suffix == UNSUFFIXED else [None]
        for name, pool in zip(names, matched.pools, strict=True):
            yield group.suffix, name, pool


def _fate(kind: Kind, stages: Sequence[_Stage], work: Work) -> int:
    """The number of the first stage that has no way; the number of stages if all have one."""
    if next(iter(kind.arrangements()), None) is not None:
        return len(stages)
    for number, stage in enumerate(stages):
        # The search space has the required traits of all stages; a stage before theirs must not apply them.
        space = kind.space if stage.has_clauses else replace(kind.space, clauses=())
        parts = divided(stage.demand, space, work)
        if next((way for demand, parted in parts for way in ways(demand, parted, work)), None) is None:
            return number
    return len(stages)


def _stages(request: CandidateRequest, tree_kinds: TreeKinds) -> Iterator[_Stage]:
    """The constraints between choices, each with all before it; those that cannot exclude anything are left out."""
    whole = tree_kinds.demand
    demand = replace(whole, isolated=frozenset(), bystanders=frozenset(), subtrees=(), ignores_capacity=True)
    unsuffixed = next((group for group in request.groups if group.suffix == UNSUFFIXED), None)
    has_clauses = False
    # Each stage keeps the constraints before it. So a tree counts once, at the first constraint that excludes it.
    if unsuffixed is not None and unsuffixed.can_split:
        yield _Stage(Constraint("can_split", ",".join(sorted(unsuffixed.can_split))), demand, has_clauses)
    if unsuffixed is not None and unsuffixed.traits.clauses:
        has_clauses = True
        value = " and ".join(map(spelled, unsuffixed.traits.clauses))
        yield _Stage(Constraint("required", value), demand, has_clauses)
    if whole.repeated:
        demand = replace(demand, ignores_capacity=False)
        names = [name for group in request.groups for name in group.resources]
        value = ",".join(sorted({name for name in names if names.count(name) > 1}))
        yield _Stage(Constraint("resources", value, SUM), demand, has_clauses)
    if whole.is_isolating:
        demand = replace(demand, isolated=whole.isolated, bystanders=whole.bystanders)
        yield _Stage(isolation(request), demand, has_clauses)
    for number, value in enumerate(subtree_values(request), 1):
        demand = replace(demand, subtrees=whole.subtrees[:number])
        yield _Stage(Constraint("same_subtree", value), demand, has_clauses)


def isolation(request: CandidateRequest) -> Constraint:
    """The isolation of groups, in the words of the query."""
    if request.isolate:
        return Constraint("group_policy", "isolate")
    return Constraint("isolate", ",".join(sorted(request.isolated)))


def subtree_values(request: CandidateRequest) -> list[str]:
    """The values of ``same_subtree``, those without ``!`` first."""
    return [
        *(",".join(sorted(together)) for together in request.same_subtree),
        *(
            ",".join([*sorted(apart.together), *(f"!{other}" for other in sorted(apart.others))])
            for apart in request.apart
        ),
    ]


# Relaxations: copies of a request with one change, which may have candidates.
#
# Source: "Explaining" of allocation candidates, docs/stead-api.md.


@dataclass(frozen=True, slots=True)
class Relaxation:
    """One change of a request, and the changed ``request``.

    It removes the constraint ``without``, adds the constraint ``instead``, or replaces the first by the second.
    """

    request: CandidateRequest
    without: Constraint | None
    instead: Constraint | None = None


def relaxations(request: CandidateRequest, choices: Sequence[Choice]) -> Iterator[Relaxation]:
    """All changes that may help. *choices* say how much the nearest providers lack."""
    for constraint, terms in _fewer(request.root_traits, "root_required"):
        yield Relaxation(replace(request, root_traits=terms), constraint)
    for constraint, terms in _fewer(request.root_aggregates, "root_member_of"):
        yield Relaxation(replace(request, root_aggregates=terms), constraint)
    lacking = _lacking(choices)
    for number, group in enumerate(request.groups):
        for changed, without, instead in _of_group(group, lacking.get(group.suffix, {})):
            groups = (*request.groups[:number], changed, *request.groups[number + 1 :])
            # A group without resources and parameters cannot be written in a query.
            if changed.resources or _is_named(changed):
                yield Relaxation(replace(request, groups=groups), without, instead)
        yield from _groups_of_one(request, number, lacking.get(group.suffix, {}))
    if request.isolate or request.isolated:
        yield Relaxation(replace(request, isolate=False, isolated=frozenset()), isolation(request))
    plain = len(request.same_subtree)
    for number, value in enumerate(subtree_values(request)):
        closer = replace(
            request,
            same_subtree=request.same_subtree[:number] + request.same_subtree[number + 1 :],
            apart=request.apart
            if number < plain
            else request.apart[: number - plain] + request.apart[number - plain + 1 :],
        )
        # The API rejects a group without resources that no `same_subtree` names.
        if _names_all_without_resources(closer):
            yield Relaxation(closer, Constraint("same_subtree", value))


def _groups_of_one(request: CandidateRequest, number: int, lacking: Mapping[str, int]) -> Iterator[Relaxation]:
    """Instead of several of one class from one provider: as many groups that need one each.

    Only if no provider can give more than one, as devices do. A suffixed group is replaced, so it must need nothing
    else; the unsuffixed one keeps its other classes, and must have no condition, since it would hold for the new groups
    in another way.
    """
    group = request.groups[number]
    is_unsuffixed = group.suffix == UNSUFFIXED
    if len(group.resources) != 1 if not is_unsuffixed else _is_named(group) or group.can_split:
        return
    for name, amount in group.resources.items():
        if not 1 < amount <= MOST_SPLIT or amount - lacking.get(name, amount) > 1:
            continue
        places = range(1, amount + 1)
        parts = [replace(group, suffix=f"{group.suffix}_{place}", resources={name: 1}) for place in places]
        suffixes = frozenset(part.suffix for part in parts)
        if any(other.suffix in suffixes for other in request.groups):
            continue
        rest = {other: most for other, most in group.resources.items() if other != name}
        kept = [replace(group, resources=rest)] if rest else []
        changed = replace(
            request,
            groups=(*request.groups[:number], *kept, *parts, *request.groups[number + 1 :]),
            isolated=_renamed(request.isolated, group.suffix, suffixes),
            same_subtree=tuple(_renamed(names, group.suffix, suffixes) for names in request.same_subtree),
            apart=tuple(
                Apart(_renamed(each.together, group.suffix, suffixes), _renamed(each.others, group.suffix, suffixes))
                for each in request.apart
            ),
        )
        word = f"resources{group.suffix}"
        yield Relaxation(changed, Constraint(word, f"{name}:{amount}"), Constraint(word, f"{name}:1", EACH))


def _renamed(names: frozenset[str], suffix: str, suffixes: frozenset[str]) -> frozenset[str]:
    return names - {suffix} | suffixes if suffix in names else names


def _of_group(
    group: RequestGroup, lacking: Mapping[str, int]
) -> Iterator[tuple[RequestGroup, Constraint | None, Constraint | None]]:
    suffix = group.suffix
    for name, amount in group.resources.items():
        enough = amount - lacking.get(name, 0)
        if 0 < enough < amount:
            less, word = replace(group, resources={**group.resources, name: enough}), f"resources{suffix}"
            yield less, Constraint(word, f"{name}:{amount}"), Constraint(word, f"{name}:{enough}")
    for constraint, terms in _fewer(group.traits, f"required{suffix}"):
        yield replace(group, traits=terms), constraint, None
    for constraint, terms in _fewer(group.aggregates, f"member_of{suffix}"):
        yield replace(group, aggregates=terms), constraint, None
    if group.in_tree is not None:
        yield replace(group, in_tree=None), Constraint(f"in_tree{suffix}", group.in_tree), None
    if group.in_subtree is not None:
        yield replace(group, in_subtree=None), Constraint(f"in_subtree{suffix}", group.in_subtree), None
    if suffix == UNSUFFIXED:
        for name in group.resources:
            if name not in group.can_split:
                yield replace(group, can_split=group.can_split | {name}), None, Constraint("can_split", name)


def _lacking(choices: Sequence[Choice]) -> dict[str, dict[str, int]]:
    """By suffix and class, how much the nearest provider lacks, of those that meet all other constraints."""
    lacking: dict[str, dict[str, int]] = {}
    for choice in choices:
        for miss in choice.misses:
            if miss.constraint.check == ROOM and miss.lacking:
                of_group = lacking.setdefault(choice.suffix, {})
                of_group[miss.constraint.value.partition(":")[0]] = miss.lacking[0][0]
    return lacking


def _fewer(terms: Terms, parameter: str) -> Iterator[tuple[Constraint, Terms]]:
    """*terms* without one of them, for each of them."""
    for number, clause in enumerate(terms.clauses):
        others = terms.clauses[:number] + terms.clauses[number + 1 :]
        yield Constraint(parameter, spelled(clause)), replace(terms, clauses=others)
    for name in sorted(terms.forbidden):
        yield Constraint(parameter, f"!{name}"), replace(terms, forbidden=terms.forbidden - {name})


def _is_named(group: RequestGroup) -> bool:
    """Whether a group without resources still has a parameter with its suffix in the query."""
    return bool(group.traits or group.aggregates or group.in_tree or group.in_subtree)


def _names_all_without_resources(request: CandidateRequest) -> bool:
    named = frozenset().union(*request.same_subtree, *(apart.together | apart.others for apart in request.apart))
    return all(group.resources or group.suffix in named for group in request.groups)


# The reason: why there is no candidate, in a sentence for people. The funnels and verdicts have all the numbers.


def reason(
    snapshot: Snapshot,
    request: CandidateRequest,
    roots: Sequence[Step],
    choices: Sequence[Choice],
    trees: Verdicts,
    helpful: Sequence[tuple[Relaxation, Count]],
) -> str:
    """Why *request* has no candidate: the first of its conditions that excludes all that is left, in its order."""
    for group in request.groups:
        tree, top = (
            None if each is None else snapshot.find_referenced(each) for each in (group.in_tree, group.in_subtree)
        )
        for slot in (None if tree is None else snapshot.forest.root[tree], top):
            if slot is not None and (sentence := _disabled(snapshot, slot)):
                return sentence
    for step in roots:
        if not step.left:
            return f"No root {_verb(step.constraint)}."
    for choice in choices:
        if choice.steps and not choice.steps[-1].left:
            return _of_choice(snapshot, choice, helpful)
    for lost in trees.steps:
        if not lost.left:
            return _of_trees(lost.by, choices)
    return "Nothing fits."


def _counted(count: Count) -> str:
    return f"{count.number:,}{'+' if count.more else ''} candidate{'' if count.number == 1 else 's'}"


def _disabled(snapshot: Snapshot, slot: int) -> str | None:
    """That the provider accepts no allocations, why, and what enables it; None if it does."""
    cause = snapshot.service_states.cause(slot)
    if cause is None:
        return None
    name = snapshot.identities.names[cause[0]]
    why = f": {cause[1].reason}" if cause[1].reason else ""
    return f"{name} is disabled since {in_utc(cause[1].since)}{why} (`stead provider enable {name}`)."


def _of_choice(snapshot: Snapshot, choice: Choice, helpful: Sequence[tuple[Relaxation, Count]]) -> str:
    """Why no provider can serve *choice*."""
    number = next(number for number, step in enumerate(choice.steps) if not step.left)
    last = choice.steps[number].constraint
    if last.check == UNKNOWN:
        return f"No provider {_verb(last)}."
    if last.parameter == "disabled":
        return "All providers are disabled."
    # The checks of one amount follow each other, and each implies those before it.
    before = [step.constraint for step in choice.steps[:number] if step.removed and step.constraint[:2] != last[:2]]
    enabled = "enabled " if any(constraint.parameter == "disabled" for constraint in before) else ""
    which = [_attribute(constraint) for constraint in before if constraint.parameter != "disabled"]
    sentence = f"No {enabled}provider{f' {_listed(which)}' if which else ''} {_verb(last)}"
    near = next((miss for miss in choice.misses if miss.constraint == last and miss.lacking), None)
    if near is not None and last.check == ROOM:
        most = _amount(last)[1] - near.lacking[0][0]
        sentence += f"; the largest has {most:,}" if most > 0 else "; none is left"
    # Groups of one come first: they are still all that was requested.
    for change, count in sorted(helpful, key=lambda each: each[0].instead is None or each[0].instead.check != EACH):
        instead = change.instead
        if change.without is not None and instead is not None and change.without[:2] == last[:2]:
            parts, less = _amount(last)[1] // _amount(instead)[1], _amount(instead)[1]
            how = f"{parts:,} groups of {less:,}" if instead.check == EACH else f"{less:,}"
            sentence += f". With {how}, there {'is' if count.number == 1 else 'are'} {_counted(count)}"
            break
    off = next((miss for miss in choice.misses if miss.constraint.parameter == "disabled"), None)
    if off is not None:
        verb = "is" if off.providers == 1 else "are"
        name = snapshot.identities.names[off.examples[0]]
        sentence += f". {off.providers:,} that would fit {verb} disabled, for example {name}"
    return f"{sentence}."


def _of_trees(by: Constraint | tuple[str, str | None], choices: Sequence[Choice]) -> str:
    """Why no tree has a candidate, if the choice or constraint *by* removed the last one."""
    if not isinstance(by, Constraint):
        names = []
        for choice in choices:
            names.append(choice.resource_class or f"group {choice.suffix}")
            if (choice.suffix, choice.resource_class) == by:
                break
        return f"No tree has {'a provider' if len(names) == 1 else 'providers'} for {_listed(names)}."
    if by.parameter == "can_split":
        return f"In no tree do the free parts of {by.value.replace(',', ', ')} add up to the amounts."
    if by.parameter == "required":
        return f"In no tree do the providers that fit have the required traits {by.value}."
    if by.check == SUM:
        return f"No tree has room for all groups together: they share {by.value.replace(',', ', ')}."
    if by.parameter == "same_subtree":
        return f"In no tree can the providers be placed as same_subtree={by.value} requires."
    return f"No tree has a provider of its own for each group, as {by.parameter}={by.value} requires."


def _listed(words: Sequence[str]) -> str:
    """``a, b and c``."""
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def _amount(constraint: Constraint) -> tuple[str, int]:
    """The class and the amount of a constraint on resources."""
    name, _, amount = constraint.value.rpartition(":")
    return name, int(amount)


_WORDS: Mapping[str, tuple[str, str]] = {
    "required": ("has the trait {}", "with the trait {}"),
    "!required": ("lacks the trait {}", "without the trait {}"),
    "member_of": ("is in the aggregate {}", "in the aggregate {}"),
    "!member_of": ("is outside the aggregate {}", "outside the aggregate {}"),
    "in_tree": ("is in the tree of {}", "in the tree of {}"),
    "in_subtree": ("is in the subtree of {}", "in the subtree of {}"),
    INVENTORY: ("has {0}", "with {0}"),
    UNITS: ("allows {1:,} {0} at once", "that allows {1:,} {0} at once"),
    ROOM: ("has {1:,} {0} free", "with {1:,} {0} free"),
    PART: ("has a part of {1:,} {0} free", "with a part of {1:,} {0} free"),
}
"""Each condition as what a provider does, and as which provider it is."""


def _verb(constraint: Constraint) -> str:
    return _in_words(constraint, 0)


def _attribute(constraint: Constraint) -> str:
    return _in_words(constraint, 1)


def _in_words(constraint: Constraint, form: int) -> str:
    parameter, value, check = constraint
    if check is not None and check in _WORDS:
        return _WORDS[check][form].format(*_amount(constraint))
    if check == UNKNOWN:
        return f"is in the aggregate {value}" if "member_of" in parameter else f"has the name or uuid {_named(value)}"
    plain = parameter.removeprefix("root_")
    word = next(word for word in ("required", "member_of", "in_tree", "in_subtree") if plain.startswith(word))
    negated = "!" if value.startswith("!") else ""
    one_of = value.removeprefix("!").removeprefix("in:").replace(" and ", " and of ").replace("in:", "")
    words = _WORDS[negated + word][form]
    if "," in one_of:
        words = words.replace("the trait", "one of the traits").replace("the aggregate", "one of the aggregates")
    return words.format(_named(one_of.replace(",", ", ")))


def _named(reference: str) -> str:
    return reference.removeprefix(BY_NAME)
