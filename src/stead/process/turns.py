"""The switch interval: how long a thread may hold the interpreter while other threads wait for it.

After the database has answered, a thread waits for the interpreter again: once for each time that the driver released
it. SQLite's driver releases it for every row.
"""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

SECONDS = 0.001
"""Python's default of 5 ms would delay reads from memory by this time while another thread refreshes many providers."""

SHORT_SECONDS = 0.000_05
"""The interval during a refresh. Most requests wait for the refresh; the others must not wait longer than this."""


def share() -> None:
    """Set the switch interval of this process to that of a service."""
    sys.setswitchinterval(SECONDS)


class _Short:
    """A block with the short interval, which the whole process shares.

    Every read enters it. A context manager made of a generator would cost more than the rest of the block.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._asking = 0
        self._usual = SECONDS

    def __enter__(self) -> None:
        with self._lock:
            if not self._asking:
                self._usual = sys.getswitchinterval()
                sys.setswitchinterval(SHORT_SECONDS)
            self._asking += 1

    def __exit__(self, *_exception: object) -> None:
        with self._lock:
            self._asking -= 1
            if not self._asking:
                sys.setswitchinterval(self._usual)


_short = _Short()


def short() -> AbstractContextManager[None]:
    """Use the short interval until the block and all overlapping ones have ended."""
    return _short
