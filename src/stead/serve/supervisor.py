"""Decides which workers start, end and are killed. It runs no process and reads no clock: the main process does both.

The rules, in the order of their importance:

1. A worker that serves is never ended because of another one. The service ends by itself only if no worker is left and
   a new one ended before it served.
2. A worker that may hold a request gets SIGTERM, and SIGKILL only if it has not ended after `STOP_SECONDS`. A worker
   that never served holds none.
3. Missing workers are replaced one after the other, which bounds memory. After each failure in a row the pause before
   the next start is longer.
4. At a reload, a worker ends when its successor serves. If a successor fails, the present workers stay.

Callers report what happened (:meth:`Supervisor.served`, :meth:`~Supervisor.ended`, …), and carry out what
:meth:`Supervisor.decide` returns. All times are seconds of one monotonic clock.
"""

from __future__ import annotations

import logging
from collections import Counter
from dataclasses import dataclass
from enum import Enum

from stead.process.siblings import Siblings

STOP_SECONDS = 35.0
"""Time between the signal that ends a worker and SIGKILL. Longer than any request."""

START_SECONDS = 600.0
"""Time in which a worker must begin to serve. The largest sites load in a tenth of it."""

STEADY_SECONDS = 60.0
"""After all workers have served for this time, the next failure is the first in a row again."""

LONGEST_PAUSE_SECONDS = 60.0
"""Maximum pause before a start."""

LONGEST_PAUSE_WITHOUT_WORKERS_SECONDS = 1.0
"""Maximum pause before a start while no worker serves."""

_ENDED, _NOT_STARTED, _UNRESPONSIVE = "ended", "not_started", "unresponsive"
_CAUSES = {
    _ENDED: "a worker ended by itself",
    _NOT_STARTED: "a new worker did not start",
    _UNRESPONSIVE: "a worker did not answer its health check",
}
"""The causes of failures, and what health checks say of each: they need no token, so reasons are in the log only."""

_log = logging.getLogger(__name__)


class Step(Enum):
    """What the caller does with a worker."""

    START = "start"
    DRAIN = "drain"
    """Tell it that another worker has replaced it."""
    END = "end"
    END_AT_ONCE = "end_at_once"
    KILL = "kill"


@dataclass(frozen=True, slots=True)
class Order:
    """A step for one worker. Workers have numbers, which are never used again."""

    step: Step
    worker: int


class _State(Enum):
    STARTING = "starting"
    SERVING = "serving"
    ENDING = "ending"


@dataclass(slots=True)
class _Worker:
    state: _State
    until: float  # of STARTING and ENDING: when it is killed
    since: float = 0.0  # when it was started


