"""A service of several workers as Prometheus and a reader of its log see it, over HTTP."""

from __future__ import annotations

import os
import re
import signal
import socket
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, urlsplit
from urllib.request import urlopen

import pytest
from prometheus_client.parser import text_string_to_metric_families

from stead.auth.attempts import SIGN_INS
from stead.observe.metrics import METRICS, REFUSED, SUMS
from tests.conftest import write_configuration
from tests.servers.stead import started
from tests.system.api.client import NEWEST, Api, fresh_uuid, holding, http_door
from tests.system.deploy.servers import free_port
from tests.waiting import wait_until
from wsgi_lanes.answers import REASONS
from wsgi_lanes.connection import ConnectionState

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = pytest.mark.timeout(120)  # starts servers

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
        with closing(urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60)) as answer:
            self.families = {family.name: family for family in text_string_to_metric_families(answer.read().decode())}

    def sum(self, name: str, **labels: str) -> float:
        """Of all samples with these labels."""
        return sum(
            sample.value
            for family in self.families.values()
            for sample in family.samples
            if sample.name == name and labels.items() <= sample.labels.items()
        )

    def labels(self, name: str, label: str) -> set[str]:
        """The values of one label in all samples of a metric."""
        return {sample.labels[label] for sample in self.families[name].samples}

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

    def connection(self) -> socket.socket:
        """A connection of a client that sends what it likes."""
        address = urlsplit(self.url)
        assert address.hostname is not None
        assert address.port is not None
        return socket.create_connection((address.hostname, address.port), timeout=30)

    def scrape(self, condition: Callable[[Scraped], object]) -> Scraped:
        """The first scrape for which *condition* holds."""

        def scraped() -> Scraped | None:
            with suppress(OSError):  # between two workers nobody has the port for a moment
                scraped = Scraped(self.port)
                if condition(scraped):
                    return scraped
            return None

        matching = wait_until(scraped, "no scrape shows it")
        assert matching is not None
        return matching


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
    scraped = service.scrape(  # each worker reports when it likes, and any of the two had each request
        lambda scraped: (
            scraped.sum("stead_conflicts_total") >= 2
            and scraped.sum("stead_claims_total") >= 2
            and scraped.sum("stead_candidates_returned_count") >= 1
            and scraped.sum(REQUESTS, **listed) >= 20
        )
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
    names = {metric.name.removesuffix("_total") for metric in METRICS} | {name for name, _, _ in SUMS}
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
    wait_until(lambda: not any(Path(f"/proc/{worker}").exists() for worker in old), "the old workers do not end")
    assert service.scrape(lambda scraped: len(scraped.workers() - old) == 2).sum(REQUESTS) == 10


def test_each_request_is_a_line_of_the_contract_s_form(service: Service) -> None:
    api = service.api()
    asked = [("GET", "/resource_providers?name=a%20b", 200), ("GET", "/nowhere", 404), ("PUT", "/traits/CUSTOM_X", 201)]
    ids = [api.call(method, path).header("x-openstack-request-id") for method, path, _ in asked]
    assert api.call("GET", "/traits", headers={"X-Auth-Token": None}).status == 401

    def found() -> list[re.Match[str]]:
        return list(filter(None, map(LINE.match, service.log.read_text().splitlines())))

    wait_until(lambda: len(found()) >= 4, service.log.read_text)
    lines = found()
    assert [(line["method"], line["target"], int(line["status"])) for line in lines[:3]] == asked
    assert [line["id"] for line in lines[:3]] == ids
    assert [(line["user"], line["project"]) for line in lines] == [("admin", "admin")] * 3 + [("-", "-")]
    assert {line["version"] for line in lines[:3]} == {NEWEST}
    assert (lines[3]["status"], lines[3]["version"]) == ("401", "-")
    assert dict(parse_qsl(urlsplit(lines[0]["target"]).query)) == {"name": "a b"}
    assert int(lines[0]["len"]) > 0
    assert "healthcheck" not in service.log.read_text()


def test_what_clients_do_to_the_http_server_is_seen(service: Service) -> None:
    scraped = service.scrape(lambda scraped: len(scraped.labels("stead_http_connections", "worker")) == 2)
    assert scraped.labels("stead_http_connections", "state") == {
        state.value for state in ConnectionState if state is not ConnectionState.CLOSED
    }
    assert scraped.labels("stead_http_refused", "reason") == set(REASONS)
    assert scraped.sum("stead_http_refused_total") == 0
    for gauge in ("queue_length", "queue_age_seconds", "body_bytes", "unsent_bytes"):
        assert len(scraped.labels(f"stead_http_{gauge}", "worker")) == 2
        assert scraped.sum(f"stead_http_{gauge}") == 0

    with service.connection() as idle, service.connection() as slow, service.connection() as malformed:
        idle.sendall(b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n")
        assert idle.recv(1000).startswith(b"HTTP/1.1 200")
        slow.sendall(b"POST /reshaper HTTP/1.1\r\nhost: localhost\r\ncontent-length: 100001\r\n\r\n" + b" " * 100_000)
        malformed.sendall(b"GET / HTTP/1.1\r\nhost : localhost\r\n\r\n")
        assert malformed.recv(1000).startswith(b"HTTP/1.1 400")
        service.scrape(
            lambda scraped: (
                scraped.sum("stead_http_refused_total", reason="bad_request") == 1
                and scraped.sum("stead_http_connections", state="idle") == 1
                and scraped.sum("stead_http_connections", state="body") == 1
                and 80_000 < scraped.sum("stead_http_body_bytes") < 120_000
            )
        )
    after = service.scrape(lambda scraped: scraped.sum("stead_http_connections") == 0)
    assert after.sum("stead_http_body_bytes") == 0
    assert after.sum("stead_http_refused_total", reason="bad_request") == 2  # and the body that ended too early
    assert after.sum("stead_http_refused_total") == 2


def test_attempts_to_sign_in_are_counted_by_their_outcome(service: Service) -> None:
    assert service.scrape(lambda scraped: True).labels("stead_sign_ins", "outcome") == set(SIGN_INS)
    for form, status in ((b"token=admin", b"200"), (b"token=", b"401"), (b"token=", b"401")):
        with service.connection() as browser:
            browser.sendall(
                b"POST /ui/sign-in HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/x-www-form-urlencoded\r\n"
                b"content-length: %d\r\n\r\n%b" % (len(form), form)
            )
            assert browser.recv(1000).startswith(b"HTTP/1.1 " + status)
    scraped = service.scrape(lambda scraped: scraped.sum("stead_sign_ins_total") == 3)
    assert scraped.sum("stead_sign_ins_total", outcome="refused") == 2
    assert service.log.read_text().count("sign-in refused: 127.0.0.1, failures from this address: ") == 2


def test_the_table_of_metrics_names_each_reason_of_a_refusal() -> None:
    assert {reason for reason in REASONS if f"`{reason}`" not in REFUSED.help} == set()


def test_those_who_wait_for_a_change_are_counted(service: Service) -> None:
    with service.connection() as watcher:
        watcher.sendall(
            b"GET /changes HTTP/1.1\r\nhost: localhost\r\naccept: text/event-stream\r\n"
            b"x-auth-token: admin\r\nopenstack-api-version: placement %b, stead 1.0\r\n\r\n" % NEWEST.encode()
        )
        assert watcher.recv(1000).startswith(b"HTTP/1.1 200")
        service.scrape(
            lambda scraped: (
                scraped.sum("stead_watchers") == 1 and scraped.sum("stead_http_connections", state="streaming") == 1
            )
        )
    service.scrape(lambda scraped: scraped.sum("stead_watchers") == 0)
