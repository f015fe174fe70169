"""What is overdue in each state of a connection, just before its limit and just after it."""

from dataclasses import dataclass, replace

import pytest

from wsgi_lanes.bounds import Bounds
from wsgi_lanes.connection import LINGER_SECONDS, LONGEST_LINGER_SECONDS, ConnectionState, Overdue, overdue

BOUNDS = Bounds(
    head_timeout=10,
    idle_timeout=100,
    body_idle_timeout=15,
    body_rate=1000,
    send_idle_timeout=30,
    send_rate=1000,
)


@dataclass(frozen=True)
class ConnectionProgress:
    """A connection that has waited since the time 0."""

    state: ConnectionState
    since: float = 0.0
    received_at: float = 0.0
    read_at: float = 0.0
    body_size: int = 0
    answer_size: int = 0
    has_unread: bool = False


def is_overdue(waiting: ConnectionProgress, after: float, what: Overdue) -> None:
    """*what* becomes overdue after the time *after*, and nothing before it."""
    assert overdue(waiting, after, BOUNDS) is None
    assert overdue(waiting, after + 0.1, BOUNDS) is what


@pytest.mark.parametrize("state", [ConnectionState.OPENING, ConnectionState.HEAD])
def test_a_head_and_a_handshake_have_a_whole_time(state: ConnectionState) -> None:
    is_overdue(ConnectionProgress(state), 10, Overdue.HEAD)
    is_overdue(ConnectionProgress(state, received_at=9), 10, Overdue.HEAD)  # however many bytes arrive meanwhile


def test_a_body_may_pause_for_a_time_and_has_a_slowest_rate() -> None:
    arriving = ConnectionProgress(ConnectionState.BODY, body_size=5000)
    is_overdue(arriving, 15, Overdue.BODY)
    is_overdue(replace(arriving, received_at=4), 15 + 4, Overdue.BODY)
    is_overdue(replace(arriving, received_at=18), 15 + 5, Overdue.BODY)  # 5,000 bytes at 1,000 bytes a second


def test_an_answer_may_be_unread_for_a_time_and_has_a_slowest_rate() -> None:
    sent = ConnectionProgress(ConnectionState.SENDING, answer_size=5000)
    is_overdue(sent, 30, Overdue.READING)
    is_overdue(replace(sent, read_at=4), 30 + 4, Overdue.READING)
    is_overdue(replace(sent, read_at=33), 30 + 5, Overdue.READING)


def test_a_stream_may_last_while_its_client_reads() -> None:
    assert overdue(ConnectionProgress(ConnectionState.STREAMING), 1e6, BOUNDS) is None
    is_overdue(ConnectionProgress(ConnectionState.STREAMING, read_at=1e6, has_unread=True), 1e6 + 30, Overdue.READING)


def test_between_requests_a_client_has_time_unless_it_has_not_read_its_last_answer() -> None:
    is_overdue(ConnectionProgress(ConnectionState.IDLE), 100, Overdue.NEXT_REQUEST)
    is_overdue(ConnectionProgress(ConnectionState.IDLE, has_unread=True), 30, Overdue.READING)
    is_overdue(ConnectionProgress(ConnectionState.IDLE, has_unread=True, read_at=200), 230, Overdue.READING)


def test_what_a_client_still_sends_is_read_until_it_pauses_but_not_for_ever() -> None:
    is_overdue(ConnectionProgress(ConnectionState.LINGERING), LINGER_SECONDS, Overdue.CLOSING)
    is_overdue(ConnectionProgress(ConnectionState.LINGERING, received_at=4), LINGER_SECONDS + 4, Overdue.CLOSING)
    is_overdue(ConnectionProgress(ConnectionState.LINGERING, received_at=29), LONGEST_LINGER_SECONDS, Overdue.CLOSING)
    is_overdue(ConnectionProgress(ConnectionState.LINGERING, has_unread=True), 30, Overdue.READING)


@pytest.mark.parametrize("state", [ConnectionState.WORKING, ConnectionState.CLOSED])
def test_a_running_request_has_no_deadline_here(state: ConnectionState) -> None:
    assert overdue(ConnectionProgress(state, has_unread=True), 1e6, BOUNDS) is None
