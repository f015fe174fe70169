"""``/docs`` and ``/openapi.json``: the reference of the API, without a token and without a script."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import orjson

from stead.api.app import documented_routes
from stead.api.openapi import document
from stead.ui.views.reference import Section, sections

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stead.api.request import Request, Response
    from stead.ui.rendering import Rendering


class PublicDocument:
    """`/openapi.json` for clients without a token."""

    def on_get(self, req: Request, resp: Response) -> None:
        """Show the OpenAPI document."""
        resp.data = orjson.dumps({**self._document, "servers": [{"url": req.root_path or "/"}]})
        resp.content_type = "application/json"

    @cached_property
    def _document(self) -> dict[str, Any]:
        return document(documented_routes())


class Reference:
    """`/docs`: the same for people."""

    def __init__(self, rendering: Rendering) -> None:
        self._rendering = rendering

    def on_get(self, req: Request, resp: Response) -> None:
        """Show the reference."""
        self._rendering.show(req, resp, "reference", sections=self._sections, info=self._document["info"])

    @cached_property
    def _document(self) -> dict[str, Any]:
        return document(documented_routes())

    @cached_property
    def _sections(self) -> Sequence[Section]:
        return sections(self._document)
