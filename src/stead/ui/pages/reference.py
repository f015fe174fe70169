"""``/docs`` and ``/openapi.json``: the reference of the API, without a token and without a script."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import orjson

from stead.api.app import documented_routes
from stead.api.openapi import document
from stead.ui.rendering import describe
from stead.ui.views.reference import Section, sections

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from stead.api.request import Request, Response
    from stead.ui.rendering import Rendering


class _ByRoot:
    """The bytes of a page that differs by the path of the service alone. Clients need no token to ask for it again."""

    def __init__(self) -> None:
        self._last: tuple[str, bytes] | None = None  # of one path only: clients behind a proxy might invent paths

    def of(self, root: str, make: Callable[[], bytes]) -> bytes:
        """The bytes for the path *root*; *make* makes them unless it was the last path too."""
        last = self._last
        if last is None or last[0] != root:
            last = self._last = root, make()
        return last[1]


class PublicDocument:
    """`/openapi.json` for clients without a token."""

    def __init__(self) -> None:
        self._bytes = _ByRoot()

    def on_get(self, req: Request, resp: Response) -> None:
        """Show the OpenAPI document."""
        root = req.root_path
        resp.data = self._bytes.of(root, lambda: orjson.dumps({**self._document, "servers": [{"url": root or "/"}]}))
        resp.content_type = "application/json"

    @cached_property
    def _document(self) -> dict[str, Any]:
        return document(documented_routes())


class Reference:
    """`/docs`: the same for people."""

    def __init__(self, rendering: Rendering) -> None:
        self._rendering = rendering
        self._page = _ByRoot()

    def on_get(self, req: Request, resp: Response) -> None:
        """Show the reference."""

        def page() -> bytes:
            return self._rendering.text(req, "reference", sections=self._sections, info=self._document["info"]).encode()

        resp.data = self._page.of(req.root_path, page)
        describe(resp)

    @cached_property
    def _document(self) -> dict[str, Any]:
        return document(documented_routes())

    @cached_property
    def _sections(self) -> Sequence[Section]:
        return sections(self._document)
