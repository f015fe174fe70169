"""One connection: reads requests, has them answered one after the other, and ends without a reset.

All of it runs in the event loop but :meth:`Connection.deliver`, which the thread of a request calls. What both may
change is guarded by one lock, which is never held while anything waits. Source: RFC 9112, sections 6 to 9.
"""

from __future__ import annotations

import asyncio
import os
import threading
from contextlib import suppress
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from stead.httpd import answers
from stead.httpd.reader import Reader
from stead.httpd.refusals import Refusal
from stead.httpd.states import State
from stead.httpd.streaming import Streaming
from stead.httpd.wsgi import Answer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stead.httpd.bounds import Bounds
    from stead.httpd.refusals import Reason
    from stead.httpd.requests import Request
    from stead.httpd.server import Server
    from stead.httpd.wsgi import Attachable

PART = 64 * 1024
"""Bytes of an answer that are given to the transport at a time."""

LINGER_SECONDS = 5.0
"""After the last answer, what the client still sends is read until it pauses for so long. To close at once would reset
the connection, and a reset destroys the answer on its way."""

LONGEST_LINGER_SECONDS = 30.0


class Connection(asyncio.Protocol):
    """The protocol of one connection."""

    def __init__(self, server: Server, now: float, *, may_idle: bool = False) -> None:
        """Nothing was received.

        Args:
            may_idle: between requests, and before the first, the client may take any time.
        """
        self.state = State.OPENING
        self.since = now
        """When the state began, on the loop's clock."""
        self.has_served = False
        """Whether a complete request came on it."""
        self._may_idle = may_idle
        self._server = server
        self._bounds: Bounds = server.bounds
        self._loop = server.loop
        self._lock = threading.Lock()
        self._transport: Any = None
        self._reader: Reader
        self._descriptor = -1  # of a plain connection; threads write to it while the transport has nothing to send
        self._ahead: list[bytes] = []  # came while a request was under way
        self._is_read = True  # the transport reads
        self._has_ended = False  # the client sends no more
        self._received_at = now
        self._current: Request | None = None
        self._is_busy = False  # until the answer is with the transport
        self._keeps = True  # the connection, after the answer under way
        self._unsent: memoryview | None = None
        self._answer_size = 0
        self._progress_at = now  # of what is being sent
        self._may_write = True
        self._streaming: Streaming | None = None

    # Called by the transport.

    def connection_made(self, transport: Any) -> None:
        """Take the transport."""
        self._transport = transport
        transport.set_write_buffer_limits(high=PART)
        peers = self._server.peers_of(transport)
        if not peers.is_encrypted:
            self._descriptor = transport.get_extra_info("socket").fileno()
        self._reader = Reader(
            peers,
            self,
            bounds=self._bounds,
            routes=self._server.routes,
            bodies=self._server.bodies,
            send_continue=lambda: transport.write(answers.CONTINUE),
        )
        self._enter(State.HEAD)

    def data_received(self, data: bytes) -> None:
        """Read what came, unless a request is under way: then it is kept for later, and no more is read."""
        self._received_at = self._loop.time()
        if self.state is State.LINGERING:
            self._skip([data])
            return
        if self._is_busy:
            with self._lock:
                if self._is_busy:  # still, now that its thread cannot end it
                    self._ahead.append(data)
                    self._read(False)
                    return
        self._reader.feed(data, self._received_at)
        self._next()

    def eof_received(self) -> bool:
        """The client sends no more. It may still read the answer under way, but TLS has no half-closed connections."""
        self._has_ended = True
        if self._transport is None or self.state in (State.LINGERING, State.STREAMING):
            return False
        with self._lock:
            if self._is_busy:
                self._keeps = False
                return self._descriptor >= 0
        refusal = self._reader.end()
        if refusal is not None:
            self._refuse_and_close(refusal)
        return refusal is not None and self._descriptor >= 0

    def connection_lost(self, _error: Exception | None) -> None:
        """Forget it all; a thread that still works on a request finds the connection closed."""
        with self._lock:
            self._descriptor = -1
            self.state = State.CLOSED
        if self._current is not None and self._server.drop(self._current):
            self._server.bodies.give_back(self._current.counted)
        self._reader.close()
        if self._unsent is not None:
            self._server.unsent.give_back(len(self._unsent))
            self._unsent = None
        if self._streaming is not None:
            self._streaming.close()
            self._streaming = None
        self._server.lost(self)

    def pause_writing(self) -> None:
        """The transport has enough to send."""
        self._may_write = False

    def resume_writing(self) -> None:
        """The client has read most of what was sent."""
        self._may_write = True
        self._progress_at = self._loop.time()
        if self._unsent is not None:
            self._pump()

    def _read(self, reads: bool) -> None:
        if reads != self._is_read and not self._transport.is_closing():
            self._is_read = reads
            (self._transport.resume_reading if reads else self._transport.pause_reading)()

    # One request after the other.

    def _next(self) -> None:
        """Begin with the next request that waits, if none is under way; else read on."""
        reader = self._reader
        while not self._is_busy and self.state not in (State.CLOSED, State.LINGERING):
            if not reader.read and self._ahead:
                ahead, self._ahead = b"".join(self._ahead), []
                reader.feed(ahead, self._received_at)
            if reader.read:
                following = reader.read.popleft()
                if isinstance(following, Refusal):
                    self._refuse_and_close(following)
                else:
                    self._begin(following)
            elif self._has_ended:
                refusal = reader.end()
                if refusal is None:
                    self._close()
                else:
                    self._refuse_and_close(refusal)
            else:
                self._read(True)
                self._wait()
                return

    def _wait(self) -> None:
        """Wait for more of a request, or for the next one."""
        if self._reader.in_body:
            if self.state is not State.BODY:
                self._enter(State.BODY)
        elif self.state is State.IDLE and self._reader.in_message:
            self._enter(State.HEAD)

    def _begin(self, request: Request) -> None:
        self.has_served = True
        self._current = request
        self._keeps = request.keeps_connection
        self._is_busy = True
        self._enter(State.WORKING)
        refusal = self._server.submit(request)
        if refusal is not None:
            self.refuse(refusal)

    def refuse(self, refusal: Refusal) -> None:
        """Answer the request under way in place of the application."""
        self._server.refusals.add(refusal.reason)
        if refusal.closes:
            self._keeps = False
        headers, body = refusal.headers_and_body()
        self.deliver(Answer(f"{refusal.status.value} {refusal.status.phrase}", headers, body))

    def _refuse_and_close(self, refusal: Refusal) -> None:
        self._is_busy = True
        self.refuse(refusal.closing())

    # Answers.

    def deliver(self, answer: Answer) -> None:
        """Send *answer* to the request under way. Called by the thread that made it, or by the loop.

        A thread writes by itself what the connection takes at once, which is nearly always all of it: the loop is
        woken for the rest only.
        """
        request, stream = self._current, answer.stream
        is_1_0 = request is not None and request.is_1_0
        is_head = request is not None and request.method == "HEAD"
        if self._server.is_draining or (stream is not None and is_1_0):
            self._keeps = False  # now, and not when the draining begins: each answer says whether the connection ends
        keeps = self._keeps
        body = answer.body
        is_bodiless = answers.has_no_body(answer.status)
        head = answers.head_of(
            answer.status,
            answer.headers,
            length=None if stream is not None or is_bodiless or (is_head and not body) else len(body),
            closes=not keeps,
            keeps_1_0=is_1_0,
            chunked=stream is not None and not is_1_0,
        )
        if request is not None:
            self._server.bodies.give_back(request.counted)
        if stream is not None:
            self._loop.call_soon_threadsafe(self._begin_stream, head, stream, not is_1_0)
            return
        if is_head or is_bodiless:
            body = b""
        with self._lock:
            if self.state is State.CLOSED:
                return
            sent = self._write_now(head, body)
            is_sent = sent == len(head) + len(body)
            if is_sent and keeps and self._is_read and not (self._reader.read or self._has_ended):
                self._current = None
                self._is_busy = False
                self._enter(State.IDLE)
                return
        unsent_body = memoryview(body)[max(0, sent - len(head)) :]
        self._server.unsent.add(len(unsent_body))
        self._loop.call_soon_threadsafe(self._send_rest, head[sent:], unsent_body)

    def _write_now(self, head: bytes, body: bytes) -> int:
        """Bytes that were written. What is wrong with the connection, the loop finds."""
        if self._descriptor < 0 or self._transport.get_write_buffer_size():
            return 0
        with suppress(OSError):
            return os.writev(self._descriptor, (head, body) if body else (head,))
        return 0

    def _send_rest(self, head: bytes, body: memoryview) -> None:
        if self.state is State.CLOSED:
            self._server.unsent.give_back(len(body))
            return
        self._enter(State.SENDING)
        self._unsent = body
        self._answer_size = len(body)
        self._progress_at = self.since
        if head:
            self._transport.write(head)
        self._pump()

    def _pump(self) -> None:
        """Give the transport as much as it takes."""
        unsent = self._unsent
        assert unsent is not None
        while len(unsent) and self._may_write:
            part, unsent = unsent[:PART], unsent[PART:]
            self._unsent = unsent
            self._server.unsent.give_back(len(part))
            self._transport.write(part)
        if not len(unsent):
            self._unsent = None
            self._finish()

    def _finish(self) -> None:
        """The answer is with the transport: go on with the next request, or end the connection."""
        self._current = None
        if not self._keeps:
            self._linger()
            return
        self._is_busy = False
        self._enter(State.IDLE)
        self._next()

    # Streams.

    def _begin_stream(self, head: bytes, stream: Attachable, is_chunked: bool) -> None:
        if self.state is State.CLOSED:
            stream.close()
            return
        self._enter(State.STREAMING)
        self._transport.write(head)
        self._streaming = Streaming(
            stream,
            self._transport,
            self._loop,
            is_chunked=is_chunked,
            on_end=self._end_stream,
            on_backlog=lambda: self._abort("unread_answer"),
        )
        self._streaming.begin()

    def _end_stream(self) -> None:
        self._streaming = None
        self._finish()

    # The end.

    @property
    def can_be_closed(self) -> bool:
        """Whether no request is under way, so that it may be closed in favour of another."""
        return self.state in (State.OPENING, State.HEAD, State.IDLE, State.LINGERING)

    def end_if_idle(self) -> None:
        """End it, unless a request is on its way or under way."""
        if self._is_idle():
            self._linger()

    def _is_idle(self) -> bool:
        return self.state in (State.HEAD, State.IDLE) and not self._reader.in_message

    def evict(self) -> None:
        """Close it at once, in whatever state it is."""
        if self._transport is not None:
            self._transport.abort()
        else:
            self._server.give_up(self)

    def _linger(self) -> None:
        """End our half of the connection, and read on until the client ends its own, or for some seconds."""
        if self._has_ended:
            self._close()
            return
        self._enter(State.LINGERING)
        self._read(True)
        if self._transport.can_write_eof():
            with suppress(OSError):
                self._transport.write_eof()
        else:
            self._skip(self._ahead)

    def _skip(self, pieces: Sequence[bytes]) -> None:
        """Close a connection of TLS, which has no half to close, when the client has sent its last request whole."""
        if self._transport.can_write_eof() or self._transport.is_closing():
            return
        for piece in pieces:
            self._reader.feed(piece, self._received_at)
        if not self._reader.in_message:
            self._transport.close()

    def _close(self) -> None:
        self._enter(State.LINGERING)  # until all is sent
        self._transport.close()

    def _abort(self, reason: Reason) -> None:
        self._server.refusals.add(reason)
        self._transport.abort()

    def _enter(self, state: State) -> None:
        self.state = state
        self.since = self._loop.time()

    # Deadlines.

    def check(self, now: float) -> None:
        """Enforce the deadlines; called about once a second."""
        if self._may_idle and self._is_idle():
            return
        match self.state:
            case State.OPENING | State.HEAD:
                self._check_head(now)
            case State.IDLE:
                self._check_idle(now)
            case State.BODY:
                self._check_body(now)
            case State.SENDING:
                self._check_sending(now)
            case State.STREAMING:
                self._check_stream(now)
            case State.LINGERING:
                self._check_lingering(now)

    def _check_idle(self, now: float) -> None:
        if self._transport.get_write_buffer_size():
            self._check_progress(now)
        elif now - self.since > self._bounds.idle_timeout:
            self._close()

    def _check_head(self, now: float) -> None:
        if now - self.since > self._bounds.head_timeout:
            self._time_out("head_timeout", "the head of the request")

    def _check_body(self, now: float) -> None:
        allowed = self._bounds.body_idle_timeout + self._reader.body_size / self._bounds.body_rate
        if now - self._received_at > self._bounds.body_idle_timeout or now - self.since > allowed:
            self._time_out("body_timeout", "the body of the request")

    def _check_sending(self, now: float) -> None:
        allowed = self._bounds.send_idle_timeout + self._answer_size / self._bounds.send_rate
        if now - self.since > allowed:
            self._abort("unread_answer")
        else:
            self._check_progress(now)

    def _check_stream(self, now: float) -> None:
        if self._streaming is not None and self._transport.get_write_buffer_size():
            self._progress_at = max(self._progress_at, self._streaming.progress_at)
            self._check_progress(now)

    def _check_lingering(self, now: float) -> None:
        if self._transport.get_write_buffer_size():
            self._check_progress(now)
        elif now - max(self.since, self._received_at) > LINGER_SECONDS or now - self.since > LONGEST_LINGER_SECONDS:
            if self._transport.is_closing() or self._transport.can_write_eof():
                self._transport.abort()
            else:
                self._transport.close()

    def _check_progress(self, now: float) -> None:
        if now - max(self._progress_at, self.since) > self._bounds.send_idle_timeout:
            self._abort("unread_answer")

    def _time_out(self, reason: Reason, what: str) -> None:
        """A client that has sent nothing of a request gets no answer: it would take it for that of its next request."""
        if self._transport is not None and self._reader.in_message:
            self._refuse_and_close(Refusal(HTTPStatus.REQUEST_TIMEOUT, reason, f"{what} did not arrive in time"))
        else:
            self._server.refusals.add(reason)
            self.evict()
