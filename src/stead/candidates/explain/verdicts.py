"""Verdicts on trees: the choice, or the constraint between choices, that excludes each tree.

The constraints between choices are added one after the other. After each, `combine` searches for one way; trees of one
kind are searched once.

Source: "Explaining" of allocation candidates, docs/api.md.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from stead.candidates.combine import ways
from stead.candidates.divide import divided
from stead.candidates.explain.funnel import SUM, Constraint, spelled
from stead.candidates.kinds import TreeKinds
from stead.candidates.trees import served
from stead.candidates.work import WorkSpent, masked
from stead.domain.request import UNSUFFIXED

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from stead.candidates.demand import Demand
    from stead.candidates.kinds import Kind
    from stead.candidates.match import MatchedGroup, Pool
    from stead.candidates.work import Work
    from stead.catalog.snapshot import Snapshot
    from stead.domain.request import CandidateRequest


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
        # The ground has the required traits of all stages; a stage before theirs must not apply them.
        ground = kind.ground if stage.has_clauses else replace(kind.ground, clauses=())
        parts = divided(stage.demand, ground, work)
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
