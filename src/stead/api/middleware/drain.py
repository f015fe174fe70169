"""Reads and discards bodies that no handler reads, before the answer.

Many servers leave the rest of a body on the connection and parse it as the next request. Others close the connection,
so that a client that is still sending loses the answer.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

_PART = 64 * 1024

_DROPPED_PER_ACCEPTED = 2
"""A body that is too long is discarded up to this many times the accepted length. An application cannot announce the
end of the connection, so the server may otherwise reset it, and the client never reads the 413.
"""


class Drain:
    """Reads the rest of a body that the application did not read, unless it is much longer than the maximum."""

    def __init__(self, app: WSGIApplication, longest: int) -> None:
        """*longest* is the maximum size in bytes of an accepted body."""
        self._app = app
        self._longest = longest * _DROPPED_PER_ACCEPTED

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        expected = _expected(environ, self._longest)
        if not expected:
            return self._app(environ, start_response)
        body = environ["wsgi.input"] = _Counted(environ["wsgi.input"])
        parts = self._app(environ, start_response)
        if expected <= self._longest:
            body.drop(expected)
        return parts


def _expected(environ: WSGIEnvironment, longest: int) -> int:
    """Size of the body in bytes; *longest* for a chunked body, 0 without a body."""
    length = environ.get("CONTENT_LENGTH") or ""
    if length:
        # `isdigit` alone accepts digits that `int` rejects, and `int` rejects numbers with thousands of digits.
        return int(length) if length.isascii() and length.isdigit() and len(length) < 20 else longest + 1
    is_chunked = "chunked" in environ.get("HTTP_TRANSFER_ENCODING", "").lower()
    # Without this promise of the server, a read after the last chunk may wait without end.
    return longest if is_chunked and environ.get("wsgi.input_terminated") else 0


class _Counted:
    """The stream of a body; counts the bytes that were read."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self._taken = 0
        self._is_at_end = False

    def read(self, size: int = -1) -> bytes:
        part: bytes = self._stream.read(size)
        self._taken += len(part)
        self._is_at_end |= not part and size != 0
        return part

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def drop(self, length: int) -> None:
        """Read until *length* bytes were read in total, or the body ends."""
        with suppress(OSError, RuntimeError):  # the client disconnected; servers raise different errors
            while not self._is_at_end and self._taken < length:
                self.read(min(_PART, length - self._taken))
