"""A path prefix for servers that cannot mount an application: moves it to ``SCRIPT_NAME``."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment


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
