"""Verdicts on trees: by which choice, or by what binds the choices together, each tree was lost.

What binds them is taken up one after the other, and with each a tree is searched for one way, as `combine` finds them;
trees of one kind are searched once.

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
from stead.candidates.kinds import Demanded
from stead.candidates.trees import served
from stead.candidates.work import WorkSpent
from stead.domain.request import UNSUFFIXED

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from stead.candidates.combine import Demand
    from stead.candidates.kinds import Kind
    from stead.candidates.match import MatchedGroup, Pool
    from stead.candidates.work import Work
    from stead.catalog.snapshot import Snapshot
    from stead.domain.request import CandidateRequest


class Lost(NamedTuple):
    """Trees that are left, and those that were removed, by a choice (its group and class) or by a constraint."""

    by: Constraint | tuple[str, str | None]
    left: int
    removed: int


@dataclass(frozen=True, slots=True)
class Verdicts:
    """What became of all trees; for ``undecided`` ones there was no work left."""

    in_play: int
    steps: tuple[Lost, ...]
    undecided: int


class _Stage(NamedTuple):
    """What is demanded when *constraint* has been taken up; clauses are those of the required traits."""

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
    """What became of the trees of the roots in *eligible*."""
    kept, steps = eligible, []
    for group, name, pool in _choices(request, groups):
        after = kept & served(snapshot, pool)
        left = int(np.count_nonzero(after))
        steps.append(Lost((group, name), left, int(np.count_nonzero(kept)) - left))
        kept = after
    demanded = Demanded(snapshot, groups, work, request)
    stages = list(_stages(request, demanded))
    removed: Counter[int] = Counter()
    left = undecided = int(np.count_nonzero(kept))
    fates: dict[Kind, int] = {}
    try:
        anchors = np.flatnonzero(kept)
        for kind, trees in demanded.runs(anchors, range(len(anchors))) if stages else ():
            if kind not in fates:
                fates[kind] = _fate(kind, stages, work)
            removed[fates[kind]] += len(trees)
            undecided -= len(trees)
    except WorkSpent:
        pass
    for number, stage in enumerate(stages):
        left -= removed[number]
        steps.append(Lost(stage.constraint, left, removed[number]))
    return Verdicts(int(np.count_nonzero(eligible)), tuple(steps), undecided if stages else 0)


def _choices(request: CandidateRequest, groups: Sequence[MatchedGroup]) -> Iterator[tuple[str, str | None, Pool]]:
    for group, matched in zip(request.groups, groups, strict=True):
        names: Sequence[str | None] = list(group.resources) if group.suffix == UNSUFFIXED else [None]
        for name, pool in zip(names, matched.pools, strict=True):
            yield group.suffix, name, pool


def _fate(kind: Kind, stages: Sequence[_Stage], work: Work) -> int:
    """The first of *stages* in which nothing is found; their number if something always is."""
    if next(iter(kind.arrangements()), None) is not None:
        return len(stages)
    for number, stage in enumerate(stages):
        ground = kind.ground if stage.has_clauses else replace(kind.ground, clauses=())
        parts = divided(stage.demand, ground, work)
        if next((way for demand, parted in parts for way in ways(demand, parted, work)), None) is None:
            return number
    return len(stages)


def _stages(request: CandidateRequest, demanded: Demanded) -> Iterator[_Stage]:
    """What binds the choices together, each with all before it; what can not bind is left out."""
    whole = demanded.demand
    demand = replace(whole, isolated=frozenset(), bystanders=frozenset(), subtrees=(), is_boundless=True)
    unsuffixed = next((group for group in request.groups if group.suffix == UNSUFFIXED), None)
    has_clauses = False
    if unsuffixed is not None and unsuffixed.can_split:
        yield _Stage(Constraint("can_split", ",".join(sorted(unsuffixed.can_split))), demand, has_clauses)
    if unsuffixed is not None and unsuffixed.traits.clauses:
        has_clauses = True
        value = " and ".join(map(spelled, unsuffixed.traits.clauses))
        yield _Stage(Constraint("required", value), demand, has_clauses)
    if whole.contested:
        demand = replace(demand, is_boundless=False)
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
    """What isolates groups, in the words of the query."""
    if request.isolate:
        return Constraint("group_policy", "isolate")
    return Constraint("isolate", ",".join(sorted(request.isolated)))


def subtree_values(request: CandidateRequest) -> list[str]:
    """The values of ``same_subtree``, those without ``!`` first."""
    return [
        *(",".join(sorted(together)) for together in request.same_subtree),
        *(",".join([*sorted(one.together), *(f"!{other}" for other in sorted(one.others))]) for one in request.apart),
    ]
