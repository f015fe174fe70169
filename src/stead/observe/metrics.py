"""The metrics: names, meanings, and how a request is counted. Listed in docs/operations.md."""

from __future__ import annotations

import re
import time
from bisect import bisect_left
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from wsgiref.types import WSGIEnvironment

    from stead.domain.provider import Inventories, Sums
    from stead.domain.request import FlavorRoom


# Counters and histograms of one process: recorded without a lock, and added up by the reader.
#
# A request only appends a tuple to a queue: an append takes no lock and is thread-safe.


Labels = tuple[str, ...]

MOST_WAITING = 200_000
"""Maximum number of unread events. If nothing reads them, as after a fork, the oldest are dropped."""


@dataclass(frozen=True, slots=True, eq=False)
class Metric:
    """A metric. ``buckets`` are the upper bounds of a histogram, ascending, without infinity."""

    name: str
    kind: Literal["counter", "histogram", "gauge"]
    help: str
    labels: Labels = ()
    buckets: tuple[float, ...] = ()


Gauge = tuple[Metric, Labels, float]
"""A current measurement."""


class Tallies:
    """Values by metric and labels. For a counter: the sum. For a histogram: the count of each bucket, then the count
    beyond the last bucket, then the sum of all values.
    """

    def __init__(self) -> None:
        self._values: dict[tuple[str, Labels], list[float]] = {}

    def __iter__(self) -> Iterator[tuple[str, Labels, list[float]]]:
        for (name, labels), values in self._values.items():
            yield name, labels, values

    def add(self, metric: Metric, labels: Labels, value: float) -> None:
        """Add *value*."""
        key = metric.name, labels
        values = self._values.get(key)
        if values is None:
            values = self._values[key] = [0.0] * (len(metric.buckets) + 2 if metric.kind == "histogram" else 1)
        if metric.kind == "histogram":
            values[bisect_left(metric.buckets, value)] += 1
        values[-1] += value

    def merge(self, others: Iterable[tuple[str, Labels, list[float]]]) -> None:
        """Add the values of another process. Histograms with other buckets, from another version, are left out."""
        for name, labels, values in others:
            own = self._values.setdefault((name, labels), [0.0] * len(values))
            if len(own) == len(values):
                own[:] = map(sum, zip(own, values, strict=True))


class Recorder:
    """The events of this process. Thread-safe."""

    def __init__(self) -> None:
        self._events: deque[tuple[Metric, Labels, float]] = deque(maxlen=MOST_WAITING)
        self._tallies = Tallies()

    def record(self, metric: Metric, labels: Labels = (), value: float = 1.0) -> None:
        """Record an event; takes 0.1 µs."""
        self._events.append((metric, labels, value))

    def tallies(self) -> Tallies:
        """The sums of all events; only one thread at a time may call this."""
        events = self._events
        # Only the events of now, because requests append more meanwhile, and the loop must end.
        for _ in range(len(events)):
            self._tallies.add(*events.popleft())
        return self._tallies


SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
PHASE_SECONDS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0)
NUMBERS = (0.0, 1.0, 10.0, 100.0, 1_000.0, 10_000.0, 100_000.0)

