"""Watching: waiting for changes. One thread per process polls the database for all watchers.

Processes do not notify each other of commits, so the database is polled. A poll without changes reads only the clock,
for any number of watchers.

Source: "GET /changes", docs/stead-api.md.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from contextvars import copy_context
from dataclasses import dataclass, field
from queue import SimpleQueue
from typing import TYPE_CHECKING, Protocol, Self, TypeVar

from stead.domain.errors import StartOver, Unavailable
from stead.process.background import STOPPING
from stead.store.feed.changes import ChangeSet, changes_since, changes_since_each

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Hashable, Iterator
    from contextvars import Context

    from stead.store.protocol.store import Store

POLL_SECONDS = 0.1
"""Interval between polls."""

HEARTBEAT_SECONDS = 15.0
"""After this time without a change, a stream sends a heartbeat, which also detects clients that have disconnected."""

LONGEST_SECONDS = 300.0
"""Maximum duration of a stream; its client connects again."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class End:
    """The end of the events. ``error`` is the reason; None if time is over, the process ends, or the watcher closed."""

    error: Exception | None = None


ChangeEvent = ChangeSet | End
"""What a watcher gets: changes; no changes, as a heartbeat; or the end, which is the last event."""


@dataclass(eq=False)
class Watcher:
    """Waits for changes after ``last``. Its times are of ``time.monotonic``."""

    last: ChangeSet
    tell: Callable[[ChangeEvent], None]
    heartbeat: float
    until: float
    client: Hashable = field(repr=False)  # it may be a secret
    context: Context = field(default_factory=copy_context)
    told: float = field(default_factory=time.monotonic)
    is_open: bool = True

    def receive(self, event: ChangeEvent) -> None:
        """Deliver *event* in the context in which the watcher began to wait, so that log lines name its request."""
        self.context.run(self.tell, event)


class Waiting(Protocol):
    """A watcher or a stream of a client."""

    @property
    def client(self) -> Hashable:
        """Equal for all of one client."""


W = TypeVar("W", bound=Waiting)


def displaced(waiting: Collection[W], most: int, client: Hashable) -> W | None:
    """Which of *waiting* must end so that *client* can have one more; None if there is room for *most*.

    It is one of the client that has most, if that still has as many as *client* then. So a client can have all while no
    other needs them, and no client keeps another from its share. A client whose watcher ends connects again.

    Raises:
        Unavailable: *client* has its share already.
    """
    if len(waiting) < most:
        return None
    numbers = Counter(each.client for each in waiting)
    largest, number = numbers.most_common(1)[0] if numbers else (None, 0)
    if number < numbers[client] + 2:
        raise too_many(most)
    return next(each for each in waiting if each.client == largest)


def too_many(most: int) -> Unavailable:
    """The error for a watcher more than *most*."""
    return Unavailable(f"Too many watchers on this worker (limit {most}, [stead] max_watchers).")


