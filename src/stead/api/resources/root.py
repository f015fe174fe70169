"""``/``: which microversions this service speaks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stead.api.representations import answer
from stead.api.versions import NEWEST, OLDEST

if TYPE_CHECKING:
    from stead.api.request import Request, Response

DOCUMENT = {
    "versions": [
        {
            "id": "v1.0",
            "max_version": str(NEWEST),
            "min_version": str(OLDEST),
            "status": "CURRENT",
            "links": [{"rel": "self", "href": ""}],
        }
    ]
}


class Root:
    """The version document, for anybody."""

    def on_get(self, req: Request, resp: Response) -> None:
        """Show it."""
        answer(req, resp, DOCUMENT)
