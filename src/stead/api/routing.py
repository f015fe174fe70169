"""Maps paths to resources, and lists the methods of each.

Replaces Falcon's router, which skips leading slashes, accepts empty segments as values, and adds OPTIONS.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from falcon.routing import map_http_methods

from stead.api.errors import Refused

if TYPE_CHECKING:
    from collections.abc import Callable

    from stead.api.request import Request, Response
    from stead.api.versions import SteadVersion

METHODS = ("GET", "POST", "PUT", "DELETE", "PATCH")
"""All methods of all routes, in the order in which ``allow`` lists them."""


class Methods(dict[str, Any]):
    """The handlers of one route by method. Any other method is refused, with the list of allowed methods."""

    @property
    def allow(self) -> str:
        """The value of the ``allow`` header."""
        return ", ".join(method for method in METHODS if method in self)

    def __missing__(self, method: str) -> Callable[..., None]:
        def refuse(_req: Request, _resp: Response, **_params: str) -> None:
            raise Refused(405, f"{method} is not one of: {self.allow}", headers={"allow": self.allow})

        return refuse


class Router:
    """Matches whole paths, segment by segment; ``{name}`` matches one nonempty segment, never the first."""

    def __init__(self) -> None:
        self.routes: dict[str, Methods] = {}
        self._by_start: dict[tuple[int, str], list[tuple[list[str], object, Methods, str]]] = {}

    def add_route(self, uri_template: str, resource: object, **_options: Any) -> None:
        """Route *uri_template* to the ``on_…`` methods of *resource*. ``stead_since``, if set, hides it from others."""
        methods = Methods(map_http_methods(resource))
        self.routes[uri_template] = methods
        segments = uri_template.split("/")[1:]
        self._by_start.setdefault((len(segments), segments[0]), []).append((segments, resource, methods, uri_template))

    def find(self, uri: str, req: Request) -> tuple[object, Methods, dict[str, str], str] | None:
        """The resource at *uri*, its handlers, the path parameters, and the template; None if no route matches.

        Stead's own routes do not exist for requests that do not ask for Stead's features. Then ``req.hidden`` is set.
        """
        before, *given = uri.split("/")
        if before or not given:
            return None
        for segments, resource, methods, template in self._by_start.get((len(given), given[0]), ()):
            params = _match(segments, given)
            if params is None:
                continue
            first = stead_since(resource)
            if first is None or req.agreed.knows(first):
                return resource, methods, params, template
            req.hidden = first
        return None


def stead_since(resource: object) -> SteadVersion | None:
    """The version of Stead's own features that added *resource*; None if it belongs to the Placement API."""
    first: SteadVersion | None = getattr(resource, "stead_since", None)
    return first


def _match(segments: list[str], given: list[str]) -> dict[str, str] | None:
    params: dict[str, str] = {}
    for segment, value in zip(segments, given, strict=True):
        if segment.startswith("{"):
            if not value:
                return None
            params[segment[1:-1]] = value
        elif segment != value:
            return None
    return params
