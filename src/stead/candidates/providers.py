"""The provider list's filters: which providers pass all of them, each by itself.

Source: "GET /resource_providers", docs/api.md: the order of the questions decides which unknown name is an error and
which is hidden by an answer that is empty already.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stead.candidates.match import serving
from stead.candidates.resolve import (
    meetable,
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

    An unknown name is an error, unless an earlier filter is one that no provider at all could pass, whatever the other
    filters say.

    Raises:
        UnknownTraits, UnknownResourceClass
    """
    kept = snapshot.live()
    if query.in_tree is not None:
        slot = snapshot.find(query.in_tree)
        if slot is None:
            return []
        kept &= snapshot.forest.root == snapshot.forest.root[slot]
    having = snapshot.trait_sets.passing(resolve_required(snapshot, query.traits), ())
    if not having.any():
        return []
    kept &= having & snapshot.trait_sets.passing((), resolve_forbidden(snapshot, query.traits))
    aggregates = resolve_aggregates(snapshot, query.aggregates)
    if not meetable(snapshot, aggregates):
        return []
    kept &= snapshot.aggregate_sets.passing(aggregates.clauses, aggregates.forbidden)
    for class_id, amount in resolve_classes(snapshot, query.resources or {}).items():
        kept &= serving(snapshot, class_id, amount)
    found: list[int] = np.flatnonzero(kept & _named(snapshot, query)).tolist()
    return found


def _named(snapshot: Snapshot, query: ProviderQuery) -> NDArray[np.bool_]:
    """Providers with the name and the uuid that the query asks for."""
    kept = snapshot.live()
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
