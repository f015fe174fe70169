"""Work: the budget of one request, so that an expensive query cannot starve other requests.

The search finds each next way through isolated or equal groups in polynomial time. But unequal groups that may share a
provider are bin packing, and a request without a limit can have more candidates than any client can read.

Source: "Limits", docs/api.md.
"""

from __future__ import annotations

import time
from math import inf
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


LOOKED = 1
"""Units to visit a provider in the search for an augmenting path."""

TRIED = 10
"""Units to try a provider for a need."""

CANDIDATE = 10
"""Units to check or to return a candidate; returning costs one more for each choice in it."""

ARRANGED = 20
"""Units to make an arrangement, which all trees of a kind share."""

CHOSEN = 5
"""Additional units to make an arrangement, for each choice in it."""

MASKED = 40
"""Units to apply a constraint to all providers, besides one for each `MASKED_TOGETHER` of them."""

MASKED_TOGETHER = 64

_PLENTY = 2**50
"""More units than any request can use."""

_LOOK_EVERY = 4_000
"""Units between two checks of the clock and of waiting requests: about a millisecond."""


def masked(providers: int) -> int:
    """Units to apply a constraint to this number of *providers*, in vector operations."""
    return MASKED + providers // MASKED_TOGETHER


def keep_on() -> None:
    """Do not give way."""


class WorkSpent(Exception):
    """The request has used up its work or its time. It returns the candidates found so far."""


class Work:
    """The budget that remains for one request; not thread-safe."""

    __slots__ = ("_most", "_next_look", "give_way", "is_cut", "remaining", "until")

    def __init__(
        self, most: int | None = None, *, until: float = inf, give_way: Callable[[], object] = keep_on
    ) -> None:
        """A budget of *most* units; None for no limit.

        Args:
            until: time of the monotonic clock at which the budget ends.
            give_way: lets other requests run; called about every millisecond.
        """
        self._most = _PLENTY if most is None else most
        self.remaining: float = self._most
        self.is_cut = False
        self.until = until
        self.give_way = give_way
        # Never below 0, so that the step that overdraws the budget notices it at once.
        self._next_look = max(self.remaining - _LOOK_EVERY, 0.0)

    @property
    def spent(self) -> int:
        """The units that were taken from the budget; the last step may have overdrawn it."""
        return int(self._most - self.remaining)

    def spend(self, units: int) -> None:
        """Take *units* from the budget.

        Raises:
            WorkSpent: less remains.
        """
        self.remaining -= units
        if self.remaining < self._next_look:
            self._next_look = max(self.remaining - _LOOK_EVERY, 0.0)
            self.require_time()

    def require_time(self) -> None:
        """Let other requests run, then check the budget and the time. For steps that take time but spend no units.

        Raises:
            WorkSpent: nothing remains.
        """
        self.give_way()  # before the clock is read, because it can take longer than the time that remains
        if self.remaining < 0 or (self.until < inf and time.monotonic() > self.until):
            self.is_cut = True
            raise WorkSpent
