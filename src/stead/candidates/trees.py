"""Trees: the roots under which every pool has a provider."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from numpy.typing import NDArray

    from stead.candidates.match import Pool
    from stead.catalog.snapshot import Snapshot


_GREATEST = 2**63 - 1
"""The greatest integer of NumPy."""


def anchors(
    snapshot: Snapshot, eligible: NDArray[np.bool_], pools: Iterable[Pool], give_way: Callable[[], object]
) -> NDArray[np.int64]:
    """Slots of the roots in *eligible* that every pool can serve, ascending. *give_way* lets other requests run."""
    matching = eligible
    for pool in pools:
        give_way()
        matching = matching & served(snapshot, pool)
    return matching.nonzero()[0]


def served(snapshot: Snapshot, pool: Pool) -> NDArray[np.bool_]:
    """Mask of the anchors that *pool* can serve; read-only."""
    serving = pool.own
    if pool.shares is not None:
        # An upper bound: all parts of a tree together. `splits` decides per kind of tree whether they make the amount.
        own = np.flatnonzero(pool.own)
        most = np.zeros(snapshot.size, np.int64)
        np.add.at(most, snapshot.forest.root.at(own), pool.shares.most[own])
        (amount,) = pool.amounts.values()
        serving = most >= min(amount, _GREATEST)
    elif snapshot.forest.has_nested:
        serving = np.zeros(snapshot.size, np.bool_)
        serving[snapshot.forest.root.at(np.flatnonzero(pool.own))] = True
    if pool.shared.size:
        serving = serving.copy()  # it may be a cached mask
        for slot in pool.shared.tolist():
            serving[snapshot.sharing.anchors(slot)] = True
    return serving if pool.barred is None else serving & ~pool.barred
