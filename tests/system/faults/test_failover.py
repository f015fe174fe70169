"""The database's primary dies and its replica takes over, under a running service and clients that claim."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from tests.conftest import write_configuration
from tests.servers.stead import serving
from tests.system.api.client import Api, fresh_uuid, holding, http_door
from tests.system.faults.pairs import PAIRS, Pair
from tests.system.faults.waiting import RECOVERY_SECONDS, candidates_of, unavailable, when_back, workers_of
from tests.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.system.api.client import Provider

pytestmark = pytest.mark.timeout(300)  # database servers are started, stopped and found again

CLIENTS = 4
ENOUGH = 10
"""Claims before the primary dies, and after the replica took over."""


@pytest.fixture(params=sorted(PAIRS))
def pair(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Pair]:
    with ExitStack() as ends:
        yield PAIRS[request.param](tmp_path, ends)


class Clients:
    """Some who claim one VCPU for a new consumer each time, until they are told to stop."""

    def __init__(self, url: str, host: Provider) -> None:
        self.acknowledged: list[str] = []
        self.unknown: list[str] = []
        self.refusals = 0
        self._url = url
        self._host = host
        self._stop = threading.Event()

    def go(self) -> None:
        api = Api(http_door(self._url))
        while not self._stop.is_set():
            consumer = fresh_uuid()
            answer = api.put(f"/allocations/{consumer}", holding((self._host, {"VCPU": 1})))
            if answer.status == 204:
                self.acknowledged.append(consumer)
            else:
                assert unavailable(answer), answer
                self.unknown.append(consumer)
                self.refusals += 1

    def stop(self) -> None:
        self._stop.set()


def test_a_failover(pair: Pair, tmp_path: Path) -> None:
    configuration = write_configuration(tmp_path, pair.url)
    with serving(configuration) as url, ThreadPoolExecutor(CLIENTS) as threads:
        api = Api(http_door(url))
        host = api.create_provider(inventories={"VCPU": 100_000})
        workers = workers_of(configuration)
        clients = Clients(url, host)
        try:
            running = [threads.submit(clients.go) for _ in range(CLIENTS)]
            wait_until(lambda: len(clients.acknowledged) >= ENOUGH, seconds=RECOVERY_SECONDS)
            pair.primary.crash()
            wait_until(lambda: clients.refusals >= ENOUGH, seconds=RECOVERY_SECONDS)
            assert unavailable(api.get(host.path))
            pair.turn()  # before it takes writes
            refusals = clients.refusals
            wait_until(lambda: clients.refusals >= refusals + ENOUGH, seconds=RECOVERY_SECONDS)
            pair.promote()
            acknowledged = len(clients.acknowledged)
            wait_until(lambda: len(clients.acknowledged) >= acknowledged + ENOUGH, seconds=RECOVERY_SECONDS)
        finally:
            clients.stop()
        for one in running:
            one.result()

        rows = when_back(lambda: api.get(host.allocations)).expect(200).json["allocations"]
        assert set(clients.acknowledged) <= rows.keys()
        assert rows.keys() <= {*clients.acknowledged, *clients.unknown}
        for _ in range(2 * len(workers)):  # each of them
            assert api.used(host) == {"VCPU": len(rows)}
            assert candidates_of(api) == [host.uuid]
        assert workers_of(configuration) == workers
