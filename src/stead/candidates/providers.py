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
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from stead.catalog.snapshot import Snapshot
    from stead.domain.pages import Page
    from stead.domain.provider import Slot
    from stead.domain.request import ProviderQuery


def matching_providers(snapshot: Snapshot, query: ProviderQuery) -> list[int]:
    """Slots of the providers that pass, ascending.

    An unknown name is an error, unless an earlier filter already excludes every provider by itself.

    Raises:
        UnknownTraits, UnknownResourceClass
    """
    matching = snapshot.live
    if query.in_tree is not None:
        slot = snapshot.find_referenced(query.in_tree)
        if slot is None:
            return []
        root = snapshot.forest.root[slot]
        matching = matching & _only(snapshot, snapshot.forest.members(root))
    if query.in_subtree is not None:
        top = snapshot.find_referenced(query.in_subtree)
        if top is None:
            return []
        matching = matching & _only(snapshot, snapshot.forest.subtree(top))
    having = snapshot.with_traits(resolve_required(snapshot, query.traits), ())
    if query.traits.clauses and not having.any():
        return []
    matching = matching & having & snapshot.with_traits((), resolve_forbidden(snapshot, query.traits))
    aggregates = resolve_aggregates(snapshot, query.aggregates)
    if not meetable(snapshot, aggregates):
        return []
    matching = matching & snapshot.in_aggregates(aggregates.clauses, aggregates.forbidden)
    for class_id, amount in resolve_classes(snapshot, query.resources or {}).items():
        matching = matching & snapshot.serving(class_id, amount)
    if query.uuid is not None:
        matching = matching & _only(snapshot, [snapshot.find(query.uuid)])
    if query.name:
        matching = matching & _only(snapshot, [snapshot.find_named(query.name)])
    slots: list[int] = np.flatnonzero(matching).tolist()
    return slots


def page_of(snapshot: Snapshot, slots: Sequence[int], page: Page) -> tuple[list[int], bool]:
    """One page of the providers at *slots*, ordered by uuid, and whether others follow.

    Slots do not serve as an order, because they differ between processes. Ids do not either, because a deleted
    provider has none and may be the marker.
    """
    uuids: list[str] = snapshot.identities.uuids.at(np.array(slots, np.int64)).tolist()
    after = [pair for pair in zip(uuids, slots, strict=True) if page.marker is None or pair[0] > page.marker]
    if page.limit is None:
        return [slot for _, slot in sorted(after)], False
    shown = [slot for _, slot in nsmallest(page.limit, after)]
    return shown, len(shown) < len(after)


def _only(snapshot: Snapshot, slots: Iterable[Slot | None]) -> NDArray[np.bool_]:
    mask = np.zeros(snapshot.size, np.bool_)
    mask[[slot for slot in slots if slot is not None]] = True
    return mask
