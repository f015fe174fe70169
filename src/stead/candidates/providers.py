"""The provider list's filters: which providers pass all of them, each by itself.

Source: "GET /resource_providers", docs/api.md: the order of the questions decides which unknown name is an error and
which is hidden by an answer that is empty already.
"""

from __future__ import annotations

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
    from stead.domain.provider import Slot
    from stead.domain.request import ProviderQuery


def matching_providers(snapshot: Snapshot, query: ProviderQuery) -> list[int]:
    """Slots of the providers that pass, ascending.

    An unknown name is an error, unless an earlier filter is one that no provider at all could pass, whatever the other
    filters say.

    Raises:
        UnknownTraits, UnknownResourceClass
    """
    kept = snapshot.live
    if query.in_tree is not None:
        slot = snapshot.find(query.in_tree)
        if slot is None:
            return []
        root = snapshot.forest.root[slot]
        kept = kept & _only(snapshot, snapshot.forest.members(root))
    having = snapshot.with_traits(resolve_required(snapshot, query.traits), ())
    if not having.any():
        return []
    kept = kept & having & snapshot.with_traits((), resolve_forbidden(snapshot, query.traits))
    aggregates = resolve_aggregates(snapshot, query.aggregates)
    if not meetable(snapshot, aggregates):
        return []
    kept = kept & snapshot.in_aggregates(aggregates.clauses, aggregates.forbidden)
    for class_id, amount in resolve_classes(snapshot, query.resources or {}).items():
        kept = kept & snapshot.serving(class_id, amount)
    if query.uuid is not None:
        kept = kept & _only(snapshot, [snapshot.find(query.uuid)])
    if query.name:
        kept = kept & _only(snapshot, [snapshot.find_named(query.name)])
    found: list[int] = np.flatnonzero(kept).tolist()
    return found


def _only(snapshot: Snapshot, slots: Iterable[Slot | None]) -> NDArray[np.bool_]:
    mask = np.zeros(snapshot.size, np.bool_)
    mask[[slot for slot in slots if slot is not None]] = True
    return mask
