"""The durations of the phases of a query. The clock is read only if a caller needs them."""

from __future__ import annotations

import time
from typing import Protocol


class Phases(Protocol):
    """Receives the end of each phase."""

    def mark(self, name: str) -> None:
        """The phase *name* has ended. It began at the end of the previous phase."""
        ...


class Untimed:
    """Ignores the phases."""

    def mark(self, name: str) -> None:
        """Do nothing."""


class Timed:
    """Records the time at which each phase ended, by ``time.perf_counter``."""

    def __init__(self, marks: list[tuple[str, float]]) -> None:
        """Append a pair of name and time to *marks* for each phase."""
        self._marks = marks

    def mark(self, name: str) -> None:
        """Record the time."""
        self._marks.append((name, time.perf_counter()))


UNTIMED = Untimed()
