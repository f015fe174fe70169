"""The metrics of capacity: as a scraper reads them, beside what the API tells of the same site."""

from __future__ import annotations

import gzip
import http.client
import socket
import struct
import threading
from contextlib import ExitStack, closing, contextmanager
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families

from stead import application
from stead.config import load
from stead.domain.errors import Unavailable
from stead.domain.provider import Inventories, Sums
from stead.observation import capacity_text
from stead.observe import exporter
from stead.observe.exporter import Endpoint
from stead.observe.metrics import OF_PROVIDERS, SUMS, Group, text_of_providers, text_of_sums
from tests.system.api.client import Api, wsgi_door
from tests.system.deploy.servers import free_port
from tests.waiting import wait_until
from wsgi_lanes.hosts import Hosts

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from stead.service.service import Service

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]

TRAIT = "CUSTOM_FAST"
ZONE = "11111111-1111-4111-8111-111111111111"

HOST = {"VCPU": {"total": 8, "reserved": 1, "allocation_ratio": 4.0}, "MEMORY_MB": {"total": 2048, "reserved": 48}}
CARD = {"SRIOV_NET_VF": {"total": 16}}


def samples(text: str) -> Samples:
    """All samples of a text, which must be well-formed and have each of them once."""
    listed = [
        ((sample.name, frozenset(sample.labels.items())), sample.value)
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    ]
    assert len(dict(listed)) == len(listed)
    return dict(listed)


def value(read: Samples, name: str, **labels: str) -> float | None:
    """That of the sample with just these labels."""
    return read.get((name, frozenset(labels.items())))


@contextmanager
def started(directory: Path) -> Iterator[tuple[Service, Api]]:
    """A service without providers, on a database in *directory*, and its API."""
    file = directory / "placement.conf"
    file.write_text(
        f"[placement_database]\nconnection = sqlite:///{directory}/placement.db\nsync_on_startup = true\n"
        "[api]\nauth_strategy = noauth2\n"
    )
    settings = load([file])
    service = application.build_service(settings)
    try:
        yield service, Api(wsgi_door(application.assemble(service, settings)))
    finally:
        service.close()


@pytest.fixture
def site(tmp_path: Path) -> Iterator[tuple[Service, Api]]:
    """Two hosts, one of them with a card below it, in a zone; 12 VCPU and 5 VFs are allocated there."""
    with started(tmp_path) as (service, api):
        api.put(f"/traits/{TRAIT}").expect(201)
        zoned = api.create_provider('rack "7"\\a', inventories=HOST, aggregates=[ZONE])
        card = api.create_provider("card \N{GLOWING STAR}", parent=zoned, inventories=CARD, traits=[TRAIT])
        api.create_provider("other", inventories=HOST)
        api.claim((zoned, {"VCPU": 12}), (card, {"SRIOV_NET_VF": 5}))
        yield service, api


@pytest.mark.one_database
def test_totals_are_the_sums_of_the_site_and_of_the_chosen_traits(site: tuple[Service, Api]) -> None:
    read = samples(capacity_text(site[0], "totals", [TRAIT, "CUSTOM_UNKNOWN"]))
    assert value(read, "stead_capacity_providers", resource_class="VCPU") == 2
    assert value(read, "stead_capacity_inventory", resource_class="VCPU") == 16
    assert value(read, "stead_capacity_reserved", resource_class="MEMORY_MB") == 96
    assert value(read, "stead_capacity_allocatable", resource_class="VCPU") == 56
    assert value(read, "stead_capacity_used", resource_class="VCPU") == 12
    assert value(read, "stead_capacity_used", resource_class="SRIOV_NET_VF", trait=TRAIT) == 5
    assert not [labels for _, labels in read if dict(labels).get("trait") == "CUSTOM_UNKNOWN"]
    assert not [labels for _, labels in read if "aggregate" in dict(labels) or "hostname" in dict(labels)]


@pytest.mark.one_database
def test_an_aggregate_has_the_whole_trees_of_its_roots(site: tuple[Service, Api]) -> None:
    read = samples(capacity_text(site[0], "aggregates", []))
    assert value(read, "stead_capacity_used", resource_class="VCPU", aggregate=ZONE) == 12
    assert value(read, "stead_capacity_providers", resource_class="VCPU", aggregate=ZONE) == 1
    assert value(read, "stead_capacity_used", resource_class="SRIOV_NET_VF", aggregate=ZONE) == 5


@pytest.mark.one_database
def test_hosts_have_the_metrics_of_the_exporter_that_operators_know(site: tuple[Service, Api]) -> None:
    service, api = site
    read = samples(capacity_text(service, "hosts", []))
    expected: Samples = {}
    for provider in api.get("/resource_providers").json["resource_providers"]:
        path = f"/resource_providers/{provider['uuid']}"
        used = api.get(f"{path}/usages").json["usages"]
        for name, inventory in api.get(f"{path}/inventories").json["inventories"].items():
            labels = frozenset({("hostname", provider["name"]), ("resourcetype", name)})
            for metric in ("total", "reserved", "allocation_ratio"):
                expected[f"openstack_placement_resource_{metric}", labels] = inventory[metric]
            expected["openstack_placement_resource_usage", labels] = used[name]
    assert len(expected) == 4 * 5
    assert {key: amount for key, amount in read.items() if key[0].startswith("openstack_")} == expected


