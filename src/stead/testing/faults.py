"""Faults on demand: refused requests, lost responses, delays."""

from __future__ import annotations

import time
from http import HTTPStatus
from threading import Lock
from typing import TYPE_CHECKING, Any

import orjson

if TYPE_CHECKING:
    from collections.abc import Iterable
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

_VERSIONS = "HTTP_OPENSTACK_API_VERSION"
_TOKEN = "HTTP_X_AUTH_TOKEN"


class Faults:
    """An application that fails as it is told. Each order holds for the next requests, in the order of orders.

    Attributes:
        requests: method and path of each request so far, also of those that failed.
    """

    def __init__(self, application: WSGIApplication, *, upstream_only: bool = False) -> None:
        """It does not fail yet.

        Args:
            upstream_only: hide everything that OpenStack Placement does not have.
        """
        self.requests: list[tuple[str, str]] = []
        self._application = application
        self._upstream_only = upstream_only
        self._lock = Lock()
        self._statuses: list[int] = []
        self._broken = 0
        self._lost = 0
        self._seconds = 0.0

    def fail_next(self, status: int = 503, *, times: int = 1) -> None:
        """Answer the next requests with *status*, and do nothing."""
        with self._lock:
            self._statuses += [HTTPStatus(status).value] * times

    def break_next(self, *, times: int = 1) -> None:
        """Break the connection of the next requests, and do nothing."""
        with self._lock:
            self._broken += times

    def lose_commit_answer(self, *, times: int = 1) -> None:
        """Do the next writes, and break their connections before the response."""
        with self._lock:
            self._lost += times

    def delay(self, seconds: float) -> None:
        """Wait before each request from now on; 0 ends that."""
        self._seconds = seconds

    def clear(self) -> None:
        """Fail no more."""
        with self._lock:
            self._statuses.clear()
            self._broken = self._lost = 0
            self._seconds = 0.0

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        """Answer or fail.

        Raises:
            ConnectionResetError: the server is to break the connection.
        """
        self._prepare(environ)
        if self._seconds:
            # Outside of the lock, so that delayed requests still run at the same time.
            time.sleep(self._seconds)
        with self._lock:
            status = self._statuses.pop(0) if self._statuses else None
            is_broken, is_lost = status is None and self._broken > 0, False
            if is_broken:
                self._broken -= 1
            elif status is None and self._lost and environ["REQUEST_METHOD"] not in ("GET", "HEAD"):
                self._lost -= 1
                is_lost = True
        if status is not None:
            return _refuse(HTTPStatus(status), start_response)
        if is_broken:
            raise ConnectionResetError("before the request, as the test ordered")
        parts = self._application(environ, start_response)
        if is_lost:
            for _part in parts:
                pass
            raise ConnectionResetError("after the request, as the test ordered")
        return parts

    def _prepare(self, environ: WSGIEnvironment) -> None:
        self.requests.append((environ["REQUEST_METHOD"], environ.get("PATH_INFO", "")))
        environ.setdefault(_TOKEN, "admin")
        if self._upstream_only and _VERSIONS in environ:
            entries = [entry.strip() for entry in environ[_VERSIONS].split(",")]
            environ[_VERSIONS] = ", ".join(entry for entry in entries if not entry.lower().startswith("stead"))


def _refuse(status: HTTPStatus, start_response: StartResponse) -> list[bytes]:
    problem: dict[str, Any] = {"status": status.value, "title": status.phrase, "detail": "The test ordered this error."}
    start_response(f"{status.value} {status.phrase}", [("content-type", "application/json")])
    return [orjson.dumps({"errors": [problem]})]
