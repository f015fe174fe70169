"""What the service is: ``/``, the versions that it supports, and ``/openapi.json``, the OpenAPI document of the API."""

from __future__ import annotations

from functools import cache, cached_property
from typing import TYPE_CHECKING

import orjson

from stead.api.answers import answer
from stead.api.request import json_answer
from stead.api.versions import Microversion, S, SteadVersion, extent

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from stead.api.request import Request, Response


def document(stead: SteadVersion | None) -> dict[str, object]:
    """The version document. It has Stead's own versions only if the request asks for one."""
    own = {} if stead is None else {"stead": extent(SteadVersion)}
    return {
        "versions": [
            {
                "id": "v1.0",
                **extent(Microversion),
                "status": "CURRENT",
                "links": [{"rel": "self", "href": ""}],
                **own,
            }
        ]
    }


@cache
def _text(stead: SteadVersion | None) -> bytes:
    return orjson.dumps(document(stead))


class Root:
    """The version document. It needs no token."""

    def on_get(self, req: Request, resp: Response) -> None:
        """Show the API versions."""
        answer(req, resp, _text(req.stead))


# ``/openapi.json``: the OpenAPI document of the API.


class OpenApi:
    """`/openapi.json`: the OpenAPI document of the newest microversion. Requires `stead`."""

    stead_since = S.OWN_FEATURES

    def __init__(
        self, routes: Mapping[str, object], document: Callable[[Mapping[str, object]], dict[str, object]]
    ) -> None:
        """*document* describes *routes*, which are all routes by their paths."""
        self._routes = routes
        self._describe = document

    @json_answer
    def on_get(self, req: Request, resp: Response) -> None:
        """Show the OpenAPI document."""
        answer(req, resp, {**self._document, "servers": [{"url": req.root_path or "/"}]})

    @cached_property
    def _document(self) -> dict[str, object]:
        """Built at the first request, since the document describes this route too."""
        return self._describe(self._routes)
