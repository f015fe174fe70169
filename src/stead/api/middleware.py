"""The WSGI layers that every request passes: its id and log line, limits, proxies, CORS, compression, concurrency."""

from __future__ import annotations

import json
import logging
import os
import re
import sys
import threading
import zlib
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from stead.api.answers import ASK_THE_OPERATORS, problem_of, write
from stead.api.request import EVENTS, REQUEST_ID_KEY, Problem, Request, Response
from stead.auth.authentication import Credentials
from stead.domain.errors import Unavailable
from stead.observe.log import RequestContext, WorkingOn
from stead.observe.metrics import NOTES_KEY, Notes, notify
from stead.process import runtime
from stead.process.runtime import cached_if_short
from stead.process.siblings import siblings
from wsgi_lanes.wsgi import CLIENT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

    from stead.observe.metrics import Watcher
    from wsgi_lanes.hosts import Hosts

    Headers = list[tuple[str, str]]


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
            notify(watchers, environ, notes)
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


# ``/healthcheck``: whether this worker is alive, and whether it can answer requests. It needs no token.
#
# It precedes authentication, limits and the request log, since probes arrive every few seconds. Problems are logged.
# Source: "Health", docs/api.md.


LIVE = "/healthcheck/live"
READY = frozenset({"/healthcheck", "/healthcheck/ready"})


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


# Limits the size of headers, before any layer reads them. Source: "Limits", docs/api.md.


LONGEST = 16 * 1024
"""Maximum size of a header in bytes."""

LONGEST_LIST = 4 * 1024
"""Maximum size in bytes of a header with parsed elements: parsing takes some microseconds for each element."""

LISTS = frozenset(
    {
        "HTTP_ACCEPT",
        "HTTP_ACCEPT_ENCODING",
        "HTTP_ACCESS_CONTROL_REQUEST_HEADERS",
        "HTTP_FORWARDED",
        "HTTP_HOST",
        "HTTP_OPENSTACK_API_VERSION",
        "HTTP_ORIGIN",
        "HTTP_X_FORWARDED_FOR",
        "HTTP_X_FORWARDED_HOST",
        "HTTP_X_FORWARDED_PREFIX",
        "HTTP_X_FORWARDED_PROTO",
    }
)
_NOT_PREFIXED = ("CONTENT_TYPE", "CONTENT_LENGTH")


def longest(name: str) -> int:
    """Maximum size in bytes of the header with this environ key."""
    return LONGEST_LIST if name in LISTS else LONGEST


def too_long(environ: WSGIEnvironment) -> list[str]:
    """The environ keys of the headers that are too long."""
    # Nearly all headers are short, and the length is the cheapest condition.
    return [
        name
        for name, value in environ.items()
        if type(value) is str
        and len(value) > LONGEST_LIST
        and (name.startswith("HTTP_") or name in _NOT_PREFIXED)
        and len(value) > longest(name)
    ]


class HeaderSizes:
    """Returns 431 if a header is too long, and 400 if a server joined several Host headers."""

    def __init__(self, app: WSGIApplication) -> None:
        self._app = app

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        names = too_long(environ)
        if not names:
            if "," not in environ.get("HTTP_HOST", ""):
                return self._app(environ, start_response)
            return _refuse(environ, start_response, Problem(400, "The request has more than one Host."))
        most = longest(names[0])
        for name in names:
            del environ[name]  # the form of the answer depends on some of these headers
        shown = names[0].removeprefix("HTTP_").replace("_", "-").lower()[:100]
        return _refuse(environ, start_response, Problem(431, f"The header {shown} has more than {most} bytes."))


class KnownHosts:
    """Returns 403 to Host headers that are not names of this service."""

    def __init__(self, app: WSGIApplication, hosts: Hosts) -> None:
        self._app = app
        self._hosts = hosts

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        problem = self._hosts.problem(environ)
        if problem is None:
            return self._app(environ, start_response)
        return _refuse(environ, start_response, Problem(403, problem))


def _refuse(environ: WSGIEnvironment, start_response: StartResponse, problem: Problem) -> Iterable[bytes]:
    resp = Response()
    write(Request(environ), resp, problem)
    body = resp.data or b""
    start_response(str(resp.status), [*resp.headers.items(), ("content-length", str(len(body)))])
    return [body]


