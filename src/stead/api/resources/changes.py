"""``/changes``: what changed since a token, as a long poll or a stream of events."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from itertools import chain
from queue import Empty, SimpleQueue
from threading import Lock
from time import monotonic
from typing import TYPE_CHECKING, Any, cast

import orjson

from stead.api.answers import NOW, answer, mark_modified
from stead.api.bodies import ONE_LINE, Validator
from stead.api.query.candidates import Pairs
from stead.api.request import EVENTS, JSON, allowed, json_or_events, quality
from stead.api.versions import ALL_FEATURES, Agreed, S
from stead.candidates.provider_trees import roots_of, tree_totals
from stead.domain.errors import StartOver, Unavailable
from stead.domain.moments import in_utc
from stead.process.runtime import sliced
from stead.store.feed.changes import USAGES, ChangeSet
from stead.store.feed.watching import HEARTBEAT_SECONDS, LONGEST_SECONDS, End, Follower, displaced, too_many
from wsgi_lanes.wsgi import CARRIES_STREAMS, CLIENT

if TYPE_CHECKING:
    from collections.abc import Collection, Hashable, Iterator

    from stead.api.request import Request, Response
    from stead.api.versions import Step
    from stead.catalog.snapshot import Snapshot
    from stead.service.service import Service
    from stead.store.feed.changes import Generations
    from stead.store.feed.watching import ChangeEvent, Watcher, Watchers


_log = logging.getLogger(__name__)

POLL_SECONDS = 30
"""Default time that a request waits for a change."""

KEYS: dict[str, tuple[Step, dict[str, Any]]] = {
    "since": (S.OWN_FEATURES, {"type": "string", "minLength": 1}),
    "timeout": (S.OWN_FEATURES, {"type": "string", "pattern": "^([0-9]|[1-5][0-9]|60)$", "format": ONE_LINE}),
    "merged": (S.PROVIDER_TREES, {"type": "string", "enum": ["true", "false"]}),
}


@cache
def validator(agreed: Agreed) -> Validator:
    """Accepts the keys that *agreed* knows."""
    properties = {key: schema for key, (since, schema) in KEYS.items() if agreed.knows(since)}
    return Validator({"type": "object", "additionalProperties": False, "properties": properties})


QUERY = validator(ALL_FEATURES)

RETRY_MILLISECONDS = 1000

MERGED_NEEDS_LOOP = "This server would hold a thread for the stream. Poll GET /changes with merged=true instead."

ONE_THREAD = (
    "This server runs one thread per process, which a stream would hold. Poll GET /changes with timeout=0 instead."
)


class Changes:
    """`/changes`: changed providers and consumers, as a long poll or a stream. Requires `stead`."""

    stead_since = S.OWN_FEATURES

    def __init__(self, service: Service) -> None:
        self._service = service
        self._merged = MergedChanges(service)

    @json_or_events
    @allowed("stead:changes:list")
    def on_get(self, req: Request, resp: Response) -> None:
        """List the providers and consumers that changed since a token."""
        pairs = Pairs.of(req)
        pairs.require(validator(req.agreed))
        pairs.require_single(KEYS)
        since = pairs.last("since")
        if pairs.last("merged") == "true":
            self._answer_merged(req, resp, since)
        elif _wants_events(req):
            self._stream(req, resp, since)
        else:
            self._poll(req, resp, since, int(pairs.last("timeout") or POLL_SECONDS))

    def _stream(self, req: Request, resp: Response, since: str | None) -> None:
        watchers, last = self._service.watchers, req.env.get("HTTP_LAST_EVENT_ID") or since
        first = watchers.look(last)
        if not can_wait(req):
            raise Unavailable(ONE_THREAD)
        follows: EventStream | ThreadedEvents
        if carries_streams(req):
            follows = EventStream(watchers, first, show_for(req), _client(req), begins=last is None)
        else:
            follows = ThreadedEvents(watchers, first, show_for(req), _client(req), begins=last is None)
        _stream_events(req, resp, follows)

    def _answer_merged(self, req: Request, resp: Response, since: str | None) -> None:
        if not _wants_events(req):
            answer(req, resp, self._merged.since(since)[1])
            return
        if not carries_streams(req):
            raise Unavailable(MERGED_NEEDS_LOOP)
        last = req.env.get("HTTP_LAST_EVENT_ID") or since
        _stream_events(req, resp, MergedStream(self._merged, last, monotonic(), _client(req)))

    def _poll(self, req: Request, resp: Response, since: str | None, seconds: int) -> None:
        watchers, show = self._service.watchers, show_for(req)
        happened = watchers.look(since)
        # Without a way to wait, the client gets an empty answer at once and polls.
        if happened or since is None or not seconds or not can_wait(req) or not watchers.may_wait():
            answer(req, resp, show(happened))
        elif carries_streams(req):
            answer(req, resp, b"")
            resp.data = None
            resp.stream = cast("Any", LongPoll(watchers, happened, show, seconds, _client(req)))
        else:
            answer(req, resp, show(watchers.wait(happened, seconds, _client(req))))


def _client(req: Request) -> Hashable:
    """Who shares the watchers with others: a credential, as in the queue of requests (decision 56)."""
    return req.env.get(CLIENT) or req.env.get("HTTP_X_AUTH_TOKEN")


def _stream_events(req: Request, resp: Response, body: object) -> None:
    resp.stream = cast("Any", body)
    resp.content_type = EVENTS
    resp.set_header("x-accel-buffering", "no")  # nginx would buffer the events
    mark_modified(req, resp, NOW)


def carries_streams(req: Request) -> bool:
    """Whether the server sends parts that are produced later without holding a thread, as ``stead serve`` does."""
    return bool(req.env.get(CARRIES_STREAMS))


def can_wait(req: Request) -> bool:
    """Whether a request may wait: not if it would hold the only thread of its process."""
    return carries_streams(req) or bool(req.env.get("wsgi.multithread"))


def _wants_events(req: Request) -> bool:
    if req.accepted is None:
        return False
    quality_of_events = quality(EVENTS, req.accepted)
    return quality_of_events > 0 and quality_of_events >= quality(JSON, req.accepted)


Show = Callable[[ChangeSet], dict[str, Any]]
"""Makes the document of changes."""


def show_for(req: Request) -> Show:
    """What shows changes in responses to *req*."""
    if req.agreed.knows(S.HEADROOM_ORDER):
        return show_with_ends
    return show_with_details if req.agreed.knows(S.PROVIDER_TREES) else show_happened


def show_happened(happened: ChangeSet) -> dict[str, Any]:
    """The changes, and the token of the moment that they end with."""
    return {
        "token": happened.token,
        "providers": _shown(happened.providers),
        "consumers": _shown(happened.consumers),
    }


def show_with_details(happened: ChangeSet) -> dict[str, Any]:
    """`show_happened` with the names of providers and the parts that changed."""
    document = show_happened(happened)
    for provider in document["providers"]:
        provider["name"], provider["changes"] = happened.details[provider["uuid"]]
    return document


def show_with_ends(happened: ChangeSet) -> dict[str, Any]:
    """`show_with_details` with the ends of claims."""
    document = show_with_details(happened)
    for consumer in document["consumers"]:
        end = happened.ends.get(consumer["uuid"])
        consumer["expires_at"] = None if end is None else in_utc(end)
        consumer["lease_ended"] = consumer["uuid"] in happened.ended
    return document


def _shown(changed: Generations) -> list[dict[str, Any]]:
    return [{"uuid": uuid, "generation": generation} for uuid, generation in sliced(changed.items())]


class LongPoll:
    """The body of an answer that is sent when something changes, or when the client's time is over."""

    def __init__(self, watchers: Watchers, last: ChangeSet, show: Show, seconds: float, client: Hashable) -> None:
        """Start to wait.

        Raises:
            Unavailable: too many requests wait.
        """
        self._watchers = watchers
        self._last = last
        self._show = show
        self._told: SimpleQueue[ChangeEvent] = SimpleQueue()  # holds the news until the server has attached
        self._send: Callable[[bytes | None], None] | None = None
        self._is_sent = False
        self._lock = Lock()
        # Last, because the poller may call `_tell` at once. The heartbeat answers in time, so the end comes a second
        # later.
        self._watcher = watchers.watch(last, self._tell, heartbeat=seconds, seconds=seconds + 1, client=client)

    def attach(self, send: Callable[[bytes | None], None]) -> None:
        """Send the answer once there is news."""
        self._send = send
        self._flush()

    def _tell(self, news: ChangeEvent) -> None:
        # The queue before the check, as `attach` sets `_send` before it reads: so one of the two sends the news.
        self._told.put(news)
        if self._send is not None:
            self._flush()

    def _flush(self) -> None:
        """Send the first news, once. The server's thread and the watcher's may call this at the same time."""
        with self._lock, suppress(Empty):
            if self._is_sent:
                return
            news = self._told.get_nowait()
            assert self._send is not None
            self._is_sent = True
            # If waiting ended for another reason than a change, the client asks again and gets that reason then.
            happened = self._last if isinstance(news, End) else news
            self._send(orjson.dumps(self._show(happened)))
            self._send(None)

    def close(self) -> None:
        """Stop waiting."""
        self._watchers.leave(self._watcher)

    def __iter__(self) -> Iterator[bytes]:
        raise TypeError("a long poll is attached to a connection")


