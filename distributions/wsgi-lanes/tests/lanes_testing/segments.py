"""How a client sends a request in segments, each after the server has read the one before, and reads the answer."""

from __future__ import annotations

import errno
import fcntl
import os
import socket
import struct
import termios
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lanes_testing.waiting import PATIENCE_SECONDS, TimedOut

if TYPE_CHECKING:
    import ssl
    from collections.abc import Iterable


@dataclass(frozen=True)
class Answer:
    """Status, header fields by their names in small letters, and body."""

    status: int
    fields: dict[str, str]
    body: bytes

    @property
    def closes(self) -> bool:
        return self.fields.get("connection", "").lower() == "close"


def is_unread(connection: socket.socket) -> bool:
    """Whether the server has not yet read all that was sent on *connection*.

    Source: sock_diag(7) for the queue of the TCP socket at the other end; unix(7) for SIOCOUTQ, which counts for a Unix
    socket what the other end has not read. The tables in /proc say it too, but take milliseconds to read.
    """
    if connection.family == socket.AF_UNIX:
        (unread,) = struct.unpack("i", fcntl.ioctl(connection, termios.TIOCOUTQ, b"\0" * 4))
        return bool(unread)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_SOCK_DIAG) as kernel:
        kernel.send(_question(connection.getpeername(), connection.getsockname()))
        answer = kernel.recv(8192)
    (kind,) = struct.unpack_from("=4xH", answer)
    if kind == NLMSG_ERROR:
        (error,) = struct.unpack_from("=16xi", answer)
        if -error == errno.ENOENT:
            return False  # the server has closed it
        raise OSError(-error, "the kernel does not tell what the server has read")
    (queue,) = struct.unpack_from("=16x4x48x4xI", answer)
    return bool(queue)


NETLINK_SOCK_DIAG = 4
SOCK_DIAG_BY_FAMILY = 20
NLM_F_REQUEST, NLMSG_ERROR = 1, 2


def _question(server: tuple[str, int], client: tuple[str, int]) -> bytes:
    """A message that asks for the socket of the server: `struct nlmsghdr`, then `struct inet_diag_req_v2`."""
    ends = struct.pack("!HH4s12x4s12x", server[1], client[1], socket.inet_aton(server[0]), socket.inet_aton(client[0]))
    any_interface_and_cookie = struct.pack("=III", 0, 0xFFFFFFFF, 0xFFFFFFFF)
    all_states = 0xFFFFFFFF
    asked = struct.pack("=BBBxI", socket.AF_INET, socket.IPPROTO_TCP, 0, all_states) + ends + any_interface_and_cookie
    return struct.pack("=IHHII", 16 + len(asked), SOCK_DIAG_BY_FAMILY, NLM_F_REQUEST, 0, 0) + asked


def wait_until_read(connection: socket.socket) -> None:
    """Wait without a pause between two looks: the server takes some ten microseconds, and tests wait often."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while is_unread(connection):
        if time.monotonic() > deadline:
            raise TimedOut("the server does not read what was sent")
        os.sched_yield()


def send_cut(connection: socket.socket, request: bytes, cuts: Iterable[int]) -> None:
    """Send *request* in segments that end at *cuts*; the server reads each of them by itself."""
    begin = 0
    for end in [*sorted(set(cuts)), len(request)]:
        if begin:
            wait_until_read(connection)
        connection.sendall(request[begin:end])
        begin = end


def read_answer(connection: socket.socket) -> Answer:
    """The next answer, which has a declared length or no body; the server sends no other before the next request."""
    received = b""
    while b"\r\n\r\n" not in received:
        part = connection.recv(65536)
        assert part, f"the connection was closed after {received!r}"
        received += part
    head, _, body = received.partition(b"\r\n\r\n")
    status_line, *lines = head.decode("latin-1").split("\r\n")
    fields = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
    status = int(status_line.split(" ")[1])
    length = int(fields.get("content-length", 0)) if status not in (204, 304) else 0
    while len(body) < length:
        part = connection.recv(65536)
        assert part, "the connection was closed within an answer"
        body += part
    assert len(body) == length, f"{body[length:]!r} after an answer"
    return Answer(status, fields, body)


def read_orderly_end(connection: socket.socket) -> None:
    """The server ends the connection by itself, and not by a reset: that could destroy the answer before it."""
    rest = connection.recv(65536)
    assert rest == b"", f"{rest!r} after the last answer"


def connect(place: tuple[str, int] | str, context: ssl.SSLContext | None = None) -> socket.socket:
    """A connection to a host and port, or to the path of a Unix socket. Each `sendall` makes a segment at once."""
    if isinstance(place, str):
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(place)
    else:
        connection = socket.create_connection(place)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if context is not None:
        # An end without the alert of TLS is an error then, as it is a truncation.
        connection = context.wrap_socket(connection, server_hostname="localhost", suppress_ragged_eofs=False)
    connection.settimeout(30)
    return connection
