"""Limits: what runs out first in each tree, in the words of an explanation.

Source: "GET /headroom", docs/api.md.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from stead.candidates.explain.funnel import SUM, Constraint, spelled
from stead.candidates.explain.verdicts import isolation, subtree_values
from stead.domain.request import UNSUFFIXED

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from stead.candidates.demand import Demand
    from stead.candidates.headroom.counting import Counts
    from stead.candidates.headroom.reading import Trees
    from stead.candidates.match import Pool
    from stead.catalog.snapshot import Snapshot
    from stead.domain.request import CandidateRequest

    Numbers = NDArray[np.int64]
    Mask = NDArray[np.bool_]

By = Constraint | tuple[str, str | None]
"""A constraint between groups, or a group with the class that runs out (None: it is in no single class)."""


class Limit(NamedTuple):
    """The number of trees in which something runs out first; two things may run out at the same time."""

    by: By
    trees: int


def limits(
    snapshot: Snapshot,
    request: CandidateRequest,
    pools: Sequence[Pool],
    demand: Demand,
    counted: Sequence[tuple[Trees, Counts]],
    bounds: tuple[Numbers, Numbers],
    place_of: Numbers,
) -> list[tuple[By, Numbers]]:
    """What limits the trees after their claims: each limit with the roots of its trees, at least one.

    A limit may be there several times, with different roots each time.

    Args:
        bounds: the least and the greatest number of claims of each tree, by the places of *place_of*.
    """
    limiting = []
    at_least, at_most = bounds
    for trees, counts in counted:
        claims = at_least[place_of[trees.anchors]]
        # Trees into which the request cannot fit at all are no part of the answer. Only a filling may have shown that.
        remaining = at_most[place_of[trees.anchors]] > 0
        for by, mask in _of_trees(snapshot, request, pools, demand, trees, counts, claims):
            roots = trees.anchors[mask & remaining]
            if roots.size:
                limiting.append((by, roots))
    return limiting


def ranked(request: CandidateRequest, trees_by: Mapping[By, int]) -> list[Limit]:
    """The limits of the most trees first; of equally many, classes in the order of the request, then constraints."""
    classes_of = {group.suffix: [*group.resources] for group in request.groups}
    suffixes = list(classes_of)

    def rank(limit: Limit) -> tuple[int, int, int, str]:
        if isinstance(limit.by, Constraint):
            return -limit.trees, len(suffixes), 0, str(limit.by)
        suffix, name = limit.by
        classes = classes_of[suffix]
        return -limit.trees, suffixes.index(suffix), len(classes) if name is None else classes.index(name), ""

    return sorted((Limit(by, number) for by, number in trees_by.items() if number), key=rank)


def shared_limit(snapshot: Snapshot, pool: Pool, trees: int) -> Limit:
    """The limit that sharing providers are for *trees* together."""
    names = [snapshot.class_names.by_id[class_id].name for class_id in pool.amounts]
    return Limit((pool.suffix, names[0] if len(names) == 1 else None), trees)


def _of_trees(
    snapshot: Snapshot,
    request: CandidateRequest,
    pools: Sequence[Pool],
    demand: Demand,
    trees: Trees,
    counts: Counts,
    claims: Numbers,
) -> Iterator[tuple[By, Mask]]:
    """Each limit with a mask of the trees in which it binds. Groups alone come first, then what binds several."""
    # A tree counts for the simplest reason only: a limit of one group hides those of groups that compete.
    open_trees = np.ones(len(claims), np.bool_)
    for need, pool in enumerate(pools):
        binding = counts.of_needs[need] <= claims
        open_trees &= ~binding
        if binding.any():
            yield from _of_need(snapshot, pool, trees, need, binding, claims)
    for (group, of_group), unisolated in zip(counts.of_groups, counts.unisolated, strict=True):
        binding = open_trees & (of_group <= claims)
        open_trees = open_trees & ~binding
        if binding.any():
            yield _sum(request, demand, group, snapshot), binding & (unisolated <= claims)
            yield isolation(request), binding & (unisolated > claims)
    if open_trees.any():
        yield _other(request, demand, snapshot), open_trees


def _of_need(
    snapshot: Snapshot, pool: Pool, trees: Trees, need: int, binding: Mask, claims: Numbers
) -> Iterator[tuple[By, Mask]]:
    names = {class_id: snapshot.class_names.by_id[class_id].name for class_id in pool.amounts}
    if len(names) == 1:
        yield (pool.suffix, next(iter(names.values()))), binding
        return
    is_open = binding.copy()
    for class_id, amount in pool.amounts.items():
        times = np.where(trees.able[need], trees.rooms[class_id] // amount, 0).sum(axis=1)
        yield (pool.suffix, names[class_id]), binding & (times <= claims)
        is_open &= times > claims
    yield (pool.suffix, None), is_open


def _sum(request: CandidateRequest, demand: Demand, needs: Sequence[int], snapshot: Snapshot) -> Constraint:
    """The sum of classes that several groups request."""
    times = Counter(class_id for need in needs for class_id in demand.amounts[need])
    names = sorted(snapshot.class_names.by_id[class_id].name for class_id, number in times.items() if number > 1)
    if not names:
        return isolation(request)
    return Constraint("resources", ",".join(names), SUM)


def _other(request: CandidateRequest, demand: Demand, snapshot: Snapshot) -> Constraint:
    """The constraint that is left if neither single groups nor groups that compete explain a number."""
    if request.same_subtree or request.apart:
        return Constraint("same_subtree", " and ".join(subtree_values(request)))
    unsuffixed = [group for group in request.groups if group.suffix == UNSUFFIXED]
    if unsuffixed and unsuffixed[0].traits.clauses:
        return Constraint("required", " and ".join(map(spelled, unsuffixed[0].traits.clauses)))
    return _sum(request, demand, range(len(demand.amounts)), snapshot)
