"""What this process did lately: claims, their refusals and conflicts, retries. For people; Prometheus has its own."""

from __future__ import annotations

import time
from collections import Counter, deque
from threading import Lock
from typing import TYPE_CHECKING, NamedTuple

from stead.observe.metrics import cause

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from wsgiref.types import WSGIEnvironment

    from stead.observe.metrics import Notes

SECONDS = 60
"""Length of the time for which rates are shown."""


LAST = 20
"""Number of the last refusals of each reason, and of the last releases, that a process keeps."""

_LONGEST_QUERY = 2_000
"""In characters. Of a longer one, a link has no use."""

NO_CANDIDATES = "no_candidates"
"""The reason of a candidate query without an answer, which is no error."""


class Event(NamedTuple):
    """Something that left no row in the database: a refusal, or a release (then ``reason`` is empty).

    Attributes:
        moment: seconds since 1970.
        consumers: how many the request named; 0 for a query.
        query: what was asked, as a query of ``/allocation_candidates``; empty if it cannot be spelled.
    """

    moment: float
    reason: str
    project: str
    consumers: int
    query: str


class Strip(NamedTuple):
    """Counts over time since the start: ``bins`` has by number the consumers written and released, and the refusals.

    Bin *n* is the seconds from ``n * width`` since 1970.
    """

    width: int
    bins: dict[int, tuple[int, int]]


NARROWEST, MOST_BINS = 10, 120
"""Seconds of a bin at first, and the number of bins from which on they are twice as wide."""


def joined(strips: Iterable[Strip], *moments: float) -> Strip:
    """The sums of *strips*, of several processes, in bins so wide that few reach from the first to the last of all.

    Args:
        moments: that the bins reach, too, in seconds since 1970.
    """
    parts = [strip for strip in strips if strip.bins]
    width = max((strip.width for strip in parts), default=NARROWEST)
    places = [*map(int, moments), *(number * strip.width for strip in parts for number in strip.bins)]
    while places and max(places) // width - min(places) // width >= MOST_BINS:
        width *= 2
    sums: dict[int, tuple[int, int]] = {}
    for strip in parts:
        for number, (done, refused) in strip.bins.items():
            place = number * strip.width // width
            before = sums.get(place, (0, 0))
            sums[place] = before[0] + done, before[1] + refused
    return Strip(width, dict(sorted(sums.items())))


class Lately(NamedTuple):
    """What one process remembers beside its counts, in a form that other processes can read from a report."""

    began: float
    strip: Strip
    events: Sequence[Event]

    @classmethod
    def read(cls, began: float, strip: Sequence[object], events: Sequence[Sequence[object]]) -> Lately:
        """What a report has, of which JSON made lists.

        Raises:
            TypeError, ValueError: it is something else.
        """
        width, bins = strip
        if not isinstance(width, int) or not isinstance(bins, dict):
            raise TypeError
        by_number = {int(number): (int(done), int(refused)) for number, (done, refused) in bins.items()}
        return cls(float(began), Strip(width, by_number), [Event(*event) for event in events])  # type: ignore[arg-type]  # Stead's own report


class Done(NamedTuple):
    """Counts of one process since ``began`` (seconds since 1970).

    Attributes:
        written: consumers whose allocations were created or replaced.
        released: consumers whose allocations were deleted.
        per_second: the mean of ``written`` over the last :data:`SECONDS`, or since the start if that is later.
        refused_claims: requests that write or delete allocations and were refused, by reason.
        conflicts: other requests that returned 409, by reason.
        retries: retries of writes, by cause.
        refused_requests: requests and connections that the HTTP server rejected, by reason.
        lately: their course, and the last ones.
    """

    began: float
    written: int
    released: int
    per_second: float
    refused_claims: Mapping[str, int]
    conflicts: Mapping[str, int]
    retries: Mapping[str, int]
    refused_requests: Mapping[str, int]
    lately: Lately


