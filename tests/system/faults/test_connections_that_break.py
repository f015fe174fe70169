"""Connections to the database that a proxy or the server ends: no request fails that could be served, none runs twice.

A proxy stands between a real server and the service. It ends connections while they are idle, as HAProxy, a firewall or
`wait_timeout` do, and at each message of each kind of request.
"""

from __future__ import annotations

import os
import select
import socket
import struct
import threading
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa

from stead import application
from stead.config import load
from tests.conftest import write_configuration
from tests.rooms.store.books import Books, faults, fresh_uuid
from tests.system.api.client import Api, holding, wsgi_door

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.system.faults.conftest import Victim

pytestmark = [
    pytest.mark.timeout(300),  # starts database servers
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),  # PyMySQL, when a connection breaks
]

STEP = int(os.environ.get("STEAD_BREAK_STEP", "3"))
"""A connection ends at each message of this number; `make breaks` has 1."""

SOCKETS = {"postgresql": ".s.PGSQL.5432", "mariadb": "socket"}


class End(Enum):
    """How a connection ends for the service."""

    CLOSED = "both directions are closed"
    RESET = "a reset"
    HALF = "the server's direction is closed, the other one is open and not read"


class Side(Enum):
    """Where a message is when its connection ends."""

    BEFORE = "the server never sees it"
    AFTER = "the server has seen it, and its answer is lost"


@dataclass(eq=False)
class Pair:
    """Both ends of a connection. Only its own thread closes them: the kernel waits for all calls on a socket."""

    near: socket.socket
    far: socket.socket
    asked: End | None = None
    ended: threading.Event = field(default_factory=threading.Event)

    def ask(self, how: End) -> None:
        """Wake the thread, so that it ends the connection."""
        self.asked = how
        with suppress(OSError):
            self.far.shutdown(socket.SHUT_RDWR)

    def end(self, how: End) -> None:
        with suppress(OSError):
            if how is End.HALF:
                self.near.shutdown(socket.SHUT_WR)
            else:
                if how is End.RESET:
                    self.near.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                self.near.close()
        self.far.close()
        self.ended.set()


@dataclass(eq=False)
class Breaker:
    """Passes all on between a port of its own and the server's socket, and breaks connections when told to."""

    target: str
    pairs: set[Pair] = field(default_factory=set)
    messages: int = 0
    """Pieces that the service has sent since the last `arm`."""
    _armed: tuple[int, Side, End] | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = self._listening.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()

    def break_all(self, how: End) -> int:
        """End every connection; returns how many."""
        with self._lock:
            pairs, self.pairs = self.pairs, set()
        for pair in pairs:
            pair.ask(how)
        for pair in pairs:
            pair.ended.wait()
        return len(pairs)

    def arm(self, number: int, side: Side, how: End) -> None:
        """End the connection of the message *number* from now, from 0."""
        with self._lock:
            self.messages, self._armed = 0, (number, side, how)

    @property
    def has_broken(self) -> bool:
        return self._armed is None

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._listening.accept()
                near.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                threading.Thread(target=self._talk, args=(near,), daemon=True).start()

    def _talk(self, near: socket.socket) -> None:
        far = socket.socket(socket.AF_UNIX)
        pair, how = Pair(near, far), End.CLOSED
        with suppress(OSError):
            far.connect(self.target)
            with self._lock:
                self.pairs.add(pair)
            how = self._passed_on(pair)
        with self._lock:
            self.pairs.discard(pair)
        pair.end(pair.asked or how)

    def _passed_on(self, pair: Pair) -> End:
        """Pass all on until an end; returns the way in which to end the connection."""
        breaking = None
        while True:
            for end in select.select([pair.near, pair.far], [], [])[0]:
                piece = end.recv(65536)
                if end is pair.near and piece:
                    breaking = self._breaking(breaking)
                if breaking and breaking[0] is (Side.BEFORE if end is pair.near else Side.AFTER):
                    return breaking[1]
                if not piece:
                    return End.CLOSED
                (pair.far if end is pair.near else pair.near).sendall(piece)

    def _breaking(self, breaking: tuple[Side, End] | None) -> tuple[Side, End] | None:
        with self._lock:
            self.messages += 1
            if self._armed is not None and self.messages > self._armed[0]:
                breaking, self._armed = self._armed[1:], None
        return breaking


@dataclass
class Cloud:
    """A service that reaches its database through the breaker, and a client of it."""

    books: Books
    api: Api
    breaker: Breaker
    host: Any
    classes: int = 0


