"""The service as processes: a main one that watches, and workers in which Granian serves the WSGI application."""

from __future__ import annotations

import ctypes
import errno
import logging
import multiprocessing
import os
import signal
import socket
import threading
from dataclasses import dataclass, replace
from importlib import import_module
from typing import TYPE_CHECKING, Any

from granian import Granian
from granian.constants import HTTPModes, Interfaces
from granian.http import HTTP1Settings
from granian.log import LogLevels

from stead.cli.errors import NO, CommandError

if TYPE_CHECKING:
    from collections.abc import Callable

TARGET = "stead.wsgi:application"

IDLE_TIMEOUT = 120  # seconds a connection may be idle: clients and proxies expect 75 or less to be safe
STOP_TIMEOUT = 30  # seconds for the requests under way when the service is stopped
CONNECTIONS = 4096  # per worker; to Granian an idle connection counts as a request under way
_POLL = 0.05  # seconds


class NotServed(CommandError):
    """The service did not start, or a worker ended by itself."""

    exit_code = NO


@dataclass(frozen=True, slots=True)
class Address:
    """Where to listen: an IP address and a port; port 0 is any that is free."""

    host: str
    port: int

    @classmethod
    def of(cls, host: str, port: int) -> Address:
        """The first address of *host*.

        Raises:
            CommandError: *host* is unknown.
        """
        try:
            where = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][4]
        except (OSError, UnicodeError) as error:
            raise CommandError(f"no address is known for --host {host}") from error
        return cls(str(where[0]), port)

    def checked(self) -> Address:
        """The same with the port decided. Nobody listened there a moment ago.

        Raises:
            NotServed: the port is in use, or may not be used.
        """
        # Workers share the port by SO_REUSEPORT, so to them a second service on it would be one more worker.
        with socket.socket(socket.AF_INET6 if ":" in self.host else socket.AF_INET) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((self.host, self.port))
            except OSError as error:
                what = "is in use" if error.errno == errno.EADDRINUSE else f"cannot be used: {error.strerror}"
                raise NotServed(f"port {self.port} of {self.host} {what}") from error
            return replace(self, port=probe.getsockname()[1])

    @property
    def url(self) -> str:
        """What clients on this machine call."""
        host = self._reachable_host
        return f"http://[{host}]:{self.port}" if ":" in host else f"http://{host}:{self.port}"

    def answers(self) -> bool:
        """Whether somebody listens."""
        try:
            socket.create_connection((self._reachable_host, self.port), timeout=1).close()
        except OSError:
            return False
        return True

    @property
    def _reachable_host(self) -> str:
        return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self.host, self.host)


def serve(address: Address, *, workers: int, threads: int, when_listening: Callable[[], None]) -> None:
    """Serve :data:`TARGET` at *address* until SIGINT or SIGTERM; SIGHUP replaces the workers one by one.

    A worker that ends by itself is replaced once the service listens; before that, and when it happens again within
    seconds, the service ends.

    Args:
        workers: processes.
        threads: threads per worker that run the application.
        when_listening: called once, in a thread, as soon as connections are accepted.

    Raises:
        NotServed: workers ended by themselves.
    """
    # Threads, locks and connections of this process stay out of the workers.
    multiprocessing.set_start_method("spawn", force=True)
    server = Granian(
        TARGET,
        address=address.host,
        port=address.port,
        interface=Interfaces.WSGI,
        http=HTTPModes.http1,
        http1_settings=HTTP1Settings(header_read_timeout=IDLE_TIMEOUT * 1000),
        websockets=False,
        workers=workers,
        blocking_threads=threads,
        backpressure=CONNECTIONS,
        workers_kill_timeout=STOP_TIMEOUT,
        log_level=LogLevels.error,
        log_dictconfig=_LOGGING,
    )
    logging.getLogger("_granian").addFilter(lambda _record: not server.interrupt_signal)
    watcher = threading.Thread(target=_watch, args=(server, address, when_listening), daemon=True)
    server.on_startup(watcher.start)
    try:
        server.serve(target_loader=load_in_worker)
    except SystemExit as end:
        # Where a signal goes to all processes at once, as from a terminal, workers may well be gone first.
        if not server.interrupt_signal:
            raise NotServed("a worker ended by itself; what it said stands above") from end


def _watch(server: Any, address: Address, when_listening: Callable[[], None]) -> None:
    while not server.main_loop_interrupt.wait(_POLL):
        if address.answers():
            server.respawn_failed_workers = True
            when_listening()
            return


def load_in_worker(target: str) -> Any:
    """The application *target* (``module:attribute``); called by Granian in each worker before it serves."""
    _stop_with_main_process()
    _stop_once()
    module, _, attribute = target.partition(":")
    return getattr(import_module(module), attribute)


def _stop_with_main_process() -> None:
    """Nobody would stop this process, or free its port, if the main process were killed."""
    pr_set_pdeathsig = 1
    ctypes.CDLL(None, use_errno=True).prctl(pr_set_pdeathsig, signal.SIGTERM)


def _stop_once() -> None:
    """Let the first SIGTERM through to Granian, and nothing after it.

    A terminal sends SIGINT, and systemd SIGTERM, to the workers as well as to the main process, which then sends
    SIGTERM to the workers, and at a second signal a Granian worker hangs for ever (seen with 2.8.7). Signals are
    blocked here, before Granian makes its threads, which inherit that.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})

    def wait() -> None:
        signal.sigwait({signal.SIGTERM})
        handler = signal.getsignal(signal.SIGTERM)
        if not callable(handler):  # the application is still being loaded
            os._exit(0)
        handler(signal.SIGTERM, None)

    threading.Thread(target=wait, name="stop", daemon=True).start()


_LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"generic": {"format": "%(levelname)s %(message)s"}},
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "generic"}},
    "loggers": {
        "_granian": {"handlers": ["stderr"], "propagate": False},
        "stead.catalog": {"handlers": ["stderr"], "level": "INFO", "propagate": False},  # how far a load is
    },
}
