"""The ends of leases: every process looks for them, and the first one to find an end carries it out.

Source: "Leases", docs/stead-api.md; decision 76.
"""

from __future__ import annotations

import logging
import time
from threading import Lock
from time import monotonic
from typing import TYPE_CHECKING

from stead.store import allocations
from stead.store.extensions import leases

if TYPE_CHECKING:
    from collections.abc import Callable

    from stead.store.protocol.store import Store

INTERVAL_SECONDS = 1.0
"""Default interval between steps."""

PORTION = 200
"""Consumers that one transaction ends; other claims from their providers wait for it."""

_PAUSE_SECONDS = 0.05

_log = logging.getLogger(__name__)


class Expiry:
    """Ends the leases of one database."""

    def __init__(
        self,
        store: Store,
        interval: float = INTERVAL_SECONDS,
        on_end: Callable[[str, int], None] | None = None,
        elapsed: Callable[[], float] = monotonic,
    ) -> None:
        """Read nothing yet.

        Args:
            interval: seconds between two steps.
            on_end: called with what happened to how many consumers: ``release`` or ``mark``.
            elapsed: a clock that never jumps, in seconds. It only tells how much the database's clock jumped.
        """
        self._store = store
        self._interval = interval
        self._on_end = on_end
        self._watch = leases.Watch(elapsed)
        self._lock = Lock()
        self.overdue = 0
        """The number of consumers that are overdue, as of the last step."""

    def step(self) -> float:
        """Release or mark the consumers whose leases have ended; returns the seconds until the next step.

        Raises:
            Unavailable: the database does not answer.
        """
        with self._lock:
            self._step()
        return self._interval

    def pass_time(self, seconds: int) -> None:
        """Let all leases end sooner, and release or mark what then has ended: for tests of programs with leases."""
        self._store.write(leases.pass_time, seconds)
        while self._has_ended():
            self.step()
            time.sleep(_PAUSE_SECONDS)

    def _has_ended(self) -> bool:
        reading, first_end, _ = self._store.read(leases.outlook, self._store.dialect)
        return first_end is not None and first_end < reading.now

    def _step(self) -> None:
        reading, first_end, self.overdue = self._store.read(leases.outlook, self._store.dialect)
        if first_end is None:
            return
        self._watch.note(reading)
        if self._watch.is_due(reading):
            reading = self._watch_clock(reading)
        if first_end < self._watch.counted(reading):
            while not self._end().is_all:
                pass

    def _watch_clock(self, reading: leases.Reading) -> leases.Reading:
        stepped = self._store.write(leases.watch_clock, self._watch)
        if stepped is None:
            return reading
        self._watch.has_stored(stepped)
        if stepped.leases:
            _log.warning(
                "%d leases end later, by up to %d s: the clock jumped, or no process read it",
                stepped.leases,
                stepped.seconds,
            )
        return reading._replace(stored=stepped.stored)

    def _end(self) -> allocations.Ended:
        ended = self._store.write(allocations.end_leases, self._watch, PORTION)
        self.overdue += ended.marked
        for happened, count in (("release", ended.released), ("mark", ended.marked)):
            if count:
                _log.info("%d leases ended (%s)", count, happened)
                if self._on_end is not None:
                    self._on_end(happened, count)
        return ended
