"""The metrics for Prometheus, on their own port. Whichever worker gets the port serves the metrics of all workers."""

from __future__ import annotations

import logging
import os
import resource
from pathlib import Path
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from stead.observe.metrics import BUILD, CPU, MEMORY, METRICS, REPORTED, WORKER_FAILURES, WORKERS
from stead.observe.reports import Reports
from stead.observe.scraping import Endpoint
from stead.process.background import Background
from stead.process.siblings import siblings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from prometheus_client import Metric as Family

    from stead.observe.tallies import Gauge, Labels, Metric, Recorder, Tallies

REPORT_SECONDS = 1.0

_log = logging.getLogger(__name__)


class Exporter:
    """Reports what this process counts and measures, and serves scrapes if no other worker does."""

    def __init__(
        self,
        recorder: Recorder,
        measure: Callable[[], Iterable[Gauge]],
        directory: Path,
        address: tuple[str, int],
        capacity: Callable[[], str] = str,
    ) -> None:
        """Start nothing yet.

        Args:
            measure: returns the gauges of this process, without the label of the worker.
            directory: the report directory of all workers of the service; no other program writes there.
            address: host and port to listen on.
            capacity: metrics that are the same in all workers, in the text format; called for each scrape.
        """
        self._recorder = recorder
        self._measure = measure
        self._reports = Reports(directory)
        self._address = address
        self._capacity = capacity
        self._server: Endpoint | None = None
        self._failed = False
        self._background = Background("metrics", self._step, REPORT_SECONDS)

    def start(self) -> None:
        """Report and listen once, then repeatedly in a thread.

        The first time is not in the thread: a server that forks now could do so in the middle of it. A lock that the
        thread holds at that moment, such as that of the log, would stay locked in the workers.
        """
        self._step()
        self._background.start()

    def stop(self) -> None:
        """Report a last time; serve no more scrapes."""
        # First, so that the thread neither listens again nor writes after the last report.
        self._background.stop()
        if self._server is not None:
            self._server.close()
            self._server = None
        self._report()

    def _step(self) -> float:
        self._report()
        if self._server is None:
            self._listen()
        return REPORT_SECONDS

    def _report(self) -> None:
        worker = str(os.getpid())
        measured = [
            (metric, (worker, *labels), value) for metric, labels, value in (*self._measure(), *_of_this_process())
        ]
        try:
            self._reports.write(self._recorder.tallies(), measured)
        except OSError as error:
            if not self._failed:  # warn once, since this runs every second
                _log.warning("cannot report metrics: %s", error)
            self._failed = True
        else:
            self._failed = False

    def _listen(self) -> None:
        registry = CollectorRegistry()
        registry.register(_Collected(self._reports))
        host, port = self._address
        try:
            self._server = Endpoint(host, port, registry, self._capacity)
        except OSError:
            pass  # another worker has the port; if it ends, the next worker takes over
        else:
            _log.info("metrics are at http://%s:%d/metrics", f"[{host}]" if ":" in host else host, port)


class _Collected(Collector):
    """The sum of all workers' reports, for the Prometheus library."""

    def __init__(self, reports: Reports) -> None:
        self._reports = reports

    def describe(self) -> Iterator[Family]:
        """Nothing: the metrics are fixed, and the library must not collect them when the server starts."""
        return iter(())

    def collect(self) -> Iterator[Family]:
        from stead import __version__

        sums, reports = self._reports.read()
        counted = _by_name(sums)
        gauges = [gauge for report in reports for gauge in report.measured]
        gauges += [(REPORTED.name, (report.worker,), report.age) for report in reports]
        gauges.append((BUILD.name, (__version__,), 1.0))
        if (workers := siblings()) is not None:  # of the main process, which has no report of its own
            gauges += [(WORKERS.name, (state,), float(count)) for state, count in workers.states.items()]
            counted[WORKER_FAILURES.name] = [((cause,), [float(n)]) for cause, n in workers.failures.items()]
        for metric in METRICS:
            if metric.kind == "gauge":
                yield _gauge(metric, [(labels, value) for name, labels, value in gauges if name == metric.name])
            else:
                yield _counted(metric, counted.get(metric.name, []))


def _by_name(sums: Tallies) -> dict[str, list[tuple[Labels, list[float]]]]:
    samples: dict[str, list[tuple[Labels, list[float]]]] = {}
    for name, labels, values in sums:
        samples.setdefault(name, []).append((labels, values))
    return samples


def _gauge(metric: Metric, samples: Iterable[tuple[Labels, float]]) -> Family:
    family = GaugeMetricFamily(metric.name, metric.help, labels=metric.labels)
    for labels, value in samples:
        family.add_metric(labels, value)
    return family


def _counted(metric: Metric, samples: list[tuple[Labels, list[float]]]) -> Family:
    samples = [(labels, values) for labels, values in samples if len(labels) == len(metric.labels)]
    if not samples and not metric.labels:  # it has not happened yet: report 0, not an absent metric
        samples = [((), [0.0] * (len(metric.buckets) + 2 if metric.buckets else 1))]
    if metric.kind == "counter":
        counter = CounterMetricFamily(metric.name, metric.help, labels=metric.labels)
        for labels, (value,) in samples:
            counter.add_metric(labels, value)
        return counter
    histogram = HistogramMetricFamily(metric.name, metric.help, labels=metric.labels)
    bounds = [*map(floatToGoString, metric.buckets), "+Inf"]
    for labels, (*counts, total) in samples:
        so_far, buckets = 0.0, []
        for bound, count in zip(bounds, counts, strict=True):
            so_far += count
            buckets.append((bound, so_far))
        histogram.add_metric(labels, buckets, total)
    return histogram


def _of_this_process() -> Iterator[Gauge]:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    yield MEMORY, (), pages * resource.getpagesize()
    used = resource.getrusage(resource.RUSAGE_SELF)
    yield CPU, (), used.ru_utime + used.ru_stime