REQUESTS = Metric(
    "stead_request_duration_seconds",
    "histogram",
    "Requests by route and status: their number (`_count`) and the seconds until their response. "
    "`route` is the template of the path, or `none` for requests that reached no route (401, 404).",
    ("method", "route", "status"),
    SECONDS,
)
PHASES = Metric(
    "stead_candidates_phase_seconds",
    "histogram",
    "Candidate queries, by phase: `refresh` (updating the snapshot), `resolve`, `match`, `trees`, "
    "`combine` (with the order and the limit), `render`. "
    "A query that was answered since the last change has only `refresh`.",
    ("phase",),
    PHASE_SECONDS,
)
CANDIDATES = Metric(
    "stead_candidates_returned",
    "histogram",
    "Candidates in a response. Bucket `0` counts queries without candidates.",
    (),
    NUMBERS,
)
CUT = Metric(
    "stead_candidates_incomplete_total",
    "counter",
    "Candidate queries that spent `[stead] max_candidate_work` and returned the candidates found until then.",
)
CLAIMS = Metric(
    "stead_claims_total",
    "counter",
    "Consumers whose allocations a request creates or replaces, by outcome: `written`, `conflict` (409), "
    "`invalid` (other 4xx), `failed` (5xx). Such are the consumers of POST `/claims`, PUT and POST of allocations, "
    "reshapes and the web interface.",
    ("outcome",),
)
RELEASES = Metric(
    "stead_releases_total",
    "counter",
    "Consumers whose allocations a request deletes, by outcome as in `stead_claims_total`: DELETE of allocations, "
    "empty allocations in PUT, POST and reshapes, and the web interface.",
    ("outcome",),
)
CONFLICTS = Metric(
    "stead_conflicts_total",
    "counter",
    "Responses 409 by cause. No room: `capacity_exceeded` and `units_violated`. The client's generation is old: "
    "`generation_conflict` and `consumer_conflict`. Other clients changed it first, until the time limit: "
    "`concurrent_update`. There are others.",
    ("cause",),
)
RETRIES = Metric(
    "stead_write_retries_total",
    "counter",
    "Retries of writes, by cause. Another writer changed a row first: `race`. Another writer inserted the same key "
    "first: `duplicate`. A deadlock or a failed certification: `deadlock`. A lock of the database: `busy`. A commit "
    "without a response: `commit_unanswered`. A connection that broke before the commit: `connection_lost`.",
    ("cause",),
)
REFRESHES = Metric(
    "stead_catalog_refresh_seconds",
    "histogram",
    "Refreshes of the snapshot: `unchanged` (nothing to do), `changes`, `everything` (a full reload) or `failed`.",
    ("kind",),
    PHASE_SECONDS,
)
PROVIDERS = Metric("stead_catalog_providers", "gauge", "Providers in the snapshot.", ("worker",))
LAG = Metric(
    "stead_catalog_lag_seconds",
    "gauge",
    "Seconds since the snapshot was last known to match the database; at most about 2 while all is well.",
    ("worker",),
)
POOL = Metric(
    "stead_database_connections",
    "gauge",
    "Connections of a pool (`reader`, `writer`) that are `in_use` or `idle`.",
    ("worker", "pool", "state"),
)
POOL_LIMIT = Metric(
    "stead_database_connections_limit",
    "gauge",
    "Maximum number of connections of a pool, with its overflow.",
    ("worker", "pool"),
)
BROKEN = Metric("stead_database_connections_broken", "gauge", "Connections that broke since the start.", ("worker",))
WATCHERS = Metric(
    "stead_watchers", "gauge", "Requests of `/changes` that wait for a change (`[stead] max_watchers`).", ("worker",)
)
ENDED_LEASES = Metric(
    "stead_leases_ended_total",
    "counter",
    "Leases that ended by themselves, by what happened to the allocations: `release`, or `mark` if they stay.",
    ("happened",),
)
OVERDUE_LEASES = Metric(
    "stead_leases_overdue",
    "gauge",
    "Consumers whose lease ended and whose allocations stay until their owner releases or renews them.",
    ("worker",),
)
REFUSED = Metric(
    "stead_http_refused_total",
    "counter",
    "Requests and connections that `stead serve` rejected before the application. The request broke "
    "HTTP/1.1: `bad_request`, `not_implemented`, `head_too_large` (`[stead] max_head_size`), `protocol` (TLS on a "
    "port of plain HTTP, or the reverse), `proxy_protocol` (`proxy_protocol_from`). The client "
    "was too slow: `head_timeout`, `body_timeout`, `unread_answer` (`send_timeout`). The worker was "
    "full: `connections` (`max_connections`; an idle one was closed for a new one), `bodies` "
    "(`max_bodies_size`), `answers` (`max_unsent_size`), `queue_full` (`max_queue`, "
    "`max_queue_per_client`), `queue_timeout`.",
    ("reason",),
)
SIGN_INS = Metric(
    "stead_sign_ins_total",
    "counter",
    "Attempts to sign in to the web interface, by outcome. The credential is valid: `accepted`. A token of Keystone is "
    "validated later. It is not valid: `refused`. The log has the address. Too many failures, or too many at once: "
    "`delayed`. Keystone did not answer: `unavailable`.",
    ("outcome",),
)
HTTP_CONNECTIONS = Metric(
    "stead_http_connections",
    "gauge",
    "Connections of clients to `stead serve`, by state. Before a request: `opening` (TLS), `head` (waits for a request "
    "head), `idle` (between requests). In a request: `body` (receives a body), `working` (waits for a thread or its "
    "response). After it: `sending` (waits for the client to read), `streaming`, `lingering` (waits for the client to "
    "close).",
    ("worker", "state"),
)
QUEUE_LENGTH = Metric(
    "stead_http_queue_length",
    "gauge",
    "Requests that wait for a thread (`[stead] max_queue`), by lane. Writes: `claim`. Small reads: `read`. Requests "
    "that may take long or have large responses: `bulk`. Requests whose client may have disconnected: `abandoned`.",
    ("worker", "lane"),
)
QUEUE_AGE = Metric(
    "stead_http_queue_age_seconds",
    "gauge",
    "Seconds since the oldest request of a lane that waits for a thread arrived (`[stead] queue_timeout`); 0 if "
    "no request waits. A lane whose age grows is stuck, whatever `/healthcheck` says.",
    ("worker", "lane"),
)
BODY_BYTES = Metric(
    "stead_http_body_bytes",
    "gauge",
    "Memory of requests that are received or wait (`[stead] max_bodies_size`), without the first 16 KiB of each.",
    ("worker",),
)
UNSENT_BYTES = Metric(
    "stead_http_unsent_bytes",
    "gauge",
    "Responses in memory that clients have not read yet (`[stead] max_unsent_size`).",
    ("worker",),
)
MEMORY = Metric("stead_worker_resident_bytes", "gauge", "Resident memory of a worker.", ("worker",))
CPU = Metric("stead_worker_cpu_seconds", "gauge", "CPU seconds of a worker since its start.", ("worker",))
REPORTED = Metric(
    "stead_worker_report_age_seconds",
    "gauge",
    "Seconds since the last report of a worker. 1 or 2, unless the worker is stopped, hangs, or has ended.",
    ("worker",),
)
WORKERS = Metric(
    "stead_workers",
    "gauge",
    "Workers of `stead serve`, by state: `serving`, `starting`, `ending`, and `missing`, which is the number of "
    "`--workers` that do not serve.",
    ("state",),
)
WORKER_FAILURES = Metric(
    "stead_worker_failures_total",
    "counter",
    "Workers that `stead serve` replaced. The worker ended by itself: `ended`. It ended before it served: "
    "`not_started`. It did not answer its health check (`[stead] worker_timeout`): `unresponsive`.",
    ("cause",),
)
BUILD = Metric("stead_build_info", "gauge", "Always 1. The version is in the label.", ("version",))

