"""A request as the event loop has read it, complete and checked."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from stead.httpd.refusals import Refusal
    from stead.httpd.wsgi import Answer

FREE_BODY = 16 * 1024
"""Bytes of each body that do not count as bodies in flight: a small request is accepted whatever others send."""


class Lane(enum.IntEnum):
    """Which requests go before which others."""

    LIVE = 0
    """Answered by the event loop itself."""
    HEALTH = 1
    """Answered by a thread of its own."""
    CLAIM = 2
    """Writes: claims must not wait for reads."""
    READ = 3
    BULK = 4
    """Reads with possibly large answers; few of them run at the same time."""


class Routes(Protocol):
    """What the server is told about the application's requests."""

    def lane(self, method: str, path: str, query: str) -> Lane:
        """The lane of a request; *path* is decoded, *query* is not."""

    def longest_body(self, method: str, path: str) -> int:
        """Bytes of a body that the application reads; a longer one is not read from the connection."""


class Answering(Protocol):
    """Where the answer to a request goes: its connection."""

    def deliver(self, answer: Answer) -> None:
        """Send the application's answer. Called in any thread."""

    def refuse(self, refusal: Refusal) -> None:
        """Answer in place of the application. Called in the loop."""


@dataclass(frozen=True, slots=True)
class Peers:
    """The two ends of a connection, as WSGI names them; ``environ`` has them all."""

    remote_address: str
    is_encrypted: bool
    environ: dict[str, str]


@dataclass(slots=True, eq=False)
class Request:
    """One request.

    Attributes:
        path: decoded from percents to Latin-1, as WSGI has it.
        fields: the header fields, under their keys of the environ.
        body: whole; empty if ``declared`` is more than the application reads.
        declared: bytes of the body as declared or, of a body in chunks, as received.
        keeps_connection: the connection may be used again after it.
    """

    method: str
    path: str
    query: str
    fields: dict[str, str]
    is_1_0: bool
    body: bytes
    declared: int
    keeps_connection: bool
    peers: Peers
    answering: Answering
    arrived: float
    """When it was complete, on the loop's clock."""
    lane: Lane = Lane.READ
    client: str = ""
    """Whose turns it uses; set by the queue."""

    @property
    def token(self) -> str | None:
        """The credential that the client shows."""
        return self.fields.get("HTTP_X_AUTH_TOKEN")

    @property
    def counted(self) -> int:
        """Bytes of its body that count as a body in flight."""
        size = len(self.body)
        return size - FREE_BODY if size > FREE_BODY else 0