@pytest.fixture(scope="module")
def cloud(victim: Victim, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cloud]:
    breaker = Breaker(str(victim.running.home.path / SOCKETS[victim.kind]))
    url = sa.make_url(victim.url)
    url = url.set(host="127.0.0.1", port=breaker.port, query={})
    books = Books(url.render_as_string(hide_password=False), write_timeout=10)
    settings = load([write_configuration(tmp_path_factory.mktemp("cloud"), books.url)])
    api = Api(wsgi_door(application.assemble(books.service, settings)))
    host = api.create_provider(inventories={"VCPU": 100_000})
    yield Cloud(books, api, breaker, host)
    books.close()
    breaker.close()


def claim(cloud: Cloud) -> None:
    consumer, before = fresh_uuid(), cloud.api.get(cloud.host.path).json["generation"]
    answer = cloud.api.put(f"/allocations/{consumer}", holding((cloud.host, {"VCPU": 1})))
    assert answer.status == 204, answer.json
    assert cloud.books.consumer_generation(consumer) == 1
    assert cloud.api.get(cloud.host.path).json["generation"] == before + 1


def claim_and_release(cloud: Cloud) -> None:
    consumer, used = fresh_uuid(), cloud.books.used(cloud.host.uuid)
    assert cloud.api.put(f"/allocations/{consumer}", holding((cloud.host, {"VCPU": 3}))).status == 204
    assert cloud.api.delete(f"/allocations/{consumer}").status == 204
    assert cloud.books.used(cloud.host.uuid) == used


def change_inventories(cloud: Cloud) -> None:
    host = cloud.api.create_provider()
    inventories = {"VCPU": {"total": 8}, "DISK_GB": {"total": 9}}
    answer = cloud.api.put(host.inventories, {"resource_provider_generation": 0, "inventories": inventories})
    assert (answer.status, answer.json.get("resource_provider_generation")) == (200, 1), answer.json
    assert cloud.api.delete(host.path).status == 204


def create_names(cloud: Cloud) -> None:
    name = f"CUSTOM_{fresh_uuid().replace('-', '').upper()}"
    assert cloud.api.put(f"/traits/{name}").status == 201
    assert cloud.api.put(f"/resource_classes/{name}").status == 201
    assert cloud.api.delete(f"/traits/{name}").status == 204


def read(cloud: Cloud) -> None:
    assert cloud.api.get("/allocation_candidates?resources=VCPU:1").status == 200
    assert cloud.api.get(cloud.host.allocations).status == 200
    assert cloud.api.get("/usages?project_id=a%20project").status == 200


REQUESTS = [claim, claim_and_release, change_inventories, create_names, read]


@pytest.mark.parametrize("how", End)
@pytest.mark.parametrize("request_", REQUESTS)
def test_a_request_after_a_pause_in_which_all_connections_ended(
    cloud: Cloud, request_: Callable[[Cloud], None], how: End
) -> None:
    request_(cloud)
    assert cloud.breaker.break_all(how) > 0
    request_(cloud)
    assert faults(cloud.books) == {}


def test_many_requests_at_once_after_such_a_pause(cloud: Cloud) -> None:
    def all_at_once() -> list[BaseException]:
        failures: list[BaseException] = []

        def one() -> None:
            try:
                read(cloud)
                assert cloud.api.put(f"/allocations/{fresh_uuid()}", holding((cloud.host, {"VCPU": 1}))).status == 204
            except BaseException as failure:
                failures.append(failure)

        threads = [threading.Thread(target=one) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return failures

    for how in End:
        assert all_at_once() == []
        assert cloud.breaker.break_all(how) > 0
        assert all_at_once() == []
    assert faults(cloud.books) == {}


@pytest.mark.parametrize("side", Side)
@pytest.mark.parametrize("request_", REQUESTS)
def test_a_connection_that_ends_at_any_message(cloud: Cloud, request_: Callable[[Cloud], None], side: Side) -> None:
    """Before, during and after COMMIT, the request is executed once."""
    request_(cloud)
    number = 0 if side is Side.BEFORE else 1
    while True:
        cloud.breaker.arm(number, side, End.CLOSED if number // STEP % 2 else End.RESET)
        request_(cloud)
        if not cloud.breaker.has_broken:
            break
        number += STEP
    assert number > 3
    assert faults(cloud.books) == {}