METRICS: tuple[Metric, ...] = (
    REQUESTS, PHASES, CANDIDATES, CUT, CLAIMS, RELEASES, CONFLICTS, RETRIES, REFRESHES, PROVIDERS, LAG, POOL,
    POOL_LIMIT, BROKEN, WATCHERS, ENDED_LEASES, OVERDUE_LEASES, REFUSED, SIGN_INS, HTTP_CONNECTIONS, QUEUE_LENGTH,
    QUEUE_AGE, BODY_BYTES, UNSENT_BYTES, MEMORY, CPU, REPORTED, WORKERS, WORKER_FAILURES, BUILD,
)  # fmt: skip

METHODS = frozenset({"GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH"})
"""All other methods share one label. Otherwise clients could fill the memory with invented methods."""


class RequestMetrics:
    """Counts requests; a watcher."""

    def __init__(self, recorder: Recorder) -> None:
        self._record = recorder.record

    def __call__(self, environ: WSGIEnvironment, notes: Notes) -> None:
        """Count one request."""
        record = self._record
        method = environ["REQUEST_METHOD"]
        labels = (method if method in METHODS else "other", notes.route or "none", str(notes.status))
        record(REQUESTS, labels, notes.seconds)
        if notes.marks:
            for phase, seconds in notes.phases().items():
                record(PHASES, (phase,), seconds)
        if notes.candidates is not None:
            record(CANDIDATES, (), notes.candidates)
            if notes.is_cut:
                record(CUT)
        if notes.claims:
            record(CLAIMS, (_outcome(notes.status),), notes.claims)
        if notes.releases:
            record(RELEASES, (_outcome(notes.status),), notes.releases)
        if notes.status == 409:
            record(CONFLICTS, (cause(notes.error or "other"),))


