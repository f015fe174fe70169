"""The provider list's filters: which providers pass all of them, each by itself.

Source: "GET /resource_providers", docs/api.md: the order of the questions decides which unknown name is an error and
which is hidden by an answer that is empty already.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stead.candidates.match import serving
from stead.candidates.resolve import (
    resolve_aggregates,
    resolve_classes,
    resolve_forbidden,
    resolve_required,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stead.catalog.snapshot import Snapshot
    from stead.domain.request import ProviderQuery


def matching_providers(snapshot: Snapshot, query: ProviderQuery) -> list[int]:
    """Slots of the providers that pass, ascending.

    Raises:
        UnknownTraits, UnknownResourceClass
    """
    kept = _named(snapshot, query)
    if not kept.any():
        return []
    if query.traits.clauses:
        kept &= snapshot.trait_sets.passing(resolve_required(snapshot, query.traits), ())
        if not kept.any():
            return []
    if query.traits.forbidden:
        kept &= snapshot.trait_sets.passing((), resolve_forbidden(snapshot, query.traits))
    if query.aggregates:
        aggregates = resolve_aggregates(snapshot, query.aggregates)
        kept &= snapshot.aggregate_sets.passing(aggregates.clauses, aggregates.forbidden)
    if not kept.any():
        return []
    for class_id, amount in resolve_classes(snapshot, query.resources or {}).items():
        kept &= serving(snapshot, class_id, amount)
    found: list[int] = np.flatnonzero(kept).tolist()
    return found


def _named(snapshot: Snapshot, query: ProviderQuery) -> NDArray[np.bool_]:
    """Providers that the query's name, uuid and tree allow."""
    kept = snapshot.live()
    if query.in_tree is not None:
        slot = snapshot.find(query.in_tree)
        kept &= snapshot.forest.root == snapshot.forest.root[slot] if slot is not None else False
    if query.uuid is not None:
        kept &= _only(snapshot, snapshot.find(query.uuid))
    if query.name:
        names = snapshot.identities.names
        kept &= _only(snapshot, names.index(query.name) if query.name in names else None)
    return kept


def _only(snapshot: Snapshot, slot: int | None) -> NDArray[np.bool_]:
    mask = np.zeros(snapshot.forest.size, np.bool_)
    if slot is not None:
        mask[slot] = True
    return mask
