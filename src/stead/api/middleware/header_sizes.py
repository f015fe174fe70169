"""Limits the size of headers, before any layer reads them. Source: "Limits", docs/api.md."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stead.api.problems import Problem, write
from stead.api.request import Request, Response

if TYPE_CHECKING:
    from collections.abc import Iterable
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

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


def _refuse(environ: WSGIEnvironment, start_response: StartResponse, problem: Problem) -> Iterable[bytes]:
    resp = Response()
    write(Request(environ), resp, problem)
    body = resp.data or b""
    start_response(str(resp.status), [*resp.headers.items(), ("content-length", str(len(body)))])
    return [body]
