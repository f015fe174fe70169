"""Caches of values computed from a header. They store short keys only, so that clients cannot fill the memory."""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, TypeVar, TypeVarTuple

if TYPE_CHECKING:
    from collections.abc import Callable

Keys = TypeVarTuple("Keys")
R = TypeVar("R")

LONGEST_KEY = 500
"""Characters of all arguments together. Real clients send a few dozen."""


def cached_if_short(entries: int) -> Callable[[Callable[[*Keys], R]], Callable[[*Keys], R]]:
    """Cache up to *entries* results of a function. For long arguments, the function is called each time."""

    def around(function: Callable[[*Keys], R]) -> Callable[[*Keys], R]:
        cache: dict[tuple[*Keys], R] = {}

        @wraps(function)
        def call(*args: *Keys) -> R:
            try:
                return cache[args]
            except KeyError:
                result = function(*args)
            if sum(len(arg) for arg in args if isinstance(arg, str)) <= LONGEST_KEY:
                if len(cache) >= entries:
                    cache.clear()  # real clients send few different headers; a client that sends more is no loss
                cache[args] = result
            return result

        return call

    return around
