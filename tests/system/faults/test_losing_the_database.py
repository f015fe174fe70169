"""The database goes away and comes back under a running service: 503 meanwhile, nothing forgotten, nothing invented."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

from stead import application
from stead.config import load
from stead.service.service import Service
from stead.store.sql.dialects import NotWritable
from tests.conftest import open_door, write_configuration
from tests.servers.stead import serving
from tests.system.api.client import Api, http_door
from tests.system.faults.waiting import RECOVERY_SECONDS, candidates_of, unavailable, when_back, workers_of
from tests.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.system.faults.conftest import Victim

pytestmark = [
    pytest.mark.timeout(180),  # database servers are started, stopped and found again
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),  # PyMySQL, when nobody answers it
]


@pytest.fixture
def api(victim: Victim, tmp_path: Path) -> Iterator[Api]:
    with open_door(tmp_path, victim.url) as door:
        yield Api(door)


def test_a_restart(api: Api, victim: Victim) -> None:
    host = api.create_provider(inventories={"VCPU": 8})
    consumer = api.claim((host, {"VCPU": 5}))
    known = candidates_of(api)

    victim.crash()
    for _ in range(3):
        assert unavailable(api.get(host.path))
        assert unavailable(api.get("/allocation_candidates", {"resources": "VCPU:1"}))
        assert unavailable(api.delete(f"/allocations/{consumer}"))
    victim.start_again()

    assert when_back(lambda: api.get(host.path)).status == 200
    assert when_back(lambda: api.delete(f"/allocations/{consumer}")).status == 204
    assert candidates_of(api) == known
    assert api.used(host) == {"VCPU": 0}


def test_connections_that_are_killed(api: Api, victim: Victim) -> None:
    host = api.create_provider(inventories={"VCPU": 8})
    assert victim.kill_connections() > 0
    assert when_back(lambda: api.get(host.path)).status == 200
    assert victim.kill_connections() > 0
    path, inventory = host.inventory("VCPU"), {"total": 9, "resource_provider_generation": 1}
    assert when_back(lambda: api.put(path, inventory)).status == 200
    assert host.uuid in candidates_of(api)


def test_a_server_that_becomes_a_replica(api: Api, victim: Victim, tmp_path: Path) -> None:
    host = api.create_provider(inventories={"VCPU": 8})
    victim.set_read_only(True)
    try:
        wait_until(victim.read_only, seconds=RECOVERY_SECONDS)
        wait_until(lambda: api.put(host.traits, traits=[], generation=1).status == 503, seconds=RECOVERY_SECONDS)
        assert unavailable(api.put(host.traits, traits=[], generation=1))
        assert api.get(host.path).status == 200
        assert host.uuid in candidates_of(api)
        assert api.door("GET", "/healthcheck", [], None)[0] == 503
        with pytest.raises(NotWritable, match="read_only is on"):
            application.build_service(load([write_configuration(tmp_path, victim.url)]))
    finally:
        victim.set_read_only(False)
    assert when_back(lambda: api.put(host.traits, traits=[], generation=1)).status in (200, 409)
    assert api.get(host.traits).json["traits"] == []


def test_a_start_waits_for_the_database(victim: Victim, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also when it fails between the checks and the load, as it may while the first workers are already listening."""
    configuration = write_configuration(tmp_path, victim.url)
    with configuration.open("a") as file:
        file.write("[placement_database]\nretry_interval = 1\n")
    attempts = []

    def start(service: Service) -> None:
        attempts.append(service)
        if len(attempts) > 1:
            real_start(service)
            return
        victim.crash()
        try:
            real_start(service)
        finally:
            threading.Thread(target=victim.start_again).start()

    real_start = Service.start
    monkeypatch.setattr(Service, "start", start)
    service = application.build_service(load([configuration]))
    assert len(attempts) > 1
    service.snapshot()
    service.close()


def test_no_worker_dies_of_a_restart(victim: Victim, tmp_path: Path) -> None:
    configuration = write_configuration(tmp_path, victim.url)
    with serving(configuration) as url:
        api = Api(http_door(url))
        host = api.create_provider(inventories={"VCPU": 8})
        workers = workers_of(configuration)
        assert len(workers) >= 2
        victim.crash()
        assert all(unavailable(api.get(host.path)) for _ in range(8))
        victim.start_again()
        assert when_back(lambda: api.get(host.path)).status == 200
        assert when_back(lambda: api.put(host.traits, traits=[], generation=1)).status == 200
        assert workers_of(configuration) == workers
