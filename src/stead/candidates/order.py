"""Order: in which order the trees contribute their candidates, always lazily.

Depth-first gives all of one tree, then the next; breadth-first gives one of each tree in every round; random draws the
trees fairly, in rounds of a random order.
"""

from __future__ import annotations

from collections import deque
from itertools import chain
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

T = TypeVar("T")


def depth_first(trees: Iterable[Iterator[T]]) -> Iterator[T]:
    """All of one tree, then the next."""
    return chain.from_iterable(trees)


def breadth_first(trees: Iterable[Iterator[T]]) -> Iterator[T]:
    """One of each tree in every round; trees that run dry drop out."""
    waiting: deque[Iterator[T]] = deque()
    for tree in trees:
        for first in tree:
            yield first
            waiting.append(tree)
            break
    while waiting:
        tree = waiting.popleft()
        for another in tree:
            yield another
            waiting.append(tree)
            break
