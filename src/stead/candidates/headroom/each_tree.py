"""Each tree: how many times requests fit into single trees, if nothing is claimed from other trees.

Source: "GET /headroom", docs/api.md; decision 41.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from stead.candidates import trees
from stead.candidates.headroom.counting import count
from stead.candidates.headroom.filling import Filling
from stead.candidates.headroom.forms import match_form
from stead.candidates.headroom.limits import limits, named
from stead.candidates.headroom.reading import alike, read_trees
from stead.candidates.kinds import TreeKinds
from stead.candidates.work import WorkSpent

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from stead.candidates.demand import Demand
    from stead.candidates.headroom.counting import Counts
    from stead.candidates.headroom.limits import By
    from stead.candidates.headroom.reading import Trees
    from stead.candidates.match import MatchedGroup, Pool
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
    limiting: Sequence[tuple[By, Numbers]]


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
    anchors = trees.anchors(snapshot, eligible, pools, work.give_way)
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
    (fits,) = sums.fits(snapshot, [request])
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
    anchors = trees.anchors(snapshot, matched.eligible, matched.pools, work.give_way)
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
        for fits, is_exact in zip(sums.fits(snapshot, requests), sums.is_exact, strict=True)
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

    def fits(self, snapshot: Snapshot, requests: Sequence[CandidateRequest]) -> Iterator[Fits]:
        """The bounds for each of *requests*, and what limits the trees."""
        limiting: list[list[tuple[By, Numbers]]] = [[] for _ in requests]
        for reason, numbers, roots in limits(self.counted, (self.at_least, self.at_most), self.place_of):
            bounds = np.searchsorted(numbers, np.arange(len(requests) + 1)).tolist()
            for number, request in enumerate(requests):
                start, stop = bounds[number], bounds[number + 1]
                if start < stop:
                    limiting[number].append((named(reason, snapshot, request, self._demand), roots[start:stop]))
        for number in range(len(requests)):
            yield Fits(self.anchors, self.at_least[number], self.at_most[number], limiting[number])
