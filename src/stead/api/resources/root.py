"""``/``: which microversions this service speaks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stead.api.representations import answer
from stead.api.versions import Microversion, SteadVersion, extent

if TYPE_CHECKING:
    from stead.api.request import Request, Response


def document(stead: SteadVersion | None) -> dict[str, object]:
    """The version document; Stead's own versions are in it for who asked for one."""
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


class Root:
    """The version document. It needs no token."""

    def on_get(self, req: Request, resp: Response) -> None:
        """Show the API versions."""
        answer(req, resp, document(req.stead))
