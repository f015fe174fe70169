"""Restores the client's view of a request from the headers of a proxy.

Only for services that clients can reach through the proxy alone: other clients could forge the headers.
Source: RFC 7239.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from stead.api.middleware.header_sizes import LONGEST_LIST

if TYPE_CHECKING:
    from collections.abc import Iterable
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

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
