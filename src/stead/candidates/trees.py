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
        kept = kept & served(snapshot, pool)
    return np.flatnonzero(kept)


def served(snapshot: Snapshot, pool: Pool) -> NDArray[np.bool_]:
    """Anchors that *pool* can serve; not to be written to."""
    serving = pool.own
    if pool.shares is not None:
        own = np.flatnonzero(pool.own)
        given = np.zeros(snapshot.size, np.int64)
        np.add.at(given, snapshot.forest.root.at(own), pool.shares.most[own])
        (amount,) = pool.amounts.values()
        serving = given >= min(amount, np.iinfo(np.int64).max)
    elif snapshot.forest.has_nested:
        serving = np.zeros(snapshot.size, np.bool_)
        serving[snapshot.forest.root.at(np.flatnonzero(pool.own))] = True
    if pool.shared.size:
        serving = serving.copy()
        for slot in pool.shared.tolist():
            serving[snapshot.sharing.anchors(slot)] = True
    return serving if pool.barred is None else serving & ~pool.barred
