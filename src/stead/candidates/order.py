"""Order: the order in which trees contribute their candidates. All functions are lazy.

Depth-first returns all candidates of one tree, then those of the next. Breadth-first returns one of each tree in every
round. Random order is breadth-first over trees that are drawn one by one.
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
        done = 0
        if kind.has_choice and not kind.is_explored:
            # The search goes on while the candidates of the first tree are consumed, so a limit can end it early.
            done, first = 1, trees[:1]
            for arrangement in kind.arrangements():
                yield Batch((arrangement,), first)
        arrangements = list(kind.arrangements())
        if arrangements and len(trees) > done:
            yield Batch(arrangements, trees[done:])


def breadth_first(runs: Iterable[tuple[Iterable[Arrangement], Run]]) -> Iterator[Batch]:
    """One candidate of each tree in every round, until a tree has no more."""
    waiting: deque[tuple[Iterator[Arrangement], Run]] = deque()
    for arrangements, trees in runs:
        remaining = iter(arrangements)
        for first in remaining:
            yield Batch((first,), trees)
            waiting.append((remaining, trees))
            break
    while waiting:
        remaining, trees = waiting.popleft()
        for arrangement in remaining:
            yield Batch((arrangement,), trees)
            waiting.append((remaining, trees))
            break