# The way in: passes requests of browsers to the web interface, and all others to the API.
#
# It stands before authentication and before the layer for CORS, so that no other origin can use a session.


_PATHS = ("/ui", "/docs", "/openapi.json")


class FrontRouter:
    """Sends ``/ui/``, ``/docs`` and a browser's ``GET /`` to *ui*, and everything else to *api*."""

    def __init__(self, api: WSGIApplication, ui: WSGIApplication, *, pages: bool, public_docs: bool) -> None:
        """*pages*: the web interface is served; *public_docs*: so is the reference of the API, without a token."""
        self._api = api
        self._ui = ui
        self._pages = pages
        self._public_docs = public_docs

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        """Answer one request."""
        path = environ.get("PATH_INFO", "")
        if len(path) > 1 and not path.startswith(_PATHS):  # nearly every request
            return self._api(environ, start_response)
        chosen = self._ui if self._is_for_ui(path, environ) else self._api
        return chosen(environ, start_response)

    def _is_for_ui(self, path: str, environ: WSGIEnvironment) -> bool:
        if path in ("", "/"):
            return self._pages and _is_browser(environ) and _reads(environ)
        if path == "/docs":
            return self._public_docs
        if path == "/openapi.json":
            return self._public_docs and _reads(environ) and "HTTP_X_AUTH_TOKEN" not in environ
        return self._pages and (path == "/ui" or path.startswith("/ui/"))


def _is_browser(environ: WSGIEnvironment) -> bool:
    """Whether the client wants HTML, and sends neither a version nor a token, as only programs do."""
    accepts_html = "text/html" in environ.get("HTTP_ACCEPT", "")
    return accepts_html and not {"HTTP_OPENSTACK_API_VERSION", "HTTP_X_AUTH_TOKEN"} & environ.keys()


def _reads(environ: WSGIEnvironment) -> bool:
    return environ["REQUEST_METHOD"] in ("GET", "HEAD")


# Restores the client's view of a request from the headers of a proxy.
#
# Only for services that clients can reach through the proxy alone: other clients could forge the headers. Source: RFC
# 7239.


_PAIR = re.compile(r'\s*([A-Za-z]+)\s*=\s*(?:"([^"]*)"|([^;,"\s]*))\s*')

_HEADERS = {"proto": "HTTP_X_FORWARDED_PROTO", "host": "HTTP_X_FORWARDED_HOST", "for": "HTTP_X_FORWARDED_FOR"}

_READ = ("HTTP_FORWARDED", "HTTP_X_FORWARDED_PREFIX", *_HEADERS.values())


class ProxyHeaders:
    """Replaces scheme, host, remote address and prefix with the values that the proxy forwarded."""

    def __init__(self, app: WSGIApplication) -> None:
        self._app = app

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        if any(len(environ.get(name, "")) > LONGEST_LIST for name in _READ):
            return self._app(environ, start_response)  # an inner layer refuses the header
        said = _forwarded(environ)
        if said.get("proto"):
            environ["wsgi.url_scheme"] = said["proto"]
        if said.get("host"):
            environ["HTTP_HOST"] = said["host"]
        if said.get("for"):
            environ["REMOTE_ADDR"] = said["for"]
        prefix = environ.get("HTTP_X_FORWARDED_PREFIX", "").rstrip("/")
        environ["SCRIPT_NAME"] = prefix + environ.get("SCRIPT_NAME", "")
        return self._app(environ, start_response)


def _forwarded(environ: WSGIEnvironment) -> dict[str, str]:
    """The values of the proxy nearest to the client: the first element applies."""
    header = environ.get("HTTP_FORWARDED")
    if header is None:
        return {word: environ.get(name, "").partition(",")[0].strip() for word, name in _HEADERS.items()}
    pairs = (_PAIR.fullmatch(pair) for pair in header.partition(",")[0].split(";"))
    return {pair[1].lower(): pair[2] or pair[3] or "" for pair in pairs if pair}


# A path prefix for servers that cannot mount an application: moves it to ``SCRIPT_NAME``.


