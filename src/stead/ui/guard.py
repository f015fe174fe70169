"""What protects the pages: the names of hosts, the headers of every answer, and the token of every write."""

from __future__ import annotations

import hashlib
import hmac
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any

from stead.api.problems import Problem, write
from stead.api.request import Request, Response

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

HEADERS = [
    (
        "content-security-policy",
        "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; object-src 'none'",
    ),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
    ("referrer-policy", "same-origin"),
    ("x-content-type-options", "nosniff"),
    ("x-frame-options", "DENY"),
]
"""In every answer of the web interface."""

CSRF_FIELD = "csrf"
CSRF_HEADER = "HTTP_X_STEAD_CSRF"


class Guard:
    """Adds :data:`HEADERS`, and refuses Host headers that are not a name of this service."""

    def __init__(self, app: WSGIApplication, hosts: frozenset[str] | None, *, is_proxied: bool) -> None:
        """*hosts*: accepted beside IP addresses and localhost; None: every name, but none over loopback.

        With *is_proxied*, a request over loopback is one of a proxy, which browsers reach by any name.
        """
        self._app = app
        self._hosts = hosts
        self._is_proxied = is_proxied

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        """Answer one request."""

        def start(status: str, headers: list[tuple[str, str]], *exc_info: Any) -> Callable[[bytes], object]:
            return start_response(status, [*headers, *HEADERS], *exc_info)

        host = environ.get("HTTP_HOST", "")
        accepts_all = self._hosts is None and (self._is_proxied or not is_over_loopback(environ))
        if accepts_all or is_known_host(host, self._hosts or frozenset()):
            return self._app(environ, start)
        problem = f"Unknown Host header {host[:200]!r}. If it is a name of this service, add it to [stead] ui_hosts."
        return refuse(environ, start, 403, problem)


def is_known_host(header: str, hosts: frozenset[str]) -> bool:
    """Whether a Host header has one of *hosts*, localhost or an IP address, with any port.

    A page of another site can make its name point to 127.0.0.1, but it cannot have an IP address as its name.
    """
    name = header.strip().lower()
    if name.startswith("["):
        name = name[1:].partition("]")[0]
    elif name.count(":") == 1:
        name = name.partition(":")[0]
    if name in hosts or name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        ip_address(name)
    except ValueError:
        return name == ""  # HTTP/1.0, which browsers do not speak
    return True


def is_over_loopback(environ: WSGIEnvironment) -> bool:
    """Whether both ends of the connection have a loopback address, as for a browser on the machine of the server.

    Servers that put another name than the address into SERVER_NAME are not recognized.
    """
    return all(_is_loopback(environ.get(name, "")) for name in ("SERVER_NAME", "REMOTE_ADDR"))


def _is_loopback(address: str) -> bool:
    try:
        parsed = ip_address(address)
    except ValueError:
        return False
    # A socket that listens on `::` has IPv4 clients with mapped addresses, ::ffff:127.0.0.1.
    return (getattr(parsed, "ipv4_mapped", None) or parsed).is_loopback


def csrf_token(session: str) -> str:
    """The token that a write of *session* must carry. Another origin can send the cookie, but not read it."""
    return hmac.new(session.encode(), b"stead csrf", hashlib.sha256).hexdigest()


def is_own_write(environ: WSGIEnvironment, session: str, given: str) -> bool:
    """Whether a write comes from a page of this session: the right token, and no other origin."""
    # As bytes, because `compare_digest` rejects text that is not ASCII.
    return is_same_origin(environ) and hmac.compare_digest(csrf_token(session).encode(), given.encode())


def is_same_origin(environ: WSGIEnvironment) -> bool:
    """Whether no header says that a page of another origin sent the request."""
    if environ.get("HTTP_SEC_FETCH_SITE", "same-origin") not in ("same-origin", "none"):
        return False
    origin = environ.get("HTTP_ORIGIN")
    return origin is None or origin.partition("://")[2] == environ.get("HTTP_HOST", "")


def refuse(environ: WSGIEnvironment, start_response: StartResponse, status: int, message: str) -> Iterable[bytes]:
    """Answer an error in the form that the request accepts."""
    resp = Response()
    write(Request(environ), resp, Problem(status, message))
    body = resp.data or b""
    start_response(str(resp.status), [*resp.headers.items(), ("content-length", str(len(body)))])
    return [body]