class Supervisor:
    """The state of all workers of a service.

    Attributes:
        is_stopping: no worker starts any more. After the last one has ended, the service is over.
        failure: why the service ends by itself; None if it does not.
    """

    def __init__(self, count: int, now: float) -> None:
        """The first call of :meth:`decide` starts *count* workers."""
        self.is_stopping = False
        self.failure: str | None = None
        self._count = count
        self._workers: dict[int, _Worker] = {}  # in the order of their start
        self._orders: list[Order] = []
        self._last_number = 0
        self._to_replace: list[int] = []  # at a reload, the oldest first
        self._failures: Counter[str] = Counter()
        self._failures_in_a_row = 0
        self._has_served = False  # a worker, at any time
        self._last_failed_to_start = False
        self._last_loss = now  # of a worker that had served
        self._last_reason = ""
        self._problem: str | None = None
        self._complete_since: float | None = None
        self._next_start = now
        for _ in range(count):
            self._start(now)

    # What happened.

    def served(self, worker: int, now: float) -> None:
        """*worker* has answered for the first time."""
        if worker not in self._in(_State.STARTING):
            return
        self._workers[worker].state = _State.SERVING
        self._has_served = True
        self._last_failed_to_start = False
        if len(self._in(_State.SERVING)) > self._count and self._to_replace:
            # Only now: the successor accepts connections already, so a reload costs no capacity.
            self._end(self._to_replace.pop(0), Step.DRAIN, now)
        if len(self._in(_State.SERVING)) == self._count:
            self._problem = None
            if self._complete_since is None:
                self._complete_since = now

    def ended(self, worker: int, reason: str, now: float) -> None:
        """The process of *worker* has ended, or could not be started; *reason* says which and how, in one line."""
        gone = self._workers.pop(worker)
        if gone.state is not _State.ENDING:
            self._failed(worker, _ENDED if gone.state is _State.SERVING else _NOT_STARTED, reason, now, gone.since)

    def unresponsive(self, worker: int, reason: str, now: float) -> None:
        """*worker* does not answer its health check, which it did before."""
        if worker in self._in(_State.SERVING):
            # Not killed at once: its threads may still finish claims while its event loop is blocked.
            since = self._workers[worker].since
            self._end(worker, Step.END, now)
            self._failed(worker, _UNRESPONSIVE, reason, now, since)

    def reload(self, now: float) -> None:
        """Replace all present workers, one after the other.

        Workers that start are ended: they may have read the configuration before the last change, and one that hangs
        would hold up the others. Missing workers are started first, without the rest of their pause, since the operator
        may have corrected the configuration.
        """
        if self._has_served and not self.is_stopping:
            for number in self._in(_State.STARTING):
                self._end(number, Step.END, now)
            self._to_replace = self._in(_State.SERVING)
            self._next_start = now

    def stop(self, now: float, *, at_once: bool = False) -> None:
        """End all workers."""
        self.is_stopping = True
        for number, worker in self._workers.items():
            if at_once:
                self._orders.append(Order(Step.END_AT_ONCE, number))
            elif worker.state is not _State.ENDING:
                self._end(number, Step.END, now)
            else:
                self._orders.append(Order(Step.END, number))  # its drain ends sooner

    # What to do.

    @property
    def is_over(self) -> bool:
        """Whether the service has ended."""
        return self.is_stopping and not self._workers

    def decide(self, now: float) -> list[Order]:
        """The steps that are due, each once."""
        if not self.is_stopping:
            self._start_what_is_due(now)
        for number, worker in self._workers.items():
            if worker.state is not _State.SERVING and now > worker.until:
                self._kill_late(number, worker, now)
        orders, self._orders = self._orders, []
        return orders

    def siblings(self) -> Siblings:
        """The present state, for health checks and metrics."""
        states = {state.value: len(self._in(state)) for state in _State}
        states["missing"] = self._missing
        return Siblings(states, {cause: self._failures[cause] for cause in _CAUSES}, self._problem)

    # Starts.

    def _start_what_is_due(self, now: float) -> None:
        if self._in(_State.STARTING):
            return  # one after the other
        if not self._in(_State.SERVING) and self._last_failed_to_start:
            why = "no worker is left, and none can start: " if self._has_served else ""
            self.failure = why + self._last_reason
            self.stop(now)
        elif self._missing:
            if now >= self._next_start:
                self._start(now)
        elif self._to_replace and not self._in(_State.ENDING):
            self._start(now)

    def _start(self, now: float) -> None:
        self._last_number += 1
        self._workers[self._last_number] = _Worker(_State.STARTING, now + START_SECONDS, now)
        self._orders.append(Order(Step.START, self._last_number))

    @property
    def _missing(self) -> int:
        return max(0, self._count - len(self._in(_State.SERVING)))

    # Failures.

    def _failed(self, worker: int, cause: str, reason: str, now: float, since: float) -> None:
        """Record that *worker*, started at *since*, is lost, and plan its replacement."""
        if self.is_stopping:
            return
        has_served = cause != _NOT_STARTED
        self._failures[cause] += 1
        if has_served:
            self._last_loss = now
        # A worker that was started before the last one was lost says nothing about what starts now.
        self._last_failed_to_start = not has_served and since >= self._last_loss
        self._last_reason = reason
        if worker in self._to_replace:
            self._to_replace.remove(worker)
        if not has_served and self._to_replace:
            self._give_up_reload(reason)
        if not self._missing:
            return  # it was to replace a worker that still serves
        if self._complete_since is not None and now - self._complete_since >= STEADY_SECONDS:
            self._failures_in_a_row = 0
        self._complete_since = None
        self._failures_in_a_row += 1
        pause = self._pause(has_served=has_served)
        self._next_start = now + pause
        serving = len(self._in(_State.SERVING))
        self._problem = f"{serving} of {self._count} workers serve: {_CAUSES[cause]}; see the log"
        if serving or has_served:
            _log.error(
                "%s; %d of %d workers serve, and the next one starts %s",
                reason, serving, self._count, f"in {pause:.0f} s" if pause else "at once",
            )  # fmt: skip
        elif self._in(_State.STARTING):
            _log.error("%s; %d others start", reason, len(self._in(_State.STARTING)))

    def _pause(self, *, has_served: bool) -> float:
        """Seconds: 0 after a first worker that had served, then 1, 2, 4, …"""
        if has_served and self._failures_in_a_row == 1:
            return 0.0
        doublings = max(0, self._failures_in_a_row - 2)
        longest = LONGEST_PAUSE_SECONDS if self._in(_State.SERVING) else LONGEST_PAUSE_WITHOUT_WORKERS_SECONDS
        return min(2.0 ** min(doublings, 10), longest)

    def _give_up_reload(self, reason: str) -> None:
        done = sum(number not in self._to_replace for number in self._in(_State.SERVING))
        what = f"only {done} of {self._count} workers are reloaded" if done else "nothing is reloaded"
        _log.error("%s: %s", what, reason)
        self._to_replace = []

    # Ends.

    def _end(self, number: int, step: Step, now: float) -> None:
        self._workers[number] = _Worker(_State.ENDING, now + STOP_SECONDS)
        self._orders.append(Order(step, number))

    def _kill_late(self, number: int, worker: _Worker, now: float) -> None:
        if worker.state is _State.STARTING:
            worker.state = _State.ENDING
            self._failed(
                number, _NOT_STARTED, f"a new worker did not serve within {START_SECONDS:.0f} s", now, worker.since
            )
        worker.until = now + STOP_SECONDS
        self._orders.append(Order(Step.KILL, number))

    def _in(self, state: _State) -> list[int]:
        """The workers in *state*, the oldest first."""
        return [number for number, worker in self._workers.items() if worker.state is state]
