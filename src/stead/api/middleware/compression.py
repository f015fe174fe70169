"""Compressed answers, for clients that accept them. Source: RFC 9110, section 12.5.3."""

from __future__ import annotations

import gzip
import re
from typing import TYPE_CHECKING, Any

from stead.api.middleware.streams import is_attachable, is_stream
from stead.api.middleware.vary import with_vary
from stead.process.short_keys import cached_if_short

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

    Headers = list[tuple[str, str]]

SMALLEST = 1024
"""Bytes of a body that is worth the time; a shorter one fits into a packet or two either way."""

LEVEL = 1
"""Of zlib, from 1 to 9: our bodies repeat themselves, so more effort takes much longer and saves little."""

_ELEMENT = re.compile(
    r"\s*(?P<coding>[!#$%&'*+.^_`|~0-9A-Za-z-]+)(?:\s*;\s*[qQ]\s*=\s*(?P<quality>0(?:\.\d{0,3})?|1(?:\.0{0,3})?))?\s*"
)


class Compression:
    """Sends bodies of some size as gzip, to clients that like that at least as well as what they get otherwise."""

    def __init__(self, app: WSGIApplication) -> None:
        self._app = app

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        started: list[tuple[str, Headers, Any]] = []
        chunks: list[bytes] = []

        def start(status: str, headers: Headers, exc_info: Any = None) -> Callable[[bytes], object]:
            started.append((status, headers, exc_info))
            return chunks.append

        parts = self._app(environ, start)
        if started and (is_attachable(parts) or is_stream(started[-1][1])):
            status, headers, _ = started[-1]
            start_response(status, headers)
            return parts
        try:
            chunks.extend(parts)
        finally:
            close = getattr(parts, "close", None)
            if close is not None:
                close()
        body = b"".join(chunks)
        status, headers, exc_info = started[-1]
        if len(body) >= SMALLEST and not any(name.lower() == "content-encoding" for name, _ in headers):
            headers = with_vary(headers, "accept-encoding")
            if prefers_gzip(environ.get("HTTP_ACCEPT_ENCODING", "")):
                body = gzip.compress(body, LEVEL, mtime=0)
                headers = [header for header in headers if header[0].lower() != "content-length"]
                headers += [("content-encoding", "gzip"), ("content-length", str(len(body)))]
        if exc_info:
            start_response(status, headers, exc_info)
        else:
            start_response(status, headers)
        return [body]


@cached_if_short(256)  # all clients together send a handful of them
def prefers_gzip(header: str) -> bool:
    """Whether an Accept-Encoding header accepts gzip, and wants nothing else more; not if it is malformed."""
    elements = [_ELEMENT.fullmatch(element) for element in header.split(",") if element.strip()]
    if not all(elements):
        return False
    accepted = {found["coding"].lower(): float(found["quality"] or 1) for found in elements if found}
    by_any = accepted.get("*", 0.0)
    as_gzip = max(accepted.get("gzip", by_any), accepted.get("x-gzip", 0.0))
    return as_gzip > 0 and as_gzip >= accepted.get("identity", by_any)
