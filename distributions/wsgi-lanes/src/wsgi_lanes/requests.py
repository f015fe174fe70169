"""A complete request, read and checked by the event loop."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from wsgi_lanes.answers import Answer, Refusal

FREE_SIZE = 16 * 1024
"""Bytes that each request allocates without being counted: small requests are accepted at any load."""


class Lane(enum.IntEnum):
    """The classes of requests, in the order of their priority."""

    LIVE = 0
    """Answered by the event loop itself."""
    INSTANT = 1
    """Answered by the application in the event loop. It computes for microseconds and never waits."""
    HEALTH = 2
    """Answered by a thread of its own."""
    SIGN_IN = 3
    """Waits for another service to check a password; answered by threads of its own."""
    CLAIM = 4
    """Writes: claims must not wait for reads."""
    READ = 5
    BULK = 6
    """Requests that may compute for long, or have large answers; few of them run at the same time."""
    ABANDONED = 7
    """Requests whose clients have ended their half of the connection while they waited. Most clients are gone."""


class Routes(Protocol):
    """Classifies the application's requests for the server."""

    def lane(self, request: Request) -> Lane:
        """The lane of a request. Called in the event loop, so it takes microseconds."""

    def credential(self, request: Request) -> str | None:
        """The credential that identifies the client, verified or not; None if the request has none."""

    def longest_body(self, method: str, path: str) -> int:
        """Maximum size in bytes of a body that the application reads. The server does not read longer ones."""


class AnswerReceiver(Protocol):
    """Receives the answer to a request: its connection."""

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
        fields: the header fields, under their environ keys.
        body: the complete body; empty if ``declared`` is more than the application reads.
        declared: bytes of the body as declared or, for a chunked body, as received.
        keeps_connection: the connection may be used again after this request.
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
    receiver: AnswerReceiver
    arrived: float
    """When the request was complete, on the loop's clock."""
    lane: Lane = Lane.READ
    credential: str | None = None
    """The credential of the client, which the application may accept or refuse."""
    client: str = ""
    """The client to which the queue attributes the request; set by the queue."""
    is_verified: bool = False
    """Whether ``client`` is a credential that the application has accepted, in this request or before."""
    is_accepted: bool = False
    """Whether the application has accepted the credential in this request."""
    counted: int = 0
    """Bytes that it allocates and that are taken from the budget of all requests. Released with the answer."""
