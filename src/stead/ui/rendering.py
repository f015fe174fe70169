"""Templates: values to HTML. Everything that a template prints is escaped."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import jinja2

from stead.auth.credentials import Credentials
from stead.ui.guard import csrf_token
from stead.ui.sessions import SESSION_KEY
from stead.ui.wording import FILTERS

if TYPE_CHECKING:
    from stead.api.request import Request, Response
    from stead.ui.static_files import StaticFiles


class Rendering:
    """The templates of the package, with what every page shows."""

    def __init__(self, static: StaticFiles, *, writes: bool, signs_in: bool = True) -> None:
        """*writes*: the pages offer claims and releases."""
        self._static = static
        self.writes = writes
        self._signs_in = signs_in

    @cached_property
    def _templates(self) -> jinja2.Environment:
        templates = jinja2.Environment(
            loader=jinja2.PackageLoader("stead.ui"),
            autoescape=True,
            undefined=jinja2.StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            auto_reload=False,
        )
        templates.filters.update(FILTERS)
        return templates

    def show(self, req: Request, resp: Response, template: str, **values: Any) -> None:
        """Answer with *template*. Pages are never cached: they show what one user may see at one moment."""
        resp.text = self.text(req, template, **values)
        describe(resp)

    def text(self, req: Request, template: str, **values: Any) -> str:
        """The HTML of *template* for the user of a request."""
        session = req.env.get(SESSION_KEY)
        credentials = Credentials.of(req.env)
        page = self._templates.get_template(f"{template}.html")
        return page.render(
            root=req.root_path,
            static=f"{req.root_path}/ui/static/{self._static.version}",
            page=template,
            user=credentials.user_id if session else None,
            csrf=csrf_token(session) if session else "",
            writes=self.writes,
            **values,
        )


def describe(resp: Response) -> None:
    """Set the headers of a page."""
    resp.content_type = "text/html; charset=utf-8"
    resp.cache_control = ["no-store"]
