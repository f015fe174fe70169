"""Backtracking: all sequences of choices, where each choice decides which ones can follow.

It keeps its own stack. A generator that calls itself would pass each result up through all levels,
and a request can have more levels than Python allows calls.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

T = TypeVar("T")


def sequences(length: int, choices: Callable[[Sequence[T]], Iterator[T]]) -> Iterator[Sequence[T]]:
    """Every sequence of *length* choices, each found before the next is sought.

    Args:
        choices: the choices that can follow some others. It is asked once for each beginning of a sequence, and must
            read what was chosen before its first result: the list changes afterwards.

    The sequence that is yielded is this list, so it is only good until the next one.
    """
    chosen: list[T] = []
    if not length:
        yield chosen
        return
    untried = [choices(chosen)]
    while untried:
        for choice in untried[-1]:
            chosen.append(choice)
            if len(chosen) == length:
                yield chosen
                chosen.pop()
            else:
                untried.append(choices(chosen))
                break
        else:
            untried.pop()
            if chosen:
                chosen.pop()
