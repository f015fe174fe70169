"""Which connections are closed when there are too many."""

import socket
import threading
from contextlib import ExitStack

import pytest

from wsgi_lanes import server as httpd
from wsgi_lanes.bounds import Bounds
from wsgi_lanes.requests import Lane
from wsgi_lanes.server import Server

MOST = 200
REQUEST = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"


class Routes:
    def lane(self, request):
        return Lane.LIVE

    def longest_body(self, method, path):
        return 0


@pytest.fixture
def listening():
    with socket.create_server(("127.0.0.1", 0), backlog=MOST) as listening:
        yield listening


@pytest.fixture
def place(listening, served):
    """Where a server with few connections listens."""
    return listening.getsockname()


@pytest.fixture
def served(listening):
    served = Server(None, Routes(), Bounds(connections=MOST, stop=0.1), threads=1)
    thread = threading.Thread(target=served.run, args=([listening],))
    thread.start()
    yield served
    served.loop.call_soon_threadsafe(served.drain, 0.0)
    thread.join()


def connect(stack, place):
    return stack.enter_context(socket.create_connection(place, timeout=30))


def is_answered(connection):
    try:
        connection.sendall(REQUEST)
        return b"200 OK" in connection.recv(65536)
    except OSError:
        return False


def test_a_client_that_has_just_connected_is_not_closed_before_those_that_are_idle(place, monkeypatch):
    monkeypatch.setattr(httpd, "FRESH_SECONDS", 60.0)  # however slow this machine is
    with ExitStack() as stack:
        idle = [connect(stack, place) for _ in range(MOST - httpd.ACCEPTED_AT_A_TIME - 10)]
        assert all(map(is_answered, idle))
        fresh = connect(stack, place)
        for _ in range(20):  # more than there is room for
            assert is_answered(connect(stack, place))
        assert is_answered(fresh)
        assert not all(map(is_answered, idle))


def test_a_client_that_never_asked_is_closed_before_those_that_are_idle(place, monkeypatch):
    monkeypatch.setattr(httpd, "FRESH_SECONDS", 0.0)
    with ExitStack() as stack:
        idle = [connect(stack, place) for _ in range(MOST - 2 * httpd.ACCEPTED_AT_A_TIME - 10)]
        assert all(map(is_answered, idle))
        silent = [connect(stack, place) for _ in range(httpd.ACCEPTED_AT_A_TIME)]
        for _ in range(20):
            assert is_answered(connect(stack, place))
        assert all(map(is_answered, idle))
        assert not any(map(is_answered, silent))


def test_a_kept_connection_is_ended_with_all_of_its_answer(place):
    with ExitStack() as stack:
        idle = [connect(stack, place) for _ in range(MOST - httpd.ACCEPTED_AT_A_TIME)]
        for connection in idle:
            connection.sendall(REQUEST)
            connection.recv(1, socket.MSG_PEEK)
        for _ in range(20):
            assert is_answered(connect(stack, place))
        answers = [answers_with_one_more(connection) for connection in idle]
        assert set(answers) == {1, 2}  # some were ended after their first answer


def answers_with_one_more(connection):
    """How many answers come until the end of the connection, or until the second one. A reset is an error."""
    connection.sendall(REQUEST)
    content = b""
    while content.count(b'"ok"') < 2 and (part := connection.recv(65536)):
        content += part
    connection.sendall(REQUEST)  # fails after a reset
    return content.count(b'"ok"')


def test_a_connection_whose_next_request_has_arrived_is_not_ended(served, place):
    with ExitStack() as stack:
        idle = [connect(stack, place) for _ in range(10)]
        assert all(map(is_answered, idle))
        arrived = threading.Event()

        def make_room():
            arrived.wait()
            served._make_room()  # as if other clients connected now, before the loop reads the requests

        served.loop.call_soon_threadsafe(make_room)
        for connection in idle[:5]:
            connection.sendall(REQUEST)
        arrived.set()
        assert all(b"200 OK" in connection.recv(65536) for connection in idle[:5])
        assert all(connection.recv(65536) == b"" for connection in idle[5:])
