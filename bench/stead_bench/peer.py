"""The server that Stead is compared with, which may take longer than anybody waits."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from stead_bench import servers

if TYPE_CHECKING:
    from collections.abc import Callable

    from stead_bench.servers import Server, Started


@dataclass
class Peer:
    """A server that runs, or that we started.

    Attributes:
        started: it was started here, and is started anew when it does not answer in time.
        is_loaded: it has the one site that is measured already.
        is_busy: it still works on a request that we gave up.
        owed: to be done as soon as it answers again: claims to give back.
    """

    server: Server
    started: Started | None = None
    is_loaded: bool = False
    is_busy: bool = False
    owed: list[Callable[[], None]] = field(default_factory=list)

    def start(self) -> None:
        """Start it, if that is for us to do.

        Raises:
            BenchError: it does not start.
        """
        if self.started is not None:
            self.server = replace(self.server, pids=(self.started.start(),))

    def stop(self) -> None:
        """End it, if we started it."""
        if self.started is not None:
            self.started.kill()

    def gave_up(self) -> None:
        """A request was given up, on which it may well go on working, to the disturbance of everybody else.

        If we started it, it is started anew. Else it is left out until it rests.
        """
        if self.started is not None:
            self.stop()
            self.start()
        else:
            self.is_busy = not servers.becomes_idle(self.server, self.server.patience * 2)

    def is_ready(self) -> bool:
        """Whether it may be asked."""
        if self.is_busy:
            self.is_busy = not servers.becomes_idle(self.server, 2.0)
        while self.owed and not self.is_busy:
            self.owed.pop()()
        return not self.is_busy
