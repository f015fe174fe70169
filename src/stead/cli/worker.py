"""A worker process beside what it serves: how it loads the application, and how it ends without dropping anybody."""

from __future__ import annotations

import contextlib
import ctypes
import logging
import multiprocessing
import os
import signal
import socket
import stat
import sys
import threading
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stead.background import STOPPING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from multiprocessing.synchronize import Event
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

_log = logging.getLogger(__name__)

LEAVE = signal.SIGUSR1
"""Tells a worker to leave after another took its place. SIGTERM tells it to stop at once."""

LEAVING_SECONDS = 2.0
"""What a worker that leaves gives its clients to send what they are about to, and to be told to connect anew."""


def load(target: str, loaded: Event) -> WSGIApplication:
    """The application *target* (``module:attribute``); called by Granian in each worker before it serves.

    If the application says in words why it can not be loaded, this process says so in a line and ends.

    Args:
        loaded: set as soon as it is loaded.
    """
    _stop_with_main_process()
    _end_when_told({inode for _, inode in _listening()})  # before the application listens, as for its metrics
    from stead.config import ConfigError  # here, since it takes time, and the main process may end meanwhile
    from stead.domain.errors import SteadError

    module, _, attribute = target.partition(":")
    try:
        application = getattr(import_module(module), attribute)
    except (ConfigError, SteadError) as error:
        print(f"stead: {error}", file=sys.stderr, flush=True)
        sys.exit(1)
    loaded.set()
    return _dismissing(application)


def _stop_with_main_process() -> None:
    """Nobody would stop this process, or free its port, if the main process were killed."""
    pr_set_pdeathsig = 1
    ctypes.CDLL(None, use_errno=True).prctl(pr_set_pdeathsig, signal.SIGTERM)
    parent = multiprocessing.parent_process()
    if parent is not None and os.getppid() != parent.pid:  # it was killed before this process could ask to be told
        os._exit(1)


def _end_when_told(served: set[int]) -> None:
    """End as Granian does at SIGTERM, at once or after taking leave of the clients of the sockets *served* (inodes).

    At its end Granian closes connections that it has read nothing of yet, and those between two requests: a client
    that is about to send one finds its connection closed. So a worker that leaves first accepts no more connections,
    and for some time says with each answer that the connection ends.

    SIGHUP is the main process's business. A terminal sends SIGINT, and systemd SIGTERM, to the workers as well as to
    the main process, which then sends SIGTERM to the workers, and at a second signal a Granian worker hangs for ever
    (seen with 2.8.7): it gets one. Signals are blocked here, before Granian makes its threads, which inherit that.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM, signal.SIGHUP, LEAVE})

    def wait() -> None:
        told = signal.sigwait({signal.SIGTERM, LEAVE})
        stop = signal.getsignal(signal.SIGTERM)
        if not callable(stop):  # the application is still being loaded
            os._exit(0)
        if told == LEAVE:
            _let_go(served)  # before clients are told to connect anew, or they might come here again
            STOPPING.set()
            signal.sigtimedwait({signal.SIGTERM}, LEAVING_SECONDS)
        STOPPING.set()
        stop(signal.SIGTERM, None)

    threading.Thread(target=wait, name="stop", daemon=True).start()


def _dismissing(application: WSGIApplication) -> WSGIApplication:
    """*application*, whose clients are told to take another connection as soon as this process is to end."""

    def answer(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        def start(status: str, headers: list[tuple[str, str]], *exc_info: Any) -> Callable[[bytes], object]:
            if STOPPING.is_set():
                headers = [*headers, ("Connection", "close")]
            return start_response(status, headers, *exc_info)

        return application(environ, start)

    return answer


def _let_go(served: set[int]) -> None:
    """Accept no connection any more: they are for the other workers, with whom the sockets *served* are shared.

    Granian holds descriptors of them, and goes on to accept there until it ends. Each becomes one of a socket to which
    nobody can connect. It is still woken by new connections, finds none, and sleeps again.
    """
    try:
        with socket.socket(socket.AF_UNIX) as nobody:
            nobody.bind("")  # Linux chooses a name
            nobody.listen()
            nobody.setblocking(False)
            nobody.shutdown(socket.SHUT_RDWR)  # its name stands in /proc/net/unix, for all to use
            for descriptor, inode in list(_listening()):
                if inode in served:
                    os.dup2(nobody.fileno(), descriptor)
    except OSError as error:  # as when no descriptor is left
        _log.warning("this worker takes connections until it ends: %s", error)


def _listening() -> Iterator[tuple[int, int]]:
    """Of each listening socket that this process has: a descriptor, and the socket's inode."""
    for each in Path("/proc/self/fd").iterdir():
        descriptor = int(each.name)
        with contextlib.suppress(OSError):  # it was closed meanwhile
            facts = os.fstat(descriptor)
            if stat.S_ISSOCK(facts.st_mode) and _listens(descriptor):
                yield descriptor, facts.st_ino


def _listens(descriptor: int) -> bool:
    one = socket.socket(fileno=descriptor)
    try:
        return one.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN) == 1
    finally:
        one.detach()
