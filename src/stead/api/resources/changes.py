"""``/changes``: what changed since a token, as a long poll or a stream of events."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from queue import Empty, SimpleQueue
from threading import Lock
from time import monotonic
from typing import TYPE_CHECKING, Any, cast

import orjson

from stead.api.accept import quality
from stead.api.bodies import ONE_LINE, Validator
from stead.api.gates import EVENTS, JSON, allowed, json_or_events
from stead.api.merged_changes import MergedChanges, MergedStream
from stead.api.outbox import Outbox
from stead.api.query.pairs import Pairs
from stead.api.representations import NOW, answer, mark_modified
from stead.api.versions import ALL_FEATURES, Agreed, S
from stead.domain.errors import StartOver, Unavailable
from stead.process.slices import sliced
from stead.store.feed.changes import Happened
from stead.store.feed.watching import HEARTBEAT_SECONDS, LONGEST_SECONDS, End, Follower

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stead.api.request import Request, Response
    from stead.api.versions import Step
    from stead.service.service import Service
    from stead.store.feed.changes import Generations
    from stead.store.feed.watching import News, Watchers

_log = logging.getLogger(__name__)

SECONDS = 30
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

CARRIES_STREAMS = "stead.carries_streams"
"""In the environ: the server sends a body with `attach`, whose parts are produced later, without holding a thread."""

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
            self._poll(req, resp, since, int(pairs.last("timeout") or SECONDS))

    def _stream(self, req: Request, resp: Response, since: str | None) -> None:
        watchers, last = self._service.watchers, req.env.get("HTTP_LAST_EVENT_ID") or since
        first = watchers.look(last)
        if not can_wait(req):
            raise Unavailable(ONE_THREAD)
        follows: EventStream | ThreadedEvents
        if carries_streams(req):
            follows = EventStream(watchers, first, show_for(req), begins=last is None)
        else:
            follows = ThreadedEvents(watchers, first, show_for(req), begins=last is None)
        _stream_events(req, resp, follows)

    def _answer_merged(self, req: Request, resp: Response, since: str | None) -> None:
        if not _wants_events(req):
            answer(req, resp, self._merged.since(since)[1])
            return
        if not carries_streams(req):
            raise Unavailable(MERGED_NEEDS_LOOP)
        last = req.env.get("HTTP_LAST_EVENT_ID") or since
        _stream_events(req, resp, MergedStream(self._merged, last, monotonic()))

    def _poll(self, req: Request, resp: Response, since: str | None, seconds: int) -> None:
        watchers, show = self._service.watchers, show_for(req)
        happened = watchers.look(since)
        # Without a way to wait, the client gets an empty answer at once and polls.
        if happened or since is None or not seconds or not can_wait(req) or not watchers.may_wait():
            answer(req, resp, show(happened))
        elif carries_streams(req):
            answer(req, resp, b"")
            resp.data = None
            resp.stream = cast("Any", LongPoll(watchers, happened, show, seconds))
        else:
            answer(req, resp, show(watchers.wait(happened, seconds)))


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


Show = Callable[[Happened], dict[str, Any]]
"""Makes the document of changes."""


def show_for(req: Request) -> Show:
    """What shows changes in responses to *req*."""
    return show_with_details if req.agreed.knows(S.PROVIDER_TREES) else show_happened


def show_happened(happened: Happened) -> dict[str, Any]:
    """The changes, and the token of the moment that they end with."""
    return {
        "token": happened.token,
        "providers": _shown(happened.providers),
        "consumers": _shown(happened.consumers),
    }


def show_with_details(happened: Happened) -> dict[str, Any]:
    """`show_happened` with the names of providers and the parts that changed."""
    document = show_happened(happened)
    for provider in document["providers"]:
        provider["name"], provider["changes"] = happened.details[provider["uuid"]]
    return document


def _shown(changed: Generations) -> list[dict[str, Any]]:
    return [{"uuid": uuid, "generation": generation} for uuid, generation in sliced(changed.items())]


class LongPoll:
    """The body of an answer that is sent when something changes, or when the client's time is over."""

    def __init__(self, watchers: Watchers, last: Happened, show: Show, seconds: float) -> None:
        """Start to wait.

        Raises:
            Unavailable: too many requests wait.
        """
        self._watchers = watchers
        self._last = last
        self._show = show
        self._told: SimpleQueue[News] = SimpleQueue()  # holds the news until the server has attached
        self._send: Callable[[bytes | None], None] | None = None
        self._is_sent = False
        self._lock = Lock()
        # Last, because the poller may call `_tell` at once. The heartbeat answers in time, so the end comes a second
        # later.
        self._watcher = watchers.watch(last, self._tell, heartbeat=seconds, seconds=seconds + 1)

    def attach(self, send: Callable[[bytes | None], None]) -> None:
        """Send the answer once there is news."""
        self._send = send
        self._flush()

    def _tell(self, news: News) -> None:
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

    def __init__(self, watchers: Watchers, first: Happened, show: Show, *, begins: bool) -> None:
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
        self._watcher = watchers.watch(first, self._tell, heartbeat=HEARTBEAT_SECONDS, seconds=LONGEST_SECONDS)

    def attach(self, send: Callable[[bytes | None], None]) -> None:
        """Send the events so far, and each new one."""
        self._outbox.attach(send)

    def _tell(self, news: News) -> None:
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

    def __init__(self, watchers: Watchers, first: Happened, show: Show, *, begins: bool) -> None:
        """Start to wait.

        Raises:
            Unavailable: too many requests wait, or hold a thread.
        """
        self._follower = Follower(watchers, first, heartbeat=HEARTBEAT_SECONDS, seconds=LONGEST_SECONDS)
        self._parts = self._all(first, show, begins=begins)

    def __iter__(self) -> Iterator[bytes]:
        return self._parts

    def _all(self, first: Happened, show: Show, *, begins: bool) -> Iterator[bytes]:
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


def _beginning(first: Happened, show: Show, *, begins: bool) -> Iterator[bytes]:
    yield f"retry: {RETRY_MILLISECONDS}\n\n".encode()
    if begins and not first:
        yield _event("token", first.token, {"token": first.token})
    else:
        yield from _parts_of(first, show)


def _parts_of(news: News, show: Show) -> Iterator[bytes]:
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
