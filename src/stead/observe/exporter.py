"""The metrics for Prometheus, on their own port. Whichever worker gets the port serves the metrics of all workers."""

from __future__ import annotations

import gzip
import logging
import os
import resource
import socket
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from socketserver import ThreadingMixIn
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

import orjson
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from stead.observe.activity import Lately
from stead.observe.metrics import (
    BUILD,
    CLAIMS,
    CONFLICTS,
    CPU,
    LAG,
    MEMORY,
    METRICS,
    REFUSED,
    RELEASES,
    REPORTED,
    RETRIES,
    WORKER_FAILURES,
    WORKERS,
    Tallies,
)
from stead.process.background import Background
from stead.process.siblings import siblings
from wsgi_lanes.hosts import Hosts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

    from prometheus_client import Metric as Family

    from stead.observe.metrics import Gauge, Labels, Metric, Recorder


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
        hosts: Hosts | None = None,
        lately: Callable[[], Lately] | None = None,
    ) -> None:
        """Start nothing yet.

        Args:
            measure: returns the gauges of this process, without the label of the worker.
            directory: the report directory of all workers of the service; no other program writes there.
            address: host and port to listen on.
            capacity: metrics that are the same in all workers, in the text format; called for each scrape.
            hosts: the names by which clients reach the address; None: any, but none over loopback.
            lately: what this process did, for the web interface of other workers.
        """
        self._lately = lately
        self._recorder = recorder
        self._measure = measure
        self._reports = Reports(directory)
        self._address = address
        self._capacity = capacity
        self._hosts = hosts or Hosts()
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
            self._reports.write(self._recorder.tallies(), measured, self._lately() if self._lately else None)
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
            self._server = Endpoint(host, port, registry, self._capacity, self._hosts)
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


# The HTTP endpoint that Prometheus scrapes.


# Not OpenMetrics, which Prometheus would prefer: it ends with a line after which no text can follow, and it reserves
# the suffix `_total`, which a gauge of operators' dashboards has.
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


MOST_CONNECTIONS = 32
"""Each has a thread. Further ones get 503 at once."""

SHARED_TIMES, MOST_SHARED_SECONDS = 9, 1.0
"""An answer is shared for this multiple of the time that it took, and at most for these seconds. So scrapes use a tenth
of a core, however many there are."""

_FULL = b"HTTP/1.0 503 Service Unavailable\r\nretry-after: 1\r\ncontent-length: 0\r\n\r\n"


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True  # a scraper that hangs does not keep the process from its end

    def __init__(self, *arguments: Any) -> None:
        self._free = threading.Semaphore(MOST_CONNECTIONS)
        super().__init__(*arguments)

    def process_request(self, request: Any, client_address: Any) -> None:
        if self._free.acquire(blocking=False):
            super().process_request(request, client_address)
            return
        with suppress(OSError):
            request.send(_FULL, socket.MSG_DONTWAIT)
        self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()


SILENCE_SECONDS = 10.0
"""After so long without a byte from its client, a connection ends: each has a thread."""


class _SilentHandler(WSGIRequestHandler):
    timeout = SILENCE_SECONDS  # of each read and write; the base class sets it

    def handle(self) -> None:
        with suppress(OSError):  # the client is silent, or gone: no fault of this process, and nothing to answer
            super().handle()

    def get_environ(self) -> dict[str, Any]:
        # The base class has a name that it looks up, and `Hosts` compares the address.
        return {**super().get_environ(), "SERVER_NAME": self.connection.getsockname()[0]}

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # as the base class names it
        """A line for each scrape would be of no use."""


