"""An answer whose parts come later, on its way to the client. Source: RFC 9112, section 7.1 (chunks).

All of it runs in the event loop but :meth:`Streaming._send_later`, which the threads that make parts call.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from stead.httpd.wsgi import Attachable

BACKLOG = 1024 * 1024
"""Bytes of a stream that may wait for its reader."""


class Streaming:
    """A stream that is being sent.

    Attributes:
        progress_at: when the client had last read all that was sent before, on the loop's clock.
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
        """Nothing of it is sent.

        Args:
            is_chunked: the client learns from the framing where it ends, and not from the end of the connection.
            on_end: is called after the last part.
            on_backlog: is called when more than `BACKLOG` waits for the client.
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
        """Send the parts as they come."""
        self._stream.attach(self._send_later)

    def close(self) -> None:
        """Send no further part."""
        self._is_over = True
        self._stream.close()

    def _send_later(self, part: bytes | None) -> None:
        self._loop.call_soon_threadsafe(self._send, part)

    def _send(self, part: bytes | None) -> None:
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
