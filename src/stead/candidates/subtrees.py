"""Subtrees: the providers that can be the top of each ``same_subtree`` constraint, and what each leaves of the choices.

The tops are chosen before the search. After that, a subtree constraint only means that fewer positions serve a need.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stead.candidates.backtrack import sequences
from stead.candidates.work import TRIED

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from stead.candidates.demand import Choices, Demand, Ground, Subtree
    from stead.candidates.work import Work

    _Topped = tuple[int, Choices]
    """A top, and the choices that remain below it."""


def topped(demand: Demand, ground: Ground, work: Work) -> Iterator[tuple[Sequence[int], Choices]]:
    """Every choice of a top for each subtree constraint, with the choices that remain for the needs.

    A way has exactly one top per constraint, the highest of its bound providers. So no way is found twice, provided
    that the search lets each top serve one of its bound needs.

    Raises:
        WorkSpent: while iterating.
    """
    subtrees = demand.subtrees

    def following(chosen: Sequence[_Topped]) -> Iterator[_Topped]:
        choices = chosen[-1][1] if chosen else ground.choices
        return _below_tops(ground, subtrees[len(chosen)], choices, work)

    for chosen in sequences(len(subtrees), following):
        yield [top for top, _ in chosen], chosen[-1][1] if chosen else ground.choices


def _below_tops(ground: Ground, subtree: Subtree, choices: Choices, work: Work) -> Iterator[_Topped]:
    """Each provider that can be the top, with the choices of bound needs below it, and those of apart needs outside."""
    bound, apart = subtree
    # A position that can serve several bound needs is one top; a second pass would repeat its ways.
    for top in dict.fromkeys(position for need in sorted(bound) for position in choices[need]):
        # Narrowing costs time even if nothing is found, so it is paid for before it starts.
        work.spend(TRIED + len(choices) + sum(len(choices[need]) for need in bound | apart))
        narrowed = list(choices)
        for need in bound:
            narrowed[need] = [position for position in choices[need] if ground.is_below(position, top)]
        for need in apart:
            narrowed[need] = [position for position in choices[need] if _are_apart(ground, position, top)]
        if len(bound) == 1:
            # The only bound need must be served by the top itself, so every lower position is a dead end.
            narrowed[next(iter(bound))] = [top]
        if all(narrowed[need] for need in bound | apart):
            yield top, narrowed


def _are_apart(ground: Ground, position: int, top: int) -> bool:
    return not (ground.is_below(position, top) or ground.is_below(top, position))
