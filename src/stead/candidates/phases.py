"""How long the phases of a query take, for whoever wants to know; nobody reads a clock for nobody."""

from __future__ import annotations

import time
from typing import Protocol


class Phases(Protocol):
    """Is told when a phase ends."""

    def mark(self, name: str) -> None:
        """The phase *name*, which began with the end of the one before it, has ended."""
        ...


class Untimed:
    """Does not want to know."""

    def mark(self, name: str) -> None:
        """Forget it."""


class Timed:
    """Keeps the time, on ``time.perf_counter``, at which each phase ended."""

    def __init__(self, marks: list[tuple[str, float]]) -> None:
        """*marks* gets a pair for each phase."""
        self._marks = marks

    def mark(self, name: str) -> None:
        """Note it down."""
        self._marks.append((name, time.perf_counter()))


UNTIMED = Untimed()
