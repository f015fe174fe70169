"""``/``: the versions that this service supports."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import orjson

from stead.api.answers import answer
from stead.api.versions import Microversion, SteadVersion, extent

if TYPE_CHECKING:
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
