"""The service is stopped or killed while clients claim: what was answered is in the database, nothing is half done."""

from __future__ import annotations

import random
import socket
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.client import HTTPException
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest
import sqlalchemy as sa

from stead.store.tables import allocations, resource_providers
from tests.conftest import write_configuration
from tests.servers.stead import STEAD, started
from tests.system.api.client import Api, Provider, fresh_uuid, holding, http_door
from tests.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.servers.stead import Serving

pytestmark = pytest.mark.timeout(600)  # a write of the service has two minutes

CLIENTS = 8
PATIENCE_SECONDS = 120.0  # of those who hold a connection; the tests here have ten minutes

Amounts = dict[str, dict[str, int]]
"""By provider, then by class."""


class Load:
    """Clients that claim, several consumers at a time now and then, and release, until nobody answers any more."""

    def __init__(self, url: str, hosts: list[Provider], seed: int) -> None:
        self._api = Api(http_door(url))
        self._hosts = hosts
        self._seed = seed
        self._noting = threading.Lock()
        self.held: dict[str, Amounts] = {}
        """By consumer, as far as it was answered."""
        self.unanswered: list[dict[str, Amounts]] = []
        """Requests of which nobody knows whether they were done: by consumer, what it would hold."""
        self.answered = 0
        self.refusals: list[int] = []

    @contextmanager
    def running(self) -> Iterator[None]:
        """Clients at work; all of them have seen the end of the service when the block has ended."""
        with ThreadPoolExecutor(CLIENTS) as pool:
            clients = [pool.submit(self._work, random.Random(self._seed + number)) for number in range(CLIENTS)]
            yield
            for client in clients:
                client.result(PATIENCE_SECONDS)

    def _work(self, chance: random.Random) -> None:
        mine: list[str] = []
        while True:
            released = chance.choice(mine) if mine and chance.random() < 0.25 else None
            consumers = [released] if released else [fresh_uuid() for _ in range(chance.choice((1, 1, 3)))]
            wanted = {consumer: {} if released else self._some(chance) for consumer in consumers}
            try:
                status = self._ask(wanted)
            except ConnectionRefusedError:
                return
            except (OSError, HTTPException):
                with self._noting:
                    self.unanswered.append(wanted)
                for consumer in consumers:
                    if consumer in mine:
                        mine.remove(consumer)
                continue
            with self._noting:
                if status != 204:
                    self.refusals.append(status)
                    continue
                self.answered += 1
                self.held |= wanted
            mine = [consumer for consumer in mine if consumer != released] + ([] if released else consumers)

    def _some(self, chance: random.Random) -> Amounts:
        return {host.uuid: {"VCPU": 1, "MEMORY_MB": 2} for host in chance.sample(self._hosts, chance.randint(1, 3))}

    def _ask(self, wanted: dict[str, Amounts]) -> int:
        if len(wanted) > 1:
            bodies = {consumer: holding(*amounts.items()) for consumer, amounts in wanted.items()}
            return self._api.post("/allocations", bodies).status
        ((consumer, amounts),) = wanted.items()
        path = f"/allocations/{consumer}"
        answer = self._api.put(path, holding(*amounts.items())) if amounts else self._api.delete(path)
        return answer.status

    def known(self) -> dict[str, Amounts]:
        """What consumers hold, by what was answered."""
        with self._noting:
            return {consumer: amounts for consumer, amounts in self.held.items() if amounts}

    def wait_for(self, number: int) -> None:
        """Return once so many requests were answered."""
        wait_until(lambda: self.answered >= number or bool(self.refusals), seconds=PATIENCE_SECONDS)


def in_the_database(url: str) -> dict[str, Amounts]:
    """What every consumer holds."""
    allocation, provider = allocations.c, resource_providers.c
    found: dict[str, Amounts] = {}
    names = {0: "VCPU", 1: "MEMORY_MB"}
    engine = sa.create_engine(url, poolclass=sa.NullPool)
    with engine.connect() as connection:
        query = sa.select(allocation.consumer_id, provider.uuid, allocation.resource_class_id, allocation.used)
        for consumer, host, class_id, used in connection.execute(
            query.join(resource_providers, provider.id == allocation.resource_provider_id)
        ):
            found.setdefault(consumer, {}).setdefault(host, {})[names[class_id]] = used
    return found


def audit(configuration: Path) -> tuple[int, str]:
    """The exit code of ``stead audit``, and what it found."""
    done = subprocess.run(
        [*STEAD, "--json", "audit", "--config-file", str(configuration)],
        cwd=configuration.parent, capture_output=True, text=True, timeout=PATIENCE_SECONDS,
    )  # fmt: skip
    return done.returncode, done.stdout + done.stderr


