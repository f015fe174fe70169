"""The WSGI entry point: ``stead.wsgi:application``, for any WSGI server.

Importing this module reads the configuration, checks the database and loads the catalog. A server may fork its workers
afterwards: neither threads nor connections survive a fork, so each worker builds its own application at its first
request. A WSGI file that calls ``init_application`` itself imports it from :mod:`stead.application`.
"""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING

from stead.application import init_application

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from wsgiref.types import StartResponse, WSGIEnvironment

    from stead.application import Application
    from wsgi_lanes.server import Server


class PerProcess:
    """The application of this process."""

    def __init__(self, build: Callable[[], Application]) -> None:
        """Build the application now, and again in every child process that serves requests."""
        self._build = build
        self._of_parents: list[Application] = []
        self._lock = threading.Lock()
        self._process = os.getpid()
        self._app = build()

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        """Answer one request."""
        if self._process != os.getpid():  # checked for each request: some servers fork without running Python's hooks
            self._build_anew()
        return self._app(environ, start_response)

    def watch_server(self, server: Server) -> None:
        """Export the metrics of *server*, which runs this application, in the process that built it."""
        self._app.watch_server(server)

    def _build_anew(self) -> None:
        with self._lock:
            if self._process != os.getpid():
                self._of_parents.append(self._app)  # never freed: closing its connections would end the parent's
                self._app = self._build()
                self._process = os.getpid()


application = PerProcess(init_application)
