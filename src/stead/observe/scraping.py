"""The HTTP endpoint that Prometheus scrapes."""

from __future__ import annotations

import gzip
import socket
import threading
import time
from contextlib import suppress
from socketserver import ThreadingMixIn
from typing import TYPE_CHECKING, Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from prometheus_client import generate_latest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

    from prometheus_client import CollectorRegistry

# Not OpenMetrics, which Prometheus would prefer: it ends with a line after which no text can follow, and it reserves
# the suffix `_total`, which a gauge of operators' dashboards has.
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


MOST_CONNECTIONS = 32
"""Each has a thread. Further ones get 503 at once."""

SHARED_TIMES, MOST_SHARED_SECONDS = 9, 1.0
"""An answer is shared for this multiple of the time that it took, and at most for these seconds. So scrapes use a tenth
of a core, however many there are."""

_FULL = b"HTTP/1.0 503 Service Unavailable\r\nretry-after: 1\r\ncontent-length: 0\r\n\r\n"


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True  # a scraper that hangs does not keep the process from its end

    def __init__(self, *arguments: Any) -> None:
        self._free = threading.Semaphore(MOST_CONNECTIONS)
        super().__init__(*arguments)

    def process_request(self, request: Any, client_address: Any) -> None:
        if self._free.acquire(blocking=False):
            super().process_request(request, client_address)
            return
        with suppress(OSError):
            request.send(_FULL, socket.MSG_DONTWAIT)
        self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()


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


class _Shared:
    """The text of all metrics, which scrapes at about the same time share."""

    def __init__(self, make: Callable[[], bytes]) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._until = float("-inf")
        self._text = self._compressed = b""

    def text(self, *, compressed: bool) -> bytes:
        """The text; *compressed* with gzip. Scrapes wait while one of them makes it."""
        with self._lock:
            began = time.monotonic()
            if began >= self._until:
                self._compressed = b""
                self._text = self._make()
                ended = time.monotonic()
                self._until = ended + min(SHARED_TIMES * (ended - began), MOST_SHARED_SECONDS)
            if compressed and not self._compressed:
                # Names and labels repeat, so more effort gains little.
                self._compressed = gzip.compress(self._text, compresslevel=1)
            return self._compressed if compressed else self._text


def _application(registry: CollectorRegistry, more: Callable[[], str]) -> WSGIApplication:
    shared = _Shared(lambda: generate_latest(registry) + more().encode())

    def answer(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        if environ["REQUEST_METHOD"] not in ("GET", "HEAD"):
            start_response("405 Method Not Allowed", [("allow", "GET, HEAD"), ("content-length", "0")])
            return []
        is_compressed = "gzip" in environ.get("HTTP_ACCEPT_ENCODING", "")
        body = shared.text(compressed=is_compressed)
        headers = [("content-type", CONTENT_TYPE), ("vary", "accept-encoding")]
        if is_compressed:
            headers.append(("content-encoding", "gzip"))
        start_response("200 OK", [*headers, ("content-length", str(len(body)))])
        return [] if environ["REQUEST_METHOD"] == "HEAD" else [body]

    return answer
