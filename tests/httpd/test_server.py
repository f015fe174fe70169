"""A server in this process, with an application of the test: its own connections, and what it makes of odd answers."""

import json
import socket
import threading
from contextlib import contextmanager, suppress

import pytest

from stead.httpd.bounds import Bounds
from stead.httpd.requests import Lane
from stead.httpd.server import Server
from tests.waiting import wait_until

pytestmark = [pytest.mark.one_database, pytest.mark.timeout(60)]

PATIENCE_SECONDS = 20
GET = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"
STATES = ("opening", "head", "idle", "body", "working", "sending", "streaming", "lingering")


class Routes:
    def lane(self, method, path, query):
        return Lane.READ

    def longest_body(self, method, path):
        return 1000


def hello(_environ, start_response):
    start_response("200 OK", [("content-type", "text/plain")])
    return [b"hello"]


@contextmanager
def serving(application=hello, **bounds):
    """A server, and the address of its listening socket; a connection of its own is `server.door`."""
    server = Server(application, Routes(), Bounds(**bounds), threads=2)
    server.door, door = socket.socketpair()
    server.door.settimeout(PATIENCE_SECONDS)
    listening = socket.create_server(("127.0.0.1", 0))
    address = listening.getsockname()
    thread = threading.Thread(target=server.run, args=([listening],), kwargs={"own": [door]}, daemon=True)
    thread.start()
    try:
        yield server, address
    finally:
        with suppress(RuntimeError):  # it has ended already
            server.loop.call_soon_threadsafe(server.drain, 0)
        thread.join(PATIENCE_SECONDS)
        server.door.close()
        assert not thread.is_alive()


def received(connection, end):
    """What comes until *end*, and no more."""
    content = b""
    while not content.endswith(end):
        part = connection.recv(65536)
        assert part, f"the connection ended after {content!r}"
        content += part
    return content


def test_a_connection_of_its_own_is_not_counted_as_one_of_a_client():
    with serving() as (server, address):
        server.door.sendall(GET)
        received(server.door, b"hello")
        with socket.create_connection(address):
            wait_until(lambda: server.states() == {state: int(state == "head") for state in STATES})
        wait_until(lambda: not any(server.states().values()))


def test_a_request_on_a_connection_of_its_own_has_a_deadline():
    with serving(head_timeout=0.1) as (server, _):
        server.door.sendall(GET[:-2])
        assert received(server.door, b"]}").startswith(b"HTTP/1.1 408 ")


def test_a_connection_of_its_own_may_be_idle_for_any_time():
    with serving(head_timeout=0.0, idle_timeout=0.0) as (server, address):
        server.door.sendall(GET)
        received(server.door, b"hello")
        with socket.create_connection(address, timeout=PATIENCE_SECONDS) as other:
            assert other.recv(1) == b""  # the deadlines of all were looked at
        server.door.sendall(GET)
        received(server.door, b"hello")


def test_the_end_does_not_wait_for_a_connection_of_its_own():
    with serving() as (server, _):
        server.door.sendall(GET)
        received(server.door, b"hello")
        server.loop.call_soon_threadsafe(server.drain, 3600)
        wait_until(server.loop.is_closed)


def test_an_application_that_fails_answers_500_and_that_is_no_refusal():
    def failing(_environ, _start_response):
        raise RuntimeError("a fault")

    with serving(failing) as (server, address), socket.create_connection(address, timeout=PATIENCE_SECONDS) as client:
        refused = []
        server.refusals.tell(refused.append)
        client.sendall(GET)
        head, _, body = received(client, b"]}").partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 500 Internal Server Error\r\n")
    (error,) = json.loads(body)["errors"]
    assert (error["status"], error["title"]) == (500, "Internal Server Error")
    assert error["request_id"] in head.decode()
    assert refused == []


def test_a_body_of_an_answer_without_body_does_not_become_the_next_answer():
    def none(_environ, start_response):
        start_response("204 No Content", [("content-length", "4")])
        return [b"body"]

    with serving(none) as (_, address), socket.create_connection(address, timeout=PATIENCE_SECONDS) as client:
        for _ in range(2):
            client.sendall(GET)
            answer = received(client, b"\r\n\r\n")
            assert answer.startswith(b"HTTP/1.1 204 No Content\r\n")
            assert b"content-length" not in answer