class Endpoint:
    """Answers every path, as exporters do, in threads of its own."""

    def __init__(
        self, host: str, port: int, registry: CollectorRegistry, more: Callable[[], str], hosts: Hosts
    ) -> None:
        """It answers from now on.

        Args:
            more: metrics beside those of *registry*, in the text format.
            hosts: the names by which clients reach it.

        Raises:
            OSError: the address cannot be used; another process may have it.
        """

        class Server(_Server):
            address_family = socket.AF_INET6 if ":" in host else socket.AF_INET

        self._server = make_server(host, port, _application(registry, more, hosts), Server, _SilentHandler)
        self._thread = threading.Thread(target=self._server.serve_forever, name="metrics-endpoint", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Answer no more."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Shared:
    """The text of all metrics, which scrapes at about the same time share."""

    def __init__(self, make: Callable[[], bytes]) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._until = float("-inf")
        self._text = self._compressed = b""

    def text(self, *, compressed: bool) -> bytes:
        """The text; *compressed* with gzip. Scrapes wait while one of them makes it."""
        with self._lock:
            began = time.monotonic()
            if began >= self._until:
                self._compressed = b""
                self._text = self._make()
                ended = time.monotonic()
                self._until = ended + min(SHARED_TIMES * (ended - began), MOST_SHARED_SECONDS)
            if compressed and not self._compressed:
                # Names and labels repeat, so more effort gains little.
                self._compressed = gzip.compress(self._text, compresslevel=1)
            return self._compressed if compressed else self._text


def _application(registry: CollectorRegistry, more: Callable[[], str], hosts: Hosts) -> WSGIApplication:
    shared = _Shared(lambda: generate_latest(registry) + more().encode())

    def answer(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        if environ["REQUEST_METHOD"] not in ("GET", "HEAD"):
            start_response("405 Method Not Allowed", [("allow", "GET, HEAD"), ("content-length", "0")])
            return []
        problem = hosts.problem(environ)
        if problem is not None:
            body = f"{problem}\n".encode()
            headers = [("content-type", "text/plain; charset=utf-8"), ("content-length", str(len(body)))]
            start_response("403 Forbidden", headers)
            return [] if environ["REQUEST_METHOD"] == "HEAD" else [body]
        is_compressed = "gzip" in environ.get("HTTP_ACCEPT_ENCODING", "")
        body = shared.text(compressed=is_compressed)
        headers = [("content-type", CONTENT_TYPE), ("vary", "accept-encoding")]
        if is_compressed:
            headers.append(("content-encoding", "gzip"))
        start_response("200 OK", [*headers, ("content-length", str(len(body)))])
        return [] if environ["REQUEST_METHOD"] == "HEAD" else [body]

    return answer


# Reports of the workers' metrics: each worker writes a file, and one worker adds them up.
#
# The directory is private to the service. A file is replaced atomically, once a second. The counters of an ended
# worker are kept, since sums must not fall; its measurements are dropped.


STALE_SECONDS = 60.0
"""The measurements of a worker that has written nothing for this time are dropped."""

_GONE = "gone.json"


@dataclass(frozen=True, slots=True)
class Report:
    """The report of one worker, and when it was written (seconds since 1970)."""

    worker: str
    written: float
    counted: Sequence[tuple[str, Labels, list[float]]]
    measured: Sequence[tuple[str, Labels, float]]
    lately: Lately | None = None

    @property
    def age(self) -> float:
        """Age of the report in seconds."""
        return max(time.time() - self.written, 0.0)

    @property
    def is_stale(self) -> bool:
        """Whether its measurements are out of date."""
        return self.age > STALE_SECONDS


class Reports:
    """The reports in one directory. Thread-safe, as long as only one process reads."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._own = f"{os.getpid()}-{time.time_ns()}.json"  # another process may reuse the pid later
        self._reading = Lock()

    def write(
        self,
        counted: Iterable[tuple[str, Labels, list[float]]],
        measured: Iterable[Gauge],
        lately: Lately | None = None,
    ) -> None:
        """Replace the report of this process.

        Raises:
            OSError
        """
        gauges = [(metric.name, labels, value) for metric, labels, value in measured]
        report = {"written": time.time(), "counted": list(counted), "measured": gauges}
        if lately is not None:
            strip = [lately.strip.width, {str(number): pair for number, pair in lately.strip.bins.items()}]
            report["lately"] = [lately.began, strip, [list(event) for event in lately.events]]
        self._replace(self._own, report)

    def read(self) -> tuple[Tallies, list[Report]]:
        """The sum of all counters ever written here, and the reports of the running workers."""
        with self._reading:
            reports = {file: report for file in sorted(self._directory.glob("*.json")) if (report := _read(file))}
            ended = {file: report for file, report in reports.items() if report.is_stale and not _runs(file)}
            if any(file.name != _GONE for file in ended):
                self._fold(ended)
        sums = Tallies()
        for report in reports.values():
            sums.merge(report.counted)
        return sums, [report for report in reports.values() if not report.is_stale]

    def _fold(self, ended: Mapping[Path, Report]) -> None:
        """Merge the counters of ended workers into one file, so that the number of files stays bounded."""
        gone = Tallies()
        for report in ended.values():
            gone.merge(report.counted)
        # The sum before the deletions: if the process ends in between, counters are too high for once, but never fall.
        self._replace(_GONE, {"written": 0.0, "counted": list(gone), "measured": []})
        for file in ended:
            if file.name != _GONE:
                file.unlink(missing_ok=True)

    def peek(self) -> tuple[Tallies, list[Report]]:
        """As :meth:`read`, for any process at any time: it changes no file."""
        reports = [report for file in sorted(self._directory.glob("*.json")) if (report := _read(file))]
        sums = Tallies()
        for report in reports:
            sums.merge(report.counted)
        return sums, [report for report in reports if not report.is_stale]

    def _replace(self, name: str, content: object) -> None:
        draft = self._directory / f"{name}.draft"
        draft.write_bytes(orjson.dumps(content))
        draft.replace(self._directory / name)


def _read(file: Path) -> Report | None:
    """The report in *file*; None if it is gone or not a report."""
    with suppress(OSError, ValueError, KeyError, TypeError):
        written = orjson.loads(file.read_bytes())
        counted = [(name, tuple(labels), values) for name, labels, values in written["counted"]]
        measured = [(name, tuple(labels), value) for name, labels, value in written["measured"]]
        lately = Lately.read(*written["lately"]) if "lately" in written else None
        return Report(file.stem.partition("-")[0], written["written"], counted, measured, lately)
    return None


def _runs(file: Path) -> bool:
    """Whether the process that wrote *file* may still run. If another process reuses its pid, the file just stays."""
    try:
        os.kill(int(file.stem.partition("-")[0]), 0)
    except (ProcessLookupError, ValueError):  # ValueError: the merged file of ended workers has no pid
        return False
    except OSError:
        return True
    return True


# What all workers of a service report, for people: counts of claims and conflicts, and how current each worker is.


class Worker(NamedTuple):
    """One worker: its process id, seconds since its snapshot was known to be current, and the age of that report."""

    process: str
    lag: float
    age: float


class AllWorkers(NamedTuple):
    """The workers that run, and counts since the service was started, by outcome, cause or reason."""

    workers: Sequence[Worker]
    claims: Mapping[str, int]
    releases: Mapping[str, int]
    conflicts: Mapping[str, int]
    retries: Mapping[str, int]
    refused_requests: Mapping[str, int]
    lately: Sequence[Lately] = ()
    """Of each worker, also of those that ended lately."""


_COUNTED = (CLAIMS, RELEASES, CONFLICTS, RETRIES, REFUSED)
"""In the order of the fields of `AllWorkers`."""


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
    lately = [report.lately for report in reports if report.lately is not None]
    claims, releases, conflicts, retries, refused = (counts.get(metric.name, {}) for metric in _COUNTED)
    return AllWorkers(workers, claims, releases, conflicts, retries, refused, lately)
