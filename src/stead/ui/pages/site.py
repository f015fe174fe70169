"""``/ui/``: the sums of the site, and its trees of providers in a table."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from stead.api.query.pairs import Pairs
from stead.api.query.provider_trees import parse_tree_query
from stead.candidates.provider_trees import matching_trees
from stead.domain.errors import BadRequest
from stead.ui.pages.access import changed, may
from stead.ui.views import site as view

if TYPE_CHECKING:
    from stead.api.request import Request, Response
    from stead.service.service import Service
    from stead.ui.rendering import Rendering

FILTERS = ("name", "resources", "required", "member_of")
_OWN = ("sort", "page", "classes", "state")


class Site:
    """The page. Its filters are those of GET ``/provider_trees``."""

    def __init__(self, service: Service, rendering: Rendering) -> None:
        self._service = service
        self._rendering = rendering

    def on_get(self, req: Request, resp: Response) -> None:
        """Show the page."""
        req.require("stead:provider_trees:list", None)
        given = [(key, value.strip()) for key, value in Pairs.of(req) if value.strip()]
        own = {key: value for key, value in given if key in _OWN}
        snapshot = self._service.snapshot()
        problem = ""
        try:
            filters = Pairs([_spelled(key, value) for key, value in given if key not in _OWN])
            roots = matching_trees(snapshot, parse_tree_query(filters).query)
        except BadRequest as error:
            resp.status, problem = "400 Bad Request", str(error)
            roots = matching_trees(snapshot, parse_tree_query(Pairs([])).query)[:0]
        chosen = [value for key, value in given if key == "classes"]
        page = own.get("page", "1")
        shown = view.site(
            snapshot,
            roots,
            own.get("sort", "name"),
            int(page) if page.isascii() and page.isdigit() and len(page) < 9 else 1,
            chosen,
            disabled=own.get("state") == "disabled",
        )
        values = {key: " ".join(value for name, value in given if name == key) for key in FILTERS}
        self._rendering.show(
            req,
            resp,
            "site",
            site=shown,
            filters=values,
            state=own.get("state", ""),
            sort=own.get("sort", "name"),
            is_filtered=any(key not in ("sort", "page", "classes") for key, _ in given),
            chosen=view.choice_of_classes(shown.sums, shown.classes),
            changed=partial(changed, given),
            problem=problem,
            may_ask=may(req, "placement:allocation_candidates:list"),
        )


def _spelled(key: str, value: str) -> tuple[str, str]:
    """A name without ``*`` matches any part of a name, as in other fields for searching."""
    return (key, f"*{value}*") if key == "name" and "*" not in value else (key, value)
