"""``/changes``: what changed since a moment, as soon as anything does."""

from __future__ import annotations

import logging
from contextlib import suppress
from queue import Empty, SimpleQueue
from threading import Lock
from typing import TYPE_CHECKING, Any, cast

import orjson

from stead.api.accept import quality
from stead.api.bodies import ONE_LINE, Validator
from stead.api.gates import EVENTS, JSON, allowed, json_or_events
from stead.api.query.pairs import Pairs
from stead.api.representations import NOW, answer, mark_modified
from stead.api.versions import S
from stead.domain.errors import StartOver, Unavailable
from stead.store.feed.watching import HEARTBEAT_SECONDS, LONGEST_SECONDS, End, Follower

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from stead.api.request import Request, Response
    from stead.api.versions import Step
    from stead.service.service import Service
    from stead.store.feed.changes import Generations, Happened
    from stead.store.feed.watching import News, Watchers

_log = logging.getLogger(__name__)

SECONDS = 30
"""How long a change is waited for, if the client does not say."""

KEYS: dict[str, tuple[Step, dict[str, Any]]] = {
    "since": (S.OWN_FEATURES, {"type": "string", "minLength": 1}),
    "timeout": (S.OWN_FEATURES, {"type": "string", "pattern": "^([0-9]|[1-5][0-9]|60)$", "format": ONE_LINE}),
}
QUERY = Validator(
    {"type": "object", "additionalProperties": False, "properties": {key: schema for key, (_, schema) in KEYS.items()}}
)

RETRY_MILLISECONDS = 1000

CARRIES_STREAMS = "stead.carries_streams"
"""In the environ: the server takes a body with `attach`, whose parts come later, and holds no thread for it."""

ONE_THREAD = (
    "This server runs one thread per process, which a stream would hold. Poll GET /changes with timeout=0 instead."
)


class Changes:
    """`/changes`: changed providers and consumers, as a long poll or a stream. Requires `stead`."""

    stead_since = S.OWN_FEATURES

    def __init__(self, service: Service) -> None:
        self._service = service

    @json_or_events
    @allowed("stead:changes:list")
    def on_get(self, req: Request, resp: Response) -> None:
        """List the providers and consumers that changed since a token."""
        pairs = Pairs.of(req)
        pairs.require(QUERY)
        pairs.require_single(KEYS)
        since = pairs.last("since")
        if _wants_events(req):
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
            follows = EventStream(watchers, first, begins=last is None)
        else:
            follows = ThreadedEvents(watchers, first, begins=last is None)
        resp.stream = cast("Any", follows)
        resp.content_type = EVENTS
        resp.set_header("x-accel-buffering", "no")  # nginx would wait for more
        mark_modified(req, resp, NOW)

    def _poll(self, req: Request, resp: Response, since: str | None, seconds: int) -> None:
        watchers = self._service.watchers
        happened = watchers.look(since)
        if happened or since is None or not seconds or not can_wait(req) or not watchers.may_wait():
            answer(req, resp, show_happened(happened))
        elif carries_streams(req):
            answer(req, resp, b"")
            resp.data = None
            resp.stream = cast("Any", LongPoll(watchers, happened, seconds))
        else:
            answer(req, resp, show_happened(watchers.wait(happened, seconds)))


def carries_streams(req: Request) -> bool:
    """Whether the server sends what comes later without holding a thread, as ``stead serve`` does."""
    return bool(req.env.get(CARRIES_STREAMS))


def can_wait(req: Request) -> bool:
    """Whether a request may wait: not where it would hold the only thread of its process."""
    return carries_streams(req) or bool(req.env.get("wsgi.multithread"))


def _wants_events(req: Request) -> bool:
    if req.accepted is None:
        return False
    wanted = quality(EVENTS, req.accepted)
    return wanted > 0 and wanted >= quality(JSON, req.accepted)


def show_happened(happened: Happened) -> dict[str, Any]:
    """What changed, and the token of the moment until which it is told."""
    return {
        "token": happened.token,
        "providers": _shown(happened.providers),
        "consumers": _shown(happened.consumers),
    }


def _shown(changed: Generations) -> list[dict[str, Any]]:
    return [{"uuid": uuid, "generation": generation} for uuid, generation in changed.items()]


