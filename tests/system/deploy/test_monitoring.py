"""The dashboard and the alert rules, with a Prometheus that scrapes a running service."""

from __future__ import annotations

import json
import re
import subprocess
from typing import TYPE_CHECKING

import pytest

from scripts import dashboard
from tests.checkout import ROOT
from tests.conftest import write_configuration
from tests.servers.stead import started
from tests.system.api.client import Api, fresh_uuid, holding, http_door
from tests.system.deploy.prometheus import RULES, prometheus
from tests.system.deploy.servers import free_port, program
from tests.waiting import wait_until

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.one_database, pytest.mark.timeout(300)]  # may install Prometheus, and starts servers

NEED_MORE_THAN_CLIENTS_DO = ("stead_write_retries_total", "stead_headroom")
"""Metrics that have series only after writers met in the same moment, or with `[stead] headroom_metrics`."""


def promtool(*arguments: str | Path) -> str:
    done = subprocess.run(
        [program("promtool", "prometheus"), *arguments], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_dashboard_is_the_one_that_the_script_writes() -> None:
    assert json.loads(dashboard.FILE.read_text()) == dashboard.dashboard(), "run python -m scripts.dashboard"


def test_prometheus_accepts_the_rules() -> None:
    assert "SUCCESS" in promtool("check", "rules", RULES)


def test_each_alert_fires_when_it_should_and_not_when_all_is_well(tmp_path: Path) -> None:
    cases = ROOT.joinpath("tests", "system", "deploy", "rules_test.yaml").read_text()
    alerts = set(re.findall(r"- alert: (\w+)", RULES.read_text()))
    for alert in alerts:
        assert cases.count(f"alertname: {alert}") == 1, alert
        assert cases.count(f'alertname="{alert}"') == 1, alert
    file = tmp_path / "rules_test.yaml"
    file.write_text(cases.replace("[RULES]", json.dumps([str(RULES)])))
    promtool("test", "rules", file)


def use(api: Api) -> None:
    """What clients do: read, write, claim, ask for too much, and get it wrong."""
    host = api.create_provider(inventories={"VCPU": 4})
    api.claim((host, {"VCPU": 2}))
    api.delete(f"/allocations/{api.claim((host, {'VCPU': 1}))}").expect(204)
    api.put(f"/allocations/{fresh_uuid()}", holding((host, {"VCPU": 3}))).expect(409)
    api.get("/allocation_candidates?resources=VCPU:1").expect(200)
    api.get("/allocation_candidates?resources=VCPU:100").expect(200)
    api.get("/nowhere").expect(404)


def test_each_expression_of_the_dashboard_selects_series_of_a_running_service(tmp_path: Path) -> None:
    program("prometheus", "prometheus")  # or the test is skipped, before anything starts
    configuration, port = write_configuration(tmp_path, f"sqlite:///{tmp_path}/placement.db"), free_port()
    with started(configuration, workers=2, options=("--metrics", str(port))) as server:
        api = Api(http_door(server.url))
        use(api)
        expressions = [
            expression.replace("$resource_class", "VCPU").replace("$__rate_interval", "1m")
            for panels in dashboard.ROWS.values()
            for panel in panels
            for expression, _ in panel.queries
        ]
        with prometheus(tmp_path, port) as scraper:
            for expression in expressions:
                if not any(metric in expression for metric in NEED_MORE_THAN_CLIENTS_DO):
                    wait_until(lambda expression=expression: scraper.now(expression), f"no series: {expression}")  # type: ignore[misc]  # mypy infers no type of a default in a lambda
            wait_until(lambda: scraper.now("ALERTS") == [], "an alert of a service that is well")
