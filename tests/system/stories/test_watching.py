"""Who watches one worker is told what another has written, over HTTP as `stead serve` speaks it."""

from __future__ import annotations

import http.client
import json
import re
import time
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING
from urllib.parse import urlsplit
from urllib.request import urlopen

import pytest

from stead.serve.supervisor import STOP_SECONDS
from tests.conftest import write_configuration
from tests.servers.stead import started
from tests.system.api.client import NEWEST, Api, http_door
from tests.system.deploy.servers import free_port
from tests.waiting import wait_until

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.timeout(120)  # starts servers

OWN = f"{NEWEST}, stead 1.0"
HEADERS = {"X-Auth-Token": "admin", "OpenStack-API-Version": f"placement {OWN}", "Accept": "text/event-stream"}


def reporting_workers(port: int) -> int:
    """How many workers have loaded, as the metrics at *port* tell."""
    with suppress(OSError), urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as answer:
        return len(re.findall(r"^stead_worker_report_age_seconds\{", answer.read().decode(), re.MULTILINE))
    return 0


def next_event(stream: http.client.HTTPResponse) -> dict[str, str]:
    """Its fields; comments and what is no event are passed over."""
    fields: dict[str, str] = {}
    while "event" not in fields:
        fields = {}
        while line := stream.readline().decode().rstrip("\n"):
            name, _, value = line.partition(": ")
            fields[name] = value
    return fields


def test_a_stream_tells_what_any_worker_writes_and_does_not_keep_the_service_from_stopping(tmp_path: Path) -> None:
    configuration, port = write_configuration(tmp_path, f"sqlite:///{tmp_path}/stead.db"), free_port()
    with configuration.open("a") as file:
        file.write(f"[stead]\nmetrics = {port}\n")
    with ExitStack() as open_at_the_end:
        with started(configuration, workers=2) as server:
            # A connection stays with its worker: those made while the first one is alone would all be its.
            wait_until(lambda: reporting_workers(port) == 2)
            own = Api(http_door(server.url), version=OWN)
            host = own.create_provider(inventories={"VCPU": 100})
            where = urlsplit(server.url)
            connection = http.client.HTTPConnection(where.hostname or "", where.port, timeout=60)
            open_at_the_end.callback(connection.close)
            connection.request("GET", "/changes", headers=HEADERS)
            stream = connection.getresponse()
            open_at_the_end.callback(stream.close)
            assert (stream.status, stream.headers["Content-Type"]) == (200, "text/event-stream")
            assert next_event(stream)["event"] == "token"
            made = {own.claim((host, {"VCPU": 1})) for _ in range(8)}
            told: set[str] = set()
            last = ""
            while told != made:
                event = next_event(stream)
                told |= {one["uuid"] for one in json.loads(event["data"])["consumers"]}
                last = event["id"]
            late = own.claim((host, {"VCPU": 1}))
            assert late in str(json.loads(next_event(stream)["data"])["consumers"])
            again = own.get("/changes", {"since": last}).expect(200)
            assert [one["uuid"] for one in again.consumers] == [late]
            began = time.monotonic()
        assert time.monotonic() - began < STOP_SECONDS  # for so long requests under way are waited for


def test_those_who_watch_take_no_thread_from_the_others(tmp_path: Path) -> None:
    configuration = write_configuration(tmp_path, f"sqlite:///{tmp_path}/stead.db")
    with (
        started(configuration, workers=1, options=("--threads", "3")) as server,
        ExitStack() as open_at_the_end,
    ):
        where = urlsplit(server.url)
        for _ in range(12):
            connection = http.client.HTTPConnection(where.hostname or "", where.port, timeout=60)
            open_at_the_end.callback(connection.close)
            connection.request("GET", "/changes", headers=HEADERS)
            stream = connection.getresponse()
            open_at_the_end.callback(stream.close)
            assert stream.status == 200
        Api(http_door(server.url), version=OWN).get("/resource_providers").expect(200)
