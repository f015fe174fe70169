"""Connects a service with its log, metrics and traces, as far as the settings enable them."""

from __future__ import annotations

import atexit
import logging
import os
from contextlib import suppress
from typing import TYPE_CHECKING

from stead.auth.attempts import SIGN_INS
from stead.catalog import listing
from stead.config.settings import HOSTS_OPTION
from stead.config.values import ConfigError
from stead.domain.errors import InvalidQuery, Unavailable
from stead.observe import metrics
from stead.observe.activity import ActivityCounts
from stead.observe.exporter import all_workers
from stead.observe.metrics import Group, Recorder, text_of_flavors, text_of_providers, text_of_stranded, text_of_sums
from stead.store.extensions import flavors
from wsgi_lanes.answers import REASONS
from wsgi_lanes.hosts import Hosts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from stead.auth.attempts import SignIn
    from stead.catalog.snapshot import Mask
    from stead.config import Settings
    from stead.config.settings import CapacityMetrics
    from stead.domain.provider import Sums
    from stead.domain.request import CandidateRequest
    from stead.observe.exporter import AllWorkers
    from stead.observe.metrics import Gauge, Watcher
    from stead.service.service import Service
    from wsgi_lanes.answers import Reason
    from wsgi_lanes.server import Server

_log = logging.getLogger(__name__)

MOST_FLAVORS = 1_000
"""Maximum number of flavors that have metrics."""


class Observation:
    """The log, metrics and traces of one process. Only those that the settings enable exist."""

    def __init__(self, settings: Settings) -> None:
        """Create the enabled parts; start nothing.

        Raises:
            ConfigError: traces are enabled but the extra is not installed, or metrics are enabled without a directory.
        """
        self._settings = settings
        self._watch = settings.watch
        self._recorder = Recorder() if self._watch.metrics else None
        self._watchers: list[Watcher] = []
        self._closing: list[Callable[[], None]] = []
        self._server: Server | None = None
        self.activity_counts = ActivityCounts()
        if self._recorder is not None:
            if self._watch.metrics_dir is None:
                raise ConfigError(
                    "[stead] metrics needs [stead] metrics_directory, but for `stead serve`: an empty directory in "
                    "which all workers may write"
                )
            self._watchers.append(metrics.RequestMetrics(self._recorder))
            for outcome in SIGN_INS if settings.ui.enabled else ():
                self._recorder.record(metrics.SIGN_INS, (outcome,), 0.0)  # a first 1 would show no increase
        if settings.ui.enabled:
            self._watchers.append(self.activity_counts)
        if self._watch.traces:
            self._trace()

    @property
    def watchers(self) -> Sequence[Watcher]:
        """The watchers that receive every request."""
        return self._watchers

    def retried(self, cause: str) -> None:
        """Record that a write is retried."""
        self.activity_counts.retried(cause)
        if self._recorder is not None:
            self._recorder.record(metrics.RETRIES, (cause,))

    def refreshed(self, outcome: str, seconds: float) -> None:
        """Record a refresh of the catalog."""
        if self._recorder is not None:
            self._recorder.record(metrics.REFRESHES, (outcome,), seconds)

    def leases_ended(self, happened: str, count: int) -> None:
        """Record that leases ended; *happened* is ``release`` or ``mark``."""
        if self._recorder is not None:
            self._recorder.record(metrics.ENDED_LEASES, (happened,), count)

    def refused(self, reason: Reason) -> None:
        """Record that the HTTP server refused a request or a connection."""
        self.activity_counts.refused(reason)
        if self._recorder is not None:
            self._recorder.record(metrics.REFUSED, (reason,))

    def signed_in(self, outcome: SignIn) -> None:
        """Record an attempt to sign in to the web interface."""
        if self._recorder is not None:
            self._recorder.record(metrics.SIGN_INS, (outcome,))

    def watch_server(self, server: Server) -> None:
        """Also count and export what *server* does."""
        server.refusals.subscribe(self.refused)
        if self._recorder is None:
            return
        for reason in REASONS:
            # Create the counter with 0: a counter that first appears with 1 shows no increase.
            self._recorder.record(metrics.REFUSED, (reason,), 0.0)
        self._server = server

    def all_workers(self) -> AllWorkers | None:
        """What the workers report to each other; None without metrics, since this process then knows itself only."""
        if self._recorder is None or self._watch.metrics_dir is None:
            return None
        return all_workers(self._watch.metrics_dir)

    def start(self, service: Service, request_of: Callable[[str], CandidateRequest] | None = None) -> None:
        """Export the metrics of *service* from now on, until the process ends.

        Args:
            request_of: the request of the query of a flavor; raises InvalidQuery. None: no metrics of flavors.
        """
        process = os.getpid()
        # A forked child inherits the registration, but must not close the parent's files.
        atexit.register(lambda: self.close() if os.getpid() == process else None)
        if self._recorder is None or self._watch.metrics is None or self._watch.metrics_dir is None:
            return
        from stead.observe.exporter import Exporter

        exporter = Exporter(
            self._recorder,
            lambda: self._gauges(service),
            self._watch.metrics_dir,
            self._watch.metrics,
            lambda: self.site_text(service, request_of),
            Hosts(self._settings.ui.hosts, option=HOSTS_OPTION),
            self.activity_counts.lately if self._settings.ui.enabled else None,
        )
        self._closing.append(exporter.stop)
        exporter.start()

    def site_text(self, service: Service, request_of: Callable[[str], CandidateRequest] | None) -> str:
        """The metrics of the site that are enabled: capacity, and how many times each flavor fits."""
        text = capacity_text(service, self._watch.capacity, self._watch.capacity_traits)
        if not self._watch.headroom or request_of is None:
            return text
        return text + headroom_text(service, request_of, self._watch.headroom_aggregates)

    def close(self) -> None:
        """Export what is pending, and stop observing."""
        while self._closing:
            self._closing.pop()()

    def _gauges(self, service: Service) -> Iterator[Gauge]:
        yield from gauges(service)
        if self._server is not None:
            yield from server_gauges(self._server)

    def _trace(self) -> None:
        from stead.observe.log import Tracing

        try:
            tracing = Tracing()
        except ImportError as error:
            raise ConfigError("[stead] traces needs OpenTelemetry: pip install 'stead[otel]'") from error
        self._closing.append(tracing.close)
        self._watchers.append(tracing)


