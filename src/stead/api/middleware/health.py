"""``/healthcheck``: whether this worker is alive, and whether it can answer requests. It needs no token.

It precedes authentication, limits and the request log, since probes arrive every few seconds. Problems are logged.
Source: "Health", docs/api.md.
"""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING

from stead.process.siblings import siblings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

LIVE = "/healthcheck/live"
READY = frozenset({"/healthcheck", "/healthcheck/ready"})

_log = logging.getLogger(__name__)


class Health:
    """Answers GET and HEAD: 200, or 503 with the reason."""

    def __init__(self, app: WSGIApplication, problem: Callable[[], str | None]) -> None:
        """*problem* returns why the worker is not ready, or None."""
        self._app = app
        self._problem = problem
        self._was_ready = True

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        path = environ.get("PATH_INFO", "")
        if not path.startswith("/healthcheck"):
            return self._app(environ, start_response)
        if environ["REQUEST_METHOD"] not in ("GET", "HEAD") or (path != LIVE and path not in READY):
            return self._app(environ, start_response)
        problem = None
        if path != LIVE:
            problem = self._problem()
            self._tell(problem)
        said = {"status": "ok"} if problem is None else {"status": "unavailable", "reason": problem}
        others = siblings()
        if path != LIVE and others is not None and others.problem is not None:
            said["warning"] = others.problem  # and not a 503: a load balancer must not take out the workers that serve
        body = json.dumps(said).encode()
        headers = [
            ("content-type", "application/json"),
            ("content-length", str(len(body))),
            ("cache-control", "no-store"),
        ]
        start_response("200 OK" if problem is None else "503 Service Unavailable", headers)
        return [] if environ["REQUEST_METHOD"] == "HEAD" else [body]

    def _tell(self, problem: str | None) -> None:
        """Log changes of the state, not every probe."""
        is_ready = problem is None
        if is_ready != self._was_ready:
            self._was_ready = is_ready
            if problem is None:
                _log.info("ready again")
            else:
                _log.warning("not ready: %s", problem)
