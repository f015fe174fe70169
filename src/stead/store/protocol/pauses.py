"""Pauses between attempts: each about twice as long as the one before, and random, so that losers of a race spread."""

from __future__ import annotations

import random
import time


class Pauses:
    """The pauses of one caller, in seconds."""

    def __init__(self, *, first: float, longest: float) -> None:
        """No attempt has failed yet."""
        self._next, self._longest = first, longest

    def end_before(self, deadline: float) -> bool:
        """Whether the next pause is over in time, by the monotonic clock."""
        return time.monotonic() + self._next <= deadline

    def pause(self) -> None:
        """Wait; the next pause is longer."""
        time.sleep(self._next * random.uniform(0.5, 1.0))
        self._next = min(self._next * 2, self._longest)
