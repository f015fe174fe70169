"""Watching: waiting until something changes. One thread per process polls the database for all who wait.

Nothing tells one process what another has committed, so the database is polled. A poll that finds nothing reads the
clock alone, however many wait.

Source: "GET /changes", docs/api.md.
"""

from __future__ import annotations

import logging
import threading
import time
from contextvars import copy_context
from dataclasses import dataclass, field
from queue import SimpleQueue
from typing import TYPE_CHECKING, Self

from stead.domain.errors import StartOver, Unavailable
from stead.process.background import STOPPING
from stead.store.feed.changes import Happened, happened_since, happened_since_each

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextvars import Context

    from stead.store.protocol.transaction import Store

POLL_SECONDS = 0.1
"""Between two polls."""

HEARTBEAT_SECONDS = 15.0
"""After so long without a change a stream sends a sign of life, by which a client that went away is noticed."""

LONGEST_SECONDS = 300.0
"""A stream ends after so long; its client connects again."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class End:
    """Nothing more is told. ``error`` says why, unless time is over, the process ends, or the watcher was closed."""

    error: Exception | None = None


News = Happened | End
"""What a watcher is told: changes; none, as a heartbeat; or the end, after which it is told nothing."""


@dataclass(eq=False)
class Watcher:
    """Waits for what happens after ``last``. Its times are of ``time.monotonic``."""

    last: Happened
    tell: Callable[[News], None]
    heartbeat: float
    until: float
    context: Context = field(default_factory=copy_context)
    told: float = field(default_factory=time.monotonic)
    is_open: bool = True

    def hear(self, news: News) -> None:
        """Tell it, in the context in which it began to wait, so that what it logs names its request."""
        self.context.run(self.tell, news)


class Watchers:
    """All that wait in this process, *most* of them at a time, and *most_threads* of those that hold a thread."""

    def __init__(self, store: Store, most: int, most_threads: int = 4) -> None:
        """Nothing waits yet."""
        self._store = store
        self._most = most
        self._most_threads = most_threads
        self._lock = threading.Lock()
        self._waiting: set[Watcher] = set()
        self._threads = 0
        self._is_polling = False
        self._closed = False

    @property
    def waiting(self) -> int:
        """How many wait."""
        return len(self._waiting)

    def look(self, since: str | None) -> Happened:
        """What happened since a token; nothing since None.

        Raises:
            InvalidQuery, StartOver, Unavailable
        """
        return self._store.read(happened_since, since)

    def may_wait(self) -> bool:
        """Whether anything can wait now: not if the operator forbids it, nor when the process ends."""
        return self._most > 0 and not (self._closed or STOPPING.is_set())

    def watch(self, last: Happened, tell: Callable[[News], None], *, heartbeat: float, seconds: float) -> Watcher:
        """Have *tell* called, in the poller's thread, with what happens after *last*; to be closed.

        Args:
            heartbeat: seconds after which it is called without a change.
            seconds: after which it is told the end.

        Raises:
            Unavailable: too many wait.
        """
        watcher = Watcher(last, tell, heartbeat, time.monotonic() + seconds)
        with self._lock:
            if len(self._waiting) >= self._most:
                raise Unavailable(f"Too many watchers on this worker (limit {self._most}, [stead] max_watchers).")
            self._waiting.add(watcher)
            if not self._is_polling:
                self._is_polling = True
                threading.Thread(target=self._poll, name="watching", daemon=True).start()
        return watcher

    def leave(self, watcher: Watcher) -> None:
        """Tell *watcher* nothing more; may be called twice."""
        with self._lock:
            watcher.is_open = False
            self._waiting.discard(watcher)

    def hold_thread(self) -> None:
        """Count a thread that waits, until :meth:`free_thread`.

        Raises:
            Unavailable: too many do.
        """
        with self._lock:
            if self._threads >= self._most_threads:
                raise Unavailable(
                    f"Too many watchers hold a thread of this worker (limit {self._most_threads}, "
                    "[stead] max_watcher_threads)."
                )
            self._threads += 1

    def free_thread(self) -> None:
        """The thread waits no more."""
        with self._lock:
            self._threads -= 1

    def wait(self, last: Happened, seconds: float) -> Happened:
        """What happens after *last*, in this thread; nothing, if nothing does for so many *seconds*.

        Raises:
            StartOver
            Unavailable: the database does not answer, or too many wait.
        """
        with Follower(self, last, heartbeat=seconds, seconds=seconds + POLL_SECONDS) as follower:
            return next(follower, last)

    def close(self) -> None:
        """End all that wait."""
        self._closed = True
        self._end_all(End())

    def _poll(self) -> None:
        while True:
            STOPPING.wait(POLL_SECONDS)
            with self._lock:
                if not self._waiting:
                    self._is_polling = False
                    return
                waiting = list(self._waiting)
            if not self.may_wait():
                self._end_all(End())
                continue
            try:
                found = self._store.read(happened_since_each, {watcher.last.token for watcher in waiting})
            except Unavailable as error:
                self._end_all(End(error))
            except Exception as error:  # a bug, or a broken table: whoever waits is told, and the poller lives on
                _log.exception("polling for changes failed")
                self._end_all(End(error))
            else:
                self._tell(waiting, found)

    def _tell(self, waiting: list[Watcher], found: dict[str, Happened | StartOver]) -> None:
        now = time.monotonic()
        for watcher in waiting:
            news = found[watcher.last.token]
            if isinstance(news, StartOver):
                self._end(watcher, End(news))
                continue
            watcher.last = news
            if news or now - watcher.told >= watcher.heartbeat:
                watcher.told = now
                self._hear(watcher, news)
            if now >= watcher.until:
                self._end(watcher, End())

    def _end_all(self, end: End) -> None:
        with self._lock:
            waiting = list(self._waiting)
        for watcher in waiting:
            self._end(watcher, end)

    def _end(self, watcher: Watcher, end: End) -> None:
        """Tell *watcher* the end, unless it was closed or told before."""
        with self._lock:
            if not watcher.is_open:
                return
            watcher.is_open = False
            self._waiting.discard(watcher)
        self._hear(watcher, end)

    def _hear(self, watcher: Watcher, news: News) -> None:
        if watcher.is_open or isinstance(news, End):
            try:
                watcher.hear(news)
            except Exception:  # one watcher must not end the others
                _log.exception("a watcher failed")


class Follower:
    """What happens, one piece of news after the other, for a thread that waits; empty ones are heartbeats."""

    def __init__(self, watchers: Watchers, last: Happened, *, heartbeat: float, seconds: float) -> None:
        """It waits from now on; to be closed.

        Raises:
            Unavailable: too many wait.
        """
        self._watchers = watchers
        self._news: SimpleQueue[News] = SimpleQueue()
        watchers.hold_thread()
        self._is_open = True
        try:
            self._watcher = watchers.watch(last, self._news.put, heartbeat=heartbeat, seconds=seconds)
        except Unavailable:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __iter__(self) -> Iterator[Happened]:
        return self

    def __next__(self) -> Happened:
        """The next.

        Raises:
            StartOver, Unavailable: it cannot be told.
            StopIteration: it is the end for other reasons.
        """
        if not self._is_open:
            raise StopIteration
        news = self._news.get()
        if not isinstance(news, End):
            return news
        self.close()
        if news.error is not None:
            raise news.error
        raise StopIteration

    def close(self) -> None:
        """Wait no more; may be called twice."""
        if self._is_open:
            self._is_open = False
            self._watchers.free_thread()
            watcher = getattr(self, "_watcher", None)
            if watcher is not None:
                self._watchers.leave(watcher)
                self._news.put(End())

    def __del__(self) -> None:
        self.close()  # not every server closes what it stopped reading
