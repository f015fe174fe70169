"""Order: in which order the trees contribute their candidates, always lazily.

Depth-first gives all of one tree, then the next; breadth-first gives one of each tree in every round. Random order is
breadth-first over trees that are drawn one by one.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from stead.candidates.candidate import Batch

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import numpy as np
    from numpy.typing import NDArray

    from stead.candidates.candidate import Arrangement
    from stead.candidates.kinds import Kind

    Run = NDArray[np.int64]
    """Trees of one kind, as in a batch."""


def depth_first(runs: Iterable[tuple[Kind, Run]]) -> Iterator[Batch]:
    """All candidates of one tree, then those of the next."""
    for kind, trees in runs:
        sought = 0
        if not kind.is_explored:
            sought, first = 1, trees[:1]
            for arrangement in kind.arrangements():
                yield Batch((arrangement,), first)
        arrangements = list(kind.arrangements())
        if arrangements and len(trees) > sought:
            yield Batch(arrangements, trees[sought:])


def breadth_first(runs: Iterable[tuple[Iterable[Arrangement], Run]]) -> Iterator[Batch]:
    """One candidate of each tree in every round; trees that run dry drop out."""
    waiting: deque[tuple[Iterator[Arrangement], Run]] = deque()
    for arrangements, trees in runs:
        left = iter(arrangements)
        for first in left:
            yield Batch((first,), trees)
            waiting.append((left, trees))
            break
    while waiting:
        left, trees = waiting.popleft()
        for another in left:
            yield Batch((another,), trees)
            waiting.append((left, trees))
            break