def gauges(service: Service) -> Iterator[Gauge]:
    """The current measurements of *service*."""
    vitals = service.vitals()
    yield metrics.PROVIDERS, (), vitals.providers
    yield metrics.LAG, (), vitals.lag
    yield metrics.BROKEN, (), vitals.broken_connections
    yield metrics.WATCHERS, (), vitals.watchers
    yield metrics.OVERDUE_LEASES, (), vitals.overdue_leases
    for name, pool in vitals.pools.items():
        yield metrics.POOL, (name, "in_use"), pool.in_use
        yield metrics.POOL, (name, "idle"), pool.idle
        yield metrics.POOL_LIMIT, (name,), pool.most


def capacity_text(service: Service, level: CapacityMetrics, traits: Sequence[str]) -> str:
    """The metrics of capacity of the site, in the text format; none while the database does not answer."""
    if level == "off":
        return ""
    try:
        snapshot = service.snapshot()
    except Unavailable as error:
        _log.warning("no metrics of capacity: %s", error)  # once per scrape
        return ""

    def sums(members: Mask) -> list[Sums]:
        return list(listing.sums(snapshot, members))

    groups = [Group(sums(snapshot.live))]
    groups += [Group(sums(listing.members_of_trait(snapshot, trait)), trait=trait) for trait in traits]
    if level != "totals":
        aggregates = listing.members_of_aggregates(snapshot)
        groups += [Group(sums(members), aggregate=uuid) for uuid, members in aggregates]
    text = text_of_sums(groups)
    return text + text_of_providers(listing.inventories(snapshot)) if level == "hosts" else text


def headroom_text(
    service: Service, request_of: Callable[[str], CandidateRequest], aggregates: Mapping[str, str]
) -> str:
    """How many times each flavor fits, in the text format; nothing while the database does not answer.

    Flavors whose queries are no longer valid are omitted, as are those after the first `MOST_FLAVORS`.
    """
    requests = {}
    try:
        for flavor in service.read(flavors.page_of, None, MOST_FLAVORS):
            with suppress(InvalidQuery):
                requests[flavor.name] = request_of(flavor.query)
        text = text_of_flavors(service.rooms_of_flavors(requests, aggregates))
        snapshot, _, stranded = service.stranded()
        names = snapshot.class_names.by_id
        amounts = {names[class_id].name: amount for class_id, amount in stranded.stranded.items()}
        return text + text_of_stranded(amounts)
    except Unavailable as error:
        _log.warning("no metrics of flavors: %s", error)  # once per scrape
        return ""


def server_gauges(server: Server) -> Iterator[Gauge]:
    """The current measurements of *server*."""
    for state, connections in server.states().items():
        yield metrics.HTTP_CONNECTIONS, (state,), connections
    for lane, length in server.queue_lengths().items():
        yield metrics.QUEUE_LENGTH, (lane,), length
    for lane, age in server.queue_ages().items():
        yield metrics.QUEUE_AGE, (lane,), age
    yield metrics.BODY_BYTES, (), server.bodies.used
    yield metrics.UNSENT_BYTES, (), server.unsent.used
