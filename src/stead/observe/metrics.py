"""The metrics: names, meanings, and how a request is counted. Listed in docs/operations.md."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING

from stead.observe.tallies import Metric

if TYPE_CHECKING:
    from wsgiref.types import WSGIEnvironment

    from stead.observe.notes import Notes
    from stead.observe.tallies import Recorder

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
    "Consumers in PUT and POST of allocations and in reshapes, by outcome: `written`, `conflict` (409), "
    "`invalid` (other 4xx), `failed` (5xx).",
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
REFUSED = Metric(
    "stead_http_refused_total",
    "counter",
    "Requests and connections that `stead serve` rejected before the application. The request broke "
    "HTTP/1.1: `bad_request`, `not_implemented`, `head_too_large` (`[stead] max_head_size`), `proxy_protocol` "
    "(`proxy_protocol_from`). The client "
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
    REQUESTS, PHASES, CANDIDATES, CUT, CLAIMS, CONFLICTS, RETRIES, REFRESHES, PROVIDERS, LAG, POOL, POOL_LIMIT, BROKEN,
    WATCHERS, REFUSED, SIGN_INS, HTTP_CONNECTIONS, QUEUE_LENGTH, QUEUE_AGE, BODY_BYTES, UNSENT_BYTES, MEMORY, CPU,
    REPORTED, WORKERS, WORKER_FAILURES, BUILD,
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