class Prefix:
    """Moves the prefix from the path to the script name; paths without the prefix return 404."""

    def __init__(self, app: WSGIApplication, prefix: str) -> None:
        """*prefix* begins with a slash and does not end with one."""
        self._app = app
        self._prefix = prefix

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        path = environ.get("PATH_INFO", "")
        rest = path.removeprefix(self._prefix)
        # `/placement` must not match `/placements`.
        if len(rest) < len(path) and (not rest or rest.startswith("/")):
            environ["SCRIPT_NAME"] = environ.get("SCRIPT_NAME", "") + self._prefix
            environ["PATH_INFO"] = rest
            return self._app(environ, start_response)
        body = b"There is nothing outside of the prefix.\n"
        start_response(
            "404 Not Found", [("content-type", "text/plain; charset=UTF-8"), ("content-length", str(len(body)))]
        )
        return [body]


# Cross-origin requests: what browsers allow pages of other origins to do.
#
# Source: the Fetch standard, "CORS protocol"; "CORS", docs/api.md.


ALWAYS_ALLOWED = (
    "Accept",
    "Accept-Language",
    "Content-Type",
    "Cache-Control",
    "Content-Language",
    "Expires",
    "Last-Modified",
    "Pragma",
)


class Cors:
    """Answers preflight requests, and tells browsers what pages of the allowed origins may read."""

    def __init__(
        self,
        app: WSGIApplication,
        *,
        origins: Sequence[str],
        allow_credentials: bool,
        expose_headers: Sequence[str],
        max_age: int | None,
        allow_methods: Sequence[str],
        allow_headers: Sequence[str],
    ) -> None:
        """*max_age* is in seconds; None leaves the choice to browsers."""
        self._app = app
        self._origins = frozenset(origins)
        self._any_origin = "*" in self._origins
        self._credentials = [("access-control-allow-credentials", "true")] if allow_credentials else []
        self._exposed = ",".join(expose_headers)
        self._max_age = [] if max_age is None else [("access-control-max-age", str(max_age))]
        self._methods = frozenset(allow_methods)
        self._headers = frozenset(name.lower() for name in (*allow_headers, *ALWAYS_ALLOWED))

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        if environ["REQUEST_METHOD"] == "OPTIONS":
            start_response("200 OK", [*self._preflight(environ), ("content-length", "0")])
            return []
        origin = environ.get("HTTP_ORIGIN")
        if origin is None or not self._knows(origin):
            return self._app(environ, start_response)

        def start(status: str, headers: Headers, exc_info: Any = None) -> Callable[[bytes], object]:
            # A cache must not return the response for one origin to a page of another.
            told = [*with_vary(headers, "Origin"), *self._of_origin(origin)]
            if self._exposed:
                told.append(("access-control-expose-headers", self._exposed))
            return start_response(status, told, exc_info) if exc_info else start_response(status, told)

        return self._app(environ, start)

    def _knows(self, origin: str) -> bool:
        # The origin is echoed in a header. A broken server could let a line break through, hence the check.
        return origin in self._origins or (self._any_origin and origin.isprintable())

    def _of_origin(self, origin: str) -> Headers:
        return [("access-control-allow-origin", origin), *self._credentials]

    def _preflight(self, environ: WSGIEnvironment) -> Headers:
        """The headers of the answer; none unless every requested method and header is allowed."""
        origin = environ.get("HTTP_ORIGIN")
        method = environ.get("HTTP_ACCESS_CONTROL_REQUEST_METHOD")
        asked = environ.get("HTTP_ACCESS_CONTROL_REQUEST_HEADERS", "")
        headers = [name.strip() for name in asked.split(",") if name.strip()]
        if origin is None or not self._knows(origin) or method not in self._methods:
            return []
        if not self._headers.issuperset(name.lower() for name in headers):
            return []
        told = [("vary", "Origin"), *self._of_origin(origin), *self._max_age]
        told.append(("access-control-allow-methods", str(method)))
        if headers:
            told.append(("access-control-allow-headers", ",".join(headers)))
        return told


# Compressed answers, for clients that accept them. Source: RFC 9110, section 12.5.3.


SMALLEST = 1024
"""Minimum size in bytes of a compressed body; a shorter one fits into one or two packets either way."""

