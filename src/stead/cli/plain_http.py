"""HTTP/1.1 without TLS for commands: a transport of the library over plain sockets.

httpx2 does the same and much more, but its import takes longer than everything else that a short command does. Commands
use it for TLS and proxies only.
"""

from __future__ import annotations

import select
import socket
from contextlib import closing
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import httptools

from stead.client.blocking.transport import CONNECT_SECONDS
from stead.client.calls import NotSent, Reply
from stead.client.errors import Unreachable

if TYPE_CHECKING:
    from stead.client.calls import Address, Call

_PIECE = 256 * 1024


def serves(address: Address) -> bool:
    """Whether this transport can send calls to *address*: no TLS, no password, no host that needs an encoding."""
    return not address.is_encrypted and address.base.isascii() and "@" not in urlsplit(address.base).netloc


class PlainHttp:
    """HTTP/1.1 over kept connections, with or without a Unix socket. Threads may share it."""

    longest_wait = 30

    def __init__(self, address: Address) -> None:
        """Connections are made when they are needed."""
        self.shown = address.shown
        self._address = address
        parts = urlsplit(address.base)
        self._host = parts.netloc
        self._where = (parts.hostname or "", parts.port or 80)
        self._prefix = parts.path
        self._idle: list[socket.socket] = []

    def send(self, call: Call, headers: dict[str, str], timeout: float) -> Reply:
        """The response, within *timeout* seconds of silence.

        Raises:
            NotSent: there was no connection.
            Unreachable: there was no response; the call may have been done.
        """
        content = call.content or b""
        fields = {"host": self._host, "accept-encoding": "gzip", "content-length": str(len(content)), **headers}
        if not content and call.method == "GET":
            del fields["content-length"]
        head = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
        request = f"{call.method} {self._prefix}{call.target} HTTP/1.1\r\n{head}\r\n".encode("latin-1") + content
        connection = self._connection(timeout)
        response = _Response()
        try:
            connection.settimeout(timeout)
            connection.sendall(request)
            while not response.is_complete:
                piece = connection.recv(_PIECE)
                response.feed(piece)
        except TimeoutError as error:
            connection.close()
            raise Unreachable(0, f"{self.shown} did not answer within {timeout:.3g} s") from error
        except (OSError, httptools.HttpParserError) as error:
            connection.close()
            raise Unreachable(0, f"the connection to {self.shown} failed: {_reason(error)}") from error
        except BaseException:
            connection.close()
            raise
        if response.is_kept:
            self._idle.append(connection)
        else:
            connection.close()
        return response.reply()

    def _connection(self, timeout: float) -> socket.socket:
        while self._idle:
            connection = self._idle.pop()
            if not select.select([connection], [], [], 0)[0]:
                return connection
            connection.close()  # the server closed it, so it is readable
        obstacle = self._address.obstacle
        if obstacle is not None:
            raise NotSent(0, f"cannot reach {self.shown}: {obstacle}")
        try:
            return self._connected(min(timeout, CONNECT_SECONDS))
        except (OSError, UnicodeError) as error:
            raise NotSent(0, f"cannot reach {self.shown}: {_reason(error)}") from error

    def _connected(self, timeout: float) -> socket.socket:
        if self._address.socket is None:
            connection = socket.create_connection(self._where, timeout)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return connection
        connection = socket.socket(socket.AF_UNIX)
        try:
            connection.settimeout(timeout)
            connection.connect(str(self._address.socket))
        except BaseException:
            connection.close()
            raise
        return connection

    def close(self) -> None:
        """End all connections."""
        while self._idle:
            with closing(self._idle.pop()):
                pass


class _Response:
    """A response while it is read; interim responses (1xx) are skipped."""

    def __init__(self) -> None:
        self.is_complete = False
        self.is_kept = False
        self._parser = httptools.HttpResponseParser(self)
        self._has_head = False
        self._headers: dict[str, str] = {}
        self._content: list[bytes] = []
        self._status = 0

    def feed(self, piece: bytes) -> None:
        """Read the next *piece* of the connection; an empty one is its end.

        Raises:
            ConnectionError: the connection ended too early.
        """
        if piece:
            self._parser.feed_data(piece)
        elif self._has_head and "content-length" not in self._headers and "transfer-encoding" not in self._headers:
            self.is_complete = True  # such a response ends with its connection
        else:
            raise ConnectionError("server disconnected without sending a response")

    def reply(self) -> Reply:
        """The response, which is complete."""
        content = b"".join(self._content)
        if content and self._headers.get("content-encoding") == "gzip":
            import gzip

            content = gzip.decompress(content)
        return Reply(self._status, self._headers, content)

    # What the parser calls.

    def on_message_begin(self) -> None:
        self._has_head = False
        self._headers, self._content = {}, []

    def on_header(self, name: bytes, value: bytes) -> None:
        key, text = name.decode("latin-1").lower(), value.decode("latin-1").strip()
        self._headers[key] = f"{self._headers[key]}, {text}" if key in self._headers else text

    def on_headers_complete(self) -> None:
        self._status = self._parser.get_status_code()
        self._has_head = self._status >= 200

    def on_body(self, body: bytes) -> None:
        self._content.append(body)

    def on_message_complete(self) -> None:
        if self._has_head:
            self.is_complete = True
            self.is_kept = self._parser.should_keep_alive()


def _reason(error: Exception) -> str:
    """The operating system's words for *error*, without numbers."""
    text = str(error) or type(error).__name__
    return text.partition("] ")[2].lower() or text
