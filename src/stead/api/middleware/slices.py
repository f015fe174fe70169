"""Marks which requests are being worked on, so that long ones let short ones run first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stead.process import slices

if TYPE_CHECKING:
    from collections.abc import Iterable
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment


class Slices:
    """Tells `stead.process.slices` when a request begins and ends.

    That is a layer of the application, and not a part of our server, so that it holds under every WSGI server. A body
    that the server reads later, such as a stream of events, does not count: it waits and does not compute.
    """

    def __init__(self, app: WSGIApplication) -> None:
        self._app = app

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        with slices.request():
            return self._app(environ, start_response)
