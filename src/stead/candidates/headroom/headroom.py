"""Headroom: how many times a request can be claimed, one claim after the other, until nothing fits.

Trees are counted by sums of columns where these decide (`counting`), and filled where they do not (`filling`). Sharing
providers couple trees (`coupling`). The answer is a number that is achieved and a number that cannot be exceeded.

Source: "GET /headroom", docs/stead-api.md; decision 41.
"""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, replace
from heapq import nsmallest
from typing import TYPE_CHECKING

import numpy as np

from stead.candidates.engine import match_all, order_of, trees_in_order
from stead.candidates.headroom.counting import MOST
from stead.candidates.headroom.coupling import together
from stead.candidates.headroom.each_tree import each_tree, ranked, shared_limit
from stead.candidates.kinds import TreeKinds
from stead.candidates.match import admitted, eligible_anchors, in_ids, resolve_aggregates, resolve_traits
from stead.candidates.work import Work, WorkSpent, masked
from stead.domain.request import Drawn

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from stead.candidates.headroom.each_tree import Limit, LimitedBy
    from stead.candidates.losses import Losses
    from stead.candidates.match import MatchedGroup
    from stead.catalog.snapshot import Snapshot
    from stead.domain.request import ByAmount, ByHeadroom, ByShare, CandidateRequest, Page

    Mask = NDArray[np.bool_]
    Numbers = NDArray[np.int64]


_GREAT = 2**63
"""More than any integer of NumPy."""


@dataclass(frozen=True, slots=True)
class Headroom:
    """How many times a request fits.

    Attributes:
        at_least: this number of claims has a place together.
        at_most: no larger number has one.
        roots: the slots of the trees' roots, ascending; only trees in which the request may fit.
        roots_at_least: by root, how many fit if nothing is claimed from other trees; shape ``(roots,)``.
        roots_at_most: by root, the bound for that.
        limited_by: what runs out, with the number of trees in which it does, the most trees first.
        stranded: by class id, how much is left of each requested class after ``at_least`` claims.
        is_complete: false if the work was used up first; the bounds hold all the same.
    """

    at_least: int
    at_most: int
    roots: Numbers
    roots_at_least: Numbers
    roots_at_most: Numbers
    limited_by: Sequence[Limit]
    stranded: Mapping[int, int]
    is_complete: bool

    @property
    def is_exact(self) -> bool:
        """Whether the two numbers are the same."""
        return self.at_least == self.at_most


def headroom(
    snapshot: Snapshot, request: CandidateRequest, work: Work, *, among: NDArray[np.bool_] | None = None
) -> Headroom:
    """The headroom of *request*, whose limit and order do not matter.

    Args:
        among: mask of the trees, by their roots, in which claims may be made; all by default.

    Raises:
        UnknownResourceClass, UnknownTraits
    """
    try:
        matched = match_all(snapshot, request, work)
        if matched is None:
            stranded = {}
            with suppress(WorkSpent):
                stranded = dict(stranded_by(snapshot, request, 0, work))
            return replace(_none(0, is_complete=True), stranded=stranded)
        groups, eligible = matched
        return _headroom(snapshot, request, groups, eligible if among is None else eligible & among, work)
    except WorkSpent:
        return _none(MOST, is_complete=False)


def _none(at_most: int, *, is_complete: bool) -> Headroom:
    """No tree is known in which the request fits."""
    nowhere = np.empty(0, np.int64)
    return Headroom(0, at_most, nowhere, nowhere, nowhere, (), {}, is_complete)


def _headroom(
    snapshot: Snapshot,
    request: CandidateRequest,
    groups: Sequence[MatchedGroup],
    eligible: NDArray[np.bool_],
    work: Work,
) -> Headroom:
    each = each_tree(snapshot, request, (groups, eligible), work)
    anchors, at_least, at_most = each.fits.anchors, each.fits.at_least, each.fits.at_most
    total = together(
        snapshot, each.pools, each.counted, each.filling, (anchors, at_least, at_most, each.is_exact), work
    )
    trees_by: Counter[LimitedBy] = Counter()
    for by, roots in each.fits.limiting:
        trees_by[by] += roots.size
    limiting = ranked(request, trees_by)
    if total.needs:
        bounding = [each.pools[need] for need in total.needs]
        limiting = [shared_limit(snapshot, bounding, total.class_id, total.coupled), *limiting]
    stranded = {}
    with suppress(WorkSpent):
        stranded = _stranded(snapshot, request, eligible, total.at_least, work)
    return Headroom(
        total.at_least,
        total.at_most,
        anchors[at_most > 0],
        at_least[at_most > 0],
        at_most[at_most > 0],
        limiting,
        stranded,
        not work.is_cut,
    )


