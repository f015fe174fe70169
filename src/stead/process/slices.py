"""Slices: a long request runs slice by slice, and short requests run between the slices.

The threads of a process share one interpreter. Beside ten threads that compute, a thread that needs the interpreter
three times waits for thirty switches. So a request that has computed for some milliseconds is long: at each of its
:func:`give_way` calls it waits until no short request runs, and of all long requests only one runs at a time.

All waits are bounded, and only latency depends on them. A request must not give way while it holds a lock that others
need, so claims never do.

Source: decision 21 (docs/decisions).
"""

from __future__ import annotations

import threading
import time
from collections import deque
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@dataclass(frozen=True, slots=True)
class Bounds:
    """Durations, in seconds.

    Attributes:
        first: processor time after which a request is long. Most queries with a limit need less in all.
        slice: processor time of each later slice. A short request waits for at most one of them.
        patience: for which the next slice waits for short requests. With ``slice``, it bounds the share of the
            interpreter that long requests get beside short ones without end.
        short: after which a request is not waited for any more, for it may wait for a lock or for an event.
        lost: after which the slice of a request that has not given way again does not keep the next one waiting. It
            may be compressing its answer, which needs no interpreter.
    """

    first: float = 0.005
    slice: float = 0.002
    patience: float = 0.020
    short: float = 0.100
    lost: float = 0.100


class Request:
    """One request of a thread."""

    __slots__ = ("may_run", "until")

    def __init__(self, until: float) -> None:
        """*until* is the processor time of the thread at which its slice ends."""
        self.until = until
        self.may_run: threading.Event | None = None  # short requests, which are most, need none


class Precedence:
    """Which request runs when: the rule alone, without threads and without a clock. *now* never decreases."""

    def __init__(self, bounds: Bounds) -> None:
        self._bounds = bounds
        self._short: dict[Request, float] = {}  # when each began, the latest last
        self._waiting: deque[Request] = deque()
        self._running: Request | None = None
        self._since = 0.0  # when the slice of the running one began or, if none runs, when the next one could first

    def begin(self, request: Request, now: float) -> None:
        """A request begins; it is short."""
        self._short[request] = now

    def end(self, request: Request, now: float) -> None:
        """A request ends, whether it is short, runs or waits."""
        self._short.pop(request, None)
        if self._running is request:
            self._running, self._since = None, now
        elif request in self._waiting:  # only if an exception ended its wait
            self._waiting.remove(request)

    def give_way(self, request: Request, now: float) -> None:
        """The slice of a request is over: it is long from now on, and waits behind all other long ones."""
        self._short.pop(request, None)
        if self._running is request:
            self._running, self._since = None, now
        elif self._running is None and not self._waiting:
            self._since = now
        self._waiting.append(request)

    def next(self, now: float) -> Request | None:
        """Let the next slice begin, if it may; returns the request whose slice it is."""
        if not self._waiting:
            return None
        waited = now - self._since
        if self._running is not None and waited < self._bounds.lost:
            return None
        # Patience is counted from the end of the last slice and not per request: otherwise ten long requests beside
        # short ones without end would get ten times the share that one gets.
        if self._is_short_running(now) and waited < self._bounds.patience:
            return None
        self._running, self._since = self._waiting.popleft(), now
        return self._running

    def pause(self, now: float) -> float:
        """Seconds after which a request that waits has to ask for the next slice, although nothing happened."""
        bound = self._bounds.patience if self._running is None else self._bounds.lost
        return max(self._since + bound - now, 0.0)

    def _is_short_running(self, now: float) -> bool:
        return bool(self._short) and now - next(reversed(self._short.values())) < self._bounds.short


class Slices:
    """The requests of one process, each in a thread."""

    def __init__(
        self,
        bounds: Bounds | None = None,
        clock: Callable[[], float] = time.monotonic,
        processor_time: Callable[[], float] = time.thread_time,
    ) -> None:
        """No request runs.

        Args:
            clock: in seconds.
            processor_time: of the calling thread, in seconds. Time on the clock would make a short request long that
                only waited for the interpreter.
        """
        self._bounds = bounds or Bounds()
        self._clock = clock
        self._processor_time = processor_time
        self._precedence = Precedence(self._bounds)
        self._lock = threading.Lock()
        self._own = threading.local()

    @contextmanager
    def request(self) -> Iterator[None]:
        """Until this ends, the thread works on a request, for which long requests wait while it is short."""
        request = Request(self._processor_time() + self._bounds.first)
        with self._lock:
            self._precedence.begin(request, self._clock())
        self._own.request = request
        try:
            yield
        finally:
            self._own.request = None
            with self._lock:
                now = self._clock()
                self._precedence.end(request, now)
                self._start_next(now)

    def give_way(self) -> None:
        """If the slice of this thread's request is over, wait for the next one. Without a request, do nothing."""
        request: Request | None = getattr(self._own, "request", None)
        if request is None or self._processor_time() < request.until:
            return
        may_run = request.may_run
        if may_run is None:
            may_run = request.may_run = threading.Event()
        with self._lock:
            now = self._clock()
            may_run.clear()
            self._precedence.give_way(request, now)
            self._start_next(now)
        while not may_run.is_set():
            with self._lock:
                pause = 0.0 if may_run.is_set() else self._precedence.pause(self._clock())
            if not may_run.wait(pause):
                with self._lock:
                    self._start_next(self._clock())
        request.until = self._processor_time() + self._bounds.slice

    def _start_next(self, now: float) -> None:
        """With the lock. Whoever changes something wakes the request that may run then; no other thread wakes."""
        request = self._precedence.next(now)
        if request is not None and request.may_run is not None:
            request.may_run.set()


_of_process = Slices()
request = _of_process.request
give_way = _of_process.give_way
