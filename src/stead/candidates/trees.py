"""Trees: the anchors under which every pool still has a provider."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from stead.candidates.match import Pool
    from stead.catalog.snapshot import Snapshot


def anchors(snapshot: Snapshot, eligible: NDArray[np.bool_], pools: Iterable[Pool]) -> NDArray[np.int64]:
    """Roots among *eligible* that every pool can serve, ascending."""
    kept = eligible
    for pool in pools:
        kept = kept & _served(snapshot, pool)
    return np.flatnonzero(kept)


def _served(snapshot: Snapshot, pool: Pool) -> NDArray[np.bool_]:
    """Anchors that *pool* can serve; not to be written to."""
    served = pool.own
    if snapshot.forest.has_nested:
        served = np.zeros(snapshot.size, np.bool_)
        served[snapshot.forest.root.at(np.flatnonzero(pool.own))] = True
    if pool.shared.size:
        served = served.copy()
        for slot in pool.shared.tolist():
            served[snapshot.sharing.anchors(slot)] = True
    return served if pool.barred is None else served & ~pool.barred
