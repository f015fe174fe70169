"""A worker process of ``stead serve``: loads the application, serves it, and drains on a signal.

The main process starts it as ``python -m stead.serve.worker ORDERS``. SIGUSR1 drains for the time in the orders,
SIGTERM for at most 2 s, SIGQUIT not at all. SIGUSR2 writes the stacks of all threads. The main process handles SIGINT
and SIGHUP; workers ignore them.
"""

from __future__ import annotations

import ctypes
import faulthandler
import json
import os
import signal
import socket
import ssl
import sys
from dataclasses import asdict, dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from stead.process import siblings
from wsgi_lanes.bounds import Bounds
from wsgi_lanes.requests import Lane

if TYPE_CHECKING:
    from http import HTTPStatus

    from stead.config import Settings
    from wsgi_lanes.requests import Request
    from wsgi_lanes.server import Server


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
    """Serve as the orders in *argument* say, until a signal ends the worker."""
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
        supervising=[door],
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
    from stead.config.settings import serving_program
    from stead.domain.errors import SteadError
    from stead.observe.log import silenced
    from stead.printing import one_line
    from stead.process.runtime import return_freed
    from wsgi_lanes.server import Server

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
        ApiRoutes(settings.path_prefix, settings.request_limits.body_size),
        bounds_of(settings),
        threads=orders.threads,
        error_body=error_body,
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


# The parameters of a worker, and how the main process passes them.


@dataclass(frozen=True, slots=True)
class Orders:
    """Parameters of a worker. ``listening``, ``door``, ``report`` and ``siblings`` are descriptors that it inherits.

    Attributes:
        target: the application, as ``module:attribute``.
        threads: number of threads that run the application.
        listening: the listening socket.
        door: the worker's end of a connection from the main process, which requests ``/healthcheck/live`` on it.
        report: a file for what the main process logs: why the worker cannot start, or the stacks of its threads.
        siblings: the file with the state of all workers.
        drain: seconds for which it serves open connections after another worker has replaced it.
    """

    target: str
    threads: int
    listening: int
    door: int
    report: int
    siblings: int
    drain: float
    certificate: str | None = None
    key: str | None = None
    clients: str | None = None

    @property
    def tls(self) -> TlsFiles | None:
        """The TLS files, if connections must be encrypted."""
        if self.certificate is None or self.key is None:
            return None
        return TlsFiles(Path(self.certificate), Path(self.key), Path(self.clients) if self.clients else None)

    @property
    def descriptors(self) -> tuple[int, int, int, int]:
        """The descriptors that the worker inherits."""
        return self.listening, self.door, self.report, self.siblings

    def as_argument(self) -> str:
        """The parameters as one argument of the worker's command line."""
        return json.dumps({name: value for name, value in asdict(self).items() if value is not None})

    @classmethod
    def of_argument(cls, text: str) -> Orders:
        """Parse the result of :meth:`as_argument`."""
        return cls(**json.loads(text))


# Classifies the requests of Stead's API for the HTTP server: their priority and their maximum body size.


_SLOW_PATHS = frozenset({"/advice", "/headroom", "/allocation_candidates/explain", "/ui/ask"})
_SLOW_WITHOUT_LIMIT = frozenset(
    {"/allocation_candidates", "/resource_providers", "/provider_trees", "/consumers", "/changes"}
)
_OWN_LANES = {
    "/": Lane.INSTANT,  # the versions: no token, no database, no catalog
    "/healthcheck/live": Lane.LIVE,
    "/healthcheck": Lane.HEALTH,
    "/healthcheck/ready": Lane.HEALTH,
}
SMALL_LIMIT = 100
"""A read with at most this limit has a small answer."""

SMALL_CLAIM = 16 * 1024
"""Maximum size in bytes of a body with the query of one consumer that is not read further here."""


