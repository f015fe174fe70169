"""Merged changes: the new sums of the provider trees that changed, at most once a second, the same for all clients.

One watcher per process collects the changes for all merged streams. Each message is computed and written once, so
another stream costs one write of a socket.

Source: "GET /changes", docs/api.md; decision 40 (docs/decisions).
"""

from __future__ import annotations

import json
import logging
import time
from dataclasses import dataclass, field
from itertools import chain
from threading import Lock
from typing import TYPE_CHECKING, Any

from stead.api.outbox import Outbox
from stead.candidates.provider_trees import roots_of
from stead.candidates.tree_totals import tree_totals
from stead.domain.errors import StartOver, Unavailable
from stead.store.feed.changes import USAGES
from stead.store.feed.watching import HEARTBEAT_SECONDS, LONGEST_SECONDS, End

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from stead.catalog.snapshot import Snapshot
    from stead.service.service import Service
    from stead.store.feed.changes import Happened
    from stead.store.feed.watching import News, Watcher

_log = logging.getLogger(__name__)

SECONDS = 1.0
"""Minimum time between two messages of a stream."""

MOST_BYTES = 48_000
"""Maximum size of one message, so that a stream stays below 50 kB/s. Trees that do not fit are in the next one."""

MOST_PENDING = 20_000
"""With more changed trees than this, clients read all trees again: that is smaller than the messages."""

_TICK_SECONDS = 0.25
_NONE = -1

_LEAST_NUMBER_BYTES = 2
"""Bytes of a number in a list, with its comma."""


@dataclass(slots=True)
class Collected:
    """Changes since the last message. ``providers`` are uuids of providers of whose trees the sums may differ."""

    providers: set[str] = field(default_factory=set)
    provider_count: int = 0
    consumer_count: int = 0
    reload: bool = False

    def add(self, happened: Happened) -> None:
        """Add the changes between two moments."""
        for uuid, detail in happened.details.items():
            # An empty list of parts does not mean that nothing changed: see GET /changes.
            if detail.parts == (USAGES,):
                self.providers.add(uuid)
            else:
                self.reload = True
        self.provider_count += len(happened.providers)
        self.consumer_count += len(happened.consumers)
        if self.reload or len(self.providers) > MOST_PENDING:
            self.reload = True
            self.providers.clear()

    def __bool__(self) -> bool:
        return bool(self.providers or self.provider_count or self.consumer_count or self.reload)


class MergedChanges:
    """All merged streams of this process."""

    def __init__(self, service: Service) -> None:
        """Nothing is watched until the first stream."""
        self._service = service
        self._lock = Lock()
        self._streams: set[MergedStream] = set()
        self._watcher: Watcher | None = None
        self._collected = Collected()
        self._token = ""
        self._sent = 0.0

    def since(self, token: str | None) -> tuple[str, bytes]:
        """The token of the present moment, and one message with all changes since *token*, of any size up to the limit.

        Raises:
            InvalidQuery, StartOver, Unavailable
        """
        happened = self._service.watchers.look(token)
        collected = Collected()
        collected.add(happened)
        text, remaining = message(self._service.snapshot(), happened.token, collected)
        if remaining:
            # The other trees cannot follow: all later messages are the same for all streams.
            text, _ = message(self._service.snapshot(), happened.token, Collected(reload=True))
        return happened.token, text

    def join(self, stream: MergedStream) -> None:
        """Send all later messages to *stream*, which must leave.

        Raises:
            Unavailable: too many streams are open, or the database does not answer.
        """
        with self._lock:
            if len(self._streams) >= self._service.watchers.most or not self._service.watchers.may_wait():
                raise Unavailable(
                    f"Too many watchers on this worker (limit {self._service.watchers.most}, [stead] max_watchers)."
                )
            if self._watcher is None:
                # The watcher starts with the first stream, so a worker without streams does not poll for them.
                first = self._service.watchers.look(None)
                self._collected, self._token = Collected(), first.token
                self._watcher = self._service.watchers.watch(
                    first, self._tell, heartbeat=_TICK_SECONDS, seconds=float("inf")
                )
            self._streams.add(stream)

    def leave(self, stream: MergedStream) -> None:
        """Send nothing more to *stream*; may be called twice."""
        with self._lock:
            self._streams.discard(stream)
            if not self._streams and self._watcher is not None:
                self._service.watchers.leave(self._watcher)
                self._watcher = None

    def _tell(self, news: News) -> None:
        with self._lock:
            # A copy, because `tick` may leave, which takes the lock and changes the set.
            streams = list(self._streams)
        if isinstance(news, End):
            self._end(streams, news)
            return
        self._collected.add(news)
        now = time.monotonic()
        if self._collected and now - self._sent >= SECONDS:
            self._sent = now
            part = self._next(news.token)
            for stream in streams:
                stream.tell(part, now)
        for stream in streams:
            stream.tick(now)

    def _next(self, token: str) -> bytes:
        """The next message. Its token is that of the last moment of which all changes were sent."""
        text, remaining = message(self._service.snapshot(), token, self._collected)
        if remaining:
            text, remaining = message(self._service.snapshot(), self._token, self._collected)
        else:
            self._token = token
        self._collected = Collected(remaining)
        return event(self._token, text)

    def _end(self, streams: Collection[MergedStream], end: End) -> None:
        with self._lock:
            self._watcher = None
            self._streams.clear()
        if end.error is not None and not isinstance(end.error, StartOver):
            _log.warning("the streams of merged changes end early: %s", end.error)
        for stream in streams:
            stream.end(start_over=isinstance(end.error, StartOver))


