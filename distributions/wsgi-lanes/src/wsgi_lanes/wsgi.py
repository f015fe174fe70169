"""WSGI: the environ of a request, and the answer of an application. Source: PEP 3333."""

from __future__ import annotations

import io
import logging
import sys
import threading
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from wsgi_lanes.answers import Answer, StreamedBody

if TYPE_CHECKING:
    from collections.abc import Callable
    from wsgiref.types import WSGIApplication, WSGIEnvironment

    from wsgi_lanes.answers import ErrorBody
    from wsgi_lanes.requests import Request


CARRIES_STREAMS = "wsgi_lanes.carries_streams"
"""In the environ: the server sends a `StreamedBody`, whose parts are produced later, without holding a thread."""

CLIENT = "wsgi_lanes.client"
"""In the environ: what `Routes.credential` takes for the credential of the client, whether it is valid or not."""

ACCEPT = "wsgi_lanes.accept_credential"
"""In the environ: the function to call when the application has accepted the credential of the request. The queue gives
each accepted credential a share of its own, and no other one."""

_log = logging.getLogger(__name__)


def environ_of(request: Request, accept: Callable[[Request], None]) -> WSGIEnvironment:
    """The environ of *request*; *accept* is called when the application has accepted its credential."""
    environ: dict[str, Any] = {
        "REQUEST_METHOD": request.method,
        "SCRIPT_NAME": "",
        "PATH_INFO": request.path,
        "QUERY_STRING": request.query,
        "SERVER_PROTOCOL": "HTTP/1.0" if request.is_1_0 else "HTTP/1.1",
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": "https" if request.peers.is_encrypted else "http",
        "wsgi.input": io.BytesIO(request.body),
        "wsgi.input_terminated": True,
        "wsgi.errors": sys.stderr,
        "wsgi.multithread": True,
        "wsgi.multiprocess": True,
        "wsgi.run_once": False,
        CARRIES_STREAMS: True,
        CLIENT: request.credential or "",
        ACCEPT: partial(accept, request),
    }
    environ.update(request.peers.environ)
    environ.update(request.fields)
    return environ


class Application:
    """A WSGI application as the server calls it: with a request, for an answer. No call raises an exception."""

    def __init__(self, application: WSGIApplication, error_body: ErrorBody) -> None:
        self._application = application
        self._error_body = error_body

    def answer(self, request: Request, accept: Callable[[Request], None] = lambda _request: None) -> bool:
        """Answer *request* in this thread. Returns whether its credential was refused.

        Args:
            accept: called when the application has accepted the credential.
        """
        made = self._run(request, accept)
        try:
            request.receiver.deliver(made)
        except Exception:  # the thread must survive
            _log.exception("an answer was not sent")
        return made.status.startswith("401")

    def _run(self, request: Request, accept: Callable[[Request], None]) -> Answer:
        """The answer to *request*. An exception is logged and becomes a 500."""
        started: list[tuple[str, list[tuple[str, str]]]] = []
        written: list[bytes] = []

        def start_response(
            status: str, headers: list[tuple[str, str]], exc_info: Any = None
        ) -> Callable[[bytes], object]:
            if started and exc_info is None:
                raise RuntimeError("start_response was called twice")
            started[:] = [(status, headers)]
            return written.append

        try:
            parts = self._application(environ_of(request, accept), start_response)
            # Nearly all answers are lists, and an isinstance check against a protocol costs more than the rest of this.
            if not isinstance(parts, list) and isinstance(parts, StreamedBody):
                return Answer(*started[0], (), parts)
            try:
                pieces = parts if isinstance(parts, list) else list(parts)
            finally:
                close = getattr(parts, "close", None)
                if close is not None:
                    close()
            return Answer(*started[0], [*written, *pieces] if written else pieces)
        except Exception:
            _log.exception("the application failed")
            status = HTTPStatus.INTERNAL_SERVER_ERROR
            headers, body = self._error_body(status, "The server failed to answer.")
            return Answer(f"{status.value} {status.phrase}", headers, [body])


# The threads that run the application: each takes a request, answers it, and takes the next one.


class ThreadPool:
    """Threads over one queue."""

    def __init__(
        self,
        application: Application,
        threads: int,
        take: Callable[[], Request | None],
        done: Callable[[Request, bool], Request | None],
        accept: Callable[[Request], None],
        name: str = "request",
    ) -> None:
        """Start the threads.

        Args:
            take: waits for a request; None ends the thread.
            done: ends a request, with whether its credential was refused, and returns the next request if any may run.
            accept: called when the application has accepted the credential of a request.
        """
        self._application = application
        self._take = take
        self._done = done
        self._accept = accept
        for number in range(threads):
            threading.Thread(target=self._work, name=f"{name}-{number}", daemon=True).start()

    def _work(self) -> None:
        while (request := self._take()) is not None:
            while request is not None:
                request = self._done(request, self._application.answer(request, self._accept))
