"""One connection: reads requests, answers them in order, and closes without a reset.

Everything runs in the event loop except :meth:`Connection.deliver`, which the thread of a request calls. One lock
guards the state that both may change. No thread waits while it holds this lock. Source: RFC 9112, sections 6 to 9.
"""

from __future__ import annotations

import asyncio
import enum
import os
import select
import threading
from contextlib import suppress
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Protocol

from wsgi_lanes import answers
from wsgi_lanes.answers import PART, Answer, Refusal, StreamedAnswer, UnsentAnswer, overloaded
from wsgi_lanes.reader import Reader

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wsgi_lanes.answers import ErrorBody, Reason, Refusals, StreamedBody
    from wsgi_lanes.bounds import Bounds, Budget, Reading
    from wsgi_lanes.requests import Peers, Request, Routes


MOST_PIECES = 64
"""Pieces of an answer in one system call; a socket's buffer has no room for more."""

LARGE_ANSWER = 1024 * 1024
"""Bytes of an answer that is replaced with a refusal if far too many bytes are unsent."""

UNSENT_FACTOR = 2
"""Large answers are refused if more than this multiple of the limit is unsent. At the limit, bulk reads wait already:
this is for the answers that were made meanwhile, and for large answers to other reads."""


class ConnectionOwner(Protocol):
    """What a connection uses of its server, which has the comments."""

    bounds: Bounds
    routes: Routes
    loop: asyncio.AbstractEventLoop
    is_draining: bool
    bodies: Budget
    reading: Reading
    unsent: Budget
    refusals: Refusals
    error_body: ErrorBody

    def peers_of(self, transport: asyncio.Transport, client: str | None) -> Peers: ...
    def submit(self, request: Request) -> None: ...
    def drop(self, request: Request) -> bool: ...
    def postpone(self, request: Request) -> None: ...
    def remove(self, connection: Connection) -> None: ...
    def cancel_handshake(self, connection: Connection) -> None: ...


