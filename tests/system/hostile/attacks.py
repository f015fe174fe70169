"""What hostile and unlucky clients do to a server: each attack holds on until its block ends.

All are clients of this machine, bounded in number; each ends with its block.
"""

from __future__ import annotations

import itertools
import json
import socket
import subprocess
import sys
import threading
from collections import Counter
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException
from typing import TYPE_CHECKING
from uuid import uuid4

from tests.system.api.client import NEWEST

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

USER = f"X-Auth-Token: admin\r\nOpenStack-API-Version: placement {NEWEST}, stead 1.0\r\n"
PAUSE_SECONDS = 0.5
SMALL_QUERY = "/allocation_candidates?resources=MEMORY_MB:1&limit=1"


@dataclass(frozen=True)
class Target:
    """Where the server is, and queries that cost it much."""

    host: str
    port: int
    large_query: str
    largest_query: str
    """Its answer has 100 MB in a long run."""
    largest_body: int
    done: Counter[str] = field(default_factory=Counter)
    """What the attackers got: how many connections were open at most, and how many answers had which status."""

    def connect(self) -> socket.socket:
        return socket.create_connection((self.host, self.port), timeout=30)


@contextmanager
def held(
    target: Target, count: int, begin: Callable[[int], socket.socket | None], go_on: Callable[[socket.socket], None]
) -> Iterator[None]:
    """So many connections that *begin* made; *go_on* is called with each now and then. Lost ones are made again."""
    stopped = threading.Event()
    connections: list[socket.socket | None] = [None] * count

    def run() -> None:
        while not stopped.is_set():
            for number in range(count):
                if stopped.is_set():
                    break
                try:
                    if connections[number] is None:
                        connections[number] = begin(number)
                    else:
                        go_on(connections[number])  # type: ignore[arg-type]  # each attack takes what it began with
                except OSError:
                    lost, connections[number] = connections[number], None
                    if lost is not None:
                        lost.close()
            target.done["open"] = max(target.done["open"], count - connections.count(None))
            stopped.wait(PAUSE_SECONDS)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        stopped.set()
        thread.join()
        for connection in connections:
            if connection is not None:
                connection.close()


def _nothing(connection: socket.socket) -> None:
    """Notice that the server has closed the connection."""
    connection.setblocking(False)
    with suppress(BlockingIOError):
        if connection.recv(1) == b"":
            raise OSError("closed")
    connection.setblocking(True)


def _trickle(connection: socket.socket) -> None:
    _nothing(connection)
    connection.send(b"x")


def silent(target: Target, count: int) -> AbstractContextManager[None]:
    """Connections on which nothing is sent."""
    return held(target, count, lambda _: target.connect(), _nothing)


def idle(target: Target, count: int) -> AbstractContextManager[None]:
    """Connections that were used once, and are kept."""

    def begin(_: int) -> socket.socket:
        connection = target.connect()
        connection.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        connection.recv(65536)
        return connection

    return held(target, count, begin, _nothing)


def slow_heads(target: Target, count: int) -> AbstractContextManager[None]:
    """Heads of which a byte comes now and then."""

    def begin(_: int) -> socket.socket:
        connection = target.connect()
        connection.sendall(b"GET /resource_providers HTTP/1.1\r\nHost: localhost\r\nX: ")
        return connection

    return held(target, count, begin, _trickle)


def slow_bodies(target: Target, count: int) -> AbstractContextManager[None]:
    """Bodies of which a byte comes now and then."""

    def begin(_: int) -> socket.socket:
        connection = target.connect()
        length = target.largest_body
        head = f"POST /allocations HTTP/1.1\r\nHost: localhost\r\n{USER}Content-Type: application/json\r\n"
        connection.sendall(f"{head}Content-Length: {length}\r\n\r\n[".encode())
        return connection

    return held(target, count, begin, _trickle)


