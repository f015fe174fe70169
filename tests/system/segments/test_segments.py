"""Requests with bodies in segments, on kept connections: no connection closes unannounced, whatever is refused.

Source: RFC 9112, section 9. `make segments` cuts each of them at every boundary.
"""

from __future__ import annotations

import socket
import threading
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from lanes_testing.segments import connect, send_cut
from scripts.docs import the_routes
from stead.api.request import Router
from tests.servers.certificates import Certificate, certified_for_localhost
from tests.system.segments.cases import cases
from tests.system.segments.runs import DOORS, WORKERS, boundaries, opened, send_all

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [
    pytest.mark.one_database,
    pytest.mark.timeout(180),  # a server with up to two workers, and a thousand requests
]

KINDS = {
    "a success", "a malformed version", "an unknown version", "an old version", "no such route", "an unknown path",
    "another method", "no token", "not allowed", "another media type wanted", "another media type sent", "a long body",
    "a health check",
}  # fmt: skip


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    return certified_for_localhost(tmp_path_factory.mktemp("tls"))


SERVERS = [(kind, workers) for kind in DOORS for workers in WORKERS]


@pytest.mark.parametrize("number", range(len(SERVERS)), ids=lambda number: "{}-{}".format(*SERVERS[number]))
def test_no_connection_closes_unannounced(number: int, tmp_path: Path, certificate: Certificate) -> None:
    kind, workers = SERVERS[number]
    with opened(kind, workers, tmp_path, certificate) as door:
        client = send_all(door, number, complete=False)
    assert set(client.cut) == KINDS
    assert client.connections_made <= client.announced_ends + workers


def test_every_method_of_every_route_is_sent() -> None:
    router = Router()
    for path, resource in the_routes().items():
        router.add_route(path, resource)
    count = Counter(case.kind for case in cases())
    handlers = sum(len(methods) for methods in router.routes.values())
    assert {count[kind] for kind in ("a success", "a malformed version", "a long body")} == {handlers}
    assert set(count) == KINDS


def test_the_servers_together_cut_a_request_of_each_kind_at_every_boundary() -> None:
    for kind in KINDS:
        first = boundaries(next(case for case in cases() if case.kind == kind))
        assert sorted(cut for number in range(len(SERVERS)) for cut in first[number :: len(SERVERS)]) == first


@pytest.mark.parametrize("family", ["tcp", "unix"])
def test_the_other_end_receives_each_segment_by_itself(family: str, tmp_path: Path) -> None:
    """Else the requests would not be cut at all."""
    request, cuts = b"abcdefghij", [1, 4, 5, 9]
    if family == "tcp":
        listening = socket.create_server(("127.0.0.1", 0))
        place: tuple[str, int] | str = listening.getsockname()
    else:
        listening = socket.socket(socket.AF_UNIX)
        place = str(tmp_path / "s")
        listening.bind(place)
        listening.listen()
    received: list[bytes] = []

    def receive() -> None:
        accepted, _ = listening.accept()
        with accepted:
            while part := accepted.recv(100):
                received.append(part)

    with listening:
        thread = threading.Thread(target=receive, daemon=True)
        thread.start()
        with connect(place) as connection:
            send_cut(connection, request, cuts)
        thread.join(30)
    assert received == [b"a", b"bcd", b"e", b"fghi", b"j"]
