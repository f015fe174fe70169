"""Paging parameters that all paged lists share, and the link from one page to the next.

Source: "Pages", docs/api.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlencode

from stead.api.bodies import ONE_LINE
from stead.api.query.values import whole_number
from stead.api.uuids import normalised
from stead.api.versions import S
from stead.domain.pages import Page

if TYPE_CHECKING:
    from stead.api.query.pairs import Pairs
    from stead.api.request import Request
    from stead.api.versions import Step

KEYS: dict[str, tuple[Step, dict[str, str]]] = {
    "limit": (S.OWN_FEATURES, {"type": "string", "pattern": "^[1-9][0-9]*$", "format": ONE_LINE}),
    "marker": (S.OWN_FEATURES, {"type": "string", "format": "uuid"}),
}
"""Each key with its first version and the schema of its value."""


def parse_page(pairs: Pairs) -> Page:
    """The page that *pairs* request; the caller has validated the values.

    Raises:
        InvalidQuery: `limit` or `marker` is repeated.
    """
    pairs.require_single(KEYS)
    limit = pairs.last("limit")
    return Page(None if limit is None else whole_number(limit), marker_of(pairs))


def marker_of(pairs: Pairs) -> str | None:
    """The uuid after which the page begins, as it is stored: lists compare it as a text."""
    marker = pairs.last("marker")
    return None if marker is None else normalised(marker)


def links(req: Request, pairs: Pairs, last: str | None) -> list[dict[str, str]]:
    """The links of a page: one to the next page, which begins after the uuid *last*; empty on the last page."""
    if last is None:
        return []
    asked = [(key, value) for key, value in pairs if key != "marker"]
    href = f"{req.root_path}{req.path}?{urlencode([*asked, ('marker', last)])}"
    return [{"rel": "next", "href": href}]
