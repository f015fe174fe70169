"""Marks the start and end of each request, so that long requests let short ones run first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stead.process import slices

if TYPE_CHECKING:
    from collections.abc import Iterable
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment


CLIENT = "stead.client"
"""In the environ: the credential that `stead serve` takes for the client, which may be a session and not a token."""


class Slices:
    """Tells `stead.process.slices` when a request begins and ends.

    This is a layer of the application and not part of Stead's HTTP server, so that it works with every WSGI server. A
    body that the server reads later, such as a stream of events, does not count: it waits and does not compute.
    """

    def __init__(self, app: WSGIApplication) -> None:
        self._app = app

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        # A request becomes long only after its credential was accepted, so invented tokens gain nothing.
        with slices.request(environ.get(CLIENT) or environ.get("HTTP_X_AUTH_TOKEN", "")):
            return self._app(environ, start_response)