class EventStream:
    """The body of a stream of events; the server sends each event at once."""

    def __init__(self, watchers: Watchers, first: ChangeSet, show: Show, client: Hashable, *, begins: bool) -> None:
        """Start to wait.

        Args:
            begins: the client has no token yet, so the first event has one.

        Raises:
            Unavailable: too many requests wait.
        """
        self._watchers = watchers
        self._show = show
        self._outbox = Outbox()
        for part in _beginning(first, show, begins=begins):
            self._outbox.put(part)
        # Last, because the poller may call `_tell` at once, and its events follow those of the beginning.
        self._watcher = watchers.watch(
            first, self._tell, heartbeat=HEARTBEAT_SECONDS, seconds=LONGEST_SECONDS, client=client
        )

    def attach(self, send: Callable[[bytes | None], None]) -> None:
        """Send the events so far, and each new one."""
        self._outbox.attach(send)

    def _tell(self, news: ChangeEvent) -> None:
        for part in _parts_of(news, self._show):
            self._outbox.put(part)
        if isinstance(news, End):
            self._outbox.put(None)

    def close(self) -> None:
        """Stop waiting."""
        self._watchers.leave(self._watcher)

    def __iter__(self) -> Iterator[bytes]:
        raise TypeError("a stream of events is attached to a connection")


