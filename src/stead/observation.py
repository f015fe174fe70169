"""A service and those who watch it, introduced to each other: log, metrics, traces, as the settings want them."""

from __future__ import annotations

import atexit
import os
from typing import TYPE_CHECKING

from stead import __version__
from stead.config.errors import ConfigError
from stead.config.masking import mask_of
from stead.httpd.refusals import REASONS
from stead.observe import log, metrics
from stead.observe.tallies import Recorder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from stead.config import Settings
    from stead.httpd.refusals import Reason
    from stead.httpd.server import Server
    from stead.observe.notes import Watcher
    from stead.observe.tallies import Gauge
    from stead.service.service import Service


class Observation:
    """Who watches one process. What the settings do not ask for does not exist."""

    def __init__(self, settings: Settings) -> None:
        """Nothing runs yet.

        Raises:
            ConfigError: traces are wanted without the extra, or metrics without a directory.
        """
        self._settings = settings
        self._watch = settings.watch
        self._recorder = Recorder() if self._watch.metrics else None
        self._watchers: list[Watcher] = []
        self._closing: list[Callable[[], None]] = []
        self._server: Server | None = None
        if self._recorder is not None:
            if self._watch.metrics_dir is None:
                raise ConfigError(
                    "[stead] metrics needs [stead] metrics_directory, but for `stead serve`: an empty directory in "
                    "which all workers may write"
                )
            self._watchers.append(metrics.RequestMetrics(self._recorder))
        if self._watch.traces:
            self._trace()

    @property
    def watchers(self) -> Sequence[Watcher]:
        """Whoever wants to be told of every request."""
        return self._watchers

    def retried(self, cause: str) -> None:
        """A write is tried again."""
        if self._recorder is not None:
            self._recorder.record(metrics.RETRIES, (cause,))

    def refreshed(self, found: str, seconds: float) -> None:
        """The memory was refreshed."""
        if self._recorder is not None:
            self._recorder.record(metrics.REFRESHES, (found,), seconds)

    def refused(self, reason: Reason) -> None:
        """The HTTP server refused a request or a connection."""
        if self._recorder is not None:
            self._recorder.record(metrics.REFUSED, (reason,))

    def watch_server(self, server: Server) -> None:
        """Show the metrics of *server* too."""
        if self._recorder is None:
            return
        for reason in REASONS:
            self._recorder.record(metrics.REFUSED, (reason,), 0.0)  # a counter that appears with 1 has no increase
        server.refusals.tell(self.refused)
        self._server = server

    def start(self, service: Service) -> None:
        """Show the metrics of *service* from now on, until the process ends."""
        process = os.getpid()
        atexit.register(lambda: self.close() if os.getpid() == process else None)  # a child inherits what is registered
        if self._recorder is None or self._watch.metrics is None or self._watch.metrics_dir is None:
            return
        from stead.observe.exporter import Exporter

        exporter = Exporter(self._recorder, lambda: self._gauges(service), self._watch.metrics_dir, self._watch.metrics)
        self._closing.append(exporter.stop)
        exporter.start()

    def close(self) -> None:
        """Tell what was not told yet, and watch no more."""
        while self._closing:
            self._closing.pop()()

    def _gauges(self, service: Service) -> Iterator[Gauge]:
        yield from gauges(service)
        if self._server is not None:
            yield from server_gauges(self._server)

    def _trace(self) -> None:
        from stead.observe.tracing import Tracing

        try:
            tracing = Tracing()
        except ImportError as error:
            raise ConfigError("[stead] traces needs OpenTelemetry: pip install 'stead[otel]'") from error
        self._closing.append(tracing.close)
        self._watchers.append(tracing)


def set_up_log(settings: Settings) -> None:
    """Let this process log as it shall.

    Raises:
        ConfigError: what the options of the log say can not be done.
    """
    try:
        log.set_up(
            settings.conf,
            json_lines=settings.watch.log_json,
            version=__version__,
            mask=mask_of(settings.conf),
        )
    except ValueError as error:
        raise ConfigError(str(error)) from error


def gauges(service: Service) -> Iterator[Gauge]:
    """What *service* measures now."""
    vitals = service.vitals()
    yield metrics.PROVIDERS, (), vitals.providers
    yield metrics.LAG, (), vitals.lag
    yield metrics.BROKEN, (), vitals.broken_connections
    yield metrics.WATCHERS, (), vitals.watchers
    for name, pool in vitals.pools.items():
        yield metrics.POOL, (name, "in_use"), pool.in_use
        yield metrics.POOL, (name, "idle"), pool.idle
        yield metrics.POOL_LIMIT, (name,), pool.most


def server_gauges(server: Server) -> Iterator[Gauge]:
    """What *server* measures now."""
    for state, connections in server.states().items():
        yield metrics.HTTP_CONNECTIONS, (state,), connections
    yield metrics.QUEUE_LENGTH, (), server.queue_length()
    yield metrics.QUEUE_AGE, (), server.queue_age()
    yield metrics.BODY_BYTES, (), server.bodies.used
    yield metrics.UNSENT_BYTES, (), server.unsent.used
