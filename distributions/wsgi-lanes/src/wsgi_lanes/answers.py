"""Answers, of an application or of the server itself: their heads, and how their bytes reach the client."""

from __future__ import annotations

import json
import logging
import threading
import time
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from email.utils import formatdate
from functools import lru_cache
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Literal, Protocol, get_args, runtime_checkable

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Sequence

    from wsgi_lanes.bounds import Budget


_BODILESS = ("1", "204", "304")
_WITHOUT_LENGTH = ("1", "204")

CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


@runtime_checkable
class StreamedBody(Protocol):
    """A body whose parts other threads produce over time."""

    def attach(self, send: Callable[[bytes | None], None]) -> None:
        """Call *send* with each part, in any thread, and with None at the end; *send* never blocks."""

    def close(self) -> None:
        """Produce no further parts. May be called twice, and after the last part."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The application's answer: a body in pieces, or a ``stream`` if the parts are produced over time."""

    status: str
    headers: list[tuple[str, str]]
    pieces: Sequence[bytes]
    stream: StreamedBody | None = None


def has_no_body(status: str) -> bool:
    """Whether answers of *status* end after their head (RFC 9112, section 6.3).

    A client would read a body as the beginning of the next answer.
    """
    return status.startswith(_BODILESS)


def head_of(
    status: str,
    headers: list[tuple[str, str]],
    *,
    length: int | None,
    closes: bool,
    keeps_1_0: bool = False,
    chunked: bool = False,
) -> bytes:
    """Status line and header fields, with the empty line after them.

    Args:
        length: of the body in bytes. None if there is no body, if the length is not known in advance, or if only the
            application knows it, as in answers to HEAD.
        closes: the connection ends after the answer.
        keeps_1_0: a client of HTTP/1.0 asked to keep the connection, and it is kept.
        chunked: the body comes in chunks.

    Raises:
        ValueError: a field contains a line break, which could forge another field.
    """
    lines = [f"HTTP/1.1 {status}"]
    for name, value in headers:
        lowered = name.lower()
        if lowered in ("connection", "transfer-encoding", "date"):
            continue  # the server sets these fields itself
        if lowered == "content-length" and (length is not None or chunked or status.startswith(_WITHOUT_LENGTH)):
            continue
        lines.append(f"{name}: {value}")
    if chunked:
        lines.append("transfer-encoding: chunked")
    elif length is not None:
        lines.append(f"content-length: {length}")
    if closes:
        lines.append("connection: close")
    elif keeps_1_0:
        lines.append("connection: keep-alive")
    text = "\r\n".join(lines)
    if text.count("\n") != len(lines) - 1 or text.count("\r") != len(lines) - 1:
        raise ValueError("a header field of an answer has a line break")
    return text.encode("latin-1") + b"\r\ndate: " + _date(int(time.time())) + b"\r\n\r\n"


@lru_cache(maxsize=2)
def _date(second: int) -> bytes:
    return formatdate(second, usegmt=True).encode()


# Sends an answer whose parts are produced over time. Source: RFC 9112, section 7.1 (chunks).
#
# Everything runs in the event loop except :meth:`StreamedAnswer._send_later`, which threads that produce parts call.


BACKLOG = 1024 * 1024
"""Maximum number of bytes of a stream that may wait for the client to read them."""


class StreamedAnswer:
    """A stream that is being sent.

    Attributes:
        progress_at: when the client had last read everything sent so far, on the loop's clock.
    """

    def __init__(
        self,
        stream: StreamedBody,
        transport: Any,
        loop: asyncio.AbstractEventLoop,
        *,
        is_chunked: bool,
        on_end: Callable[[], None],
        on_backlog: Callable[[], None],
    ) -> None:
        """Create the stream without sending anything.

        Args:
            is_chunked: the framing marks the end of the stream; otherwise the end of the connection does.
            on_end: called after the last part.
            on_backlog: called when more than `BACKLOG` bytes wait for the client.
        """
        self.progress_at = loop.time()
        self._stream = stream
        self._transport = transport
        self._loop = loop
        self._is_chunked = is_chunked
        self._on_end = on_end
        self._on_backlog = on_backlog
        self._is_over = False

    def begin(self) -> None:
        """Start to send the parts as they are produced."""
        self._stream.attach(self._send_later)

    def close(self) -> None:
        """Send no further parts."""
        self._is_over = True
        self._stream.close()

    def _send_later(self, part: bytes | None) -> None:
        self._loop.call_soon_threadsafe(self._send, part)

    def _send(self, part: bytes | None) -> None:
        # A thread may have scheduled this part before the stream ended.
        if self._is_over:
            return
        unread = self._transport.get_write_buffer_size()
        if part is None:
            if self._is_chunked:
                self._transport.write(b"0\r\n\r\n")
            self.close()
            self._on_end()
        elif unread > BACKLOG:
            self._on_backlog()
        elif part:
            if not unread:
                self.progress_at = self._loop.time()
            self._transport.write(b"%x\r\n%b\r\n" % (len(part), part) if self._is_chunked else part)


# The rest of an answer that its client has not read yet: what the socket did not accept at once.


PART = 64 * 1024
"""Bytes of an answer that the transport receives at a time."""


