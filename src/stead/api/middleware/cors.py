"""Cross-origin requests: what browsers allow pages of other origins to do.

Source: the Fetch standard, "CORS protocol"; "CORS", docs/api.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stead.api.middleware.vary import with_vary

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

    Headers = list[tuple[str, str]]

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
