"""How fast the site fills: the course of use over a day, and when a class runs out if it goes on like that.

A process keeps the course in memory, so it begins when the process starts.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from stead.domain.provider import Sums

PACE_SECONDS = 300
"""Time between two entries of the course."""

SHORTEST = 600
"""Seconds that a course must cover. A shorter one shows single claims, not a pace."""

_KEPT = 24 * 60 * 60 // PACE_SECONDS


class UsedAt(NamedTuple):
    """What was used at ``time`` (seconds since 1970), by the name of the class."""

    time: int
    used: Mapping[str, float]


class RunsOut(NamedTuple):
    """The class that runs out first. ``seconds``: until then; ``course``: seconds that the pace is the mean of."""

    resource_class: str
    seconds: float
    course: int


class CourseOfUse:
    """What was used during the last day; safe for several threads."""

    def __init__(self, now: Callable[[], float] = time.time) -> None:
        """*now*: seconds since 1970."""
        self._now = now
        self._course: tuple[UsedAt, ...] = ()

    def note(self, sums: Iterable[Sums]) -> None:
        """Append an entry, if the last one is old."""
        course, now = self._course, int(self._now())
        if not course or now - course[-1].time >= PACE_SECONDS:
            self._course = (*course, UsedAt(now, {each.resource_class: each.used for each in sums}))[-_KEPT:]

    def covers(self) -> int:
        """Seconds since the first entry; 0 while they are fewer than :data:`SHORTEST`."""
        seconds = int(self._now()) - self._course[0].time if self._course else 0
        return seconds if seconds >= SHORTEST else 0

    def first_to_run_out(self, sums: Iterable[Sums]) -> RunsOut | None:
        """The class of *sums*, which are those of now, that runs out first at the mean pace of the course.

        None if the course is short, or if no class has less free than at its start.
        """
        ends = []
        for each in sums:
            # Before the class had inventories, nothing of it could be used. That is not growth.
            first = next((entry for entry in self._course if each.resource_class in entry.used), None)
            seconds = 0 if first is None else int(self._now()) - first.time
            grown = 0.0 if first is None else each.used - first.used[each.resource_class]
            if seconds >= SHORTEST and grown > 0:
                left = max(0.0, each.capacity - each.used)
                ends.append(RunsOut(each.resource_class, left * seconds / grown, seconds))
        return min(ends, key=lambda end: end.seconds, default=None)
