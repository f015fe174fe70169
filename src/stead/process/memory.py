"""The memory of the process: the C library, the garbage collector, and caches that clients cannot fill."""

from __future__ import annotations

import ctypes
import gc
import logging
from collections import deque
from contextlib import suppress
from functools import wraps
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, Any, TypeVar, TypeVarTuple

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager


_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8
"""Parameters of glibc's ``mallopt``. Source: malloc.h."""

KEPT_BYTES = 256 << 20
"""Free memory beyond this size is returned to the kernel."""

LARGEST_BLOCK = 32 << 20
"""Larger blocks are always returned to the kernel. This is the greatest value that the library accepts."""

_log = logging.getLogger(__name__)


def keep_freed() -> None:
    """Make the C library keep freed memory, in one arena. Has an effect with glibc only.

    By default it returns large blocks at once, and the kernel hands them out again page by page. For an answer of
    1 MB, that takes several times as long as writing it.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        _log.debug("this C library cannot keep freed memory")
        return
    for parameter, value in ((_TRIM_THRESHOLD, KEPT_BYTES), (_MMAP_THRESHOLD, LARGEST_BLOCK), (_ARENA_MAX, 1)):
        mallopt(parameter, value)


def return_freed() -> None:
    """Return all freed memory to the kernel, after a work that needed more than what follows. With glibc only.

    Other threads cannot allocate meanwhile, so no request may be under way.
    """
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


class _Paused:
    """A block without garbage collection. Every read enters it, so it is no generator."""

    def __enter__(self) -> None:
        gc.disable()

    def __exit__(self, *_exception: object) -> None:
        gc.enable()


_paused = _Paused()


def collector_paused() -> AbstractContextManager[None]:
    """Create many objects without cycles: a collection would traverse them all, and block every thread meanwhile."""
    return _paused


def keep_for_good() -> None:
    """Exclude all present objects from garbage collection.

    A collection of all objects of a service would block all threads for 0.1 s, and at a large site for longer.
    """
    gc.freeze()


def release(last: list[Any]) -> None:
    """Free what only *last* refers to, and leave it empty. Works in pieces, so that other threads run in between.

    Python frees a structure without a thread switch, which takes long for the catalog of a large site.
    """
    pieces = deque(last)
    last.clear()
    waiting, seen = list(pieces), set(map(id, pieces))
    while waiting:
        for inner in gc.get_referents(waiting.pop()):
            if id(inner) not in seen and not isinstance(inner, _LIGHT):
                # Its id stays its own, since *pieces* keeps the object alive.
                seen.add(id(inner))
                pieces.append(inner)
                if gc.is_tracked(inner):
                    waiting.append(inner)
    while pieces:
        # What this object refers to is still in *pieces*, so each step frees little.
        pieces.popleft()


_LIGHT = (str, int, float, bool, bytes, type(None), type, ModuleType, FunctionType)
"""Types that refer to nothing, or only to objects that other modules keep alive."""


# Caches of values computed from a header. They store short keys only, so that clients cannot fill the memory.


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
