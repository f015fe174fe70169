"""When a connection has waited too long for its client, and what follows."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Protocol

from stead.httpd.states import State

if TYPE_CHECKING:
    from stead.httpd.bounds import Bounds

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


class Waiting(Protocol):
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
    def state(self) -> State: ...
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


def overdue(waiting: Waiting, now: float, bounds: Bounds) -> Overdue | None:
    """What is overdue at the time *now*, or None. A running request has no deadline here."""
    in_state = now - waiting.since
    match waiting.state:
        case State.OPENING | State.HEAD if in_state > bounds.head_timeout:
            return Overdue.HEAD
        case State.BODY if (
            now - waiting.received_at > bounds.body_idle_timeout
            or in_state > bounds.body_idle_timeout + waiting.body_size / bounds.body_rate
        ):
            return Overdue.BODY
        case State.SENDING:
            slowest = bounds.send_idle_timeout + waiting.answer_size / bounds.send_rate
            return Overdue.READING if in_state > slowest or _is_unread(waiting, now, bounds) else None
        case State.STREAMING | State.IDLE | State.LINGERING if waiting.has_unread:
            return Overdue.READING if _is_unread(waiting, now, bounds) else None
        case State.IDLE if in_state > bounds.idle_timeout:
            return Overdue.NEXT_REQUEST
        case State.LINGERING:
            silent = now - max(waiting.since, waiting.received_at)
            return Overdue.CLOSING if silent > LINGER_SECONDS or in_state > LONGEST_LINGER_SECONDS else None
    return None


def _is_unread(waiting: Waiting, now: float, bounds: Bounds) -> bool:
    return now - max(waiting.read_at, waiting.since) > bounds.send_idle_timeout
