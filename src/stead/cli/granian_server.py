"""The service as processes: a main one that watches, and workers in which Granian serves the WSGI application."""

from __future__ import annotations

import contextlib
import logging
import multiprocessing
import os
import socket
import threading
import time
from functools import partial
from typing import TYPE_CHECKING, Any

from granian import Granian
from granian.constants import HTTPModes, Interfaces, SSLProtocols
from granian.http import HTTP1Settings
from granian.log import LogLevels
from granian.net import SocketSpec, UnixSocketSpec  # type: ignore[attr-defined]  # which its servers take from there

from stead.cli import worker
from stead.cli.addresses import Address, NotServed, Tls, UnixAddress

if TYPE_CHECKING:
    from collections.abc import Callable

TARGET = "stead.wsgi:application"

IDLE_TIMEOUT = 120  # seconds a connection may be idle: clients and proxies expect 75 or less to be safe
STOP_TIMEOUT = 30  # seconds for the requests under way when the service is stopped
CONNECTIONS = 4096  # per worker; to Granian an idle connection counts as a request under way
_POLL = 0.05  # seconds

_log = logging.getLogger(__name__)


class Server(Granian):  # type: ignore[misc,valid-type]  # it is the class of one kind of server, chosen at its import
    """Granian's main process with one listening socket for all workers, and reloads that nobody notices.

    Granian lets every worker listen by itself: a connection that waits in the queue of one that ends is lost, and while
    the only worker is replaced nobody listens. Here the socket is the main process's, and its queue outlives workers.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.loaded = multiprocessing.get_context("spawn").Event()
        """Set by each worker that has loaded the application."""

    def _init_shared_socket(self) -> None:
        spec = (
            UnixSocketSpec(str(self.bind_uds), self.backlog, self.uds_permissions)
            if self.bind_uds
            else SocketSpec(self.bind_addr, self.bind_port, self.backlog)
        )
        self._ssp = None
        self._shd = spec.build()
        self._sfd = self._shd.get_fd()
        self._sso = socket.socket(fileno=self._sfd)
        self._sso.set_inheritable(True)
        self._sso.listen(self.backlog)  # from now on connections wait; a worker would do this when it has loaded

    def _respawn_workers(self, workers: Any, spawn_target: Any, target_loader: Any, delay: float = 0) -> None:
        if not delay:  # a worker died: there is nothing to wait for
            super()._respawn_workers(workers, spawn_target, target_loader)
            return
        for number in workers:
            new = self._started(number, spawn_target, target_loader)
            if new is None:
                return
            old, self.wrks[number] = self.wrks[number], new
            self._leave(old)

    def _leave(self, old: Any) -> None:
        """Wait until the worker *old* has left, which another replaces; less politely if the service is to stop."""
        old.interrupt_by_parent = True  # it ends, and that is no reason to replace it
        with contextlib.suppress(ProcessLookupError):  # it has ended by itself
            os.kill(old.inner.pid, worker.LEAVE)
        end = time.monotonic() + worker.LEAVING_SECONDS + STOP_TIMEOUT
        while old.is_alive() and time.monotonic() < end:
            if self.interrupt_signal:
                old.terminate()
            old.join(_POLL)
        if old.is_alive():
            _log.warning("a worker that did not stop in %d s is killed", STOP_TIMEOUT)
            old.kill()
            old.join()

    def _started(self, number: int, spawn_target: Any, target_loader: Any) -> Any:
        """A new worker that has loaded the application; None if it could not, or if the service is to stop."""
        self.loaded.clear()
        new = self._spawn_worker(idx=number, target=spawn_target, callback_loader=target_loader)
        new.interrupt_by_parent = True  # if it ends now, that is no reason to replace it
        new.start()
        while not self.loaded.wait(_POLL):
            if self.interrupt_signal or not new.is_alive():
                if new.is_alive():
                    new.kill()
                new.join()
                if not self.interrupt_signal:
                    _log.error("nothing is reloaded: a new worker did not start; what it said stands above")
                return None
        new.interrupt_by_parent = False
        return new


def serve(
    address: Address | UnixAddress,
    *,
    workers: int,
    threads: int,
    when_listening: Callable[[], None],
    tls: Tls | None = None,
) -> None:
    """Serve :data:`TARGET` at *address* until SIGINT or SIGTERM; SIGHUP replaces the workers one by one.

    A worker is replaced when the new one has loaded the application, with the configuration and certificate as they are
    then; if it can not, all stays as it is.

    A worker that ends by itself is replaced once the service listens; before that, and when it happens again within
    seconds, the service ends.

    Args:
        workers: processes.
        threads: threads per worker that run the application.
        when_listening: called once, in a thread, as soon as requests are answered.

    Raises:
        NotServed: workers ended by themselves.
    """
    # Threads, locks and connections of this process stay out of the workers.
    multiprocessing.set_start_method("spawn", force=True)
    server = Server(
        TARGET,
        **_where(address),
        **_encrypted(tls),
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
    watcher = threading.Thread(target=_watch, args=(server, when_listening), daemon=True)
    server.on_startup(watcher.start)
    try:
        server.serve(target_loader=partial(worker.load, server.loaded, TARGET), wrap_loader=False)
    except SystemExit as end:
        # Where a signal goes to all processes at once, as from a terminal, workers may well be gone first.
        if not server.interrupt_signal:
            raise NotServed("a worker ended by itself; what it said stands above") from end


def _where(address: Address | UnixAddress) -> dict[str, Any]:
    if isinstance(address, UnixAddress):
        return {"uds": address.path, "uds_permissions": address.permissions}
    return {"address": address.host, "port": address.port}


def _encrypted(tls: Tls | None) -> dict[str, Any]:
    if tls is None:
        return {}
    return {
        "ssl_cert": tls.certificate,
        "ssl_key": tls.key,
        "ssl_protocol_min": SSLProtocols.tls12,
        "ssl_ca": tls.clients,
        "ssl_client_verify": tls.clients is not None,
    }


def _watch(server: Server, when_listening: Callable[[], None]) -> None:
    while not server.interrupt_signal:
        if server.loaded.wait(_POLL):
            server.respawn_failed_workers = True
            when_listening()
            return


_LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"generic": {"format": "%(levelname)s %(message)s"}},
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "generic"}},
    "loggers": {
        "_granian": {"handlers": ["stderr"], "propagate": False},
    },
}
