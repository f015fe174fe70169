"""Work: how much one request may do, so that nobody's explosive query starves the others.

Ways through isolated and through equal groups are found one after the other in polynomial time, but unequal groups that
may share a provider are bin packing, and a request without a limit may have more candidates than anybody can read.

Source: "Limits", docs/api.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

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


class WorkSpent(Exception):
    """The request has done all the work it may; what was found until now is all it gets."""


class Work:
    """What one request may still do; of one thread."""

    __slots__ = ("is_cut", "left")

    def __init__(self, most: int | None = None) -> None:
        """*most* units; None: as many as it takes."""
        self.left: float = float("inf") if most is None else most
        self.is_cut = False

    def spend(self, units: int) -> None:
        """Do *units* of work.

        Raises:
            WorkSpent: there is not so much left.
        """
        self.left -= units
        if self.left < 0:
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
