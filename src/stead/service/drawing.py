"""How many of the best candidates a claim by query draws from.

Clients that all prefer the same best place collide. A claim that lost a race therefore draws from more places at its
next try. Claims that start soon afterwards draw from as many at their first try: where races were lost a moment ago,
the next ones would be lost as well.
"""

from __future__ import annotations

import time
from math import exp2
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

MOST = 128
"""Maximum number of candidates to draw from. A place is then worse than at most 127 others in the requested order."""

HALF_LIFE = 0.25
"""Seconds after a lost race in which the number for new claims halves."""


class Drawing:
    """The number of candidates to draw from, for the claims of one worker.

    Threads share it without a lock: a lost update makes one claim draw from fewer or more candidates than intended,
    and the locked rows decide about every claim.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        """No race was lost yet: claims take the best candidate. *now* returns seconds."""
        self._now = now
        self._lost: tuple[int, float] = (1, 0.0)

    def first(self) -> int:
        """The number for the first try of a claim that starts now; 1 takes the best candidate."""
        among_best, lost_at = self._lost
        if among_best == 1:
            return 1
        return max(1, round(among_best * exp2((lost_at - self._now()) / HALF_LIFE)))

    def after_loss(self, among_best: int) -> int:
        """The number for the next try of a claim that drew from *among_best* candidates and lost a race."""
        wider = min(2 * among_best, MOST)
        # Not below the number for new claims: another claim may have lost more races meanwhile.
        self._lost = (max(wider, self.first()), self._now())
        return wider
