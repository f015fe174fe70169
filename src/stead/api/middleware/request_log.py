"""Gives every request an id and a line in the log, and reports it to the other watchers."""

from __future__ import annotations

import logging
import os
import re
import sys
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from stead.api.errors import ASK_THE_OPERATORS
from stead.api.middleware.streams import is_attachable
from stead.api.problems import Problem, write
from stead.api.request import REQUEST_ID_KEY, Request, Response
from stead.auth.credentials import Credentials
from stead.observe.notes import NOTES_KEY, Notes, tell
from stead.observe.request_context import RequestContext, WorkingOn

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

    from stead.observe.notes import Watcher

_log = logging.getLogger(__name__)

LOG = logging.getLogger("placement.requestlog")
"""The logger name that operators have in ``default_log_levels`` and in their log parsers."""

HEADER = "x-openstack-request-id"

_GLOBAL_ID = re.compile(r"req-[a-f0-9]{8}-([a-f0-9]{4}-){3}[a-f0-9]{12}")
_SAFE = "/:@!$&'()*+,;=~"
_SAFE_IN_QUERY = _SAFE + "?%[]"

_CODE = re.compile(r"((?:^|&)code=)[^&]*")


class RequestLog:
    """Gives each request an id, returns it to the client, and reports the outcome to the log and all watchers.

    If the client sends an id of the same form, it is the *global* id, and the log has it beside the request's own.
    This layer also replaces a missing Accept header with one for JSON, for every inner layer.
    """

    def __init__(self, app: WSGIApplication, watchers: Sequence[Watcher] = ()) -> None:
        self._app = app
        self._watchers = tuple(watchers)

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        request_id = _new_id()
        environ[REQUEST_ID_KEY] = request_id
        if environ.get("HTTP_ACCEPT", "").strip() in ("", "*/*"):
            environ["HTTP_ACCEPT"] = "application/json"
        start = self._watched(environ, _with_id(start_response, request_id))
        describe = partial(_context, environ)
        with WorkingOn(describe):
            try:
                parts = self._app(environ, start)
            except Exception as error:
                return _failed(environ, start, error)
        # A list is complete, so nothing is logged while the server sends it.
        return parts if isinstance(parts, list) or is_attachable(parts) else _Parts(parts, describe)

    def _watched(self, environ: WSGIEnvironment, start_response: StartResponse) -> StartResponse:
        logs = LOG.isEnabledFor(logging.INFO)
        if not (logs or self._watchers):
            return start_response
        watchers: tuple[Watcher, ...] = (*self._watchers, _Line(environ)) if logs else self._watchers
        notes = environ[NOTES_KEY] = Notes()

        def start(status: str, headers: list[tuple[str, str]], exc_info: Any = None) -> Callable[[bytes], object]:
            _note_answer(notes, environ, status, headers)
            tell(watchers, environ, notes)
            return start_response(status, headers, exc_info) if exc_info else start_response(status, headers)

        return start


class _Parts:
    """A body that is produced while it is sent: lines logged meanwhile also name the request."""

    def __init__(self, parts: Iterable[bytes], describe: Callable[[], RequestContext]) -> None:
        self._parts = parts
        self._iterator = iter(parts)
        self._describe = describe

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        with WorkingOn(self._describe):
            return next(self._iterator)

    def close(self) -> None:
        """Close the body."""
        with WorkingOn(self._describe):
            getattr(self._parts, "close", lambda: None)()


def _new_id() -> str:
    """An id in the form that OpenStack's services use: a random UUID after a prefix."""
    # Like uuid4 at a quarter of its cost: version 4, and the variant in the two highest bits of a group.
    digits = os.urandom(16).hex()
    return f"req-{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-a{digits[17:20]}-{digits[20:]}"


def _failed(environ: WSGIEnvironment, start_response: StartResponse, error: Exception) -> Iterable[bytes]:
    """The answer if a layer around the API raised *error*, in the same format as the API's own errors."""
    _log.error("%s failed", environ[REQUEST_ID_KEY], exc_info=error)
    notes = environ.get(NOTES_KEY)
    if notes is not None:
        notes.error = type(error).__name__
    resp = Response()
    write(Request(environ), resp, Problem(500, ASK_THE_OPERATORS))
    body = resp.data or b""
    headers = [*resp.headers.items(), ("content-length", str(len(body)))]
    start_response(str(resp.status), headers, sys.exc_info())
    return [body]


def _with_id(start_response: StartResponse, request_id: str) -> StartResponse:
    def start(status: str, headers: list[tuple[str, str]], exc_info: Any = None) -> Callable[[bytes], object]:
        headers.append((HEADER, request_id))
        return start_response(status, headers, exc_info) if exc_info else start_response(status, headers)

    return start


def _note_answer(notes: Notes, environ: WSGIEnvironment, status: str, headers: list[tuple[str, str]]) -> None:
    sent = {name.lower(): value for name, value in reversed(headers)}  # the first version header is Placement's
    notes.status = int(status[:3])
    length = sent.get("content-length")
    notes.bytes = None if length is None else int(length)
    notes.microversion = sent.get("openstack-api-version", "").partition(" ")[2] or None
    notes.project = Credentials.of(environ).project_id


class _Line:
    """Writes the log line of one request. Stores the target first, since inner layers may change it."""

    def __init__(self, environ: WSGIEnvironment) -> None:
        path = _in_log(environ.get("SCRIPT_NAME", "") + environ.get("PATH_INFO", ""))
        query = environ.get("QUERY_STRING")
        self._target = f"{path}?{_in_log(_masked(query), _SAFE_IN_QUERY)}" if query else path

    def __call__(self, environ: WSGIEnvironment, notes: Notes) -> None:
        remote = _in_log(environ.get("REMOTE_ADDR") or "-", _SAFE_IN_QUERY)
        method = _in_log(environ["REQUEST_METHOD"])
        LOG.info(
            '%s "%s %s" status: %d len: %s microversion: %s',
            remote,
            method,
            self._target,
            notes.status,
            "-" if notes.bytes is None else notes.bytes,
            notes.microversion or "-",
            extra={
                "context": _context(environ),
                "extra": {"remote": remote, "method": method, "target": self._target, **notes.facts()},
            },
        )


def _context(environ: WSGIEnvironment) -> RequestContext:
    """The request and its caller, as the formats of oslo.log expect them."""
    caller = Credentials.of(environ)
    given = environ.get("HTTP_X_OPENSTACK_REQUEST_ID", "")
    return RequestContext(
        user_id=caller.user_id,
        project_id=caller.project_id,
        domain_id=caller.domain_id,
        user_domain_id=caller.user_domain_id,
        project_domain_id=caller.project_domain_id,
        system_scope=caller.system_scope,
        roles=list(caller.roles),
        is_admin_project=caller.is_admin_project,
        request_id=environ[REQUEST_ID_KEY],
        global_request_id=given if _GLOBAL_ID.fullmatch(given) else None,
    )


def _masked(query: str) -> str:
    """*query* with ``***`` for the one-time code with which a user signs in: a refused request does not use it up."""
    return _CODE.sub(r"\1***", query) if "code" in query else query


def _in_log(text: str, safe: str = _SAFE) -> str:
    """*text* without characters that end a line or a field: clients and proxies may send any text."""
    return quote(text, safe=safe, encoding="latin-1", errors="replace")
