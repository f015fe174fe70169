"""``/`` for browsers: a page that leads to the web interface."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stead.api.request import Request, Response
    from stead.ui.rendering import Rendering


class Front:
    """The first page of the service. It needs no session."""

    def __init__(self, rendering: Rendering) -> None:
        self._rendering = rendering

    def on_get(self, req: Request, resp: Response) -> None:
        """Show the page."""
        self._rendering.show(req, resp, "front")
        resp.append_header("vary", "accept")