LEVEL = 1
"""Compression level of zlib, 1 to 9. Stead's bodies are repetitive: higher levels take much longer and save little."""

_GZIP = 16 + zlib.MAX_WBITS
"""Makes zlib write the header and the checksum of gzip. Source: zlib's manual, deflateInit2."""

_ELEMENT = re.compile(
    r"\s*(?P<coding>[!#$%&'*+.^_`|~0-9A-Za-z-]+)(?:\s*;\s*[qQ]\s*=\s*(?P<quality>0(?:\.\d{0,3})?|1(?:\.0{0,3})?))?\s*"
)


class Compression:
    """Compresses larger bodies with gzip, for clients that prefer it or accept it equally."""

    def __init__(self, app: WSGIApplication) -> None:
        self._app = app

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        started: list[tuple[str, Headers, Any]] = []
        chunks: list[bytes] = []

        def start(status: str, headers: Headers, exc_info: Any = None) -> Callable[[bytes], object]:
            started.append((status, headers, exc_info))
            return chunks.append

        parts = self._app(environ, start)
        # The parts of a stream must be sent at once, and compression would collect them.
        if started and (is_attachable(parts) or is_stream(started[-1][1])):
            status, headers, _ = started[-1]
            start_response(status, headers)
            return parts
        try:
            chunks.extend(parts)
        finally:
            # PEP 3333: the layer that consumes a body closes it, also after an error.
            close = getattr(parts, "close", None)
            if close is not None:
                close()
        # The last call counts: an application that fails after the first may start another response.
        status, headers, exc_info = started[-1]
        if sum(map(len, chunks)) >= SMALLEST and not any(name.lower() == "content-encoding" for name, _ in headers):
            # Also without compression, so that no cache returns this body to a client with another header.
            headers = with_vary(headers, "accept-encoding")
            if prefers_gzip(environ.get("HTTP_ACCEPT_ENCODING", "")):
                chunks = _compressed(chunks)
                headers = [header for header in headers if header[0].lower() != "content-length"]
                headers += [("content-encoding", "gzip"), ("content-length", str(sum(map(len, chunks))))]
        if exc_info:
            start_response(status, headers, exc_info)
        else:
            start_response(status, headers)
        return chunks


def _compressed(chunks: Iterable[bytes]) -> list[bytes]:
    """*chunks* in the format of gzip, without a time."""
    compressor = zlib.compressobj(LEVEL, zlib.DEFLATED, _GZIP)
    return [*filter(None, map(compressor.compress, chunks)), compressor.flush()]


@cached_if_short(256)  # all clients together send a handful of different headers
def prefers_gzip(header: str) -> bool:
    """Whether an Accept-Encoding header accepts gzip and prefers nothing else; False if it is malformed."""
    elements = [_ELEMENT.fullmatch(element) for element in header.split(",") if element.strip()]
    if not all(elements):
        return False
    accepted = {match["coding"].lower(): float(match["quality"] or 1) for match in elements if match}
    by_any = accepted.get("*", 0.0)
    as_gzip = max(accepted.get("gzip", by_any), accepted.get("x-gzip", 0.0))
    return as_gzip > 0 and as_gzip >= accepted.get("identity", by_any)


# Limits the number of requests that a worker runs at the same time. Source: "Limits", docs/api.md.


class Concurrency:
    """Returns 503 at once while the maximum number of requests is running.

    503 instead of 429, because the refused client did not cause the load, and OpenStack's clients retry only after 503.
    """

    def __init__(self, app: WSGIApplication, limit: int) -> None:
        self._app = app
        self._free = threading.BoundedSemaphore(limit)

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        if not self._free.acquire(blocking=False):
            return _refuse_overload(environ, start_response)
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


