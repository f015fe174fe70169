"""``/ui/``: the sums of the site, and its trees of providers in a table."""

from __future__ import annotations

import hashlib
from functools import partial
from typing import TYPE_CHECKING

from stead.api.query.pairs import Pairs
from stead.api.query.provider_trees import parse_tree_query
from stead.candidates.provider_trees import matching_trees
from stead.domain.errors import BadRequest
from stead.ui.pages.access import changed, may
from stead.ui.pages.flavors import FlavorRooms
from stead.ui.views import flavors as flavors_view
from stead.ui.views import site as view

if TYPE_CHECKING:
    from stead.api.request import Request, Response
    from stead.service.service import Service
    from stead.ui.rendering import Rendering

FILTERS = ("name", "resources", "required", "member_of")
_FLAVORS = "flavors"
"""The part of the page that its script reads again."""

_OWN = ("sort", "page", "classes", "state")


class Site:
    """The page. Its filters are those of GET ``/provider_trees``."""

    def __init__(self, service: Service, rendering: Rendering) -> None:
        self._service = service
        self._rendering = rendering
        self._flavors = FlavorRooms(service)

    def on_get(self, req: Request, resp: Response) -> None:
        """Show the page; with ``part``, the flavors alone.

        Raises:
            Unavailable
        """
        if req.get_param("part") == _FLAVORS:
            self._show_flavors(req, resp)
            return
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
        is_filtered = any(key not in ("sort", "page", "classes") for key, _ in given)
        has_flavors = not is_filtered and may(req, "stead:flavors:list")
        self._rendering.show(
            req,
            resp,
            "site",
            site=shown,
            filters=values,
            state=own.get("state", ""),
            sort=own.get("sort", "name"),
            is_filtered=is_filtered,
            flavors=self._flavors.now() if has_flavors else None,
            at_once=flavors_view.AT_ONCE,
            chosen=view.choice_of_classes(shown.sums, shown.classes),
            changed=partial(changed, given),
            problem=problem,
            may_ask=may(req, "placement:allocation_candidates:list"),
        )

    def _show_flavors(self, req: Request, resp: Response) -> None:
        """Show the flavors, unless the page of the reader has the same: then 304."""
        req.require("stead:flavors:list", None)
        may_ask = may(req, "placement:allocation_candidates:list")
        self._rendering.show(
            req, resp, "flavors", flavors=self._flavors.lately(), at_once=flavors_view.AT_ONCE, may_ask=may_ask
        )
        tag = f'"{hashlib.sha256((resp.text or "").encode()).hexdigest()[:24]}"'
        resp.set_header("etag", f"W/{tag}")  # weak: a proxy may compress the text
        if tag in req.get_header("if-none-match", default=""):
            resp.status, resp.text = "304 Not Modified", None


def _spelled(key: str, value: str) -> tuple[str, str]:
    """A name without ``*`` matches any part of a name, as in other fields for searching."""
    return (key, f"*{value}*") if key == "name" and "*" not in value else (key, value)
