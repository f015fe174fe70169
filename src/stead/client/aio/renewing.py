"""Renews the leases of the claims that this process holds: one task or thread for all holds of a site.

A hold is lost at the latest when the time of its last renewal is over. This process counts that time from the moment at
which it sent the renewal, and the database from a later one. So the database releases nothing that is not lost here.
"""

from __future__ import annotations

import logging
import random
from threading import Lock
from typing import TYPE_CHECKING

from stead.client import calls
from stead.client.aio.running import Background, Event
from stead.client.errors import Invalid, TooLarge
from stead.client.times import elapsed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stead.client.aio.transport import Calling

MOST = 10_000
"""Renewals in one request."""

SHARE = 1 / 3
"""Of its time after which a lease is renewed, so that two further attempts can fail."""

JITTER = 0.2
"""Share of that by which a renewal is earlier at random: clients that started together do not renew together."""

EARLY = 0.1
"""Share of its time by which a lease is renewed early if another one is due: fewer requests."""

ATTEMPT = 1 / 6
"""Share of its time for one attempt, and LEAST_SECONDS: a server that hangs leaves time for another attempt."""

LEAST_SECONDS = 0.2

PAUSE = 1 / 15
"""Share of its time between two attempts if the server cannot be reached, and MOST_SECONDS."""

MOST_SECONDS = 5.0

_log = logging.getLogger(__name__)


class Renewal:
    """The lease of one consumer, while it is renewed.

    Attributes:
        generation: of its claim, which another claim of this consumer does not have.
        lost: is set when it ended, or may have ended.
        reason: why it was lost, or why the last attempt to renew it failed.
        end: until when it lasts at least, by :func:`elapsed`.
        due: when it is renewed next, likewise.
    """

    __slots__ = ("consumer", "due", "end", "generation", "lost", "reason", "seconds")

    def __init__(self, consumer: str, generation: int | None, seconds: int, since: float) -> None:
        """One of *seconds*, which began *since* or later."""
        self.consumer = consumer
        self.generation = generation
        self.seconds = seconds
        self.lost = Event()
        self.reason = ""
        self.renewed(since)

    def renewed(self, since: float) -> None:
        """It lasts for its time from *since*, or longer."""
        self.end = since + self.seconds
        self.due = since + self.seconds * SHARE * (1 - JITTER * random.random())

    @property
    def remaining(self) -> float:
        """Seconds until its end."""
        return self.end - elapsed()

    @property
    def is_lost(self) -> bool:
        """Whether it ended, or may have ended, also if the thread that says so has not run yet."""
        return self.lost.is_set() or self.remaining <= 0


class Keeper:
    """Renews the leases of a site until they are removed or lost."""

    def __init__(self, calling: Calling) -> None:
        """Nothing runs yet."""
        self._calling = calling
        self._renewals: set[Renewal] = set()
        self._lock = Lock()  # never held while something is awaited
        self._background = Background(self._step, "leases")

    async def renew(self, renewal: Renewal) -> None:
        """Renew one lease now; sets ``lost`` if it is gone.

        Raises:
            Refused: the server did not renew it.
        """
        await self._send([renewal], self._calling.timeout)

    def add(self, renewal: Renewal) -> None:
        """Begin to renew a lease."""
        with self._lock:
            self._renewals.add(renewal)
        self._background.wake()

    def remove(self, renewal: Renewal) -> None:
        """Renew a lease no more."""
        with self._lock:
            self._renewals.discard(renewal)
        self._background.wake()

    async def stop(self) -> None:
        """Renew nothing more: all leases are lost."""
        with self._lock:
            renewals = list(self._renewals)
            self._renewals.clear()
        for renewal in renewals:
            lose(renewal, "the site was closed")
        await self._background.stop()

    async def _step(self) -> float | None:
        """Renew what is due; the seconds until something else is, or None if nothing is left."""
        with self._lock:
            renewals = list(self._renewals)
        now = elapsed()
        for renewal in renewals:
            if renewal.end <= now:
                why = f": {renewal.reason}" if renewal.reason else ""
                lose(renewal, f"it could not be renewed for {renewal.seconds} s{why}")
        if any(renewal.due <= now for renewal in renewals):
            near = [each for each in renewals if not each.lost.is_set() and each.due - EARLY * each.seconds <= now]
            for start in range(0, len(near), MOST):
                await self._attempt(near[start : start + MOST])
        lost = {renewal for renewal in renewals if renewal.lost.is_set()}
        with self._lock:
            self._renewals -= lost
            if not self._renewals:
                return None
            return max(0.0, min(min(each.due, each.end) for each in self._renewals) - elapsed())

    async def _attempt(self, renewals: Sequence[Renewal]) -> None:
        """Renew some leases, or let them be due again soon."""
        shortest = min(renewal.seconds for renewal in renewals)
        try:
            await self._send(renewals, min(self._calling.timeout, max(LEAST_SECONDS, shortest * ATTEMPT)))
        except (Invalid, TooLarge) as error:
            # One of them is longer than the server allows now, or it accepts fewer at a time: the others go on.
            if len(renewals) > 1:
                middle = len(renewals) // 2
                await self._attempt(renewals[:middle])
                await self._attempt(renewals[middle:])
            else:
                self._try_later(renewals, error)
        except Exception as error:  # also what the source of tokens raises
            self._try_later(renewals, error)

    def _try_later(self, renewals: Sequence[Renewal], error: Exception) -> None:
        now = elapsed()
        if not all(renewal.reason for renewal in renewals):
            _log.warning("cannot renew %d leases, and repeat it until they end: %s", len(renewals), error)
        for renewal in renewals:
            renewal.reason = str(error)
            renewal.due = now + min(MOST_SECONDS, renewal.seconds * PAUSE) * (1 - JITTER * random.random())

    async def _send(self, renewals: Sequence[Renewal], timeout: float) -> None:
        """Renew some leases. What is gone is lost; what has no end any more cannot end."""
        sent = elapsed()
        seconds_of: dict[str, int] = {}
        known: dict[str, int | None] = {}
        others = []
        for renewal in renewals:  # a consumer may be held twice
            if known.setdefault(renewal.consumer, renewal.generation) == renewal.generation:
                seconds_of[renewal.consumer] = max(renewal.seconds, seconds_of.get(renewal.consumer, 0))
            else:
                others.append(renewal)
        gone = set((await self._calling.send(calls.renew(seconds_of, known), timeout)).json()["gone"])
        if others:
            await self._send(others, timeout)
        for renewal in renewals:
            if renewal in others:
                continue
            if renewal.consumer in gone:
                lose(renewal, "its allocations were released: it ended, or another client released them")
            else:
                renewal.reason = ""
                renewal.renewed(sent)


def lose(renewal: Renewal, reason: str) -> None:
    """Set ``lost``, with the reason."""
    if not renewal.lost.is_set():
        renewal.reason = reason
        renewal.lost.set()
