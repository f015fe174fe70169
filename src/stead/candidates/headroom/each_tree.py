"""Each tree: how many times requests fit into single trees, and what runs out first there.

Source: "GET /headroom", docs/stead-api.md; decision 41.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from stead.candidates.combine import demand_of
from stead.candidates.explain import SUM, Constraint, isolation, spelled, subtree_values
from stead.candidates.headroom.counting import alike, count, read_trees
from stead.candidates.headroom.filling import Filling
from stead.candidates.kinds import TreeKinds
from stead.candidates.match import (
    Pool,
    admitted,
    anchors_of,
    eligible_anchors,
    resolve,
    resolve_aggregates,
    resolve_traits,
)
from stead.candidates.work import WorkSpent
from stead.domain.provider import MAX_INT
from stead.domain.request import UNSUFFIXED

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from stead.candidates.combine import Demand
    from stead.candidates.headroom.counting import Counts, Trees
    from stead.candidates.match import MatchedGroup
    from stead.candidates.work import Work
    from stead.catalog.columns import Shares
    from stead.catalog.snapshot import Snapshot
    from stead.domain.request import CandidateRequest

    Mask = NDArray[np.bool_]
    Numbers = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Fits:
    """How many times a request fits into each tree alone.

    Attributes:
        anchors: the roots, ascending, shape ``(trees,)``.
        at_least, at_most: by tree, how many claims fit.
        limiting: each limit with the roots of its trees, at least one. A limit may be there several times, with
            different roots each time.
    """

    anchors: Numbers
    at_least: Numbers
    at_most: Numbers
    limiting: Sequence[tuple[LimitedBy, Numbers]]


NOWHERE = Fits(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.int64), ())
"""No tree in which anything fits."""


@dataclass(frozen=True, slots=True)
class EachTree:
    """What was found in each tree alone, and with what.

    ``is_exact`` says by tree whether counting alone decided.
    """

    fits: Fits
    is_exact: Mask
    pools: Sequence[Pool]
    counted: Sequence[tuple[Trees, Counts]]
    filling: Filling


def each_tree(
    snapshot: Snapshot, request: CandidateRequest, matched: tuple[Sequence[MatchedGroup], Mask], work: Work
) -> EachTree:
    """What fits into each tree alone; *matched* is from `match_all`.

    What is found in a tree does not depend on the trees beside it, as long as *work* is not used up.

    Raises:
        WorkSpent: before a bound of each tree is known.
    """
    groups, eligible = matched
    tree_kinds = TreeKinds(snapshot, groups, work, request)
    pools, demand = tree_kinds.pools, tree_kinds.demand
    anchors = anchors_of(snapshot, eligible, pools, work.give_way)
    clauses = [snapshot.with_traits([clause], ()) for group in groups for clause in group.clauses]
    one_provider = request.one_provider_per_tree and snapshot.forest.has_nested
    sums = _Sums(snapshot.size, anchors, demand, 1)
    sums.add(
        read_trees(snapshot, pools, clauses, anchors, work),
        [pool.shares for pool in pools],
        work,
        one_provider=one_provider,
    )
    at_least, at_most, is_exact = sums.at_least[0], sums.at_most[0], sums.is_exact[0]
    # From here on, bounds are known, and the work that remains only brings them closer.
    filling = Filling(snapshot, tree_kinds, work, one_provider=one_provider)
    with suppress(WorkSpent):
        inexact = anchors[~is_exact]
        most_of = dict(zip(inexact.tolist(), at_most[~is_exact].tolist(), strict=True))
        for _, members, packed in filling.each(inexact, most_of):
            place = sums.place_of[members[0]]
            at_least[place], at_most[place] = packed.at_least, packed.at_most
    (fits,) = sums.fits(snapshot, [request], work.give_way)
    return EachTree(fits, is_exact, pools, sums.counted, filling)


def each_tree_of_all(snapshot: Snapshot, requests: Sequence[CandidateRequest], work: Work) -> list[Fits | None]:
    """What fits into each tree alone, for each of *requests* of one form; None if sums do not decide all trees.

    No sharing provider may serve any of the requests.

    Raises:
        WorkSpent
    """
    matched = match_form(snapshot, requests)
    if matched is None:
        return [NOWHERE] * len(requests)
    anchors = anchors_of(snapshot, matched.eligible, matched.pools, work.give_way)
    sums = _Sums(snapshot.size, anchors, matched.demand, len(requests))
    sums.add(
        (
            of_shape.for_each(snapshot, matched.amounts, len(requests))
            for of_shape in read_trees(snapshot, matched.pools, matched.clauses, anchors, work)
        ),
        [None] * len(matched.pools),
        work,
        one_provider=requests[0].one_provider_per_tree and snapshot.forest.has_nested,
    )
    return [
        fits if is_exact.all() else None
        for fits, is_exact in zip(sums.fits(snapshot, requests, work.give_way), sums.is_exact, strict=True)
    ]


class _Sums:
    """The bounds of trees by request, shape ``(requests, anchors)``, as sums of columns tell them."""

    def __init__(self, slots: int, anchors: Numbers, demand: Demand, requests: int) -> None:
        self.anchors = anchors
        self.place_of = np.full(slots, -1, np.int64)
        self.place_of[anchors] = np.arange(len(anchors))
        self.at_least = np.zeros((requests, len(anchors)), np.int64)
        self.at_most = np.zeros((requests, len(anchors)), np.int64)
        self.is_exact = np.zeros((requests, len(anchors)), np.bool_)
        self.counted: list[tuple[Trees, Counts]] = []
        self._demand = demand

    def add(self, read: Iterable[Trees], shares: Sequence[Shares | None], work: Work, *, one_provider: bool) -> None:
        """Count in the trees of *read*.

        Raises:
            WorkSpent
        """
        for of_shape in read:
            for similar in alike(of_shape, self._demand, work):
                counts = count(similar, self._demand, shares, work, one_provider=one_provider)
                places = similar.request, self.place_of[similar.anchors]
                self.at_most[places], self.is_exact[places] = counts.most, counts.is_exact
                # Only an exact count is achieved; the others are upper bounds until a filling exists.
                self.at_least[places] = np.where(counts.is_exact, counts.most, 0)
                self.counted.append((similar, counts))

    def fits(
        self, snapshot: Snapshot, requests: Sequence[CandidateRequest], give_way: Callable[[], object]
    ) -> Iterator[Fits]:
        """The bounds for each of *requests*, and what limits the trees."""
        limiting: list[list[tuple[LimitedBy, Numbers]]] = [[] for _ in requests]
        for reason, numbers, roots in limits(self.counted, (self.at_least, self.at_most), self.place_of, give_way):
            bounds = np.searchsorted(numbers, np.arange(len(requests) + 1)).tolist()
            for number, request in enumerate(requests):
                start, stop = bounds[number], bounds[number + 1]
                if start < stop:
                    limiting[number].append((named(reason, snapshot, request, self._demand), roots[start:stop]))
        for number in range(len(requests)):
            yield Fits(self.anchors, self.at_least[number], self.at_most[number], limiting[number])


# Limits: what runs out first in each tree, in the words of an explanation.
#
# Source: "GET /headroom", docs/stead-api.md.


LimitedBy = Constraint | tuple[str, str | None]
"""A constraint between groups, or a group with the class that runs out (None: it is in no single class)."""


class LimitKind(Enum):
    """The kinds of limits."""

    CLASS = auto()
    SUM = auto()
    ISOLATION = auto()
    OTHER = auto()


class Reason(NamedTuple):
    """A limit of all requests of one form, which may have other names for their groups.

    ``needs`` run out together; ``class_id`` is of the class that does, None if it is no single one.
    """

    what: LimitKind
    needs: tuple[int, ...] = ()
    class_id: int | None = None


class Limit(NamedTuple):
    """The number of trees in which something runs out first; two things may run out at the same time."""

    by: LimitedBy
    trees: int


def limits(
    counted: Sequence[tuple[Trees, Counts]],
    bounds: tuple[Numbers, Numbers],
    place_of: Numbers,
    give_way: Callable[[], object],
) -> Iterator[tuple[Reason, Numbers, Numbers]]:
    """What limits the trees after their claims: each reason with trees, as request (ascending) and root.

    A reason may be there several times, with different trees each time.

    Args:
        bounds: the least and the greatest number of claims, by request and by the places of *place_of*.
        give_way: lets other requests run; no work is spent here, and all trees may differ.
    """
    at_least, at_most = bounds
    for trees, counts in counted:
        give_way()
        places = trees.request, place_of[trees.anchors]
        # Trees into which the request cannot fit at all are no part of the answer. Only a filling may have shown that.
        remaining = at_most[places] > 0
        for reason, mask in _of_trees(trees, counts, at_least[places]):
            here = np.flatnonzero(mask & remaining)
            if here.size:
                yield reason, trees.request[here], trees.anchors[here]


def named(reason: Reason, snapshot: Snapshot, request: CandidateRequest, demand: Demand) -> LimitedBy:
    """A reason in the words of one request."""
    match reason.what:
        case LimitKind.CLASS:
            names = snapshot.class_names.by_id
            name = None if reason.class_id is None else names[reason.class_id].name
            return _suffixes(request)[reason.needs[0]], name
        case LimitKind.SUM:
            return _sum(request, demand, reason.needs, snapshot)
        case LimitKind.ISOLATION:
            return isolation(request)
        case LimitKind.OTHER:
            return _other(request, demand, snapshot)


def _suffixes(request: CandidateRequest) -> list[str]:
    """By need the suffix of its group."""
    # Each class of the unsuffixed group is a need, and each other group.
    return [
        group.suffix for group in request.groups for _ in (group.resources if group.suffix == UNSUFFIXED else (None,))
    ]


def ranked(request: CandidateRequest, trees_by: Mapping[LimitedBy, int]) -> list[Limit]:
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
            yield Reason(LimitKind.SUM, tuple(group)), binding & (unisolated <= claims)
            yield Reason(LimitKind.ISOLATION), binding & (unisolated > claims)
    if open_trees.any():
        yield Reason(LimitKind.OTHER), open_trees


def _of_need(trees: Trees, need: int, binding: Mask, claims: Numbers) -> Iterator[tuple[Reason, Mask]]:
    amounts = trees.amounts[need]
    if len(amounts) == 1:
        yield Reason(LimitKind.CLASS, (need,), *amounts), binding
        return
    is_open, serving = binding.copy(), trees.serving([need])
    for class_id, amount in amounts.items():
        times = np.where(trees.able[need][serving], trees.rooms[class_id][serving] // amount, 0).sum(axis=0)
        yield Reason(LimitKind.CLASS, (need,), class_id), binding & (times <= claims)
        is_open &= times > claims
    yield Reason(LimitKind.CLASS, (need,)), is_open


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


# Forms: requests that differ only in amounts and in the names of their groups are counted together.
#
# A site has hundreds of flavors but few forms of flavors: most request the same classes, with other amounts.
#
# Source: decision 46.


def form_of(request: CandidateRequest) -> Hashable:
    """What *request* has in common with the requests that are counted together with it; None if none can be."""
    if any(
        not group.resources or group.can_split or max(group.resources.values()) > MAX_INT for group in request.groups
    ):
        return None
    number_of = {group.suffix: number for number, group in enumerate(request.groups)}

    def numbers(suffixes: Iterable[str]) -> frozenset[int]:
        return frozenset(number_of[suffix] for suffix in suffixes)

    # Groups that compete for a class are counted in another way if their amounts are equal.
    distinct: dict[str, dict[int, int]] = defaultdict(dict)
    groups = tuple(
        (
            group.suffix == UNSUFFIXED,
            tuple((c, distinct[c].setdefault(amount, len(distinct[c]))) for c, amount in group.resources.items()),
            (group.traits, group.aggregates, group.in_tree, group.in_subtree),
        )
        for group in request.groups
    )
    return (
        groups,
        (request.isolate, numbers(request.isolated), request.one_provider_per_tree),
        tuple(numbers(suffixes) for suffixes in request.same_subtree),
        tuple((numbers(apart.together), numbers(apart.others)) for apart in request.apart),
        (request.root_traits, request.root_aggregates),
    )


@dataclass(frozen=True, slots=True)
class Matched:
    """What requests of one form have in common in a snapshot.

    ``pools`` have the providers that could serve each need if amounts did not matter. ``amounts`` are by need, then by
    class id, arrays of shape ``(requests,)``. ``clauses`` are masks of the providers that meet each of them.
    """

    pools: Sequence[Pool]
    amounts: Sequence[Mapping[int, Numbers]]
    demand: Demand
    clauses: Sequence[Mask]
    eligible: Mask


def match_form(snapshot: Snapshot, requests: Sequence[CandidateRequest]) -> Matched | None:
    """What *requests* of one form have in common; None if their names alone exclude every provider.

    All names must be known.
    """
    pools: list[Pool] = []
    amounts: list[Mapping[int, Numbers]] = []
    clauses: list[Mask] = []
    nowhere = np.empty(0, np.int64)
    for number, group in enumerate(requests[0].groups):
        resolved = resolve(snapshot, group)
        if resolved is None or not snapshot.inventory.keys() >= resolved.amounts.keys():
            return None
        able = admitted(snapshot, resolved)
        of_group = {
            class_id: np.array([request.groups[number].resources[name] for request in requests], np.int64)
            for name, class_id in zip(group.resources, resolved.amounts, strict=True)
        }
        if group.suffix == UNSUFFIXED:
            pools += [Pool(UNSUFFIXED, {c: amount}, able, nowhere) for c, amount in resolved.amounts.items()]
            amounts += [{class_id: of_requests} for class_id, of_requests in of_group.items()]
            clauses += [snapshot.with_traits([clause], ()) for clause in resolved.traits.clauses]
        else:
            pools.append(Pool(group.suffix, resolved.amounts, able, nowhere))
            amounts.append(of_group)
    root_traits = resolve_traits(snapshot, requests[0].root_traits)
    root_aggregates = resolve_aggregates(snapshot, requests[0].root_aggregates)
    eligible = eligible_anchors(snapshot, root_traits, root_aggregates)
    return Matched(pools, amounts, demand_of(pools, requests[0]), clauses, eligible)
