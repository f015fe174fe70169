"""A worker process of ``stead serve``: loads the application, serves it, and drains when it is told to end.

The main process starts it as ``python -m stead.serve.worker ORDERS``. SIGUSR1 drains for the time in the orders,
SIGTERM for at most 2 s, SIGQUIT not at all. SIGUSR2 writes the stacks of all threads. The main process handles SIGINT
and SIGHUP; workers ignore them.
"""

from __future__ import annotations

import ctypes
import faulthandler
import os
import signal
import socket
import sys
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

from stead.process import siblings
from stead.serve.orders import Orders

if TYPE_CHECKING:
    from stead.httpd.server import Server

DRAIN = signal.SIGUSR1
"""Another worker has replaced this one."""

END = signal.SIGTERM
"""The service ends. A service manager may send it to the workers as well as to the main process."""

END_AT_ONCE = signal.SIGQUIT

CANNOT_START = 3
"""Exit status of a worker whose reason not to start is in its report."""

LONGEST_DRAIN_AT_END = 2.0
"""Seconds."""

SHOW_STACKS = signal.SIGUSR2


def main(argument: str) -> None:
    """Serve as the orders in *argument* say, until told to end."""
    orders = Orders.of_argument(argument)
    # First, since the main process may be killed while this one loads.
    _end_with_main_process(int(os.environ.pop("STEAD_MAIN_PROCESS", "0")))
    faulthandler.register(SHOW_STACKS, file=orders.report, all_threads=True)  # works while the interpreter is blocked
    for ignored in (signal.SIGINT, signal.SIGHUP):
        signal.signal(ignored, signal.SIG_IGN)
    for ends in (DRAIN, END, END_AT_ONCE):  # while it loads, no request is running
        signal.signal(ends, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())  # the main process blocked them before it started this process
    siblings.join(orders.siblings)
    server = _loaded(orders)
    listening = socket.socket(fileno=orders.listening)
    door = socket.socket(fileno=orders.door)
    tls = orders.tls

    def drain(seconds: float) -> None:
        _announce_end()
        server.drain(seconds)

    server.run(
        [listening],
        own=[door],
        context=tls.context() if tls else None,
        signals={
            DRAIN: partial(drain, orders.drain),
            END: partial(drain, min(orders.drain, LONGEST_DRAIN_AT_END)),
            END_AT_ONCE: partial(drain, 0.0),
        },
    )


def _loaded(orders: Orders) -> Server:
    """The server over the application. If the application cannot be loaded, report the reason and exit."""
    from stead.config import ConfigError, load
    from stead.config.paths import serving_program
    from stead.domain.errors import SteadError
    from stead.domain.printable import one_line
    from stead.httpd.server import Server
    from stead.observe.log import silenced
    from stead.process.memory import return_freed
    from stead.serve.bounds import bounds_of
    from stead.serve.routes import ApiRoutes

    module, _, attribute = orders.target.partition(":")
    try:
        application: Any = getattr(import_module(module), attribute)
        with silenced("oslo_config", "stead.config"):  # the application has just logged the same
            settings = load(program=serving_program())
    except (ConfigError, SteadError) as error:
        os.write(orders.report, one_line(str(error)).encode())
        sys.exit(CANNOT_START)
    server = Server(
        application,
        ApiRoutes(settings.path_prefix, settings.limits.body_size),
        bounds_of(settings),
        threads=orders.threads,
        return_freed=return_freed,
    )
    if hasattr(application, "watch_server"):  # other WSGI applications are served without metrics
        application.watch_server(server)
    return server


def _announce_end() -> None:
    """End the requests that only wait for a change."""
    from stead.process.background import STOPPING

    STOPPING.set()


def _end_with_main_process(main_process: int) -> None:
    """End this process when the main process is killed. Otherwise nothing would stop it or free its port."""
    pr_set_pdeathsig = 1
    ctypes.CDLL(None, use_errno=True).prctl(pr_set_pdeathsig, signal.SIGTERM)
    if main_process and os.getppid() != main_process:  # the main process ended before the call of prctl
        os._exit(1)


if __name__ == "__main__":
    main(sys.argv[1])
