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

    tls: Tls | None = None
    """What is looked at before a reload: a worker with files that can not be used would end the service."""

    @property
    def answers(self) -> bool:
        """Whether a worker has loaded the application."""
        return any(each.loaded.is_set() for each in self.wrks)

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

    def _spawn_worker(self, idx: int, target: Any, callback_loader: Any) -> Any:
        loaded = multiprocessing.get_context("spawn").Event()
        new = super()._spawn_worker(idx, target, partial(callback_loader, loaded))
        new.loaded = loaded
        return new

    def _respawn_workers(self, workers: Any, spawn_target: Any, target_loader: Any, delay: float = 0) -> None:
        if not delay:  # a worker died: there is nothing to wait for
            super()._respawn_workers(workers, spawn_target, target_loader)
            return
        for done, number in enumerate(workers):
            try:
                new = self._started(number, spawn_target, target_loader)
            except NotServed as refused:
                what = f"only {done} of {len(workers)} workers are reloaded" if done else "nothing is reloaded"
                _log.error("%s: %s", what, refused)
                break
            if new is None:
                break
            self._replace(number, new)
        if self.interrupt_signal:
            self.main_loop_interrupt.set()  # which Granian clears, maybe just after the signal has set it

    def _started(self, number: int, spawn_target: Any, target_loader: Any) -> Any:
        """A new worker that has loaded the application; None if the service is to stop.

        Raises:
            NotServed: it could not.
        """
        if self.tls is not None:
            self.tls.checked()
        new = self._spawn_worker(number, spawn_target, target_loader)
        new.interrupt_by_parent = True  # if it ends now, that is no reason to replace it
        new.start()
        while not new.loaded.wait(_POLL) and new.is_alive():
            if self.interrupt_signal:
                new.kill()
                new.join()
                return None
        if not new.is_alive():
            raise NotServed("a new worker did not start; what it said stands above")
        new.interrupt_by_parent = False
        return new

    def _replace(self, number: int, new: Any) -> None:
        """Let the worker *new* take the place of one that leaves; less politely if the service is to stop."""
        old, self.wrks[number] = self.wrks[number], new
        old.interrupt_by_parent = True  # it ends, and that is no reason to replace it
        if number in self.interrupt_children:  # it has ended by itself already
            self.interrupt_children.remove(number)
        with contextlib.suppress(ProcessLookupError):
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
    server.tls = tls
    logging.getLogger("_granian").addFilter(lambda _record: not server.interrupt_signal)
    watcher = threading.Thread(target=_watch, args=(server, when_listening), daemon=True)
    server.on_startup(watcher.start)
    try:
        server.serve(target_loader=partial(worker.load, TARGET), wrap_loader=False)
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
        if server.answers:
            server.respawn_failed_workers = True
            when_listening()
            return
        time.sleep(_POLL)


_LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"generic": {"format": "%(levelname)s %(message)s"}},
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "generic"}},
    "loggers": {
        "_granian": {"handlers": ["stderr"], "propagate": False},
    },
}
