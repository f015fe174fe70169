"""The parts of a streamed body, which one thread produces and the server sends."""

from __future__ import annotations

from contextlib import suppress
from queue import Empty, SimpleQueue
from threading import Lock
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


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
