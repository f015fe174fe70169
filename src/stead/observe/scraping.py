"""The HTTP endpoint that Prometheus scrapes."""

from __future__ import annotations

import gzip
import socket
import threading
from contextlib import suppress
from socketserver import ThreadingMixIn
from typing import TYPE_CHECKING
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from prometheus_client import generate_latest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

    from prometheus_client import CollectorRegistry

# Not OpenMetrics, which Prometheus would prefer: it ends with a line after which no text can follow, and it reserves
# the suffix `_total`, which a gauge of operators' dashboards has.
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True  # a scraper that hangs does not keep the process from its end


SILENCE_SECONDS = 10.0
"""After so long without a byte from its client, a connection ends: each has a thread."""


class _SilentHandler(WSGIRequestHandler):
    timeout = SILENCE_SECONDS  # of each read and write; the base class sets it

    def handle(self) -> None:
        with suppress(OSError):  # the client is silent, or gone: no fault of this process, and nothing to answer
            super().handle()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # as the base class names it
        """A line for each scrape would be of no use."""


class Endpoint:
    """Answers every path, as exporters do, in threads of its own."""

    def __init__(self, host: str, port: int, registry: CollectorRegistry, more: Callable[[], str]) -> None:
        """It answers from now on.

        Args:
            more: metrics beside those of *registry*, in the text format.

        Raises:
            OSError: the address cannot be used; another process may have it.
        """

        class Server(_Server):
            address_family = socket.AF_INET6 if ":" in host else socket.AF_INET

        self._server = make_server(host, port, _application(registry, more), Server, _SilentHandler)
        self._thread = threading.Thread(target=self._server.serve_forever, name="metrics-endpoint", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Answer no more."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def _application(registry: CollectorRegistry, more: Callable[[], str]) -> WSGIApplication:
    def answer(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        if environ["REQUEST_METHOD"] not in ("GET", "HEAD"):
            start_response("405 Method Not Allowed", [("allow", "GET, HEAD"), ("content-length", "0")])
            return []
        body = generate_latest(registry) + more().encode()
        headers = [("content-type", CONTENT_TYPE), ("vary", "accept-encoding")]
        if "gzip" in environ.get("HTTP_ACCEPT_ENCODING", ""):
            body = gzip.compress(body, compresslevel=1)  # names and labels repeat: more effort gains little
            headers.append(("content-encoding", "gzip"))
        start_response("200 OK", [*headers, ("content-length", str(len(body)))])
        return [] if environ["REQUEST_METHOD"] == "HEAD" else [body]

    return answer
