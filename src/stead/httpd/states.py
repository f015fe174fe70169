"""The states of a connection, as metrics show them."""

from __future__ import annotations

import enum


class State(enum.Enum):
    """A state, named after what the connection waits for."""

    OPENING = "opening"
    """The TLS handshake."""
    HEAD = "head"
    """The first request, or the rest of a head."""
    IDLE = "idle"
    """The next request."""
    BODY = "body"
    WORKING = "working"
    """A thread, or the application."""
    SENDING = "sending"
    """The client, to read its answer."""
    STREAMING = "streaming"
    LINGERING = "lingering"
    """The client, to send the rest and close the connection."""
    CLOSED = "closed"
