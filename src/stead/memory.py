"""The process's memory: what the C library and the collector of cycles do about it, where that costs answers time."""

from __future__ import annotations

import ctypes
import gc
import logging
from contextlib import contextmanager
from typing import TYPE_CHECKING

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
        _log.debug("this C library can not be asked to keep freed memory")
        return
    for parameter, value in ((_TRIM_THRESHOLD, KEPT_BYTES), (_MMAP_THRESHOLD, LARGEST_BLOCK), (_ARENA_MAX, 1)):
        mallopt(parameter, value)


@contextmanager
def much_to_stay() -> Iterator[None]:
    """Make many objects that will stay: the collector neither runs meanwhile nor ever looks at them again.

    Looking at all that a large site is made of, it would stop everybody for a good part of a second.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
