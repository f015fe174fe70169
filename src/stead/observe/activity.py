"""What this process did lately: claims, their refusals and conflicts, retries. For people; Prometheus has its own."""

from __future__ import annotations

import time
from collections import Counter, deque
from threading import Lock
from typing import TYPE_CHECKING, NamedTuple

from stead.observe.metrics import cause

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from wsgiref.types import WSGIEnvironment

    from stead.observe.metrics import Notes

SECONDS = 60
"""Length of the time for which rates are shown."""


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
    """

    began: float
    written: int
    released: int
    per_second: float
    refused_claims: Mapping[str, int]
    conflicts: Mapping[str, int]
    retries: Mapping[str, int]
    refused_requests: Mapping[str, int]


class ActivityCounts:
    """Counts what happens. A watcher of requests; thread-safe."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """*clock*: seconds."""
        self._clock = clock
        self._began = clock()
        self._began_wall = time.time()
        self._lock = Lock()
        self._written = 0
        self._released = 0
        self._seconds: deque[tuple[int, int]] = deque(maxlen=SECONDS + 1)
        self._refused_claims: Counter[str] = Counter()
        self._conflicts: Counter[str] = Counter()
        self._retries: Counter[str] = Counter()
        self._refused_requests: Counter[str] = Counter()

    def __call__(self, _environ: WSGIEnvironment, notes: Notes) -> None:
        """Count one request, if it writes allocations or met a conflict."""
        is_claim = notes.claims or notes.releases
        if not is_claim and notes.status != 409:
            return
        with self._lock:
            if is_claim and notes.status < 400:
                self._released += notes.releases
                self._count(notes.claims)
            elif is_claim:
                self._refused_claims[cause(notes.error or str(notes.status))] += 1
            else:
                self._conflicts[cause(notes.error or "other")] += 1

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
                *(
                    dict(counter.most_common())
                    for counter in (self._refused_claims, self._conflicts, self._retries, self._refused_requests)
                ),
            )
