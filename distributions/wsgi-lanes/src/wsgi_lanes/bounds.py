"""What the server grants its clients: limits of sizes and times, and the bytes that all connections share."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from wsgi_lanes.proxy_protocol import Network


KIB, MIB = 1024, 1024 * 1024


@dataclass(frozen=True, slots=True)
class Bounds:
    """Limits of one process. Sizes are bytes, times are seconds.

    Attributes:
        connections: open connections; near the limit, the longest idle ones are ended for new ones.
        head: size of a request line and its header fields together.
        headers: number of header fields.
        head_timeout: from the first byte of a head, or from the connection, to its end.
        idle_timeout: between two requests on a kept connection.
        body_idle_timeout: between two pieces of a body.
        body_rate: bytes per second; a body may take `body_idle_timeout` plus its size divided by this rate.
        bodies: bytes of unfinished and waiting bodies of all connections together.
        send_idle_timeout: without progress while an answer is sent.
        send_rate: bytes per second; an answer may take `send_idle_timeout` plus its size divided by this rate.
        unsent: bytes of answers that clients have not read yet; above it, bulk reads wait.
        queue: requests that may wait for a thread.
        queue_per_client: those of them that may have the same credential.
        queue_timeout: a request that has waited for this time is refused.
        proxies: networks whose connections begin with a header of the PROXY protocol.
        stop: time that running requests may take when the server ends.
        names: what the operator calls these limits, such as the name of an option; refusals and logs cite it.
    """

    connections: int = 10_000
    head: int = 128 * KIB
    headers: int = 200
    head_timeout: float = 10.0
    idle_timeout: float = 120.0
    body_idle_timeout: float = 15.0
    body_rate: int = 64 * KIB
    bodies: int = 64 * MIB
    send_idle_timeout: float = 30.0
    send_rate: int = 64 * KIB
    unsent: int = 64 * MIB
    queue: int = 2048
    queue_per_client: int = 1024
    queue_timeout: float = 30.0
    proxies: tuple[Network, ...] = ()
    stop: float = 30.0
    names: Mapping[str, str] = field(default_factory=dict)

    def name_of(self, limit: str) -> str:
        """What the operator calls the field *limit*."""
        return self.names.get(limit, limit)


# Bytes that all connections share. Thread-safe.


class Budget:
    """A number of bytes, and how many of them are in use."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._used = 0
        self._lock = threading.Lock()

    @property
    def used(self) -> int:
        """Bytes in use."""
        return self._used

    @property
    def is_exceeded(self) -> bool:
        """Whether more bytes are in use than the budget has, which :meth:`add` allows."""
        return self._used > self._limit

    def is_exceeded_by(self, factor: int) -> bool:
        """Whether more than *factor* times the budget is in use."""
        return self._used > self._limit * factor

    def take(self, size: int) -> bool:
        """Use *size* more bytes. If fewer remain, return False and use none."""
        with self._lock:
            if self._used + size > self._limit:
                return False
            self._used += size
            return True

    def add(self, size: int) -> None:
        """Use *size* more bytes, even beyond the budget."""
        with self._lock:
            self._used += size

    def give_back(self, size: int) -> None:
        """Return *size* bytes to the budget."""
        if size:
            with self._lock:
                self._used -= size


# What the event loop reads before it looks for new connections and requests again.

TURN_SIZE = 256 * KIB
"""Bytes of one turn of the event loop. In the smallest pieces, they take some tens of milliseconds."""

READ_SIZE = 64 * KIB
"""Bytes of one read of a connection."""

LEAST_READ = 512
"""Bytes of one read of each further connection in a turn in which `TURN_SIZE` is used up."""


class Reading:
    """The buffer into which the event loop reads, and the bytes that remain for its turn.

    Thousands of connections can have data at once. The loop reads each of them before it looks for new events, so
    without a limit a new connection would wait until all that they sent is parsed. Not thread-safe.
    """

    def __init__(self, call_soon: Callable[[Callable[[], None]], object]) -> None:
        """*call_soon* calls a function at the beginning of the next turn."""
        self._call_soon = call_soon
        self._buffer = memoryview(bytearray(READ_SIZE))
        self._remaining = TURN_SIZE
        self._is_ending = False  # the next turn begins with all bytes

    def buffer(self) -> memoryview:
        """The buffer for the next read."""
        return self._buffer[: max(LEAST_READ, min(READ_SIZE, self._remaining))]

    def read(self, size: int) -> bytes:
        """The *size* bytes that were read into the buffer."""
        self._remaining -= size
        # A call makes the loop look for events once more, so it is not made for small reads.
        if self._remaining < TURN_SIZE // 2 and not self._is_ending:
            self._is_ending = True
            self._call_soon(self._begin)
        return bytes(self._buffer[:size])

    def _begin(self) -> None:
        self._remaining = TURN_SIZE
        self._is_ending = False