def unread_streams(target: Target, count: int) -> AbstractContextManager[None]:
    """Streams of events that nobody reads."""

    def begin(_: int) -> socket.socket:
        connection = target.connect()
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.sendall(
            f"GET /changes HTTP/1.1\r\nHost: localhost\r\n{USER}Accept: text/event-stream\r\n\r\n".encode()
        )
        return connection

    return held(target, count, begin, _unread)


def _unread(connection: socket.socket) -> None:
    """Notice that the server has given up, without reading."""
    if connection.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
        raise OSError("reset")


def unread_answers(target: Target, count: int) -> AbstractContextManager[None]:
    """Large answers that nobody reads."""

    def begin(_: int) -> socket.socket:
        connection = target.connect()
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.sendall(f"GET {target.largest_query} HTTP/1.1\r\nHost: localhost\r\n{USER}\r\n".encode())
        return connection

    return held(target, count, begin, _unread)


@contextmanager
def _clients(count: int, ask: Callable[[HTTPConnection], int], target: Target) -> Iterator[None]:
    stopped = threading.Event()

    def run() -> None:
        while not stopped.is_set():
            connection = HTTPConnection(target.host, target.port, timeout=120)
            try:
                target.done[str(ask(connection))] += 1
            except (OSError, HTTPException) as error:
                target.done[type(error).__name__] += 1
            connection.close()

    threads = [threading.Thread(target=run, daemon=True) for _ in range(count)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stopped.set()
        for thread in threads:
            thread.join(timeout=120)


HEADERS = dict(line.split(": ", 1) for line in USER.strip().split("\r\n"))


def large_queries(target: Target, count: int) -> AbstractContextManager[None]:
    """Clients that ask for much, again and again, with one token."""

    def ask(connection: HTTPConnection) -> int:
        connection.request("GET", target.large_query, headers=HEADERS)
        answer = connection.getresponse()
        while answer.read(1024 * 1024):
            pass
        return answer.status

    return _clients(count, ask, target)


PACKED, PER_CREDENTIAL = 49, 8
"""Groups of which two fit into each of 24 providers with 100 VCPU, so that not all fit; connections per credential."""


def limited_queries(target: Target, count: int) -> AbstractContextManager[None]:
    """Queries with ``limit=1`` that spend all their work and find nothing, with one credential for 8 connections.

    No two of them are equal, since equal ones share an answer.
    """
    queries = itertools.count()

    def ask(connection: HTTPConnection) -> int:
        number = next(queries)
        groups = "&".join(f"resources_{number}_{group}=VCPU:{41 + group % 9}" for group in range(PACKED))
        credential = f"admin:packing-{number % max(1, count // PER_CREDENTIAL)}"
        path = f"/allocation_candidates?{groups}&group_policy=none&limit=1"
        connection.request("GET", path, headers={**HEADERS, "X-Auth-Token": credential})
        answer = connection.getresponse()
        answer.read()
        return answer.status

    return _clients(count, ask, target)


def bad_bodies(target: Target, count: int) -> AbstractContextManager[None]:
    """Bodies of the greatest size that are refused: they have more values than a body of that size may have."""
    piece = b'{"mappings":{},"x":[]},'
    return _posting(target, count, b"[" + piece * ((target.largest_body - 10) // len(piece)) + b"{}]")


def nearly_good_bodies(target: Target, count: int) -> AbstractContextManager[None]:
    """Bodies of the greatest size of which all values but the last are as they should be."""
    owner = '"project_id": "p", "user_id": "u", "consumer_generation": null, "consumer_type": "INSTANCE"'
    used = '"allocations": {"00000000-0000-4000-8000-000000000000": {"resources": {"VCPU": 1}}}'
    one = f'"%08d-0000-4000-8000-000000000001": {{{used}, {owner}}}'
    number = (target.largest_body - 100) // (len(one % 0) + 1)
    consumers = ",".join(one % each for each in range(number - 1))
    return _posting(target, count, f'{{{consumers}, "x": {{}}}}'.encode())


def _posting(target: Target, count: int, body: bytes) -> AbstractContextManager[None]:
    assert len(body) <= target.largest_body

    def ask(connection: HTTPConnection) -> int:
        connection.request("POST", "/allocations", body, {**HEADERS, "Content-Type": "application/json"})
        answer = connection.getresponse()
        answer.read()
        return answer.status

    return _clients(count, ask, target)


@contextmanager
def asking_again(target: Target, count: int) -> Iterator[None]:
    """Clients that ask again as soon as they have an answer, more than may wait for a thread."""
    command = [sys.executable, "-m", "tests.system.hostile.asking", str(target.port), str(count), SMALL_QUERY]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as asking:
        assert asking.stdin is not None
        assert asking.stdout is not None
        assert asking.stdout.readline() == b"open\n"
        try:
            yield
        finally:
            asking.stdin.close()
            target.done[asking.stdout.readline().decode().strip()] += 1


def long_headers(target: Target, count: int) -> AbstractContextManager[None]:
    """Heads as long as they may be, with an Accept header that is hard to read."""
    accept = ",".join(f"a{number}/b;q=0.{number % 10}" for number in range(6000))[:100_000]

    def ask(connection: HTTPConnection) -> int:
        connection.request("GET", "/traits", headers={"Accept": accept})
        answer = connection.getresponse()
        answer.read()
        return answer.status

    return _clients(count, ask, target)


def moves_of_a_tree(target: Target, count: int) -> AbstractContextManager[None]:
    """A body of 60 bytes moves a tree of *count* providers: out of a chain, whose end it hangs on, and back again.

    The trees are created before the attack. They stay, since the target has nothing else that counts providers.
    """
    chain, top = [str(uuid4()) for _ in range(max(1, count // 10))], str(uuid4())
    parents = itertools.pairwise([None, *chain, top])
    in_chain = [{"uuid": uuid, "name": uuid, "parent_provider_uuid": parent} for parent, uuid in parents]
    leaves = [
        {"name": str(uuid4()), "parent_provider_uuid": top, "inventories": {"FPGA": {"total": 1}}}
        for _ in range(count - len(in_chain))
    ]
    connection = HTTPConnection(target.host, target.port, timeout=120)
    document = json.dumps({"provider_trees": [{"providers": [*in_chain, *leaves]}]})
    headers = {**HEADERS, "OpenStack-API-Version": f"placement {NEWEST}, stead 1.1", "Content-Type": "application/json"}
    connection.request("PUT", "/provider_trees", document, headers)
    answer = connection.getresponse()
    assert answer.status == 200, answer.read()
    connection.close()
    moves = itertools.cycle((None, chain[-1]))

    def ask(connection: HTTPConnection) -> int:
        body = json.dumps({"name": top, "parent_provider_uuid": next(moves)})
        connection.request("PUT", f"/resource_providers/{top}", body, headers)
        answer = connection.getresponse()
        answer.read()
        return answer.status

    return _clients(1, ask, target)


ATTACKS = {
    "silent connections": (silent, 100, 4200),
    "idle connections": (idle, 100, 10_000),
    "slow heads": (slow_heads, 50, 1000),
    "slow bodies": (slow_bodies, 50, 1000),
    "unread streams": (unread_streams, 20, 200),
    "unread answers": (unread_answers, 10, 100),
    "large queries": (large_queries, 4, 10),
    "expensive queries with limit=1": (limited_queries, 24, 160),
    "bad bodies": (bad_bodies, 4, 64),
    "nearly good bodies": (nearly_good_bodies, 4, 64),
    "long headers": (long_headers, 4, 64),
    "moves of a tree": (moves_of_a_tree, 500, 10_000),
    "asking again at once": (asking_again, 1500, 9500),
}
"""By name: the attack, how many clients (or providers) in a run of the tests, and how many in a long run."""