def _outcome(status: int) -> str:
    if status < 400:
        return "written"
    if status == 409:
        return "conflict"
    return "invalid" if status < 500 else "failed"


@lru_cache
def cause(error: str) -> str:
    """The name of an error as a label: ``CapacityExceeded`` → ``capacity_exceeded``."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", error).lower()


# Facts about a request, collected for the log, the metrics and the traces.


NOTES_KEY = "stead.notes"
"""The environ key of the notes. It is absent if there are no watchers."""

Marks = list[tuple[str, float]]
"""Phases in the order in which they ended, each with the time of its end on ``time.perf_counter``."""


class Notes:
    """The facts about one request. Unknown facts keep their defaults.

    ``began`` and ``ended`` are of ``time.perf_counter``; ``began_wall`` is in nanoseconds since 1970. ``route`` is the
    template of the path, None if no route matched or routing was not reached. ``error`` names the exception. ``claims``
    counts the consumers whose allocations the request creates or replaces, ``releases`` those that lose all. ``asked``
    spells what a claim asks for as a query of candidates. ``marks`` starts with the beginning of the first phase.
    """

    __slots__ = (
        "asked",
        "began",
        "began_wall",
        "bytes",
        "candidates",
        "claims",
        "ended",
        "error",
        "is_cut",
        "marks",
        "microversion",
        "phases_began",
        "project",
        "releases",
        "route",
        "status",
    )

    def __init__(self) -> None:
        self.began_wall = time.time_ns()
        self.began = self.ended = self.phases_began = time.perf_counter()
        self.route: str | None = None
        self.status = 0
        self.bytes: int | None = None
        self.microversion: str | None = None
        self.project: str | None = None
        self.error: str | None = None
        self.claims = 0
        self.releases = 0
        self.asked: Callable[[], str] | None = None
        self.candidates: int | None = None
        self.is_cut = False
        self.marks: Marks = []

    @property
    def seconds(self) -> float:
        """Duration from the arrival to the answer."""
        return self.ended - self.began

    def spans(self) -> Iterable[tuple[str, float, float]]:
        """Every phase with its start and its end."""
        begin = self.phases_began
        for name, end in self.marks:
            yield name, begin, end
            begin = end

    def phases(self) -> dict[str, float]:
        """Seconds by phase; repeated phases are added up."""
        seconds: dict[str, float] = {}
        for name, begin, end in self.spans():
            seconds[name] = seconds.get(name, 0.0) + end - begin
        return seconds

    def facts(self) -> dict[str, Any]:
        """The known facts, under the names of the log's fields."""
        facts: dict[str, Any] = {"status": self.status, "seconds": round(self.seconds, 6)}
        for name in ("route", "bytes", "microversion", "project", "error", "candidates"):
            value = getattr(self, name)
            if value is not None:
                facts[name] = value
        if self.claims:
            facts["claims"] = self.claims
        if self.releases:
            facts["releases"] = self.releases
        if self.is_cut:
            facts["incomplete"] = True
        if self.marks:
            facts["phases"] = {name: round(seconds, 6) for name, seconds in self.phases().items()}
        return facts


Watcher = Callable[["WSGIEnvironment", Notes], None]
"""Called for every request when its answer is known."""


def notify(watchers: Sequence[Watcher], environ: WSGIEnvironment, notes: Notes) -> None:
    """Call all *watchers* for a request that has its answer."""
    notes.ended = time.perf_counter()
    for watcher in watchers:
        watcher(environ, notes)


# Metrics of capacity, in the text format of Prometheus: sums of the site, and the inventories of each provider.
#
# Text is written straight from lists: prometheus_client would make an object of each of 100,000 samples. The names of
# the metrics of providers are those of the exporter that OpenStack operators use.


SUMS = (
    ("stead_capacity_providers", "providers", "Resource providers with inventory of a class."),
    ("stead_capacity_inventory", "total", "Totals of the inventories of a class."),
    ("stead_capacity_reserved", "reserved", "Reserved amounts of the inventories of a class."),
    (
        "stead_capacity_allocatable",
        "capacity",
        "Capacity of the inventories of a class: (total - reserved) * allocation_ratio of each.",
    ),
    ("stead_capacity_used", "used", "Allocations of a class."),
)
"""Name, attribute of `Sums` and meaning."""

