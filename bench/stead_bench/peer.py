"""The server that Stead is compared with, which may exceed the timeout."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from stead_bench import servers

if TYPE_CHECKING:
    from collections.abc import Callable

    from stead_bench.servers import Server, Started


@dataclass
class Peer:
    """A running server, or one that the benchmark starts.

    Attributes:
        started: the benchmark started it, and restarts it when it does not answer in time.
        is_loaded: it already has the only site of the measurement.
        is_busy: it still works on an abandoned request.
        owed: work for when it answers again: claims to release.
    """

    server: Server
    started: Started | None = None
    is_loaded: bool = False
    is_busy: bool = False
    owed: list[Callable[[], None]] = field(default_factory=list)

    def start(self) -> None:
        """Start it, unless it runs independently of the benchmark.

        Raises:
            BenchError: it does not start.
        """
        if self.started is not None:
            self.server = replace(self.server, pids=(self.started.start(),))

    def stop(self) -> None:
        """End it, if the benchmark started it."""
        if self.started is not None:
            self.started.kill()

    def gave_up(self) -> None:
        """Handle an abandoned request: the server may continue to work on it and disturb the other measurements.

        A server that the benchmark started is restarted. Another one is skipped until it is idle.
        """
        if self.started is not None:
            self.stop()
            self.start()
        else:
            self.is_busy = not servers.becomes_idle(self.server, self.server.patience * 2)

    def is_ready(self) -> bool:
        """Whether it may get requests."""
        if self.is_busy:
            self.is_busy = not servers.becomes_idle(self.server, 2.0)
        while self.owed and not self.is_busy:
            self.owed.pop()()
        return not self.is_busy
