"""The way in: passes requests of browsers to the web interface, and all others to the API.

It stands before authentication and before the layer for CORS, so that no other origin can use a session.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

_PATHS = ("/ui", "/docs", "/openapi.json")


class Door:
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
