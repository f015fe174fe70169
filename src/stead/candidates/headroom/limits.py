"""Limits: what runs out first in each tree, in the words of an explanation.

Source: "GET /headroom", docs/api.md.
"""

from __future__ import annotations

from collections import Counter
from enum import Enum, auto
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


class What(Enum):
    """The kinds of limits."""

    CLASS = auto()
    SUM = auto()
    ISOLATION = auto()
    OTHER = auto()


class Reason(NamedTuple):
    """A limit of all requests of one form, which may have other names for their groups.

    ``needs`` run out together; ``class_id`` is of the class that does, None if it is no single one.
    """

    what: What
    needs: tuple[int, ...] = ()
    class_id: int | None = None


class Limit(NamedTuple):
    """The number of trees in which something runs out first; two things may run out at the same time."""

    by: By
    trees: int


def limits(
    counted: Sequence[tuple[Trees, Counts]], bounds: tuple[Numbers, Numbers], place_of: Numbers
) -> Iterator[tuple[Reason, Numbers, Numbers]]:
    """What limits the trees after their claims: each reason with trees, as request (ascending) and root.

    A reason may be there several times, with different trees each time.

    Args:
        bounds: the least and the greatest number of claims, by request and by the places of *place_of*.
    """
    at_least, at_most = bounds
    for trees, counts in counted:
        places = trees.request, place_of[trees.anchors]
        # Trees into which the request cannot fit at all are no part of the answer. Only a filling may have shown that.
        remaining = at_most[places] > 0
        for reason, mask in _of_trees(trees, counts, at_least[places]):
            here = np.flatnonzero(mask & remaining)
            if here.size:
                yield reason, trees.request[here], trees.anchors[here]


def named(reason: Reason, snapshot: Snapshot, request: CandidateRequest, demand: Demand) -> By:
    """A reason in the words of one request."""
    match reason.what:
        case What.CLASS:
            names = snapshot.class_names.by_id
            name = None if reason.class_id is None else names[reason.class_id].name
            return _suffixes(request)[reason.needs[0]], name
        case What.SUM:
            return _sum(request, demand, reason.needs, snapshot)
        case What.ISOLATION:
            return isolation(request)
        case What.OTHER:
            return _other(request, demand, snapshot)


def _suffixes(request: CandidateRequest) -> list[str]:
    """By need the suffix of its group."""
    # Each class of the unsuffixed group is a need, and each other group.
    return [
        group.suffix for group in request.groups for _ in (group.resources if group.suffix == UNSUFFIXED else (None,))
    ]


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


def shared_limit(snapshot: Snapshot, pools: Sequence[Pool], class_id: int | None, trees: int) -> Limit:
    """The limit that sharing providers are for *trees* together: of *pools* and, if they are several, of a class."""
    names = snapshot.class_names.by_id
    if class_id is not None:
        return Limit(Constraint("resources", names[class_id].name, SUM), trees)
    classes = [names[requested].name for requested in pools[0].amounts]
    return Limit((pools[0].suffix, classes[0] if len(classes) == 1 else None), trees)


def _of_trees(trees: Trees, counts: Counts, claims: Numbers) -> Iterator[tuple[Reason, Mask]]:
    """Each reason with a mask of the trees in which it binds. Groups alone come first, then what binds several."""
    # A tree counts for the simplest reason only: a limit of one group hides those of groups that compete.
    open_trees = np.ones(len(claims), np.bool_)
    for need, of_need in enumerate(counts.of_needs):
        binding = of_need <= claims
        open_trees &= ~binding
        if binding.any():
            yield from _of_need(trees, need, binding, claims)
    for (group, of_group), unisolated in zip(counts.of_groups, counts.unisolated, strict=True):
        binding = open_trees & (of_group <= claims)
        open_trees = open_trees & ~binding
        if binding.any():
            yield Reason(What.SUM, tuple(group)), binding & (unisolated <= claims)
            yield Reason(What.ISOLATION), binding & (unisolated > claims)
    if open_trees.any():
        yield Reason(What.OTHER), open_trees


def _of_need(trees: Trees, need: int, binding: Mask, claims: Numbers) -> Iterator[tuple[Reason, Mask]]:
    amounts = trees.amounts[need]
    if len(amounts) == 1:
        yield Reason(What.CLASS, (need,), *amounts), binding
        return
    is_open, serving = binding.copy(), trees.serving([need])
    for class_id, amount in amounts.items():
        times = np.where(trees.able[need][serving], trees.rooms[class_id][serving] // amount, 0).sum(axis=0)
        yield Reason(What.CLASS, (need,), class_id), binding & (times <= claims)
        is_open &= times > claims
    yield Reason(What.CLASS, (need,)), is_open


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
