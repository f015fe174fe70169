"""The WSGI entry point: ``stead.wsgi:application``, for any WSGI server.

Importing this module reads the configuration, checks the database and loads it. A server that forks its workers
afterwards may do so: each of them then makes an application of its own, at its first request, since neither threads nor
connections survive a fork. A WSGI file that calls ``init_application`` itself finds it in :mod:`stead.application`.
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
    from stead.httpd.server import Server


class PerProcess:
    """The application of this process."""

    def __init__(self, build: Callable[[], Application]) -> None:
        """It is built now, and once more in every child of this process that serves."""
        self._build = build
        self._of_parents: list[Application] = []
        self._lock = threading.Lock()
        self._process = os.getpid()
        self._app = build()

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        """Answer one request."""
        if self._process != os.getpid():  # asked each time: some servers fork without running Python's hooks
            self._build_anew()
        return self._app(environ, start_response)

    def watch_server(self, server: Server) -> None:
        """Show the metrics of *server*, which serves this in the process that built it."""
        self._app.watch_server(server)

    def _build_anew(self) -> None:
        with self._lock:
            if self._process != os.getpid():
                self._of_parents.append(self._app)  # for ever: to close its connections would end the parent's
                self._app = self._build()
                self._process = os.getpid()


application = PerProcess(init_application)
