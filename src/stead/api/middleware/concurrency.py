"""A bound on the requests that a worker works on at a time. Source: "Limits", docs/api.md."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from stead.api.errors import problem_of
from stead.api.problems import write
from stead.api.request import Request, Response
from stead.domain.errors import Unavailable

if TYPE_CHECKING:
    from collections.abc import Iterable
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment


class Concurrency:
    """Answers 503 at once while as many requests as allowed are under way.

    503 and not 429: who asks now is not who filled the worker, and OpenStack's clients repeat after a 503 only.
    """

    def __init__(self, app: WSGIApplication, limit: int) -> None:
        self._app = app
        self._free = threading.BoundedSemaphore(limit)

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        if not self._free.acquire(blocking=False):
            return _refuse(environ, start_response)
        try:
            return list(self._app(environ, start_response))  # made now, while it counts
        finally:
            self._free.release()


def _refuse(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
    resp = Response()
    write(Request(environ), resp, problem_of(Unavailable("The worker has all the requests it may work on.")))
    body = resp.data or b""
    headers = [*resp.headers.items(), ("content-length", str(len(body)))]
    start_response(str(resp.status), headers)
    return [body]
