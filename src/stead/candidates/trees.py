"""Trees: the anchors under which every pool still has a provider, and what each pool offers under one of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stead.domain.provider import Slot

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from stead.candidates.match import Pool
    from stead.catalog.snapshot import Snapshot


def anchors(snapshot: Snapshot, eligible: NDArray[np.bool_], pools: Iterable[Pool]) -> NDArray[np.int64]:
    """Roots among *eligible* that every pool can serve, ascending."""
    kept = eligible.copy()
    for pool in pools:
        kept &= _served(snapshot, pool)
    return np.flatnonzero(kept)


def _served(snapshot: Snapshot, pool: Pool) -> NDArray[np.bool_]:
    """Anchors that *pool* can serve."""
    served = np.zeros(snapshot.forest.size, np.bool_)
    served[snapshot.forest.root[pool.own]] = True
    for slot in np.flatnonzero(pool.shared):
        served[snapshot.sharing.anchors(Slot(int(slot)))] = True
    return served if pool.barred is None else served & ~pool.barred


def choices(snapshot: Snapshot, pools: Iterable[Pool], anchor: int) -> list[list[Slot]]:
    """For each pool the providers that may be chosen under *anchor*, those of its own tree first."""
    members = snapshot.forest.members(anchor)
    reaching = snapshot.sharing.reaching(anchor)
    return [
        [slot for slot in members if pool.own[slot]] + [slot for slot in reaching if pool.shared[slot]]
        for pool in pools
    ]
