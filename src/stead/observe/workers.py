"""What all workers of a service report, for people: counts of claims and conflicts, and how current each worker is."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from stead.observe.metrics import CLAIMS, CONFLICTS, LAG, REFUSED, RETRIES
from stead.observe.reports import Reports

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path


class Worker(NamedTuple):
    """One worker: its process id, seconds since its snapshot was known to be current, and the age of that report."""

    process: str
    lag: float
    age: float


class AllWorkers(NamedTuple):
    """The workers that run, and counts since the service was started, by outcome, cause or reason."""

    workers: Sequence[Worker]
    claims: Mapping[str, int]
    conflicts: Mapping[str, int]
    retries: Mapping[str, int]
    refused_requests: Mapping[str, int]


def all_workers(directory: Path) -> AllWorkers:
    """What the reports of the metrics in *directory* say."""
    sums, reports = Reports(directory).peek()
    counts: dict[str, dict[str, int]] = {}
    for name, labels, values in sums:
        if len(labels) == 1 and values[-1]:
            counts.setdefault(name, {})[labels[0]] = int(values[-1])
    workers = [
        Worker(report.worker, value, report.age)
        for report in reports
        for name, _, value in report.measured
        if name == LAG.name
    ]
    return AllWorkers(workers, *(counts.get(metric.name, {}) for metric in (CLAIMS, CONFLICTS, RETRIES, REFUSED)))