class ThreadedEvents:
    """The same stream for servers that hold a thread while they send a body."""

    def __init__(self, watchers: Watchers, first: ChangeSet, show: Show, client: Hashable, *, begins: bool) -> None:
        """Start to wait.

        Raises:
            Unavailable: too many requests wait, or hold a thread.
        """
        self._follower = Follower(watchers, first, heartbeat=HEARTBEAT_SECONDS, seconds=LONGEST_SECONDS, client=client)
        self._parts = self._all(first, show, begins=begins)

    def __iter__(self) -> Iterator[bytes]:
        return self._parts

    def _all(self, first: ChangeSet, show: Show, *, begins: bool) -> Iterator[bytes]:
        yield from _beginning(first, show, begins=begins)
        try:
            for happened in self._follower:
                yield from _parts_of(happened, show)
        except Exception as error:  # the status is sent, so the stream can only end
            yield from _parts_of(End(error), show)
        finally:
            self._follower.close()

    def close(self) -> None:
        """Stop waiting; may be called twice."""
        self._follower.close()


def _beginning(first: ChangeSet, show: Show, *, begins: bool) -> Iterator[bytes]:
    yield f"retry: {RETRY_MILLISECONDS}\n\n".encode()
    if begins and not first:
        yield _event("token", first.token, {"token": first.token})
    else:
        yield from _parts_of(first, show)


