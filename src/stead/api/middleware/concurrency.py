"""Limits the number of requests that a worker runs at the same time. Source: "Limits", docs/api.md."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from stead.api.errors import problem_of
from stead.api.middleware.streams import Closing, is_attachable, is_stream
from stead.api.problems import write
from stead.api.request import Request, Response
from stead.domain.errors import Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment


class Concurrency:
    """Returns 503 at once while the maximum number of requests is running.

    503 instead of 429, because the refused client did not cause the load, and OpenStack's clients retry only after 503.
    """

    def __init__(self, app: WSGIApplication, limit: int) -> None:
        self._app = app
        self._free = threading.BoundedSemaphore(limit)

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        if not self._free.acquire(blocking=False):
            return _refuse(environ, start_response)
        headers: list[tuple[str, str]] = []

        def start(status: str, sent: list[tuple[str, str]], *exc_info: Any) -> Callable[[bytes], object]:
            headers[:] = sent
            return start_response(status, sent, *exc_info)

        parts: Iterable[bytes] = ()
        try:
            parts = self._app(environ, start)
            # The event loop sends an attachable body, so it occupies no thread and does not count.
            holds_thread = is_stream(headers) and not is_attachable(parts)
            if not (holds_thread or is_attachable(parts)):
                parts = list(parts)  # build the whole body while the request still counts
        # Also for errors that are no Exception: a permit that is not returned is lost for the life of the worker.
        except BaseException:
            self._free.release()
            raise
        if holds_thread:
            return Closing(parts, self._free.release)
        self._free.release()
        return parts


def _refuse(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
    resp = Response()
    write(Request(environ), resp, problem_of(Unavailable("The worker has all the requests it may work on.")))
    body = resp.data or b""
    headers = [*resp.headers.items(), ("content-length", str(len(body)))]
    start_response(str(resp.status), headers)
    return [body]