class Watchers:
    """All watchers of this process: up to *most*, of which up to *most_threads* hold a thread.

    Clients share them, as `displaced` says.
    """

    def __init__(self, store: Store, most: int, most_threads: int = 4) -> None:
        """Start without watchers."""
        self._store = store
        self._most = most
        self._most_threads = most_threads
        self._lock = threading.Lock()
        self._waiting: set[Watcher] = set()
        self._threads = 0
        self._is_polling = False
        self._closed = False

    @property
    def most(self) -> int:
        """Maximum number of watchers."""
        return self._most

    @property
    def waiting(self) -> int:
        """Number of watchers."""
        return len(self._waiting)

    def look(self, since: str | None) -> ChangeSet:
        """The changes since a token; none if *since* is None.

        Raises:
            InvalidQuery, StartOver, Unavailable
        """
        return self._store.read(changes_since, since)

    def may_wait(self) -> bool:
        """Whether a request can wait now: not if the operator forbids it, or the process ends."""
        return self._most > 0 and not (self._closed or STOPPING.is_set())

    def watch(
        self,
        last: ChangeSet,
        tell: Callable[[ChangeEvent], None],
        *,
        heartbeat: float,
        seconds: float,
        client: Hashable = None,
    ) -> Watcher:
        """Call *tell*, in the poller's thread, with what happens after *last*. The caller must close the watcher.

        Args:
            heartbeat: seconds after which *tell* is called without a change.
            seconds: seconds after which *tell* gets the end.
            client: who watches.

        Raises:
            Unavailable: too many requests of the client wait.
        """
        watcher = Watcher(last, tell, heartbeat, time.monotonic() + seconds, client)
        with self._lock:
            ended = displaced(self._waiting, self._most, client)
            if ended is not None:
                self._waiting.discard(ended)
            self._waiting.add(watcher)
            if not self._is_polling:
                self._is_polling = True
                threading.Thread(target=self._poll, name="watching", daemon=True).start()
        if ended is not None:
            self._end(ended, End())
        return watcher

    def leave(self, watcher: Watcher) -> None:
        """Deliver no more events to *watcher*; may be called twice."""
        with self._lock:
            watcher.is_open = False
            self._waiting.discard(watcher)

    def hold_thread(self) -> None:
        """Count a waiting thread, until :meth:`free_thread`.

        Raises:
            Unavailable: too many threads wait.
        """
        with self._lock:
            if self._threads >= self._most_threads:
                raise Unavailable(
                    f"Too many watchers hold a thread of this worker (limit {self._most_threads}, "
                    "[stead] max_watcher_threads)."
                )
            self._threads += 1

    def free_thread(self) -> None:
        """The thread no longer waits."""
        with self._lock:
            self._threads -= 1

    def wait(self, last: ChangeSet, seconds: float, client: Hashable = None) -> ChangeSet:
        """Wait in this thread for changes after *last*; returns no changes if there are none within *seconds*.

        Raises:
            StartOver
            Unavailable: the database does not answer, or too many requests wait.
        """
        with Follower(self, last, heartbeat=seconds, seconds=seconds + POLL_SECONDS, client=client) as follower:
            return next(follower, last)

    def close(self) -> None:
        """End all watchers."""
        self._closed = True
        self._end_all(End())

    def _poll(self) -> None:
        while True:
            STOPPING.wait(POLL_SECONDS)
            with self._lock:
                # Under the lock, so that a watcher that is added after this check starts a new poller.
                if not self._waiting:
                    self._is_polling = False
                    return
                waiting = list(self._waiting)
            if not self.may_wait():
                self._end_all(End())
                continue
            try:
                changes = self._store.read(changes_since_each, {watcher.last.token for watcher in waiting})
            except Unavailable as error:
                self._end_all(End(error))
            except Exception as error:  # a bug or a broken table: end the watchers, but keep the poller alive
                _log.exception("polling for changes failed")
                self._end_all(End(error))
            else:
                self._receive_all(waiting, changes)

    def _receive_all(self, waiting: list[Watcher], changes: dict[str, ChangeSet | StartOver]) -> None:
        now = time.monotonic()
        for watcher in waiting:
            since = changes[watcher.last.token]
            if isinstance(since, StartOver):
                self._end(watcher, End(since))
                continue
            watcher.last = since
            if since or now - watcher.told >= watcher.heartbeat:
                watcher.told = now
                self._receive(watcher, since)
            if now >= watcher.until:
                self._end(watcher, End())

    def _end_all(self, end: End) -> None:
        with self._lock:
            waiting = list(self._waiting)
        for watcher in waiting:
            self._end(watcher, end)

    def _end(self, watcher: Watcher, end: End) -> None:
        """Deliver the end to *watcher*, unless it was closed or has ended already."""
        with self._lock:
            if not watcher.is_open:
                return
            watcher.is_open = False
            self._waiting.discard(watcher)
        # Without the lock: a watcher may hold a lock of its own while it calls `watch` or `leave`.
        self._receive(watcher, end)

    def _receive(self, watcher: Watcher, event: ChangeEvent) -> None:
        if watcher.is_open or isinstance(event, End):
            try:
                watcher.receive(event)
            except Exception:  # a failure of one watcher must not affect the others
                _log.exception("a watcher failed")


class Follower:
    """The events in order, for a thread that waits; empty ones are heartbeats."""

    def __init__(
        self, watchers: Watchers, last: ChangeSet, *, heartbeat: float, seconds: float, client: Hashable = None
    ) -> None:
        """Start to wait; the caller must close it.

        Raises:
            Unavailable: too many requests wait.
        """
        self._watchers = watchers
        self._events: SimpleQueue[ChangeEvent] = SimpleQueue()
        self._watcher: Watcher | None = None
        self._is_open = False  # until it holds a thread: Python calls __del__ also if this method fails
        watchers.hold_thread()
        self._is_open = True
        try:
            self._watcher = watchers.watch(last, self._events.put, heartbeat=heartbeat, seconds=seconds, client=client)
        except Unavailable:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __iter__(self) -> Iterator[ChangeSet]:
        return self

    def __next__(self) -> ChangeSet:
        """The next event.

        Raises:
            StartOver, Unavailable: the changes cannot be determined.
            StopIteration: the events ended for another reason.
        """
        if not self._is_open:
            raise StopIteration
        event = self._events.get()
        if not isinstance(event, End):
            return event
        self.close()
        if event.error is not None:
            raise event.error
        raise StopIteration

    def close(self) -> None:
        """Stop waiting; may be called twice."""
        if self._is_open:
            self._is_open = False
            self._watchers.free_thread()
            if self._watcher is not None:
                self._watchers.leave(self._watcher)
                # Wakes a thread that waits for the next event.
                self._events.put(End())

    def __del__(self) -> None:
        self.close()  # some servers do not close a body that they stop reading
