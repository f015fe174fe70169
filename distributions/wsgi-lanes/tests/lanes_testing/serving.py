"""A server in this process with an application of the test, and what a client receives from it."""

import socket
import threading
from contextlib import contextmanager, suppress

from wsgi_lanes.bounds import Bounds
from wsgi_lanes.requests import Lane
from wsgi_lanes.server import Server

PATIENCE_SECONDS = 20
GET = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"


class Routes:
    def lane(self, request):
        return Lane.READ

    def credential(self, request):
        return request.fields.get("HTTP_X_AUTH_TOKEN")

    def longest_body(self, method, path):
        return 1000


def hello(_environ, start_response):
    start_response("200 OK", [("content-type", "text/plain")])
    return [b"hello"]


@contextmanager
def serving(application=hello, context=None, routes=None, **bounds):
    """A server, and the address of its listening socket; the connection of its supervisor is `server.supervisor`."""
    server = Server(application, routes or Routes(), Bounds(**bounds), threads=2)
    server.supervisor, connection = socket.socketpair()
    server.supervisor.settimeout(PATIENCE_SECONDS)
    listening = socket.create_server(("127.0.0.1", 0))
    address = listening.getsockname()
    options = {"supervising": [connection], "context": context}
    thread = threading.Thread(target=server.run, args=([listening],), kwargs=options, daemon=True)
    thread.start()
    try:
        yield server, address
    finally:
        with suppress(RuntimeError):  # it has ended already
            server.loop.call_soon_threadsafe(server.drain, 0)
        thread.join(PATIENCE_SECONDS)
        server.supervisor.close()
        assert not thread.is_alive()


def received(connection, end, *, size=0, at_a_time=65536):
    """What comes until *end*, or until there are *size* bytes."""
    content = bytearray()
    while len(content) < size or not content.endswith(end):
        part = connection.recv(min(at_a_time, size - len(content)) if size else at_a_time)
        assert part, f"the connection ended after {bytes(content[:1000])!r}"
        content += part
    return bytes(content)
