"""Compressed answers, for clients that accept them. Source: RFC 9110, section 12.5.3."""

from __future__ import annotations

import re
import zlib
from typing import TYPE_CHECKING, Any

from stead.api.middleware.streams import is_attachable, is_stream
from stead.api.middleware.vary import with_vary
from stead.process.short_keys import cached_if_short

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

    Headers = list[tuple[str, str]]

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
