"""Sends an answer whose parts are produced over time. Source: RFC 9112, section 7.1 (chunks).

Everything runs in the event loop except :meth:`Streaming._send_later`, which the threads that produce parts call.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from stead.httpd.answers import Attachable

BACKLOG = 1024 * 1024
"""Maximum number of bytes of a stream that may wait for the client to read them."""


class Streaming:
    """A stream that is being sent.

    Attributes:
        progress_at: when the client had last read everything sent so far, on the loop's clock.
    """

    def __init__(
        self,
        stream: Attachable,
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
