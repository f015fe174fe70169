"""Watching: waiting until something happens. Who waits holds a thread, so only some are let.

The database is looked at again and again: nobody tells one process what another has committed, and a look that finds
nothing reads the clock alone.

Source: "GET /changes", docs/api.md.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from stead.background import STOPPING
from stead.domain.errors import StartOver, Unavailable
from stead.store.happened import happened_since

if TYPE_CHECKING:
    from stead.store.happened import Happened
    from stead.store.transaction import Store

LOOK_SECONDS = 0.1
"""Between two looks."""

HEARTBEAT_SECONDS = 15.0
"""After so long without a change who follows is told that there is none: a client that left is noticed by it."""

LONGEST_SECONDS = 300.0
"""Nobody follows longer without connecting again."""


class Watchers:
    """Those who wait in this process, *most* of them at a time."""

    def __init__(self, store: Store, most: int) -> None:
        """Nobody waits yet."""
        self._store = store
        self._most = most
        self._free = threading.Semaphore(most)
        self._closed = False

    def look(self, since: str | None) -> Happened:
        """What happened since a token; nothing since None.

        Raises:
            InvalidQuery, StartOver, Unavailable
        """
        return self._store.read(happened_since, since)

    def wait(self, since: str | None, seconds: float) -> Happened:
        """What happened since a token, as soon as anything did; nothing, if nothing does for so many *seconds*.

        Raises:
            InvalidQuery, StartOver
            Unavailable: the database does not answer, or there are as many as may wait.
        """
        happened = self.look(since)
        if happened or since is None or seconds <= 0 or self._most == 0:
            return happened
        self._enter()
        try:
            return self._next(happened, seconds)
        finally:
            self.leave()

    def follow(self, since: str | None) -> Stream:
        """What happens from a token on, or from now; to be closed.

        Raises:
            InvalidQuery, StartOver
            Unavailable: the database does not answer, or there are as many as may wait.
        """
        first = self.look(since)
        self._enter()
        return Stream(self, first)

    def next_after(self, happened: Happened, seconds: float) -> Happened | None:
        """What happens next; None, if they are to wait no more: the process is about to stop."""
        found = self._next(happened, seconds)
        return found if found or self._may_wait() else None

    def _next(self, happened: Happened, seconds: float) -> Happened:
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0 and self._may_wait():
            STOPPING.wait(min(LOOK_SECONDS, left))
            happened = self.look(happened.token)
            if happened:
                break
        return happened

    def _may_wait(self) -> bool:
        return not (self._closed or STOPPING.is_set())

    def _enter(self) -> None:
        if not self._free.acquire(blocking=False):
            raise Unavailable("The worker lets as many watchers wait as it may.")

    def leave(self) -> None:
        """Make room for another."""
        self._free.release()

    def close(self) -> None:
        """Let nobody wait any longer."""
        self._closed = True


class Stream:
    """What happens, one thing after the other, for some minutes; what is empty says that nothing did for a while."""

    def __init__(self, watchers: Watchers, first: Happened) -> None:
        self._watchers = watchers
        self._last = first
        self._is_first = True
        self._until = time.monotonic() + LONGEST_SECONDS
        self._is_open = True

    def __iter__(self) -> Stream:
        return self

    def __next__(self) -> Happened:
        """The next; the first one at once.

        Raises:
            StartOver: it can not be told. It is the end.
            StopIteration: it is the end for other reasons, also if the database does not answer.
        """
        if self._is_first:
            self._is_first = False
            return self._last
        left = self._until - time.monotonic()
        if not self._is_open or left <= 0:
            self.close()
            raise StopIteration
        try:
            happened = self._watchers.next_after(self._last, min(HEARTBEAT_SECONDS, left))
        except Unavailable:
            happened = None
        except StartOver:
            self.close()
            raise
        if happened is None:
            self.close()
            raise StopIteration
        self._last = happened
        return happened

    def close(self) -> None:
        """Make room for another; may be called twice."""
        if self._is_open:
            self._is_open = False
            self._watchers.leave()

    def __del__(self) -> None:
        self.close()  # not every server closes what it stopped reading
