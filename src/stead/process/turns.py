"""Turns: how long a thread may keep the interpreter from the others that wait for it.

A thread that wants to go on after the database has answered waits for the end of somebody's turn: once for each time
the driver let go of the interpreter, which SQLite's does for every row.
"""

from __future__ import annotations

import sys
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

SECONDS = 0.001
"""With Python's own 5 ms, who answers from memory waits so long while another thread refreshes many providers."""

SHORT_SECONDS = 0.000_05
"""While a refresh runs. All who come wait for it, and those who do not are to wait no longer than this."""


def share() -> None:
    """Let turns of this process be no longer than they should be in a service."""
    sys.setswitchinterval(SECONDS)


class _Turns:
    """Those of the process, for the interval between two is its own."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._asking = 0
        self._usual = SECONDS

    @contextmanager
    def short(self) -> Iterator[None]:
        """Short turns until this ends, and whatever else asked for them."""
        with self._lock:
            if not self._asking:
                self._usual = sys.getswitchinterval()
                sys.setswitchinterval(SHORT_SECONDS)
            self._asking += 1
        try:
            yield
        finally:
            with self._lock:
                self._asking -= 1
                if not self._asking:
                    sys.setswitchinterval(self._usual)


short = _Turns().short
