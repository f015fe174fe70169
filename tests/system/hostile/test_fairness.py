"""Slow requests of some clients, and those of another client beside them, on a real server.

A lock in the database makes requests slow: it is held until the other client has its answers. So no time is measured.
"""

from __future__ import annotations

import json
import socket
from contextlib import ExitStack, contextmanager, suppress
from http.client import HTTPConnection
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit
from uuid import uuid4

import pytest
import sqlalchemy as sa

from tests.servers.stead import started
from tests.system.api.client import NEWEST
from tests.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.databases import Server

pytestmark = pytest.mark.timeout(180)  # a start of the server, and up to 160 clients

VERSION = f"placement {NEWEST}, stead 1.1"
SMALL_QUERY = "/allocation_candidates?resources=VCPU:1&limit=1"
PER_CLIENT = 8
THREADS = 8
TOO_LATE_SECONDS = 25.0
"""For one answer. Without the rules, it comes when the lock ends, which is never within the test."""

WAITING = {
    "postgresql": "SELECT count(*) FROM pg_stat_activity "
    "WHERE wait_event_type = 'Lock' AND datname = current_database()",
    # Not innodb_trx, whose contents stay the same while it is read more often than each 0.1 s.
    "mariadb": "SELECT count(*) FROM information_schema.processlist WHERE db = database() AND command = 'Query' "
    "AND id <> connection_id()",
}
LOCKED_ROW = "SELECT id FROM resource_providers WHERE uuid = '{uuid}' FOR UPDATE"
LOCKED_TABLE = {"postgresql": "LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE", "mariadb": "LOCK TABLES {table} WRITE"}


class Site:
    """A server with one worker, and two providers."""

    def __init__(self, url: str, database: Server, database_url: str) -> None:
        place = urlsplit(url)
        assert place.hostname is not None
        assert place.port is not None
        self.address = place.hostname, place.port
        self.kind = database.kind
        self.engine = sa.create_engine(database_url, poolclass=sa.NullPool)
        self.busy, self.free = (self._provider() for _ in range(2))

    def ask(self, method: str, path: str, body: object = None, token: str = "admin") -> Any:
        """The answer to a request on a new connection, with its status."""
        connection = HTTPConnection(*self.address, timeout=TOO_LATE_SECONDS)
        try:
            content = json.dumps(body) if body is not None else None
            connection.request(method, path, content, self.headers(token))
            answer = connection.getresponse()
            text = answer.read()
            return answer.status, json.loads(text) if text else None
        finally:
            connection.close()

    def headers(self, token: str) -> dict[str, str]:
        return {"X-Auth-Token": token, "OpenStack-API-Version": VERSION, "Content-Type": "application/json"}

    def begin(self, method: str, path: str, token: str, body: object = None) -> socket.socket:
        """A connection on which a request was sent."""
        content = json.dumps(body) if body is not None else ""
        lines = [f"{name}: {value}" for name, value in self.headers(token).items()]
        head = "\r\n".join([f"{method} {path} HTTP/1.1", "Host: localhost", *lines, f"Content-Length: {len(content)}"])
        connection = socket.create_connection(self.address, timeout=TOO_LATE_SECONDS)
        connection.sendall(f"{head}\r\n\r\n{content}".encode())
        return connection

    def claim(self, provider: str) -> tuple[str, dict[str, object]]:
        """Path and body of a claim of a new consumer."""
        return f"/allocations/{uuid4()}", {
            "allocations": {provider: {"resources": {"VCPU": 1}}},
            "project_id": "p",
            "user_id": "u",
            "consumer_generation": None,
            "consumer_type": "INSTANCE",
        }

    @contextmanager
    def locked(self, statement: str) -> Iterator[None]:
        """Hold what *statement* locks."""
        with self.engine.connect() as connection:
            connection.execute(sa.text(statement))
            yield
            connection.rollback()
            if self.kind == "mariadb":
                connection.execute(sa.text("UNLOCK TABLES"))

    def waiting(self) -> int:
        """Number of connections of the service that wait for a lock or, on MariaDB, run a statement."""
        with self.engine.connect() as connection:
            return int(connection.execute(sa.text(WAITING[self.kind])).scalar_one())

    def _provider(self) -> str:
        uuid = str(uuid4())
        assert self.ask("POST", "/resource_providers", {"name": uuid, "uuid": uuid})[0] == 200
        inventories = {"resource_provider_generation": 0, "inventories": {"VCPU": {"total": 100_000}}}
        assert self.ask("PUT", f"/resource_providers/{uuid}/inventories", inventories)[0] == 200
        return uuid


@pytest.fixture(scope="module")
def site(database_server: Server, module_database_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    if database_server.kind == "sqlite":
        pytest.skip("a writer locks the whole database")
    file = tmp_path_factory.mktemp("fairness") / "placement.conf"
    # Each slow request holds a connection.
    file.write_text(
        f"[placement_database]\nconnection = {module_database_url}\nsync_on_startup = true\n"
        f"max_overflow = 60\n[api]\nauth_strategy = noauth2\n"
        f"[stead]\nclaim_timeout = 100\nwrite_timeout = 100\nanswer_timeout = 100\nqueue_timeout = 100\n"
    )
    with started(file, workers=1, options=["--threads", str(THREADS)]) as server:
        yield Site(server.url, database_server, module_database_url)


def is_unanswered(connection: socket.socket) -> bool:
    connection.setblocking(False)
    with suppress(BlockingIOError):
        connection.recv(1)
        return False
    return True


def of_others(site: Site) -> list[int]:
    """The statuses of what another client gets: a claim and a small query, some times, each on a new connection."""
    statuses = []
    for _ in range(5):
        path, claim = site.claim(site.free)
        statuses += [
            site.ask("PUT", path, claim, "admin:another")[0],
            site.ask("GET", SMALL_QUERY, None, "admin:another")[0],
        ]
    return statuses


@pytest.mark.parametrize("clients", [2, 3, 20])
def test_claims_and_small_queries_are_answered_beside_claims_that_wait(site: Site, clients: int) -> None:
    with ExitStack() as stack, site.locked(LOCKED_ROW.format(uuid=site.busy)):
        slow = []
        for number in range(clients * PER_CLIENT):
            path, claim = site.claim(site.busy)
            begun = site.begin("PUT", path, f"admin:slow-{number % clients}", claim)
            slow.append(stack.enter_context(begun))
        wait_until(lambda: site.waiting() >= THREADS)
        assert of_others(site) == [204, 200] * 5
        assert all(map(is_unanswered, slow))


@pytest.mark.parametrize("clients", [2, 3, 20])
def test_claims_and_small_queries_are_answered_beside_reads_that_wait(site: Site, clients: int) -> None:
    with ExitStack() as stack, site.locked(LOCKED_TABLE[site.kind].format(table="stead_flavor")):
        slow = [
            stack.enter_context(site.begin("GET", "/flavors", f"admin:slow-{number % clients}"))
            for number in range(clients * PER_CLIENT)
        ]
        wait_until(lambda: site.waiting() >= THREADS)
        assert of_others(site) == [204, 200] * 5
        assert all(map(is_unanswered, slow))