class Connection(asyncio.BufferedProtocol):
    """The protocol of one connection."""

    def __init__(self, server: ConnectionOwner, now: float, *, may_idle: bool = False) -> None:
        """Create the protocol of a new connection.

        Args:
            may_idle: between requests, and before the first one, the client may take any time.
        """
        self.state = ConnectionState.OPENING
        self.since = now
        """When the state began, on the loop's clock."""
        self.has_served = False
        """Whether a complete request has arrived on this connection."""
        self.client: str | None = None
        """The address of the client, if a trusted proxy has given it before the connection was made."""
        self.refusal: Refusal | None = None
        """The answer to whatever the client sends, if the connection is refused as a whole."""
        self._may_idle = may_idle
        self._server = server
        self._bounds: Bounds = server.bounds
        self._loop = server.loop
        self._lock = threading.Lock()
        self._transport: Any = None
        self._reader: Reader
        self._descriptor = -1  # of a plain connection; threads write to it while the transport has nothing to send
        self._is_read = True  # the transport reads
        self._has_ended = False  # the client sends no more
        self.received_at = now
        """When data last arrived, on the loop's clock."""
        self._current: Request | None = None
        self._is_busy = False  # until the transport has the whole answer
        self._keeps = True  # whether the connection stays open after the current answer
        self._sending: UnsentAnswer | None = None
        self._progress_at = now  # when the client last read part of the answer
        self._may_write = True
        self._streaming: StreamedAnswer | None = None

    # Called by the transport.

    def connection_made(self, transport: Any) -> None:
        """Store the transport. A connection that its client has already reset ends here."""
        self._transport = transport
        if transport.get_extra_info("peername") is None:
            # Reset before it was accepted, as port scanners and health checks of TCP do. It has no peer any more.
            transport.abort()
            return
        # Low, so that what a client does not read stays in `UnsentAnswer`, whose bytes are counted.
        transport.set_write_buffer_limits(high=PART)
        peers = self._server.peers_of(transport, self.client)
        if not peers.is_encrypted:
            self._descriptor = transport.get_extra_info("socket").fileno()
        self._reader = Reader(
            peers,
            self,
            bounds=self._bounds,
            routes=self._server.routes,
            bodies=self._server.bodies,
        )
        self._enter(ConnectionState.HEAD)

    def get_buffer(self, _size: int) -> memoryview:
        """Where the transport puts the next bytes."""
        return self._server.reading.buffer()

    def buffer_updated(self, size: int) -> None:
        """Read the next *size* bytes. If a request is running, store them for later and pause reading."""
        data = self._server.reading.read(size)
        self.received_at = self._loop.time()
        if self.state is ConnectionState.LINGERING:
            self._skip(data)
            return
        if self._is_busy:
            with self._lock:
                if self._is_busy:  # checked again with the lock: its thread may just have ended the request
                    self._reader.store(data)
                    self._read(False)
                    return
        if self.refusal is not None:
            self._refuse_and_close(self.refusal)
            return
        self._reader.feed(data, self.received_at)
        self._next()

    def eof_received(self) -> bool:
        """The client has ended its half. It may still read the current answer, but TLS has no half-closed state."""
        self._has_ended = True
        if self._transport is None or self.state in (ConnectionState.LINGERING, ConnectionState.STREAMING):
            return False
        with self._lock:
            if self._is_busy:
                self._keeps = False
                if self._current is not None:
                    self._server.postpone(self._current)
                return self._descriptor >= 0
        refusal = self._reader.end()
        if refusal is not None:
            self._refuse_and_close(refusal)
        return refusal is not None and self._descriptor >= 0

    def connection_lost(self, _error: Exception | None) -> None:
        """Release everything; a thread that still works on a request finds the connection closed."""
        with self._lock:
            # Under the lock, since a thread may be writing: after the close, another connection may get this number.
            self._descriptor = -1
            was_opening, self.state = self.state is ConnectionState.OPENING, ConnectionState.CLOSED
        if was_opening:  # without a reader
            self._server.remove(self)
            return
        if self._current is not None and self._server.drop(self._current):
            self._release(self._current)
        self._reader.close()
        if self._sending is not None:
            self._sending.drop()
            self._sending = None
        if self._streaming is not None:
            self._streaming.close()
            self._streaming = None
        self._server.remove(self)

    def pause_writing(self) -> None:
        """The buffer of the transport is full."""
        self._may_write = False

    def resume_writing(self) -> None:
        """The client has read most of the buffer."""
        self._may_write = True
        self._progress_at = self._loop.time()
        if self._sending is not None:
            self._pump()

    def _read(self, reads: bool) -> None:
        if reads != self._is_read and not self._transport.is_closing():
            self._is_read = reads
            (self._transport.resume_reading if reads else self._transport.pause_reading)()

    # Requests, in order.

    def _next(self) -> None:
        """Start the next waiting request if none is running; if none waits, continue reading."""
        reader = self._reader
        while not self._is_busy and self.state not in (ConnectionState.CLOSED, ConnectionState.LINGERING):
            if not reader.read:
                reader.proceed(self.received_at)
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
        """Wait for the rest of a request, or for the next one."""
        if self._reader.in_body:
            if self._reader.expects_continue:  # and the answers to all earlier requests are sent
                self._reader.expects_continue = False
                self._transport.write(answers.CONTINUE)
            if self.state is not ConnectionState.BODY:
                self._enter(ConnectionState.BODY)
        elif self.state is ConnectionState.IDLE and self._reader.in_message:
            self._enter(ConnectionState.HEAD)

    def _begin(self, request: Request) -> None:
        self.has_served = True
        self._current = request
        self._keeps = request.keeps_connection
        self._is_busy = True
        self._enter(ConnectionState.WORKING)
        self._server.submit(request)

    def refuse(self, refusal: Refusal) -> None:
        """Answer the current request in place of the application."""
        self._server.refusals.add(refusal.reason)
        if refusal.closes:
            self._keeps = False
        self.deliver(refusal.answer(self._server.error_body))

    def _refuse_and_close(self, refusal: Refusal) -> None:
        self._is_busy = True
        self.refuse(refusal.closing())

    # Answers.

    def deliver(self, answer: Answer) -> None:
        """Send *answer* to the current request. Called by the thread that made the answer, or by the loop.

        A thread writes what the socket accepts at once, which is nearly always the whole answer. It wakes the loop
        for the rest only.
        """
        request, stream = self._current, answer.stream
        is_1_0 = request is not None and request.is_1_0
        is_head = request is not None and request.method == "HEAD"
        if self._server.is_draining or (stream is not None and is_1_0):
            # Decided here and not in drain(): this answer must announce whether the connection ends.
            self._keeps = False
        keeps = self._keeps
        pieces = answer.pieces
        size = sum(map(len, pieces))
        if size > LARGE_ANSWER and self._is_refused(request):
            return
        is_bodiless = answers.has_no_body(answer.status)
        head = answers.head_of(
            answer.status,
            answer.headers,
            length=None if stream is not None or is_bodiless or (is_head and not size) else size,
            closes=not keeps,
            keeps_1_0=is_1_0,
            chunked=stream is not None and not is_1_0,
        )
        if request is not None:
            self._release(request)
        if stream is not None:
            self._loop.call_soon_threadsafe(self._begin_stream, head, stream, not is_1_0)
            return
        pieces = (head,) if is_head or is_bodiless else (head, *pieces)
        with self._lock:
            if self.state is ConnectionState.CLOSED:
                return
            sent = self._write_now(pieces)
            is_sent = sent == (len(head) if len(pieces) == 1 else len(head) + size)
            # Otherwise the loop must go on: with the rest, with requests that wait or are incomplete, or with the end.
            reader = self._reader
            if is_sent and keeps and self._is_read and not (reader.has_more or reader.in_message or self._has_ended):
                self._current = None
                self._is_busy = False
                self._enter(ConnectionState.IDLE)
                return
        self._loop.call_soon_threadsafe(self._send_rest, UnsentAnswer(pieces, sent, self._server.unsent))

    def _release(self, request: Request) -> None:
        """Release the memory of a request that is answered, or never will be."""
        self._server.bodies.give_back(request.counted)
        request.counted, request.body = 0, b""

    def _is_refused(self, request: Request | None) -> bool:
        """Refuse to send a large answer to a read, if far too many bytes of answers are unsent already."""
        if request is None or request.method != "GET" or not self._server.unsent.is_exceeded_by(UNSENT_FACTOR):
            return False
        limit = self._bounds.name_of("unsent")
        self.refuse(overloaded("answers", f"too many large answers wait for their clients ({limit})."))
        return True

    def _write_now(self, pieces: Sequence[bytes]) -> int:
        """Write as much as the socket accepts, and return the number of bytes. The loop handles socket errors."""
        # Bytes in the buffer of the transport precede these, so a direct write would overtake them.
        if self._descriptor < 0 or self._transport.get_write_buffer_size():
            return 0
        with suppress(OSError):
            return os.writev(self._descriptor, pieces if len(pieces) <= MOST_PIECES else pieces[:MOST_PIECES])
        return 0

    def _send_rest(self, sending: UnsentAnswer) -> None:
        if self.state is ConnectionState.CLOSED:
            sending.drop()
            return
        self._enter(ConnectionState.SENDING)
        self._sending = sending
        self._progress_at = self.since
        self._pump()

    def _pump(self) -> None:
        """Write parts of the answer until the buffer of the transport is full."""
        assert self._sending is not None
        transport = self._transport
        if self._sending.write(transport.write, lambda: self._may_write and not transport.is_closing()):
            self._sending = None
            self._finish()

    def _finish(self) -> None:
        """Continue with the next request, or end the connection, once the transport has the whole answer."""
        self._current = None
        if not self._keeps:
            self._linger()
            return
        self._is_busy = False
        self._enter(ConnectionState.IDLE)
        self._next()

    # Streams.

    def _begin_stream(self, head: bytes, stream: StreamedBody, is_chunked: bool) -> None:
        if self.state is ConnectionState.CLOSED:
            stream.close()
            return
        self._enter(ConnectionState.STREAMING)
        self._transport.write(head)
        self._streaming = StreamedAnswer(
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
        """Whether no request is running, so that the server may close it in favour of another connection."""
        return self.state in (
            ConnectionState.OPENING,
            ConnectionState.HEAD,
            ConnectionState.IDLE,
            ConnectionState.LINGERING,
        )

    def end_politely(self) -> bool:
        """End it without a reset, unless its next request has already arrived. Returns whether it ends."""
        if self.state is ConnectionState.IDLE and self._descriptor >= 0:
            arrived = select.poll()
            arrived.register(self._descriptor, select.POLLIN)
            if arrived.poll(0):
                return False
        if self.state is not ConnectionState.LINGERING:
            self._linger()
        return True

    def end_if_idle(self) -> None:
        """End it, unless a request is arriving or running."""
        if self._is_idle():
            self._linger()

    def _is_idle(self) -> bool:
        return self.state in (ConnectionState.HEAD, ConnectionState.IDLE) and not self._reader.in_message

    def evict(self) -> None:
        """Close it at once, in any state."""
        if self._transport is not None:
            self._transport.abort()
        else:
            self._server.cancel_handshake(self)

    def _linger(self) -> None:
        """End the server's half of the connection, and read on until the client ends its half or a limit passes."""
        if self._has_ended:
            self._close()
            return
        self._enter(ConnectionState.LINGERING)
        self._read(True)
        if self._transport.can_write_eof():
            with suppress(OSError):
                self._transport.write_eof()
            self._reader.close()  # nothing is parsed any more
        else:
            self._skip(b"")

    def _skip(self, data: bytes) -> None:
        """Close a TLS connection, which has no half-closed state, once the client's last request is complete."""
        if self._transport.can_write_eof() or self._transport.is_closing():
            return
        self._reader.discard(data, self.received_at)
        if not self._reader.in_message:
            self._transport.close()

    def _close(self) -> None:
        self._enter(ConnectionState.LINGERING)  # until the transport has sent its buffer
        self._transport.close()

    def _abort(self, reason: Reason) -> None:
        self._server.refusals.add(reason)
        self._transport.abort()

    def _enter(self, state: ConnectionState) -> None:
        self.state = state
        self.since = self._loop.time()

    # Deadlines.

    def check(self, now: float) -> None:
        """Enforce the deadlines; called about once a second."""
        if self._may_idle and self._is_idle():
            return
        match overdue(self, now, self._bounds):
            case Overdue.HEAD:
                self._time_out("head_timeout", Overdue.HEAD)
            case Overdue.BODY:
                self._time_out("body_timeout", Overdue.BODY)
            case Overdue.NEXT_REQUEST:
                self._linger()
            case Overdue.READING:
                self._abort("unread_answer")
            case Overdue.CLOSING if self._transport.is_closing() or self._transport.can_write_eof():
                self._transport.abort()
            case Overdue.CLOSING:
                self._transport.close()

    @property
    def read_at(self) -> float:
        """When the client last read part of the answer, on the loop's clock."""
        return self._progress_at if self._streaming is None else max(self._progress_at, self._streaming.progress_at)

    @property
    def body_size(self) -> int:
        """Bytes of the body that is arriving."""
        return self._reader.body_size

    @property
    def answer_size(self) -> int:
        """Bytes of the answer that remained when the transport first received some of them."""
        return self._sending.size if self._sending is not None else 0

    @property
    def has_unread(self) -> bool:
        """Whether the transport has bytes that the client has not read."""
        return bool(self._transport.get_write_buffer_size())

    def _time_out(self, reason: Reason, missing: Overdue) -> None:
        """Answer 408 in the middle of a request. Between requests a client would take it for its next answer."""
        if self._transport is not None and self._reader.in_message:
            self._refuse_and_close(
                Refusal(HTTPStatus.REQUEST_TIMEOUT, reason, f"{missing.value} did not arrive in time")
            )
        else:
            self._server.refusals.add(reason)
            self.evict()


# When a connection has waited too long for its client, and what follows.


LINGER_SECONDS = 5.0
"""After the last answer, the server reads what the client still sends until it pauses for this time. Closing at once
would reset the connection, and a reset destroys the answer on its way."""

# A client that never pauses must not keep its connection forever.
LONGEST_LINGER_SECONDS = 30.0


class Overdue(enum.Enum):
    """What did not happen in time."""

    HEAD = "the head of the request"
    BODY = "the body of the request"
    NEXT_REQUEST = "the next request"
    READING = "reading the answer"
    CLOSING = "closing the connection"


class ConnectionProgress(Protocol):
    """A connection: what it waits for, and how far it is. Times are on the loop's clock, sizes are bytes.

    Attributes:
        state, since: the state and its beginning.
        received_at: when data last arrived.
        read_at: when the client last read part of the answer.
        body_size: the length of the body that is arriving, as far as it is known.
        answer_size: what remained of the answer when it was first handed to the transport.
        has_unread: the transport has bytes that the client has not read.
    """

    # Properties, because each connection is checked once a second, and few of them need more than the first two.
    @property
    def state(self) -> ConnectionState: ...
    @property
    def since(self) -> float: ...
    @property
    def received_at(self) -> float: ...
    @property
    def read_at(self) -> float: ...
    @property
    def body_size(self) -> int: ...
    @property
    def answer_size(self) -> int: ...
    @property
    def has_unread(self) -> bool: ...


def overdue(progress: ConnectionProgress, now: float, bounds: Bounds) -> Overdue | None:
    """What is overdue at the time *now*, or None. A running request has no deadline here."""
    in_state = now - progress.since
    match progress.state:
        case ConnectionState.OPENING | ConnectionState.HEAD if in_state > bounds.head_timeout:
            return Overdue.HEAD
        case ConnectionState.BODY if (
            now - progress.received_at > bounds.body_idle_timeout
            or in_state > bounds.body_idle_timeout + progress.body_size / bounds.body_rate
        ):
            return Overdue.BODY
        case ConnectionState.SENDING:
            slowest = bounds.send_idle_timeout + progress.answer_size / bounds.send_rate
            return Overdue.READING if in_state > slowest or _is_unread(progress, now, bounds) else None
        case ConnectionState.STREAMING | ConnectionState.IDLE | ConnectionState.LINGERING if progress.has_unread:
            return Overdue.READING if _is_unread(progress, now, bounds) else None
        case ConnectionState.IDLE if in_state > bounds.idle_timeout:
            return Overdue.NEXT_REQUEST
        case ConnectionState.LINGERING:
            silent = now - max(progress.since, progress.received_at)
            return Overdue.CLOSING if silent > LINGER_SECONDS or in_state > LONGEST_LINGER_SECONDS else None
    return None


def _is_unread(progress: ConnectionProgress, now: float, bounds: Bounds) -> bool:
    return now - max(progress.read_at, progress.since) > bounds.send_idle_timeout


# The states of a connection, as metrics show them.


class ConnectionState(enum.Enum):
    """A state, named after what the connection waits for."""

    OPENING = "opening"
    """The TLS handshake."""
    HEAD = "head"
    """The first request, or the rest of a head."""
    IDLE = "idle"
    """The next request."""
    BODY = "body"
    WORKING = "working"
    """A thread, or the application."""
    SENDING = "sending"
    """The client, to read its answer."""
    STREAMING = "streaming"
    LINGERING = "lingering"
    """The client, to send the rest and close the connection."""
    CLOSED = "closed"
