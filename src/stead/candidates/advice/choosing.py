"""Choosing: from each tree at most one option, so that their gains reach a number with the fewest moves.

Source: decision 47.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from stead.candidates.work import masked

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stead.candidates.work import Work

_NEVER = 2**30
"""More moves than any plan has."""


class Option(NamedTuple):
    """If these *leavers* leave a tree, the request fits ``gain`` times more often into it."""

    moves: int
    gain: int
    leavers: frozenset[int] = frozenset()


def fewest(trees: Sequence[Sequence[Option]], needed: int, work: Work) -> list[Option] | None:
    """Options of different *trees* whose gains reach *needed*, with the fewest moves; None if none do.

    Raises:
        WorkSpent
    """
    reached = np.arange(needed + 1)
    moves = np.full(needed + 1, _NEVER, np.int64)
    moves[0] = 0
    numbers = []
    for options in trees:
        after, of_tree = moves, np.full(needed + 1, -1, np.int16)
        for number, option in enumerate(options):
            work.spend(masked(needed))
            # A gain beyond the number counts as reaching it.
            moved = moves[np.maximum(reached - option.gain, 0)] + option.moves
            better = moved < after
            after = np.where(better, moved, after)
            of_tree[better] = number
        moves = after
        numbers.append(of_tree)
    if moves[needed] >= _NEVER:
        return None
    chosen, remaining = list[Option](), needed
    for options, of_tree in zip(reversed(trees), reversed(numbers), strict=True):
        if of_tree[remaining] >= 0:
            chosen.append(options[of_tree[remaining]])
            remaining = max(remaining - chosen[-1].gain, 0)
    return chosen
