"""Backtracking: all sequences of choices, where earlier choices decide which ones can follow.

It keeps its own stack. Recursive generators would pass each result up through all levels, and a request can have more
levels than Python allows calls.

Two searches keep stacks of their own: `splits`, since its sets have different sizes, and `placing`, since it bounds
dead ends and tells why a level ended.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

T = TypeVar("T")


def sequences(length: int, choices: Callable[[Sequence[T]], Iterator[T]]) -> Iterator[Sequence[T]]:
    """Every sequence of *length* choices, each found before the next is searched for.

    Args:
        choices: returns the choices that can follow a beginning. It is called once for each beginning, and must read
            its argument before it returns its first result, because that list changes afterwards.

    The result is always the same list, so it is valid only until the next one is requested.
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