@pytest.mark.one_database
def test_a_site_of_nothing_has_no_samples(tmp_path: Path) -> None:
    file = tmp_path / "placement.conf"
    file.write_text(f"[placement_database]\nconnection = sqlite:///{tmp_path}/placement.db\nsync_on_startup = true\n")
    service = application.build_service(load([file]))
    try:
        assert capacity_text(service, "off", []) == ""
        assert samples(capacity_text(service, "hosts", [TRAIT])) == {}
    finally:
        service.close()


@pytest.mark.one_database
def test_a_scrape_works_while_the_database_does_not_answer() -> None:
    class Down:
        def snapshot(self) -> None:
            raise Unavailable("the database does not answer")

    assert capacity_text(Down(), "hosts", []) == ""  # type: ignore[arg-type]  # nothing else of it is used


@pytest.mark.one_database
@given(
    names=st.lists(st.text(min_size=1).filter(lambda name: name.isprintable()), unique=True, max_size=5),
    numbers=st.lists(st.floats(0, 1e300), min_size=5, max_size=5),
    used=st.integers(-(2**62), 2**62),
)
def test_every_name_and_number_is_read_as_it_was_written(names: list[str], numbers: list[float], used: int) -> None:
    numbers = numbers[: len(names)]
    inventories = Inventories("VCPU", names, numbers, numbers, numbers, [used] * len(names))
    read = samples(text_of_providers([inventories]))
    for metric, attribute, _ in OF_PROVIDERS:
        expected = {(metric, frozenset({("hostname", n), ("resourcetype", "VCPU")})) for n in names}
        assert {key for key in read if key[0] == metric} == expected, attribute
        for name, number in zip(names, getattr(inventories, attribute), strict=True):
            assert value(read, metric, hostname=name, resourcetype="VCPU") == float(number)
    sums = Sums("VCPU", 1, *(numbers or [0.0])[:1] * 4)
    assert len(samples(text_of_sums([Group([sums])]))) == len(SUMS)


@pytest.mark.one_database
def test_a_scraper_gets_plain_text_compressed_if_it_accepts_that() -> None:
    port = free_port()
    endpoint = Endpoint("127.0.0.1", port, CollectorRegistry(), lambda: "stead_x 1\n", Hosts())
    try:
        with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=30)) as connection:

            def ask(method: str, **headers: str) -> tuple[int, str | None, bytes]:
                connection.request(method, "/metrics", headers=headers)
                answer = connection.getresponse()
                return answer.status, answer.getheader("content-type"), answer.read()

            plain = (200, "text/plain; version=0.0.4; charset=utf-8", b"stead_x 1\n")
            assert ask("GET", Accept="application/openmetrics-text") == plain
            status, _, body = ask("GET", **{"Accept-Encoding": "gzip"})
            assert (status, gzip.decompress(body)) == (200, b"stead_x 1\n")
            assert ask("HEAD")[::2] == (200, b"")
            assert ask("POST")[0] == 405
    finally:
        endpoint.close()


@pytest.mark.one_database
def test_a_silent_scraper_is_let_go_without_a_word(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One that sends nothing, one that sends half a request, and one that resets its connection."""
    monkeypatch.setattr(exporter._SilentHandler, "timeout", 0.1)
    port = free_port()
    before = threading.active_count()
    endpoint = Endpoint("127.0.0.1", port, CollectorRegistry(), lambda: "stead_x 1\n", Hosts())
    try:
        for sent in (b"", b"GET /metrics HTTP/1.1\r\nhost:"):
            with socket.create_connection(("127.0.0.1", port), timeout=30) as client:
                client.sendall(sent)
                assert client.recv(100) == b""
        gone = socket.create_connection(("127.0.0.1", port), timeout=30)
        gone.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # so that close resets
        gone.close()
        wait_until(lambda: threading.active_count() == before + 1)
    finally:
        endpoint.close()
    assert capsys.readouterr().err == ""


@pytest.mark.one_database
def test_scrapes_at_the_same_time_share_one_answer_and_others_get_503(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exporter, "MOST_CONNECTIONS", 8)
    monkeypatch.setattr(exporter, "SHARED_TIMES", 1_000_000)
    monkeypatch.setattr(exporter, "MOST_SHARED_SECONDS", 3600.0)
    made: list[str] = []
    goes_on = threading.Event()

    def more() -> str:
        made.append("once")
        goes_on.wait(30)
        return "stead_x 1\n"

    port = free_port()
    before = threading.active_count()
    endpoint = Endpoint("127.0.0.1", port, CollectorRegistry(), more, Hosts())
    try:
        with ExitStack() as stack:

            def ask() -> socket.socket:
                client = stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=30))
                client.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
                return client

            scrapers = [ask() for _ in range(8)]
            wait_until(lambda: threading.active_count() == before + 1 + 8)
            assert ask().recv(100).startswith(b"HTTP/1.0 503 ")
            assert threading.active_count() == before + 1 + 8
            goes_on.set()
            for client in scrapers:
                with client.makefile("rb") as answer:
                    assert answer.read().endswith(b"stead_x 1\n")
            wait_until(lambda: threading.active_count() == before + 1)
            assert ask().recv(100).startswith(b"HTTP/1.0 200 ")
        assert made == ["once"]
    finally:
        goes_on.set()
        endpoint.close()
