"""HEAD of pages: the headers of GET, without a body."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

IS_HEAD_KEY = "stead.ui.is_head"
"""The environ key that marks a HEAD, which must not use up a one-time code."""


class Heads:
    """Answers HEAD as *pages* answer GET."""

    def __init__(self, pages: WSGIApplication) -> None:
        self._pages = pages

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        """Answer one request."""
        if environ["REQUEST_METHOD"] != "HEAD":
            return self._pages(environ, start_response)
        parts = self._pages({**environ, "REQUEST_METHOD": "GET", IS_HEAD_KEY: True}, start_response)
        getattr(parts, "close", lambda: None)()
        return []
