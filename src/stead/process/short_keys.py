"""Caches of what is made of a header: they hold short keys alone, so that clients cannot fill the memory."""

from __future__ import annotations

from functools import lru_cache, wraps
from typing import TYPE_CHECKING, ParamSpec, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

P = ParamSpec("P")
R = TypeVar("R")

LONGEST_KEY = 500
"""Characters of all arguments together; what real clients send has some dozens."""


def cached_if_short(entries: int) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Cache the results of a function for up to so many *entries*; longer arguments are worked out each time."""

    def around(function: Callable[P, R]) -> Callable[P, R]:
        cached: Callable[P, R] = lru_cache(maxsize=entries)(function)  # type: ignore[assignment]  # of any arguments

        @wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            length = sum([len(arg) for arg in args if isinstance(arg, str)])
            return (cached if length <= LONGEST_KEY else function)(*args, **kwargs)

        return call

    return around