class LongPoll:
    """The body of an answer that is made when something changes, or when the client's time is over."""

    def __init__(self, watchers: Watchers, last: Happened, seconds: float) -> None:
        """It waits from now on.

        Raises:
            Unavailable: too many wait.
        """
        self._watchers = watchers
        self._last = last
        self._told: SimpleQueue[News] = SimpleQueue()  # until somewhere to send it is known
        self._send: Callable[[bytes | None], None] | None = None
        self._is_sent = False
        self._lock = Lock()
        self._watcher = watchers.watch(last, self._tell, heartbeat=seconds, seconds=seconds + 1)

    def attach(self, send: Callable[[bytes | None], None]) -> None:
        """Send the answer when it is made."""
        self._send = send
        self._flush()

    def _tell(self, news: News) -> None:
        self._told.put(news)
        if self._send is not None:
            self._flush()

    def _flush(self) -> None:
        """Send the first news, once. Both threads may come here at the same time."""
        with self._lock, suppress(Empty):
            if self._is_sent:
                return
            news = self._told.get_nowait()
            assert self._send is not None
            self._is_sent = True
            # At an end for other reasons than a change, the client asks again, and that response has the reasons.
            happened = self._last if isinstance(news, End) else news
            self._send(orjson.dumps(show_happened(happened)))
            self._send(None)

    def close(self) -> None:
        """Wait no more."""
        self._watchers.leave(self._watcher)

    def __iter__(self) -> Iterator[bytes]:
        raise TypeError("a long poll is attached to a connection")


class EventStream:
    """The body of a stream of events, sent by the server as they come."""

    def __init__(self, watchers: Watchers, first: Happened, *, begins: bool) -> None:
        """It waits from now on.

        Args:
            begins: the client has no token yet, so the first event has one.

        Raises:
            Unavailable: too many wait.
        """
        self._watchers = watchers
        self._parts: SimpleQueue[bytes | None] = SimpleQueue()
        self._send: Callable[[bytes | None], None] | None = None
        self._lock = Lock()
        for part in _beginning(first, begins=begins):
            self._parts.put(part)
        self._watcher = watchers.watch(first, self._tell, heartbeat=HEARTBEAT_SECONDS, seconds=LONGEST_SECONDS)

    def attach(self, send: Callable[[bytes | None], None]) -> None:
        """Send the events so far, and each one that comes."""
        self._send = send
        self._flush()

    def _tell(self, news: News) -> None:
        for part in _parts_of(news):
            self._parts.put(part)
        if isinstance(news, End):
            self._parts.put(None)
        if self._send is not None:
            self._flush()

    def _flush(self) -> None:
        """Send all parts that wait, in their order. Both threads may come here at the same time."""
        with self._lock, suppress(Empty):
            while True:
                part = self._parts.get_nowait()
                assert self._send is not None
                self._send(part)

    def close(self) -> None:
        """Wait no more."""
        self._watchers.leave(self._watcher)

    def __iter__(self) -> Iterator[bytes]:
        raise TypeError("a stream of events is attached to a connection")


class ThreadedEvents:
    """The same for servers that hold a thread while a body is sent."""

    def __init__(self, watchers: Watchers, first: Happened, *, begins: bool) -> None:
        """It waits from now on.

        Raises:
            Unavailable: too many wait, or hold a thread.
        """
        self._follower = Follower(watchers, first, heartbeat=HEARTBEAT_SECONDS, seconds=LONGEST_SECONDS)
        self._parts = self._all(first, begins=begins)

    def __iter__(self) -> Iterator[bytes]:
        return self._parts

    def _all(self, first: Happened, *, begins: bool) -> Iterator[bytes]:
        yield from _beginning(first, begins=begins)
        try:
            for happened in self._follower:
                yield from _parts_of(happened)
        except Exception as error:  # the status is sent: all that is left is to end
            yield from _parts_of(End(error))
        finally:
            self._follower.close()

    def close(self) -> None:
        """Wait no more; may be called twice."""
        self._follower.close()


def _beginning(first: Happened, *, begins: bool) -> Iterator[bytes]:
    yield f"retry: {RETRY_MILLISECONDS}\n\n".encode()
    if begins and not first:
        yield _event("token", first.token, {"token": first.token})
    else:
        yield from _parts_of(first)


def _parts_of(news: News) -> Iterator[bytes]:
    """The text of a piece of news. A stream that ends early is followed again by its client, from its last token."""
    if isinstance(news, End):
        if isinstance(news.error, StartOver):
            yield _event("start-over", None, {})
        elif news.error is not None:
            _log.warning("a stream of changes ends early: %s", news.error)
    elif news:
        yield _event("changes", news.token, show_happened(news))
    else:
        yield b": nothing changed\n\n"


def _event(name: str, id_: str | None, data: dict[str, Any]) -> bytes:
    head = f"event: {name}\n" + (f"id: {id_}\n" if id_ else "")
    return head.encode() + b"data: " + orjson.dumps(data) + b"\n\n"