OF_PROVIDERS = (
    ("openstack_placement_resource_total", "total", "Total of an inventory."),
    ("openstack_placement_resource_reserved", "reserved", "Reserved amount of an inventory."),
    ("openstack_placement_resource_allocation_ratio", "allocation_ratio", "Allocation ratio of an inventory."),
    ("openstack_placement_resource_usage", "used", "Allocations of an inventory."),
)
"""Name, attribute of `Inventories` and meaning."""


@dataclass(frozen=True, slots=True)
class Group:
    """Providers that are summed: all of them, those with a trait, or those of an aggregate; and their sums."""

    sums: Sequence[Sums]
    trait: str = ""
    aggregate: str = ""

    @property
    def labels(self) -> str:
        """The labels that select the group, with a comma in front; none for all providers."""
        parts = (("trait", self.trait), ("aggregate", self.aggregate))
        return "".join(f',{name}="{escaped(value)}"' for name, value in parts if value)


def escaped(value: str) -> str:
    """*value* as that of a label. Source: "Text-based format" of the Prometheus documentation."""
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def text_of_sums(groups: Iterable[Group]) -> str:
    """The metrics of :data:`SUMS`."""
    groups = list(groups)
    return "".join(
        family(
            name,
            meaning,
            (
                # 17 digits distinguish any two floats.
                f'{name}{{resource_class="{sums.resource_class}"{group.labels}}} {getattr(sums, attribute):.17g}\n'
                for group in groups
                for sums in group.sums
            ),
        )
        for name, attribute, meaning in SUMS
    )


def text_of_providers(classes: Iterable[Inventories]) -> str:
    """The metrics of :data:`PROVIDERS`. ``hostname`` is the name of the provider, which for a root is its host's."""
    by_class = [(inventories, _labels(inventories)) for inventories in classes]
    return "".join(
        family(name, meaning, _samples(name, attribute, by_class)) for name, attribute, meaning in OF_PROVIDERS
    )


def _labels(inventories: Inventories) -> list[str]:
    """The labels of each provider, with the space after them; written once for all metrics."""
    rest = f'",resourcetype="{inventories.resource_class}"}} '
    return [f'{{hostname="{escaped(name)}{rest}' for name in inventories.providers]


def _samples(name: str, attribute: str, by_class: Sequence[tuple[Inventories, list[str]]]) -> Iterator[str]:
    for inventories, labels in by_class:
        values = getattr(inventories, attribute)
        yield "".join([f"{name}{label}{value:.17g}\n" for label, value in zip(labels, values, strict=True)])


def family(name: str, meaning: str, samples: Iterable[str]) -> str:
    """One metric, a gauge, with its *samples*, a line each."""
    return f"# HELP {name} {meaning}\n# TYPE {name} gauge\n{''.join(samples)}"


# Metrics of flavors, in the text format of Prometheus: how many times each fits, as two bounds.


FLAVORS = (
    ("stead_headroom", "at_least", "Number of times that a flavor is known to fit."),
    ("stead_headroom_at_most", "at_most", "Number of times that a flavor fits at most."),
)
"""Name, attribute of `FlavorRoom` and meaning."""


STRANDED = "stead_stranded"


def text_of_stranded(amounts: Mapping[str, int]) -> str:
    """The metric of what is stranded for the mix, by resource class."""
    samples = (f'{STRANDED}{{resource_class="{name}"}} {amount:.17g}\n' for name, amount in amounts.items())
    return family(STRANDED, "Free amount that the flavors cannot use, on average by weight.", samples)


def text_of_flavors(rooms: Iterable[FlavorRoom]) -> str:
    """The metrics of :data:`FLAVORS`; those of all trees have no label ``aggregate``."""
    labelled = []
    for room in rooms:
        aggregate = f',aggregate="{escaped(room.aggregate)}"' if room.aggregate else ""
        labelled.append((f'{{flavor="{escaped(room.flavor)}"{aggregate}}}', room))
    return "".join(
        family(name, meaning, (f"{name}{labels} {getattr(room, attribute):.17g}\n" for labels, room in labelled))
        for name, attribute, meaning in FLAVORS
    )