class UnsentAnswer:
    """The pieces that remain. Each is released once the transport has it.

    Attributes:
        size: bytes of the whole rest, when it began.
    """

    def __init__(self, pieces: Sequence[bytes], sent: int, budget: Budget) -> None:
        """*pieces* without their first *sent* bytes; the remaining bytes are counted in *budget*."""
        self.size = sum(map(len, pieces)) - sent
        self._pieces = deque[memoryview](memoryview(piece) for piece in pieces)
        self._skip(sent)
        self._remaining = self.size
        self._budget = budget
        budget.add(self.size)

    def _skip(self, size: int) -> None:
        pieces = self._pieces
        while pieces and len(pieces[0]) <= size:
            size -= len(pieces.popleft())
        if size:
            pieces[0] = pieces[0][size:]

    def write(self, write: Callable[[memoryview], object], may_write: Callable[[], bool]) -> bool:
        """Call *write* with parts while *may_write*. Returns whether nothing remains."""
        pieces = self._pieces
        while pieces and may_write():
            part = pieces.popleft()
            if len(part) > PART:
                pieces.appendleft(part[PART:])
                part = part[:PART]
            self._count(len(part))
            write(part)
        return not pieces

    def drop(self) -> None:
        """Release all that remains."""
        self._pieces.clear()
        self._count(self._remaining)

    def _count(self, size: int) -> None:
        self._remaining -= size
        self._budget.give_back(size)


# Refusals by the server itself, before a request reaches the application.


Reason = Literal[
    "answers",
    "bad_request",
    "bodies",
    "body_timeout",
    "connections",
    "head_timeout",
    "head_too_large",
    "not_implemented",
    "protocol",
    "proxy_protocol",
    "queue_full",
    "queue_timeout",
    "unread_answer",
]
"""Why a request or a connection is refused, as a label of a metric."""

REASONS: tuple[Reason, ...] = get_args(Reason)


@dataclass(frozen=True, slots=True)
class Refusal:
    """An answer to a request that the application does not receive.

    Attributes:
        status: of the answer.
        reason: one of `REASONS`, for metrics and the log.
        detail: for the client: what happened, and what to do.
        retry_after: seconds after which the client may try again.
        closes: whether the connection ends with it, since what follows cannot be parsed or is not read.
    """

    status: HTTPStatus
    reason: Reason
    detail: str
    retry_after: int | None = None
    closes: bool = True

    def closing(self) -> Refusal:
        """The same refusal, but it ends the connection."""
        return replace(self, closes=True)

    def answer(self, error_body: ErrorBody) -> Answer:
        """The answer that the client receives."""
        headers, body = error_body(self.status, self.detail)
        if self.retry_after is not None:
            headers.append(("retry-after", str(self.retry_after)))
        return Answer(f"{self.status.value} {self.status.phrase}", headers, [body])


ErrorBody = Callable[[HTTPStatus, str], tuple[list[tuple[str, str]], bytes]]
"""Header fields and body of an error, from its status and its detail, in the form of the application's errors."""


def problem_details(status: HTTPStatus, detail: str) -> tuple[list[tuple[str, str]], bytes]:
    """An `ErrorBody` for applications without a form of their own. Source: RFC 9457."""
    problem = {"status": status.value, "title": status.phrase, "detail": detail}
    return [("content-type", "application/problem+json")], json.dumps(problem).encode()


def bad_request(detail: str) -> Refusal:
    """The head or the framing of a body breaks HTTP/1.1."""
    return Refusal(HTTPStatus.BAD_REQUEST, "bad_request", detail)


def overloaded(reason: Reason, detail: str) -> Refusal:
    """The server is at one of its limits; the client can use the connection again."""
    return Refusal(HTTPStatus.SERVICE_UNAVAILABLE, reason, detail, retry_after=1, closes=False)


class Refused(Exception):
    """A request is refused; ``refusal`` is the answer."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.detail)
        self.refusal = refusal


# The server's counters, for metrics and the log.


LOG_SECONDS = 10.0
"""The log has one line for all refusals of this interval, so that an attack does not fill it."""

_log = logging.getLogger(__name__)


class Refusals:
    """Counts refusals by reason. Thread-safe."""

    def __init__(self) -> None:
        """Start with no refusals."""
        self._on_refusal: Callable[[Reason], None] | None = None
        self._lock = threading.Lock()
        self._unlogged: Counter[str] = Counter()
        self._logged_at = float("-inf")

    def subscribe(self, on_refusal: Callable[[Reason], None]) -> None:
        """Call *on_refusal* with the reason of each further refusal, in the thread that refuses."""
        self._on_refusal = on_refusal

    def add(self, reason: Reason) -> None:
        """Count one refusal."""
        with self._lock:
            self._unlogged[reason] += 1
        if self._on_refusal is not None:
            self._on_refusal(reason)

    def log(self, now: float) -> None:
        """Log the refusals since the last line, unless the interval has not passed yet."""
        with self._lock:
            if not self._unlogged or now - self._logged_at < LOG_SECONDS:
                return
            unlogged, self._unlogged = self._unlogged, Counter()
            self._logged_at = now
        reasons = ", ".join(f"{reason} {count}" for reason, count in sorted(unlogged.items()))
        _log.warning("refused %d requests or connections: %s", sum(unlogged.values()), reasons)
