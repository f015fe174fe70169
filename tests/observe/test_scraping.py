"""A service of several workers as Prometheus and a reader of its log see it, over HTTP."""

from __future__ import annotations

import os
import re
import signal
import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, urlsplit
from urllib.request import urlopen

import pytest
from prometheus_client.parser import text_string_to_metric_families

from stead.observe.metrics import METRICS
from tests.api.client import Api, fresh_uuid, holding, http_door
from tests.conftest import write_configuration
from tests.deploy.servers import free_port
from tests.servers.stead import started

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = pytest.mark.timeout(120)

LINE = re.compile(
    r"^\S+ \S+ (?P<process>\d+) INFO placement\.requestlog "
    r"\[\S+ (?P<id>req-\S+) (?P<user>\S+) (?P<project>\S+) - - - -\] "
    r'(?P<remote>\S+) "(?P<method>[A-Z]+) (?P<target>\S+)" status: (?P<status>\d{3}) len: (?P<len>\d+|-) '
    r"microversion: (?P<version>\d\.\d+|-)$"
)
"""The line of oslo.log's formats, and in it that of the contract."""


class Scraped:
    """One scrape."""

    def __init__(self, port: int) -> None:
        with closing(urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10)) as answer:
            self.families = {family.name: family for family in text_string_to_metric_families(answer.read().decode())}

    def sum(self, name: str, **labels: str) -> float:
        """Of all samples with these labels."""
        return sum(
            sample.value
            for family in self.families.values()
            for sample in family.samples
            if sample.name == name and labels.items() <= sample.labels.items()
        )

    def workers(self) -> set[int]:
        """Those who report."""
        return {int(sample.labels["worker"]) for sample in self.families["stead_worker_report_age_seconds"].samples}


class Service:
    """A running service with what a test asks it."""

    def __init__(self, url: str, port: int, process: int, log: Path) -> None:
        self.url, self.port, self.process, self.log = url, port, process, log

    def api(self) -> Api:
        """A client with a connection of its own."""
        return Api(http_door(self.url))

    def scrape(self, condition: Callable[[Scraped], object]) -> Scraped:
        """The first scrape for which *condition* holds."""
        until = time.monotonic() + 30
        while True:
            try:
                scraped = Scraped(self.port)
                if condition(scraped):
                    return scraped
            except OSError:  # between two workers nobody has the port for a moment
                pass
            assert time.monotonic() < until, "it does not come to be"
            time.sleep(0.1)


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    configuration, port = write_configuration(tmp_path, f"sqlite:///{tmp_path}/placement.db"), free_port()
    with configuration.open("a") as file:
        file.write(f"[stead]\nmetrics = {port}\n")
    with started(configuration, workers=2) as server:
        service = Service(server.url, port, server.process.pid, configuration.with_suffix(".log"))
        service.scrape(lambda scraped: len(scraped.workers()) == 2)
        yield service


REQUESTS = "stead_request_duration_seconds_count"


def test_metrics_are_those_of_all_workers_and_survive_them(service: Service) -> None:
    for _ in range(20):  # each by a connection of its own, so by both workers
        assert service.api().get("/resource_providers").status == 200
    api = service.api()
    host = api.create_provider(inventories={"VCPU": 2})
    answer = api.get("/allocation_candidates?resources=VCPU:1").expect(200)
    assert len(answer.json["allocation_requests"]) == 1
    api.claim((host, {"VCPU": 2}))
    api.put(f"/allocations/{fresh_uuid()}", holding((host, {"VCPU": 1}))).expect(409)  # no room
    api.put(host.inventories, inventories={}, generation=0).expect(409)  # an old generation
    listed = {"route": "/resource_providers", "method": "GET", "status": "200"}
    scraped = service.scrape(  # each worker reports when it likes: both must have
        lambda scraped: scraped.sum("stead_conflicts_total") >= 2 and scraped.sum(REQUESTS, **listed) >= 20
    )

    assert scraped.sum(REQUESTS, **listed) == 20
    assert scraped.sum(REQUESTS, route="/allocations/{consumer_uuid}", status="409") == 1
    assert scraped.sum("stead_claims_total", outcome="written") == 1
    assert scraped.sum("stead_claims_total", outcome="conflict") == 1
    assert scraped.sum("stead_conflicts_total", cause="capacity_exceeded") == 1
    assert scraped.sum("stead_conflicts_total", cause="generation_conflict") == 1
    assert scraped.sum("stead_candidates_returned_count") == 1
    assert scraped.sum("stead_candidates_returned_sum") == 1
    for phase in ("refresh", "resolve", "match", "trees", "combine", "render"):
        assert scraped.sum("stead_candidates_phase_seconds_count", phase=phase) == 1
    assert scraped.sum("stead_catalog_refresh_seconds_count", kind="changes") >= 1
    assert 0 < scraped.sum("stead_catalog_providers") <= 2  # of both workers, once each has looked
    assert all(0 <= sample.value < 60 for sample in scraped.families["stead_catalog_lag_seconds"].samples)
    assert scraped.sum("stead_database_connections_limit", pool="writer") > 0
    assert scraped.sum("stead_worker_resident_bytes") > 1e7
    names = {metric.name.removesuffix("_total") for metric in METRICS}
    assert scraped.families.keys() == names

    before = scraped.sum(REQUESTS)
    os.kill(min(scraped.workers()), signal.SIGKILL)
    after = service.scrape(lambda after: len(after.workers() - scraped.workers()) == 1)
    assert after.sum(REQUESTS) == before  # what it counted is there still


def test_a_reload_forgets_nothing(service: Service) -> None:
    old = service.scrape(lambda scraped: len(scraped.workers()) == 2).workers()
    for _ in range(10):
        assert service.api().get("/resource_providers").status == 200
    os.kill(service.process, signal.SIGHUP)  # at once: what was counted since the last report is told at the end
    until = time.monotonic() + 60
    while any(Path(f"/proc/{worker}").exists() for worker in old):
        assert time.monotonic() < until, "the old workers do not end"
        time.sleep(0.1)
    assert service.scrape(lambda scraped: len(scraped.workers() - old) == 2).sum(REQUESTS) == 10


def test_each_request_is_a_line_of_the_contract_s_form(service: Service) -> None:
    api = service.api()
    asked = [("GET", "/resource_providers?name=a%20b", 200), ("GET", "/nowhere", 404), ("PUT", "/traits/CUSTOM_X", 201)]
    ids = [api.call(method, path).header("x-openstack-request-id") for method, path, _ in asked]
    assert api.call("GET", "/traits", headers={"X-Auth-Token": None}).status == 401
    until = time.monotonic() + 10
    while len(lines := list(filter(None, map(LINE.match, service.log.read_text().splitlines())))) < 4:
        assert time.monotonic() < until, service.log.read_text()
        time.sleep(0.1)
    assert [(line["method"], line["target"], int(line["status"])) for line in lines[:3]] == asked
    assert [line["id"] for line in lines[:3]] == ids
    assert [(line["user"], line["project"]) for line in lines] == [("admin", "admin")] * 3 + [("-", "-")]
    assert {line["version"] for line in lines[:3]} == {"1.39"}
    assert (lines[3]["status"], lines[3]["version"]) == ("401", "-")
    assert dict(parse_qsl(urlsplit(lines[0]["target"]).query)) == {"name": "a b"}
    assert int(lines[0]["len"]) > 0
    assert "healthcheck" not in service.log.read_text()
