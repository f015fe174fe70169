"""Work: how much one request may do, so that nobody's explosive query starves the others.

Ways through isolated and through equal groups are found one after the other in polynomial time, but unequal groups that
may share a provider are bin packing, and a request without a limit may have more candidates than anybody can read.

Source: "Limits", docs/api.md.
"""

from __future__ import annotations

import time
from math import inf
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from stead.candidates.candidate import Batch

LOOKED = 1
"""What it costs to look at a provider while a matching is mended."""

TRIED = 10
"""What it costs to try a provider for a need."""

CANDIDATE = 10
"""What it costs to judge a candidate, or to give one; that costs one more for each choice it is made of."""

ARRANGED = 20
"""What it costs to make an arrangement, which trees that are alike share."""

CHOSEN = 5
"""What that costs more for each choice."""


_PLENTY = 2**50
"""More units than any request can do."""

_LOOK_EVERY = 4_000
"""Units between two looks at the clock and at other requests: about a millisecond."""


def keep_on() -> None:
    """Do not give way."""


class WorkSpent(Exception):
    """The request has done all the work it may; what was found until now is all it gets."""


class Work:
    """What one request may still do; of one thread."""

    __slots__ = ("_next_look", "give_way", "is_cut", "left", "until")

    def __init__(
        self, most: int | None = None, *, until: float = inf, give_way: Callable[[], object] = keep_on
    ) -> None:
        """*most* units; None: as many as it takes.

        Args:
            until: by the monotonic clock.
            give_way: lets other requests run. It is called about every millisecond.
        """
        self.left: float = _PLENTY if most is None else most
        self.is_cut = False
        self.until = until
        self.give_way = give_way
        self._next_look = max(self.left - _LOOK_EVERY, 0.0)

    def spend(self, units: int) -> None:
        """Do *units* of work.

        Raises:
            WorkSpent: there is not so much left.
        """
        self.left -= units
        if self.left < self._next_look:
            self._next_look = max(self.left - _LOOK_EVERY, 0.0)
            self.require_time()

    def require_time(self) -> None:
        """Go on only if there is work left, and time: for steps that cost time and no work. Others may run first.

        Raises:
            WorkSpent: there is not.
        """
        self.give_way()  # before the look at the clock: it may take until after the end of the time
        if self.left < 0 or (self.until < inf and time.monotonic() > self.until):
            self.is_cut = True
            raise WorkSpent

    def spent_on(self, found: Iterable[Batch]) -> Iterator[Batch]:
        """*found*, as much of it as there is work left for."""
        try:
            for batch in found:
                choices = len(batch.arrangements[0].way) if batch.arrangements else 0
                self.spend(len(batch.arrangements) * (ARRANGED + CHOSEN * choices))
                allowed = self.left // (CANDIDATE + choices)
                if batch.size > allowed:
                    yield from batch.first(int(allowed))
                    self.is_cut = True
                    return
                self.spend(batch.size * (CANDIDATE + choices))
                yield batch
        except WorkSpent:
            return
