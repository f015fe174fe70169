"""Pauses between attempts: each about twice as long as the last, and random, so that competing writers spread out."""

from __future__ import annotations

import random
import time


class Pauses:
    """The pauses of one caller, in seconds."""

    def __init__(self, *, first: float, longest: float) -> None:
        """Start before the first failure."""
        self._next, self._longest = first, longest

    def end_before(self, deadline: float) -> bool:
        """Whether the next pause ends before *deadline* (monotonic clock)."""
        return time.monotonic() + self._next <= deadline

    def pause(self) -> None:
        """Wait. The next pause is longer."""
        # At least half of it: a pause near zero would lose the same race again.
        time.sleep(self._next * random.uniform(0.5, 1.0))
        self._next = min(self._next * 2, self._longest)
