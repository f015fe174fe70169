"""The port of the metrics, in this process."""

from __future__ import annotations

import http.client
import threading
from contextlib import closing
from typing import TYPE_CHECKING
from urllib.request import urlopen

import pytest
from prometheus_client import CollectorRegistry

from stead.observe.exporter import Endpoint, Exporter
from stead.observe.metrics import Recorder
from tests.system.deploy.servers import free_port
from wsgi_lanes.hosts import Hosts

if TYPE_CHECKING:
    from pathlib import Path


def test_nothing_of_the_beginning_is_left_to_a_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server may fork its workers as soon as it has loaded the application."""
    listened: list[threading.Thread] = []
    listen = Exporter._listen

    def noted(exporter: Exporter) -> None:
        listened.append(threading.current_thread())
        listen(exporter)

    monkeypatch.setattr(Exporter, "_listen", noted)
    port = free_port()
    exporter = Exporter(Recorder(), lambda: (), tmp_path, ("127.0.0.1", port))
    exporter.start()
    try:
        with closing(urlopen(f"http://127.0.0.1:{port}/metrics", timeout=50)) as answer:
            assert b"stead_worker_resident_bytes" in answer.read()
        assert listened == [threading.current_thread()]
    finally:
        exporter.stop()


@pytest.mark.parametrize(("host", "status"), [("localhost", 200), ("127.0.0.1", 200), ("evil.example", 403)])
def test_a_name_that_is_rebound_to_loopback_reads_no_metrics(host: str, status: int) -> None:
    port = free_port()
    endpoint = Endpoint("127.0.0.1", port, CollectorRegistry(), lambda: "stead_x 1\n", Hosts())
    try:
        with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=30)) as connection:
            connection.request("GET", "/metrics", headers={"Host": f"{host}:9778"})
            answer = connection.getresponse()
            assert (answer.status, b"stead_x 1" in answer.read()) == (status, status == 200)
    finally:
        endpoint.close()