class ActivityCounts:
    """Counts what happens. A watcher of requests; thread-safe."""

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, wall_clock: Callable[[], float] = time.time
    ) -> None:
        """*clock*: seconds; *wall_clock*: seconds since 1970."""
        self._clock = clock
        self._wall_clock = wall_clock
        self._began = clock()
        self._began_wall = wall_clock()
        self._lock = Lock()
        self._written = 0
        self._released = 0
        self._seconds: deque[tuple[int, int]] = deque(maxlen=SECONDS + 1)
        self._refused_claims: Counter[str] = Counter()
        self._conflicts: Counter[str] = Counter()
        self._retries: Counter[str] = Counter()
        self._refused_requests: Counter[str] = Counter()
        self._width = NARROWEST
        self._bins: dict[int, tuple[int, int]] = {}
        self._events: dict[str, deque[Event]] = {}

    def __call__(self, environ: WSGIEnvironment, notes: Notes) -> None:
        """Count one request, if it writes allocations, met a conflict, or found no candidates."""
        is_claim = notes.claims or notes.releases
        if not is_claim and notes.status != 409:
            if notes.candidates == 0 and notes.status == 200 and notes.route == "/allocation_candidates":
                with self._lock:
                    self._keep(NO_CANDIDATES, notes, environ.get("QUERY_STRING", ""))
            return
        with self._lock:
            if is_claim and notes.status < 400:
                self._released += notes.releases
                self._count(notes.claims)
                self._enter(notes.claims + notes.releases, 0)
                if notes.releases:
                    self._keep("", notes, "")
                return
            if is_claim:
                reason = cause(notes.error or str(notes.status))
                self._refused_claims[reason] += 1
            else:
                reason = cause(notes.error or "other")
                self._conflicts[reason] += 1
            self._enter(0, 1)
            self._keep(reason, notes, notes.asked() if notes.asked is not None else "")

    def _keep(self, reason: str, notes: Notes, query: str) -> None:
        number = notes.claims or notes.releases
        shown = query if len(query) <= _LONGEST_QUERY else ""
        event = Event(self._wall_clock(), reason, notes.project or "", number, shown)
        self._events.setdefault(reason, deque(maxlen=LAST)).append(event)

    def _enter(self, done: int, refused: int) -> None:
        """Add to the present bin. When the bins are too many, they become twice as wide."""
        number = int(self._wall_clock()) // self._width
        before = self._bins.get(number)
        self._bins[number] = (done, refused) if before is None else (before[0] + done, before[1] + refused)
        if before is None:
            self._width, self._bins = joined([Strip(self._width, self._bins)])

    def _count(self, claims: int) -> None:
        self._written += claims
        second = int(self._clock())
        if self._seconds and self._seconds[-1][0] == second:
            claims += self._seconds.pop()[1]
        self._seconds.append((second, claims))

    def retried(self, why: str) -> None:
        """Count a retry of a write."""
        with self._lock:
            self._retries[why] += 1

    def refused(self, reason: str) -> None:
        """Count a refusal of the HTTP server."""
        with self._lock:
            self._refused_requests[reason] += 1

    def done(self) -> Done:
        """The counts until now."""
        now = self._clock()
        with self._lock:
            recent = sum(claims for second, claims in self._seconds if second > now - SECONDS)
            return Done(
                self._began_wall,
                self._written,
                self._released,
                recent / max(1.0, min(SECONDS, now - self._began)),
                dict(self._refused_claims.most_common()),
                dict(self._conflicts.most_common()),
                dict(self._retries.most_common()),
                dict(self._refused_requests.most_common()),
                self._lately(),
            )

    def lately(self) -> Lately:
        """What the report of this process has for others."""
        with self._lock:
            return self._lately()

    def _lately(self) -> Lately:
        strip = Strip(self._width, dict(self._bins))
        return Lately(self._began_wall, strip, [event for kept in self._events.values() for event in kept])
