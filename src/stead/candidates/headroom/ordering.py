"""Ordering: the page of trees that an answer shows.

Source: "GET /headroom", docs/api.md.
"""

from __future__ import annotations

from collections import Counter
from heapq import nsmallest
from typing import TYPE_CHECKING

from stead.candidates.best import resolve_order, trees_in_order
from stead.candidates.resolve import resolve_classes
from stead.domain.order import Drawn

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from stead.catalog.snapshot import Snapshot
    from stead.domain.pages import Page
    from stead.domain.request import CandidateRequest


def page_of(
    snapshot: Snapshot, roots: NDArray[np.int64], request: CandidateRequest, page: Page
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
        requested: Counter[int] = Counter()
        for group in request.groups if len(roots) else ():
            requested.update(resolve_classes(snapshot, group.resources))
        measure = resolve_order(snapshot, request.order, requested)  # refuses unknown classes also where nothing fits
        following = list(trees_in_order(snapshot, roots, measure)) if len(roots) else []
        if page.marker is not None:
            # The marker is a uuid and the order is by measures, so its present place decides where the page begins.
            place = next((at for at, place in enumerate(following) if uuids[place] == page.marker), None)
            if place is None:
                return None
            following = following[place + 1 :]
    limit = len(following) if page.limit is None else page.limit
    return following[:limit], limit < len(following)