class ApiRoutes:
    """The requests of the API and of the web interface, below a prefix."""

    def __init__(self, prefix: str, longest_body: int) -> None:
        """*prefix* begins with a slash, or is empty; *longest_body* is in bytes."""
        # Not with the module: the main process imports it, and would load the API and the engine for nothing.
        from stead.api.request import longest_body as limit_of
        from stead.auth.sessions import session_in

        self._prefix = prefix
        self._longest = longest_body
        self._limit_of = limit_of
        self._session_in = session_in

    def lane(self, request: Request) -> Lane:
        """The lane of a request."""
        method, path = request.method, request.path.removeprefix(self._prefix)
        if path.startswith("/ui/"):
            if path == "/ui/sign-in" and method == "POST":
                return Lane.SIGN_IN
            path = path.removeprefix("/ui/api")  # the API for the scripts of the pages
            if path.startswith("/ui/"):
                return Lane.BULK if path in _SLOW_PATHS or path.endswith("/drain") else Lane.READ
        if method not in ("GET", "HEAD"):
            # These may take seconds. In this lane they leave threads free for claims.
            is_slow = path in ("/provider_trees", "/whatif") or (path == "/claims" and _is_gang(request.body))
            return Lane.BULK if is_slow else Lane.CLAIM
        own_lane = _OWN_LANES.get(path)
        if own_lane is not None:
            return own_lane
        if path in _SLOW_PATHS or (path in _SLOW_WITHOUT_LIMIT and not _is_limited(request.query)):
            return Lane.BULK
        return Lane.BULK if path.startswith("/flavors") and "headroom" in request.query else Lane.READ

    def credential(self, request: Request) -> str | None:
        """The token or, for the web interface, the session of its cookie, which alone identifies the user there."""
        if request.path.removeprefix(self._prefix).startswith("/ui"):
            return self._session_in(request.fields.get("HTTP_COOKIE", ""))
        return request.fields.get("HTTP_X_AUTH_TOKEN") or None

    def longest_body(self, method: str, path: str) -> int:
        """Maximum size in bytes of a body that the API reads."""
        return self._limit_of(method, path.removeprefix(self._prefix).removeprefix("/ui/api"), self._longest)


def _is_gang(body: bytes) -> bool:
    """Whether POST `/claims` has several consumers. A wrong guess only puts the request into the other lane."""
    return len(body) > SMALL_CLAIM or body.find(b'"consumer_uuid"', body.find(b'"consumer_uuid"') + 1) > 0


def _is_limited(query: str) -> bool:
    """Whether the query has a small limit. The application rejects a limit that is not a number."""
    # The event loop runs this, so a long query must not take long: few pairs, and few digits.
    for pair in query.split("&", 50):
        if pair.startswith("limit="):
            digits = pair[6:]
            return digits.isascii() and digits.isdigit() and len(digits) < 4 and int(digits) <= SMALL_LIMIT
    return False


# The limits of the HTTP server, from the options of ``[stead]``, and the form of its errors.


OPTIONS = {
    "head": "[stead] max_head_size",
    "bodies": "[stead] max_bodies_size",
    "unsent": "[stead] max_unsent_size",
    "queue": "[stead] max_queue",
    "queue_per_client": "[stead] max_queue_per_client",
    "queue_timeout": "[stead] queue_timeout",
    "proxies": "[stead] proxy_protocol_from",
}
"""The options that refusals cite."""


def bounds_of(settings: Settings) -> Bounds:
    """The limits of one worker."""
    http = settings.http
    return Bounds(
        connections=http.connections,
        head=http.head_size,
        head_timeout=http.head_timeout,
        idle_timeout=http.idle_timeout,
        body_idle_timeout=http.body_timeout,
        bodies=http.bodies_size,
        send_idle_timeout=http.send_timeout,
        unsent=http.unsent_size,
        queue=http.queue,
        queue_per_client=http.queue_per_client,
        queue_timeout=http.queue_timeout,
        proxies=http.proxies,
        names=OPTIONS,
    )


def error_body(status: HTTPStatus, detail: str) -> tuple[list[tuple[str, str]], bytes]:
    """Header fields and body of an error of the server, in the form of the API's errors ("Errors", docs/api.md)."""
    request_id = f"req-{uuid4()}"
    error = {"status": status.value, "title": status.phrase, "detail": detail, "request_id": request_id}
    headers = [("content-type", "application/json"), ("x-openstack-request-id", request_id)]
    return headers, json.dumps({"errors": [error]}).encode()


# TLS of ``stead serve``: the certificate files, and the context created from them.


class UnusableFiles(Exception):
    """The certificate or its key cannot be used; the message says why, in one line."""


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """PEM files: a certificate with its chain, its key, and the CA certificates for client certificates."""

    certificate: Path
    key: Path
    clients: Path | None = None

    def context(self) -> ssl.SSLContext:
        """The TLS context for connections: TLS 1.2 and newer.

        Raises:
            UnusableFiles
        """
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        # HTTP/2 is not offered, since the server does not support it (decision 12).
        context.set_alpn_protocols(["http/1.1"])
        try:
            context.load_cert_chain(self.certificate, self.key, password=_no_password)
            if self.clients is not None:
                context.load_verify_locations(self.clients)
                context.verify_mode = ssl.CERT_REQUIRED
        except (OSError, ssl.SSLError, _PasswordWanted) as error:
            raise UnusableFiles(f"the certificate or its key cannot be used: {_words(error)}") from error
        return context


class _PasswordWanted(Exception):
    """The key is encrypted."""


def _no_password() -> str:
    raise _PasswordWanted("the key is encrypted; remove its password, since stead serve cannot read encrypted keys")


def _words(error: Exception) -> str:
    if isinstance(error, OSError) and error.filename:
        return f"{error.filename}: {error.strerror}"
    return getattr(error, "strerror", None) or getattr(error, "reason", None) or str(error)


if __name__ == "__main__":
    main(sys.argv[1])