def _refuse_overload(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
    resp = Response()
    write(Request(environ), resp, problem_of(Unavailable("The worker has all the requests it may work on.")))
    body = resp.data or b""
    headers = [*resp.headers.items(), ("content-length", str(len(body)))]
    start_response(str(resp.status), headers)
    return [body]


# Reads and discards bodies that no handler reads, before the answer.
#
# Many servers leave the rest of a body on the connection and parse it as the next request. Others close the
# connection, so that a client that is still sending loses the answer.


_PART = 64 * 1024

_DROPPED_PER_ACCEPTED = 2
"""A body that is too long is discarded up to this many times the accepted length. An application cannot announce the
end of the connection, so the server may otherwise reset it, and the client never reads the 413.
"""


class Drain:
    """Reads the rest of a body that the application did not read, unless it is much longer than the maximum."""

    def __init__(self, app: WSGIApplication, longest: int) -> None:
        """*longest* is the maximum size in bytes of an accepted body."""
        self._app = app
        self._longest = longest * _DROPPED_PER_ACCEPTED

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        expected = _expected(environ, self._longest)
        if not expected:
            return self._app(environ, start_response)
        body = environ["wsgi.input"] = _Counted(environ["wsgi.input"])
        parts = self._app(environ, start_response)
        if expected <= self._longest:
            body.drop(expected)
        return parts


def _expected(environ: WSGIEnvironment, longest: int) -> int:
    """Size of the body in bytes; *longest* for a chunked body, 0 without a body."""
    length = environ.get("CONTENT_LENGTH") or ""
    if length:
        # `isdigit` alone accepts digits that `int` rejects, and `int` rejects numbers with thousands of digits.
        return int(length) if length.isascii() and length.isdigit() and len(length) < 20 else longest + 1
    is_chunked = "chunked" in environ.get("HTTP_TRANSFER_ENCODING", "").lower()
    # Without this promise of the server, a read after the last chunk may wait without end.
    return longest if is_chunked and environ.get("wsgi.input_terminated") else 0


class _Counted:
    """The stream of a body; counts the bytes that were read."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self._taken = 0
        self._is_at_end = False

    def read(self, size: int = -1) -> bytes:
        part: bytes = self._stream.read(size)
        self._taken += len(part)
        self._is_at_end |= not part and size != 0
        return part

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def drop(self, length: int) -> None:
        """Read until *length* bytes were read in total, or the body ends."""
        with suppress(OSError, RuntimeError):  # the client disconnected; servers raise different errors
            while not self._is_at_end and self._taken < length:
                self.read(min(_PART, length - self._taken))


# Marks the start and end of each request, so that long requests let short ones run first.


class Slices:
    """Tells `stead.process.runtime` when a request begins and ends.

    This is a layer of the application and not part of Stead's HTTP server, so that it works with every WSGI server. A
    body that the server reads later, such as a stream of events, does not count: it waits and does not compute.
    """

    def __init__(self, app: WSGIApplication) -> None:
        self._app = app

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        # A request becomes long only after its credential was accepted, so invented tokens gain nothing.
        with runtime.request(environ.get(CLIENT) or environ.get("HTTP_X_AUTH_TOKEN", "")):
            return self._app(environ, start_response)


# Streams of events: answers that last for minutes, whose parts must be sent at once.


def is_attachable(parts: Iterable[bytes]) -> bool:
    """Whether the server sends this body later, so that layers must not wrap it."""
    return hasattr(parts, "attach")


def is_stream(headers: Iterable[tuple[str, str]]) -> bool:
    """Whether *headers* describe a stream of events."""
    return any(name.lower() == "content-type" and value.startswith(EVENTS) for name, value in headers)


class Closing:
    """The parts of a body, and a function that is called once the body is closed."""

    def __init__(self, parts: Iterable[bytes], done: Callable[[], object]) -> None:
        self._parts = parts
        self._iterator = iter(parts)
        self._done: Callable[[], object] | None = done

    def __iter__(self) -> Iterator[bytes]:
        return self._iterator

    def close(self) -> None:
        """Close the body too; may be called twice."""
        done, self._done = self._done, None
        if done is not None:
            getattr(self._parts, "close", lambda: None)()
            done()

    def __del__(self) -> None:
        self.close()  # some servers do not close a body that they stop reading


# The Vary header of an answer.


def with_vary(headers: Iterable[tuple[str, str]], name: str) -> Headers:
    """*headers* with the request header *name* added to Vary."""
    headers = list(headers)
    varied = [value for key, value in headers if key.lower() == "vary"]
    others = [(key, value) for key, value in headers if key.lower() != "vary"]
    return [*others, ("vary", ", ".join([*varied, name]))]
