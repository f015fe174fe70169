"""An id for every request, and a line in the log."""

from __future__ import annotations

import logging
import re
from typing import TYPE_CHECKING, Any
from urllib.parse import quote
from uuid import uuid4

from stead.api.request import REQUEST_ID_KEY

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

LOG = logging.getLogger(__name__)

HEADER = "x-openstack-request-id"

_GLOBAL_ID = re.compile(r"req-[a-f0-9]{8}-([a-f0-9]{4}-){3}[a-f0-9]{12}")
_SAFE = "/:@!$&'()*+,;=~"
_SAFE_IN_QUERY = _SAFE + "?%[]"


class RequestLog:
    """Gives each request an id, sends it back, and logs what became of the request.

    An id of the same form that the client sent is the *global* one: it goes to the log beside the request's own.
    Also reads a missing Accept header as one that asks for JSON, for every layer inside.
    """

    def __init__(self, app: WSGIApplication) -> None:
        self._app = app

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        request_id = f"req-{uuid4()}"
        environ[REQUEST_ID_KEY] = request_id
        if environ.get("HTTP_ACCEPT", "").strip() in ("", "*/*"):
            environ["HTTP_ACCEPT"] = "application/json"
        target = _target(environ) if LOG.isEnabledFor(logging.INFO) else None

        def start(status: str, headers: list[tuple[str, str]], exc_info: Any = None) -> Callable[[bytes], object]:
            headers.append((HEADER, request_id))
            if target is not None:
                _log(environ, target, status, headers)
            return start_response(status, headers, exc_info) if exc_info else start_response(status, headers)

        return self._app(environ, start)


def _target(environ: WSGIEnvironment) -> str:
    path = _in_log(environ.get("SCRIPT_NAME", "") + environ.get("PATH_INFO", ""))
    query = environ.get("QUERY_STRING")
    return f"{path}?{_in_log(query, _SAFE_IN_QUERY)}" if query else path


def _in_log(text: str, safe: str = _SAFE) -> str:
    """*text* without anything that ends a line or a field of it: clients and proxies may send what they like."""
    return quote(text, safe=safe, encoding="latin-1", errors="replace")


def _log(environ: WSGIEnvironment, target: str, status: str, headers: list[tuple[str, str]]) -> None:
    sent = {name.lower(): value for name, value in reversed(headers)}  # the first line of the versions is Placement's
    given = environ.get("HTTP_X_OPENSTACK_REQUEST_ID", "")
    LOG.info(
        '%s "%s %s" status: %s len: %s microversion: %s',
        _in_log(environ.get("REMOTE_ADDR", "-"), _SAFE_IN_QUERY),
        _in_log(environ["REQUEST_METHOD"]),
        target,
        status.partition(" ")[0],
        sent.get("content-length", "-"),
        sent.get("openstack-api-version", "").partition(" ")[2] or "-",
        extra={
            "request_id": environ[REQUEST_ID_KEY],
            "global_request_id": given if _GLOBAL_ID.fullmatch(given) else None,
        },
    )