def _parts_of(news: ChangeEvent, show: Show) -> Iterator[bytes]:
    """The text of the news. If a stream ends early, its client reconnects with its last token."""
    if isinstance(news, End):
        if isinstance(news.error, StartOver):
            yield _event("start-over", None, {})
        elif news.error is not None:
            _log.warning("a stream of changes ends early: %s", news.error)
    elif news:
        yield _event("changes", news.token, show(news))
    else:
        yield b": nothing changed\n\n"


def _event(name: str, id_: str | None, data: dict[str, Any]) -> bytes:
    head = f"event: {name}\n" + (f"id: {id_}\n" if id_ else "")
    return head.encode() + b"data: " + orjson.dumps(data) + b"\n\n"


# Merged changes: the new sums of the provider trees that changed, at most once a second, the same for all clients.
#
# One watcher per process collects the changes for all merged streams. Each message is computed and written once, so
# another stream costs one write of a socket.
#
# Source: "GET /changes", docs/stead-api.md; decision 40 (docs/decisions).


MERGED_SECONDS = 1.0
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

    def add(self, happened: ChangeSet) -> None:
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
            Unavailable: the client has too many open streams, or the database does not answer.
        """
        watchers = self._service.watchers
        if not watchers.may_wait():
            raise too_many(watchers.most)
        with self._lock:
            ended = displaced(self._streams, watchers.most, stream.client)
            if self._watcher is None:
                # The watcher starts with the first stream, so a worker without streams does not poll for them.
                first = self._service.watchers.look(None)
                self._collected, self._token = Collected(), first.token
                self._watcher = self._service.watchers.watch(
                    first, self._tell, heartbeat=_TICK_SECONDS, seconds=float("inf")
                )
            if ended is not None:
                self._streams.discard(ended)
            self._streams.add(stream)
        if ended is not None:
            ended.end(start_over=False)

    def leave(self, stream: MergedStream) -> None:
        """Send nothing more to *stream*; may be called twice."""
        with self._lock:
            self._streams.discard(stream)
            if not self._streams and self._watcher is not None:
                self._service.watchers.leave(self._watcher)
                self._watcher = None

    def _tell(self, news: ChangeEvent) -> None:
        with self._lock:
            # A copy, because `tick` may leave, which takes the lock and changes the set.
            streams = list(self._streams)
        if isinstance(news, End):
            self._end(streams, news)
            return
        self._collected.add(news)
        now = time.monotonic()
        if self._collected and now - self._sent >= MERGED_SECONDS:
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

    def __init__(self, merged: MergedChanges, since: str | None, now: float, client: Hashable) -> None:
        """Join, and begin with the changes since a token.

        Raises:
            InvalidQuery, StartOver, Unavailable
        """
        self.client = client
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


# The parts of a streamed body, which one thread produces and the server sends.


class Outbox:
    """Keeps parts in order until the server has attached, then sends each at once. None is the end of the body."""

    def __init__(self) -> None:
        """Nothing waits yet."""
        self._parts: SimpleQueue[bytes | None] = SimpleQueue()
        self._send: Callable[[bytes | None], None] | None = None
        self._lock = Lock()

    def put(self, part: bytes | None) -> None:
        """Send *part* after all earlier ones."""
        # The queue before the check, as `attach` sets `_send` before it reads: so one of the two sends each part.
        self._parts.put(part)
        if self._send is not None:
            self._flush()

    def attach(self, send: Callable[[bytes | None], None]) -> None:
        """Send the parts so far, and each new one, with *send*."""
        self._send = send
        self._flush()

    def _flush(self) -> None:
        """Send all waiting parts. The server's thread and the producer's may call this at the same time."""
        with self._lock, suppress(Empty):
            while True:
                part = self._parts.get_nowait()
                assert self._send is not None
                self._send(part)