@pytest.fixture
def configuration(tmp_path: Path, ready_database_url: str) -> Path:
    file = write_configuration(tmp_path, ready_database_url)
    with file.open("a") as more:  # how long a busy machine takes is not what is tested
        more.write(f"[stead]\nwrite_timeout = {PATIENCE_SECONDS}\n")
    return file


def hosts_of(server: Serving) -> list[Provider]:
    api = Api(http_door(server.url))
    return [api.create_provider(inventories={"VCPU": 100_000, "MEMORY_MB": 200_000}) for _ in range(4)]


@contextmanager
def nobody_can_write(url: str) -> Iterator[None]:
    """All writes of the service wait meanwhile."""
    engine = sa.create_engine(url, poolclass=sa.NullPool)
    with engine.connect() as connection:
        if connection.dialect.name == "sqlite":
            driver: Any = connection.connection.dbapi_connection
            driver.isolation_level = None
            driver.execute("PRAGMA busy_timeout = 60000").fetchall()
            driver.execute("BEGIN IMMEDIATE")
        else:
            rows = sa.select(resource_providers.c.id).order_by(resource_providers.c.id).with_for_update()
            connection.execute(rows).all()
        yield
        connection.connection.rollback()


def requests_read(url: str) -> int:
    """How many connections to *url* were accepted and have nothing in them that was not read. Source: proc_net(5)."""
    port, established, read = f":{urlsplit(url).port:04X}", "01", 0
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        fields = line.split()
        ours = fields[1].endswith(port) and fields[3] == established
        read += ours and fields[4].endswith(":00000000") and fields[9] != "0"
    return read


def refuses(url: str) -> bool:
    at = urlsplit(url)
    try:
        socket.create_connection((at.hostname, at.port), timeout=PATIENCE_SECONDS).close()
    except OSError:
        return True
    return False


def test_a_service_that_is_stopped_finishes_what_it_has_begun(configuration: Path, ready_database_url: str) -> None:
    with started(configuration) as server:
        load = Load(server.url, hosts_of(server), seed=1)
        with load.running():
            load.wait_for(20)
            with nobody_can_write(ready_database_url):
                # Who was done has his answer, so all others wait, and have said what they want.
                wait_until(lambda: in_the_database(ready_database_url) == load.known(), seconds=PATIENCE_SECONDS)
                wait_until(lambda: requests_read(server.url) == CLIENTS, seconds=PATIENCE_SECONDS)
                answered = load.answered
                server.process.terminate()
                wait_until(lambda: refuses(server.url), seconds=PATIENCE_SECONDS)
            assert server.process.wait(PATIENCE_SECONDS) == 0
    assert (load.refusals, load.unanswered) == ([], [])
    assert load.answered == answered + CLIENTS
    assert in_the_database(ready_database_url) == load.known()


def test_a_service_that_is_killed_leaves_books_that_need_no_repair(
    configuration: Path, ready_database_url: str
) -> None:
    chance = random.Random()
    with started(configuration) as server:
        hosts = hosts_of(server)
        load = Load(server.url, hosts, seed=chance.randrange(10**9))
        with load.running():
            load.wait_for(chance.randint(10, 60))
            server.kill()
    assert load.refusals == []
    require_explained(in_the_database(ready_database_url), load.held, load.unanswered)
    code, said = audit(configuration)
    assert code == 0, said
    with started(configuration, workers=1) as server:
        api, found = Api(http_door(server.url)), in_the_database(ready_database_url)
        for host in hosts:
            used = sum(amounts.get(host.uuid, {}).get("VCPU", 0) for amounts in found.values())
            assert api.used(host) == {"VCPU": used, "MEMORY_MB": 2 * used}
        api.claim((hosts[0], {"VCPU": 1}))


def require_explained(
    found: dict[str, Amounts], held: dict[str, Amounts], unanswered: list[dict[str, Amounts]]
) -> None:
    """What was answered is in the database, and what was not is in it as a whole, or not at all."""
    expected: dict[str, Any] = {consumer: amounts for consumer, amounts in held.items() if amounts}
    for wanted in unanswered:
        done = [found.get(consumer, {}) == amounts for consumer, amounts in wanted.items()]
        assert len(set(done)) == 1, f"half done: {wanted}"
        if done[0]:
            expected |= wanted
    assert found == {consumer: amounts for consumer, amounts in expected.items() if amounts}