def _stranded(
    snapshot: Snapshot, request: CandidateRequest, eligible: NDArray[np.bool_], claims: int, work: Work
) -> dict[int, int]:
    """What is free of each class at the providers that a group requesting it admits, less what *claims* take."""
    amounts, of_class = usable(snapshot, request, eligible, work)
    return {
        class_id: room_of(snapshot, class_id, of_class[class_id]) - claims * amount
        for class_id, amount in amounts.items()
        if class_id in snapshot.inventory
    }


def stranded_by(snapshot: Snapshot, request: CandidateRequest, claims: int, work: Work) -> Mapping[int, int]:
    """By id of each class that *request* takes, what is left of it after this number of *claims*.

    The providers that count meet all terms of a group that requests the class, whatever they have free.

    Raises:
        UnknownResourceClass, UnknownTraits
        WorkSpent
    """
    traits = resolve_traits(snapshot, request.root_traits)
    eligible = eligible_anchors(snapshot, traits, resolve_aggregates(snapshot, request.root_aggregates))
    return _stranded(snapshot, request, eligible, claims, work)


def usable(
    snapshot: Snapshot, request: CandidateRequest, eligible: NDArray[np.bool_], work: Work
) -> tuple[Mapping[int, int], Mapping[int, NDArray[np.bool_]]]:
    """What *request* takes in all, and the mask of the providers that can give it; both by class id.

    Args:
        eligible: mask of the roots of its trees, from `match_all`.

    Raises:
        WorkSpent
    """
    # A sharing provider serves other trees, whatever its own root is.
    in_trees = eligible[snapshot.forest.root.whole] | snapshot.sharing.mask
    amounts: Counter[int] = Counter()
    of_class: dict[int, NDArray[np.bool_]] = {}
    for group in request.groups:
        work.spend(masked(snapshot.size))
        resolved = in_ids(snapshot, group)
        providers = in_trees & admitted(snapshot, resolved)
        amounts.update(resolved.amounts)
        for class_id in resolved.amounts:
            of_class[class_id] = of_class[class_id] | providers if class_id in of_class else providers
    return amounts, of_class


def room_of(snapshot: Snapshot, class_id: int, providers: NDArray[np.bool_]) -> int:
    """What is free of a class at *providers*, a mask; exact for any amounts."""
    columns = snapshot.inventory[class_id]
    return _sum(columns.room.whole[providers & (columns.kind.whole > 0)].clip(0))


def _sum(amounts: Numbers) -> int:
    """The exact sum, which may exceed the integers of NumPy."""
    if not amounts.size or int(amounts.max()) < _GREAT // amounts.size:
        return int(amounts.sum())
    return sum(amounts.tolist())


# Ordering: the page of trees that an answer shows.
#
# Source: "GET /headroom", docs/stead-api.md.


def page_of(
    snapshot: Snapshot, roots: NDArray[np.int64], request: CandidateRequest, page: Page, losses: Losses | None
) -> tuple[list[int], bool] | None:
    """The places in *roots* of the trees of a page, and whether other pages follow.

    Trees are in the order of the request, or of their uuids if it has none. None if an order has no place for the
    marker.

    Raises:
        UnknownClassInOrder
    """
    after: Sequence[int]
    uuids: list[str] = snapshot.identities.uuids.at(roots).tolist()
    if request.order is None or isinstance(request.order, Drawn):
        after = [place for place, uuid in enumerate(uuids) if uuid > page.marker] if page.marker else range(len(uuids))
        # Most pages are a small part of the trees, so they are not all sorted; one more tells whether others follow.
        most = len(uuids) if page.limit is None else page.limit + 1
        following = nsmallest(most, after, key=uuids.__getitem__)
    else:
        following = _in_order(snapshot, roots, request, request.order, losses)
        if page.marker is not None:
            # The marker is a uuid and the order is by measures, so its present place decides where the page begins.
            place = next((at for at, place in enumerate(following) if uuids[place] == page.marker), None)
            if place is None:
                return None
            following = following[place + 1 :]
    limit = len(following) if page.limit is None else page.limit
    return following[:limit], limit < len(following)


def _in_order(
    snapshot: Snapshot,
    roots: NDArray[np.int64],
    request: CandidateRequest,
    by: ByShare | ByAmount | ByHeadroom,
    losses: Losses | None,
) -> list[int]:
    """The places of *roots* in the order *by*.

    Raises:
        UnknownClassInOrder: also where nothing fits.
    """
    # Without a limit: to count the trees was more work than to sort them.
    work = Work()
    matched = match_all(snapshot, request, work) if len(roots) else None
    groups = [] if matched is None else matched[0]
    tree_kinds = TreeKinds(snapshot, groups, work, request if groups else None)
    measure = order_of(snapshot, request, by, groups, tree_kinds, losses)
    return list(trees_in_order(snapshot, roots, measure, work)) if groups else []
