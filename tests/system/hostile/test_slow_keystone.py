"""Clients that wait for a Keystone that does not answer, and a client with a known token beside them."""

from __future__ import annotations

import json
import socket
import threading
from collections import Counter
from contextlib import ExitStack, contextmanager, suppress
from http.client import HTTPConnection
from http.server import ThreadingHTTPServer
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode, urlsplit

import pytest

from tests.rooms.auth.test_keystone import VALID, FakeKeystone, login, running
from tests.servers.stead import started
from tests.system.api.client import NEWEST
from tests.waiting import PATIENCE_SECONDS, wait_until
from wsgi_lanes.server import SIGN_IN_QUEUE, SIGN_IN_THREADS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.one_database, pytest.mark.timeout(180)]  # a start of the server

CLIENTS = 40
TOO_LATE_SECONDS = 25.0
"""For one answer. Without the rules it comes when Keystone answers, which is never within the test."""


class SlowKeystone(FakeKeystone):
    """Answers at once for the service itself and for the known token, and for all others when it may."""

    server: Any

    def do_POST(self) -> None:
        length = int(self.headers["Content-Length"])
        content = json.loads(self.rfile.read(length))
        user = content["auth"]["identity"]["password"]["user"]
        if user.get("name") == "placement":
            self._send(201, self._token("placement", ["service"]), token="service-token")
            return
        self._wait()
        self._send(401, {"error": {"code": 401, "message": "no", "title": "Unauthorized"}})

    def _validate(self) -> None:
        if self.headers["X-Subject-Token"] != VALID:
            self._wait()
        super()._validate()

    def _wait(self) -> None:
        with self.server.lock:
            self.server.waiting += 1
            self.server.most = max(self.server.most, self.server.waiting)
        self.server.may_answer.wait(PATIENCE_SECONDS)
        with self.server.lock:
            self.server.waiting -= 1


class Site:
    """A server with one worker, and its Keystone."""

    def __init__(self, url: str, keystone: Any) -> None:
        place = urlsplit(url)
        assert place.hostname is not None
        assert place.port is not None
        self.address = place.hostname, place.port
        self.keystone = keystone

    def ask(self, method: str, path: str, body: object = None) -> int:
        """The status of an answer to the client with the known token, on a new connection."""
        connection = HTTPConnection(*self.address, timeout=TOO_LATE_SECONDS)
        try:
            headers = {"X-Auth-Token": VALID, "OpenStack-API-Version": f"placement {NEWEST}"}
            content = json.dumps(body) if body is not None else None
            connection.request(method, path, content, {**headers, "Content-Type": "application/json"})
            return connection.getresponse().status
        finally:
            connection.close()

    def begin(self, head: str, body: str = "") -> socket.socket:
        connection = socket.create_connection(self.address, timeout=TOO_LATE_SECONDS)
        connection.sendall(f"{head}\r\nHost: 127.0.0.1\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode())
        return connection


@contextmanager
def identity() -> Iterator[Any]:
    with ThreadingHTTPServer(("127.0.0.1", 0), SlowKeystone) as server, running(server):
        held: Any = server
        held.asked, held.lock, held.may_answer = [], threading.Lock(), threading.Event()
        held.waiting = held.most = 0
        try:
            yield held
        finally:
            held.may_answer.set()


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    pytest.importorskip("keystonemiddleware.auth_token", reason="needs the extra keystone")
    with identity() as keystone:
        file = tmp_path / "placement.conf"
        lines = "\n".join(login(keystone))
        file.write_text(
            f"[placement_database]\nconnection = sqlite:///{tmp_path}/placement.db\nsync_on_startup = true\n"
            f"[keystone_authtoken]\n{lines}\nhttp_connect_timeout = 100\n"
        )
        with started(file, workers=1, options=["--threads", "8"]) as server:
            site = Site(server.url, keystone)
            assert site.ask("GET", "/traits") == 200
            yield site
            keystone.may_answer.set()


def known_client(site: Site) -> list[int]:
    return [
        site.ask("PUT", "/traits/CUSTOM_A"),
        site.ask("GET", "/allocation_candidates?resources=VCPU:1&limit=1"),
        site.ask("GET", "/traits"),
        site.ask("DELETE", "/traits/CUSTOM_A"),
    ]


def answered(connections: list[socket.socket]) -> list[bytes]:
    """The first bytes of the answers so far."""
    answers = []
    for connection in connections:
        connection.setblocking(False)
        with suppress(BlockingIOError):
            answers.append(connection.recv(15, socket.MSG_PEEK))
    return answers


def test_sign_ins_that_wait_for_keystone_hold_no_thread_of_the_api(site: Site) -> None:
    with ExitStack() as stack:
        form = urlencode({"user": "alice", "password": "wrong", "domain": "Default"})
        head = "POST /ui/sign-in HTTP/1.1\r\nContent-Type: application/x-www-form-urlencoded"
        connections = [stack.enter_context(site.begin(head, form)) for _ in range(CLIENTS)]
        wait_until(lambda: site.keystone.waiting == SIGN_IN_THREADS)
        # More, if requests arrived before the threads had taken the first ones.
        refused = CLIENTS - SIGN_IN_THREADS - SIGN_IN_QUEUE
        wait_until(lambda: len(answered(connections)) >= refused, lambda: str(answered(connections)))
        assert set(answered(connections)) == {b"HTTP/1.1 503 Se"}
        assert known_client(site) == [201, 200, 200, 204]
        site.keystone.may_answer.set()
        wait_until(lambda: len(answered(connections)) == CLIENTS)
        # Five wrong passwords for a name are typing errors; the eight that ran at once are more. The others wait.
        statuses = Counter(answered(connections))
        assert statuses[b"HTTP/1.1 401 Un"] == SIGN_IN_THREADS == site.keystone.most
        assert statuses[b"HTTP/1.1 429 To"] > 0
        assert set(statuses) == {b"HTTP/1.1 401 Un", b"HTTP/1.1 429 To", b"HTTP/1.1 503 Se"}


def test_tokens_that_keystone_must_validate_hold_no_thread_of_known_ones(site: Site) -> None:
    with ExitStack() as stack:
        for number in range(CLIENTS):
            stack.enter_context(site.begin(f"GET /traits HTTP/1.1\r\nX-Auth-Token: unknown-{number}"))
        wait_until(lambda: site.keystone.waiting >= 4)
        assert known_client(site) == [201, 200, 200, 204]
        assert site.keystone.most == 4  # half of the threads
        site.keystone.may_answer.set()
