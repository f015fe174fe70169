"""The gauges of the HTTP server, of a real one whose only thread is held and whose client does not read."""

from __future__ import annotations

import socket
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from stead.observation import server_gauges
from stead.observe.metrics import HTTP_CONNECTIONS
from tests.waiting import PATIENCE_SECONDS, wait_until
from wsgi_lanes.bounds import MIB, Bounds
from wsgi_lanes.requests import Lane
from wsgi_lanes.server import Server

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from wsgiref.types import StartResponse, WSGIEnvironment

    from wsgi_lanes.requests import Request

pytestmark = pytest.mark.one_database

LARGE = 50 * MIB


class Routes:
    """Every request is an ordinary read."""

    def lane(self, _request: Request) -> Lane:
        """One lane."""
        return Lane.READ

    def credential(self, _request: Request) -> str | None:
        """All clients are unknown."""
        return None

    def longest_body(self, _method: str, _path: str) -> int:
        """No bodies."""
        return 0


class Application:
    """Answers `/held` when it may, and `/large` with more than any socket takes."""

    def __init__(self) -> None:
        self.may_answer = threading.Event()

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        if environ["PATH_INFO"] == "/held":
            self.may_answer.wait(PATIENCE_SECONDS)
        start_response("200 OK", [])
        return [b"x" * (LARGE if environ["PATH_INFO"] == "/large" else 1)]


@contextmanager
def serving(application: Application) -> Iterator[tuple[Server, tuple[str, int]]]:
    """A server with one thread, and its address; it has drained when the block has ended."""
    server = Server(application, Routes(), Bounds(), threads=1)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        loop = threading.Thread(target=server.run, args=([listening],))
        loop.start()
        try:
            yield server, listening.getsockname()
        finally:
            application.may_answer.set()
            server.loop.call_soon_threadsafe(server.drain, 0.0)
            loop.join(PATIENCE_SECONDS)
            assert not loop.is_alive()


def measured(server: Server) -> dict[str, float]:
    """The gauges by name; those of connections by state, and those of the queue of the only lane."""
    return {
        labels[0] if metric is HTTP_CONNECTIONS else metric.name: value
        for metric, labels, value in server_gauges(server)
        if labels in ((), ("read",)) or metric is HTTP_CONNECTIONS
    }


def until(server: Server, condition: Callable[[dict[str, float]], bool]) -> dict[str, float]:
    """The first gauges for which *condition* holds."""

    def gauges() -> dict[str, float] | None:
        matching = measured(server)
        return matching if condition(matching) else None

    matching = wait_until(gauges, lambda: str(measured(server)))
    assert matching is not None
    return matching


def asking(address: tuple[str, int], path: str) -> socket.socket:
    """A client that has sent a request."""
    client = socket.create_connection(address, timeout=PATIENCE_SECONDS)
    client.sendall(f"GET {path} HTTP/1.1\r\nhost: stead\r\n\r\n".encode())
    return client


def test_requests_that_wait_for_a_thread_are_a_queue_that_grows_old() -> None:
    application = Application()
    with serving(application) as (server, address), asking(address, "/held"):
        until(server, lambda gauges: gauges["working"] == 1 and gauges["stead_http_queue_length"] == 0)
        with asking(address, "/held") as first, asking(address, "/") as second:
            gauges = until(server, lambda gauges: gauges["stead_http_queue_length"] == 2)
            assert gauges["working"] == 3
            age = gauges["stead_http_queue_age_seconds"]
            until(server, lambda gauges: gauges["stead_http_queue_age_seconds"] > max(age, 0.1))
            application.may_answer.set()
            assert first.recv(1000).startswith(b"HTTP/1.1 200")
            assert second.recv(1000).startswith(b"HTTP/1.1 200")
            gauges = until(server, lambda gauges: gauges["idle"] == 3)
            assert gauges["stead_http_queue_length"] == gauges["stead_http_queue_age_seconds"] == 0


def test_answers_that_are_not_read_are_bytes_until_their_reader_goes() -> None:
    with serving(Application()) as (server, address):
        with asking(address, "/large"):
            gauges = until(server, lambda gauges: gauges["sending"] == 1 and gauges["stead_http_unsent_bytes"] > 0)
            assert gauges["stead_http_unsent_bytes"] <= LARGE
        # A connection that ends is first closed and then gives its bytes back, so wait for both.
        until(server, lambda gauges: not gauges["sending"] and gauges["stead_http_unsent_bytes"] == 0)
