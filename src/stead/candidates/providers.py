"""The filters of the provider list: the providers that each pass all of them.

The order of the checks is part of the contract. It decides which unknown name is an error, and which is hidden because
the answer is already empty.

Source: "GET /resource_providers", docs/api.md.
"""

from __future__ import annotations

from heapq import nsmallest
from typing import TYPE_CHECKING

import numpy as np

from stead.candidates.resolve import (
    meetable,
    resolve_aggregates,
    resolve_classes,
    resolve_forbidden,
    resolve_required,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from stead.catalog.snapshot import Snapshot
    from stead.domain.pages import Page
    from stead.domain.provider import Slot
    from stead.domain.request import ProviderQuery

_NONE = np.empty(0, np.int64)


def matching_providers(snapshot: Snapshot, query: ProviderQuery) -> NDArray[np.int64]:
    """Slots of the providers that pass, ascending.

    An unknown name is an error, unless an earlier filter already excludes every provider by itself.

    Raises:
        UnknownTraits, UnknownResourceClass
    """
    matching = snapshot.live
    if query.in_tree is not None:
        slot = snapshot.find_referenced(query.in_tree)
        if slot is None:
            return _NONE
        root = snapshot.forest.root[slot]
        matching = matching & _only(snapshot, snapshot.forest.members(root))
    if query.in_subtree is not None:
        top = snapshot.find_referenced(query.in_subtree)
        if top is None:
            return _NONE
        matching = matching & _only(snapshot, snapshot.forest.subtree(top))
    having = snapshot.with_traits(resolve_required(snapshot, query.traits), ())
    if query.traits.clauses and not having.any():
        return _NONE
    matching = matching & having & snapshot.with_traits((), resolve_forbidden(snapshot, query.traits))
    aggregates = resolve_aggregates(snapshot, query.aggregates)
    if not meetable(snapshot, aggregates):
        return _NONE
    matching = matching & snapshot.in_aggregates(aggregates.clauses, aggregates.forbidden)
    for class_id, amount in resolve_classes(snapshot, query.resources or {}).items():
        matching = matching & snapshot.serving(class_id, amount)
    if query.uuid is not None:
        matching = matching & _only(snapshot, [snapshot.find(query.uuid)])
    if query.name:
        matching = matching & _only(snapshot, [snapshot.find_named(query.name)])
    return np.flatnonzero(matching)


def page_of(snapshot: Snapshot, slots: NDArray[np.int64], page: Page) -> tuple[NDArray[np.int64], bool]:
    """One page of the providers at *slots*, ordered by uuid, and whether others follow.

    Slots do not serve as an order, because they differ between processes. Ids do not either, because a deleted
    provider has none and may be the marker.
    """
    uuids: list[str] = snapshot.identities.uuids.at(slots).tolist()
    pairs = zip(uuids, slots.tolist(), strict=True)
    after = [pair for pair in pairs if page.marker is None or pair[0] > page.marker]
    shown = sorted(after) if page.limit is None else nsmallest(page.limit, after)
    return np.array([slot for _, slot in shown], np.int64), len(shown) < len(after)


def _only(snapshot: Snapshot, slots: Iterable[Slot | None]) -> NDArray[np.bool_]:
    mask = np.zeros(snapshot.size, np.bool_)
    mask[[slot for slot in slots if slot is not None]] = True
    return mask
