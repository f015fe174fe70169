"""The Grafana dashboard of Stead: ``python -m scripts.dashboard`` writes samples/deploy/grafana-dashboard.json.

A panel is a row of :data:`PANELS`; Grafana's JSON around it is the same for all.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FILE = Path(__file__).parent.parent / "samples" / "deploy" / "grafana-dashboard.json"

WIDTH, HEIGHT = 12, 8
"""Of a panel, in the units of Grafana, which has 24 to a line."""

SITE = 'trait="",aggregate=""'
"""Selects the sums of the whole site."""

_SOURCE = {"type": "prometheus", "uid": "${source}"}


@dataclass(frozen=True, slots=True)
class Panel:
    """One chart.

    Attributes:
        meaning: shown when the pointer is on the title.
        queries: expressions of PromQL with the legend of their series.
        unit: as Grafana names it.
        most: upper end of the axis.
        is_stacked: the series are parts of one amount.
    """

    title: str
    meaning: str
    queries: tuple[tuple[str, str], ...]
    unit: str = "short"
    most: float | None = None
    is_stacked: bool = False


ROWS: dict[str, tuple[Panel, ...]] = {
    "Capacity": (
        Panel(
            "Used share of the capacity",
            "Allocations by what can be allocated, for each resource class.",
            (
                (
                    f"stead_capacity_used{{{SITE}}} / (stead_capacity_allocatable{{{SITE}}} > 0)",
                    "{{resource_class}}",
                ),
            ),
            unit="percentunit",
            most=1.0,
        ),
        Panel(
            "Capacity of $resource_class",
            "Allocations of one resource class, and what can be allocated in all.",
            (
                (f'stead_capacity_used{{{SITE},resource_class="$resource_class"}}', "used"),
                (f'stead_capacity_allocatable{{{SITE},resource_class="$resource_class"}}', "allocatable"),
            ),
        ),
        Panel(
            "Resource providers",
            "Providers in the snapshot of a worker, and those with inventory of one resource class.",
            (
                ("max(stead_catalog_providers)", "all"),
                (f'stead_capacity_providers{{{SITE},resource_class="$resource_class"}}', "with $resource_class"),
            ),
        ),
        Panel(
            "Queries without candidates",
            "Candidate queries per second whose response has no candidate. Ask `stead explain` for the reason.",
            (('sum(rate(stead_candidates_returned_bucket{le="0.0"}[$__rate_interval]))', "without candidates"),),
            unit="reqps",
        ),
        Panel(
            "Headroom of flavors",
            "Number of times that each flavor is known to fit. Needs `[stead] headroom_metrics`.",
            (('stead_headroom{aggregate=""}', "{{flavor}}"),),
        ),
    ),
    "Requests": (
        Panel(
            "Requests by route",
            "Responses per second.",
            (
                (
                    "sum by (method, route) (rate(stead_request_duration_seconds_count[$__rate_interval]))",
                    "{{method}} {{route}}",
                ),
            ),
            unit="reqps",
            is_stacked=True,
        ),
        Panel(
            "Response time, 99th percentile",
            "Seconds until the response, by route. Compare with the phases of candidate queries.",
            (
                (
                    "histogram_quantile(0.99, sum by (le, route) "
                    "(rate(stead_request_duration_seconds_bucket[$__rate_interval])))",
                    "{{route}}",
                ),
            ),
            unit="s",
        ),
        Panel(
            "Errors",
            "Responses with a status of 400 and above, per second.",
            (
                (
                    'sum by (status) (rate(stead_request_duration_seconds_count{status=~"[45].."}[$__rate_interval]))',
                    "{{status}}",
                ),
            ),
            unit="reqps",
        ),
        Panel(
            "Phases of candidate queries",
            "Seconds of work per second, by phase.",
            (("sum by (phase) (rate(stead_candidates_phase_seconds_sum[$__rate_interval]))", "{{phase}}"),),
            unit="percentunit",
            is_stacked=True,
        ),
    ),
    "Claims": (
        Panel(
            "Claims and releases by outcome",
            "Consumers whose allocations clients wrote or deleted, per second.",
            (
                ("sum by (outcome) (rate(stead_claims_total[$__rate_interval]))", "claim {{outcome}}"),
                ("sum by (outcome) (rate(stead_releases_total[$__rate_interval]))", "release {{outcome}}"),
            ),
            unit="ops",
            is_stacked=True,
        ),
        Panel(
            "Conflicts and retries",
            "Responses 409 and retries of writes per second, by cause.",
            (
                ("sum by (cause) (rate(stead_conflicts_total[$__rate_interval]))", "409 {{cause}}"),
                ("sum by (cause) (rate(stead_write_retries_total[$__rate_interval]))", "retry {{cause}}"),
            ),
            unit="ops",
        ),
    ),
    "Workers": (
        Panel(
            "Age of the snapshots",
            "Seconds since the snapshot of each worker was known to match the database.",
            (("stead_catalog_lag_seconds", "{{worker}}"),),
            unit="s",
        ),
        Panel(
            "CPU time",
            "CPU seconds per second of each worker. Above 0.9, add workers.",
            (("deriv(stead_worker_cpu_seconds[$__rate_interval])", "{{worker}}"),),
            unit="percentunit",
        ),
        Panel(
            "Memory",
            "Resident memory of each worker.",
            (("stead_worker_resident_bytes", "{{worker}}"),),
            unit="bytes",
        ),
        Panel(
            "Queue and refused requests",
            "Requests that wait for a thread, and requests per second that the server refused.",
            (
                ("sum(stead_http_queue_length)", "waiting"),
                ("sum by (reason) (rate(stead_http_refused_total[$__rate_interval]))", "refused {{reason}}"),
            ),
        ),
        Panel(
            "Connections of clients",
            "By state.",
            (("sum by (state) (stead_http_connections)", "{{state}}"),),
            is_stacked=True,
        ),
        Panel(
            "Database connections",
            "Connections in use, and the most that each pool may open.",
            (
                ('stead_database_connections{state="in_use"}', "{{worker}} {{pool}}"),
                ("max by (pool) (stead_database_connections_limit)", "limit {{pool}}"),
            ),
        ),
    ),
}
"""Panels by the title of their row."""


def dashboard() -> dict[str, Any]:
    """The dashboard as Grafana imports it."""
    panels: list[dict[str, Any]] = []
    top = 0
    for title, row in ROWS.items():
        panels.append(
            {
                "id": len(panels) + 1, "type": "row", "title": title, "collapsed": False, "panels": [],
                "gridPos": {"x": 0, "y": top, "w": 2 * WIDTH, "h": 1},
            }
        )  # fmt: skip
        top += 1
        for number, panel in enumerate(row):
            place = {"x": number % 2 * WIDTH, "y": top + number // 2 * HEIGHT, "w": WIDTH, "h": HEIGHT}
            panels.append(_panel(panel, len(panels) + 1, place))
        top += (len(row) + 1) // 2 * HEIGHT
    return {
        "title": "Stead",
        "uid": "stead",
        "tags": ["openstack", "placement"],
        "schemaVersion": 39,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "templating": {
            "list": [
                {"name": "source", "label": "Data source", "type": "datasource", "query": "prometheus"},
                {
                    "name": "resource_class", "label": "Resource class", "type": "query", "datasource": _SOURCE,
                    "query": "label_values(stead_capacity_inventory, resource_class)", "refresh": 2, "sort": 1,
                },
            ]
        },
        "panels": panels,
    }  # fmt: skip


def _panel(panel: Panel, number: int, place: dict[str, int]) -> dict[str, Any]:
    custom = {
        "fillOpacity": 20 if panel.is_stacked else 0,
        "stacking": {"mode": "normal" if panel.is_stacked else "none"},
    }
    defaults: dict[str, Any] = {"unit": panel.unit, "min": 0, "custom": custom}
    if panel.most is not None:
        defaults["max"] = panel.most
    return {
        "id": number,
        "type": "timeseries",
        "title": panel.title,
        "description": panel.meaning,
        "datasource": _SOURCE,
        "gridPos": place,
        "fieldConfig": {"defaults": defaults, "overrides": []},
        "options": {"legend": {"displayMode": "list", "placement": "bottom"}, "tooltip": {"mode": "multi"}},
        "targets": [
            {"refId": chr(ord("A") + index), "datasource": _SOURCE, "expr": expression, "legendFormat": legend}
            for index, (expression, legend) in enumerate(panel.queries)
        ],
    }


def main() -> None:
    """Write the file."""
    FILE.write_text(json.dumps(dashboard(), indent=2) + "\n")


if __name__ == "__main__":
    main()