def message(snapshot: Snapshot, token: str, collected: Collected) -> tuple[bytes, set[str]]:
    """The text of one message, and uuids of the roots of the trees that do not fit into it."""
    slots = [slot for uuid in collected.providers if (slot := snapshot.find(uuid)) is not None]
    roots = roots_of(snapshot, slots)
    # A number for each class in each tree: a document over many classes gets few trees from the start.
    members = chain.from_iterable(map(snapshot.forest.members, roots.tolist()))
    classes = len(snapshot.inventory.at(members)) + 1
    fitting = min(len(roots), max(1, MOST_BYTES // (classes * _LEAST_NUMBER_BYTES)))
    text = _text(snapshot, token, collected, roots[:fitting])
    while len(text) > MOST_BYTES and fitting > 1:
        # A tenth less than the proportion, because names and sums differ in length.
        fitting = max(1, fitting * MOST_BYTES * 9 // (len(text) * 10))
        text = _text(snapshot, token, collected, roots[:fitting])
    return text, {snapshot.uuid(slot) for slot in roots[fitting:].tolist()}


def _text(snapshot: Snapshot, token: str, collected: Collected, roots: Any) -> bytes:
    used = {
        sums.name: [_NONE if place < 0 else sums.used[place] for place in sums.places(range(len(roots)))]
        for sums in tree_totals(snapshot, roots)
    }
    document = {
        "token": token,
        "reload": collected.reload,
        "provider_count": collected.provider_count,
        "consumer_count": collected.consumer_count,
        "trees": {"name": snapshot.identities.names.at(roots).tolist(), "used": used},
    }
    return json.dumps(document, separators=(",", ":"), ensure_ascii=False).encode()  # integers of any size


def event(token: str, text: bytes) -> bytes:
    """One message of a stream."""
    return b"event: merged\nid: %s\ndata: %s\n\n" % (token.encode(), text)


class MergedStream:
    """The body of a stream of merged changes; holds no thread."""

    def __init__(self, merged: MergedChanges, since: str | None, now: float) -> None:
        """Join, and begin with the changes since a token.

        Raises:
            InvalidQuery, StartOver, Unavailable
        """
        self._merged = merged
        self._outbox = Outbox()
        self._told = now
        self._until = now + LONGEST_SECONDS
        merged.join(self)  # first, so that no change is missing between the look and the first message
        try:
            self._outbox.put(b"retry: 1000\n\n" + event(*merged.since(since)))
        except BaseException:
            merged.leave(self)
            raise

    def attach(self, send: Callable[[bytes | None], None]) -> None:
        """Send the messages so far, and each new one."""
        self._outbox.attach(send)

    def tell(self, part: bytes, now: float) -> None:
        """Send a message."""
        self._told = now
        self._outbox.put(part)

    def tick(self, now: float) -> None:
        """Send a heartbeat if the stream was silent for long, and end it after its time."""
        if now >= self._until:
            self._merged.leave(self)
            self._outbox.put(None)
        elif now - self._told >= HEARTBEAT_SECONDS:
            self.tell(b": nothing changed\n\n", now)

    def end(self, *, start_over: bool) -> None:
        """End the stream; the client connects again."""
        if start_over:
            self._outbox.put(b"event: start-over\ndata: {}\n\n")
        self._outbox.put(None)

    def close(self) -> None:
        """Stop waiting; may be called twice."""
        self._merged.leave(self)

    def __iter__(self) -> Iterator[bytes]:
        raise TypeError("a stream of merged changes is attached to a connection")
