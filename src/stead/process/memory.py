"""The process's memory: what the C library and the collector of cycles do about it, where that costs answers time."""

from __future__ import annotations

import ctypes
import gc
import logging
from collections import deque
from contextlib import contextmanager
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8
"""Parameters of glibc's ``mallopt``. Source: malloc.h."""

KEPT_BYTES = 256 << 20
"""Free memory beyond this is given back."""

LARGEST_BLOCK = 32 << 20
"""Blocks beyond this always are; it is the most that the library takes."""

_log = logging.getLogger(__name__)


def keep_freed() -> None:
    """Ask the C library to keep what is freed, in one arena; without effect where it is not glibc.

    It would give large blocks back at once, and the kernel then hands them out again page by page: for an answer of a
    megabyte that takes several times as long as writing it.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        _log.debug("this C library cannot be told to keep freed memory")
        return
    for parameter, value in ((_TRIM_THRESHOLD, KEPT_BYTES), (_MMAP_THRESHOLD, LARGEST_BLOCK), (_ARENA_MAX, 1)):
        mallopt(parameter, value)


@contextmanager
def collector_paused() -> Iterator[None]:
    """Make many objects, in no cycles: the collector would look at them all, and keep every thread waiting for that."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def keep_for_good() -> None:
    """Let the collector never again look at what there is now.

    Looking at all that a service is made of, it would stop everybody for a tenth of a second, and at a large site for a
    good part of one.
    """
    gc.freeze()


def let_go(last: list[Any]) -> None:
    """Free what only *last* holds, which is empty afterwards: piece by piece, so that other threads have turns between.

    Whatever is freed together is freed in one turn, and for all that a large site is made of that takes long.
    """
    pieces = deque(last)
    last.clear()
    waiting, seen = list(pieces), set(map(id, pieces))
    while waiting:
        for inner in gc.get_referents(waiting.pop()):
            if id(inner) not in seen and not isinstance(inner, _LIGHT):
                seen.add(id(inner))
                pieces.append(inner)
                if gc.is_tracked(inner):
                    waiting.append(inner)
    while pieces:
        pieces.popleft()


_LIGHT = (str, int, float, bool, bytes, type(None), type, ModuleType, FunctionType)
"""What holds nothing, or is held by others anyway."""
