"""How many reads of a worker run at the same time.

All threads of a process share one interpreter. If eight requests compute at once, each mostly waits for it, and every
switch between threads costs processor time. If requests wait for the database, others can compute meanwhile. So the
number follows from what the requests did: their elapsed time divided by their processor time.

Source: decision 31 (docs/decisions).
"""

from __future__ import annotations

import time
from itertools import islice
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from stead.httpd.requests import Request

LONG_SECONDS = 0.005
"""A request that has run for this time no longer counts: it waits for a lock or an event, or computes for long. So
each such interval starts at least one request, whatever the running requests do."""

SAMPLE = 16
"""Number of requests from which the width is computed."""


class Concurrency:
    """The running requests, and whether another one may start. The caller holds a lock around all calls."""

    def __init__(
        self,
        threads: int,
        clock: Callable[[], float] = time.monotonic,
        processor_time: Callable[[], float] = time.thread_time,
    ) -> None:
        """Start with no request running.

        Args:
            threads: the greatest width.
            clock: in seconds.
            processor_time: of the calling thread, in seconds.
        """
        self.width = 1
        """How many requests may run at the same time, not counting those older than `LONG_SECONDS`."""
        self._threads = threads
        self._clock = clock
        self._processor_time = processor_time
        self._running: dict[Request, tuple[float, float]] = {}  # when each began on both clocks, the latest last
        self._ended = 0
        self._elapsed = 0.0
        self._computed = 0.0

    def may_start(self) -> bool:
        """Whether another request may start now."""
        if len(self._running) < self.width:
            return True
        long_since = self._clock() - LONG_SECONDS
        recent = islice(reversed(self._running.values()), self.width)  # the running requests that began last
        return any(began <= long_since for began, _ in recent)

    def start(self, request: Request) -> None:
        """*request* starts in the calling thread."""
        self._running[request] = (self._clock(), self._processor_time())

    def end(self, request: Request) -> None:
        """*request* ends, in the thread in which it started."""
        began, computed_before = self._running.pop(request)
        # Cap long requests: how long they wait for their slices says nothing about the width.
        self._elapsed += min(self._clock() - began, LONG_SECONDS)
        self._computed += min(self._processor_time() - computed_before, LONG_SECONDS)
        self._ended += 1
        if self._ended == SAMPLE:
            self._adapt()

    def _adapt(self) -> None:
        # A request that only computes takes `width` times its processor time. If requests take longer, they wait for
        # something other than the interpreter, so that one more can run meanwhile. Otherwise try one fewer: the
        # times cannot tell whether the last one was needed.
        if self._elapsed > (self.width + 0.5) * self._computed:
            self.width = min(self.width + 1, self._threads)
        elif self.width > 1:
            self.width -= 1
        self._ended, self._elapsed, self._computed = 0, 0.0, 0.0
