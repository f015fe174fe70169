"""Routes, and the gates before a handler: conditions that a request must meet, in the order of their checks.

``gates_of`` lists them for tests and docs.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast

from falcon.routing import map_http_methods

from stead.api.errors import Refused
from stead.api.request import quality

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from stead.api.request import Request, Response
    from stead.api.versions import Microversion, SteadVersion, Versioned


H = TypeVar("H", bound="Callable[..., None]")

JSON = "application/json"
EVENTS = "text/event-stream"


class Gate(Protocol):
    """A condition that a request must meet."""

    def check(self, req: Request) -> None:
        """Return if *req* meets the condition, else raise."""


@dataclass(frozen=True, slots=True)
class Since:
    """The route exists since microversion ``first``; older requests get status ``otherwise``."""

    first: Microversion
    otherwise: int = 404

    def check(self, req: Request) -> None:
        """Refuse older microversions, as if the route did not exist."""
        if req.version < self.first:
            raise Refused(self.otherwise, f"{req.method} {req.path} is not known to microversion {req.version}")


@dataclass(frozen=True, slots=True)
class Allowed:
    """A policy rule must allow the request; ``target`` reads the rule's target, None for the caller itself."""

    rule: str
    target: Callable[[Request], Mapping[str, Any]] | None = None

    def check(self, req: Request) -> None:
        """Evaluate the policy rule."""
        req.require(self.rule, self.target(req) if self.target else None)


@dataclass(frozen=True, slots=True)
class JsonBody:
    """The request must declare its body as JSON."""

    def check(self, req: Request) -> None:
        """Refuse every other media type, and a missing one."""
        media_type = (req.content_type or "").partition(";")[0].strip()
        if media_type != JSON:
            raise Refused(415, f"The media type {media_type or None} is not supported, use {JSON}")


@dataclass(frozen=True, slots=True)
class JsonAnswer:
    """The client accepts JSON or, on routes with ``events``, a stream of events."""

    events: bool = False

    def check(self, req: Request) -> None:
        """Refuse an Accept header that does not admit JSON."""
        accepted = req.accepted
        if accepted is None or (self.events and quality(EVENTS, accepted) > 0):
            return
        if quality(JSON, accepted) <= 0:
            raise Refused(406, f"Only {JSON} is provided")


def gates_of(handler: object) -> tuple[Gate, ...]:
    """The gates before *handler*, in order."""
    gates: tuple[Gate, ...] = getattr(handler, "gates", ())
    return gates


def since(first: Microversion, *, otherwise: int = 404) -> _Decorator:
    """Refuse requests before microversion *first*."""
    return _Decorator(Since(first, otherwise))


def allowed(rule: str, target: Callable[[Request], Mapping[str, Any]] | None = None) -> _Decorator:
    """Return 403 unless the policy allows *rule*."""
    return _Decorator(Allowed(rule, target))


class _Decorator:
    """Puts one gate before a handler."""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate

    def __call__(self, handler: H) -> H:
        check = self._gate.check

        @wraps(handler)
        def call(this: object, req: Request, resp: Response, **params: str) -> None:
            check(req)
            handler(this, req, resp, **params)

        call.gates = (self._gate, *gates_of(handler))  # type: ignore[attr-defined]  # a note on the function
        return cast("H", call)


json_body = _Decorator(JsonBody())
"""Returns 415 unless the request declares its body as JSON."""

json_answer = _Decorator(JsonAnswer())
"""Returns 406 unless the client accepts JSON."""

json_or_events = _Decorator(JsonAnswer(events=True))
"""Returns 406 unless the client accepts JSON or a stream of events."""


def by_version(handlers: Versioned[Callable[..., None]]) -> Callable[..., None]:
    """Combine several handlers into one, for a route whose meaning changed; each has its own gates.

    For a microversion older than all of them, the gates of the oldest handler decide. Its attributes are those of the
    newest handler.
    """
    oldest = min(handlers)

    @wraps(handlers[max(handlers)])
    def call(this: object, req: Request, resp: Response, **params: str) -> None:
        handlers.at(max(req.version, oldest))(this, req, resp, **params)

    return call


# Maps paths to resources, and lists the methods of each.
#
# Replaces Falcon's router, which skips leading slashes, accepts empty segments as values, and adds OPTIONS.


METHODS = ("GET", "POST", "PUT", "DELETE", "PATCH")
"""All methods of all routes, in the order in which ``allow`` lists them."""


class Methods(dict[str, Any]):
    """The handlers of one route by method. Any other method is refused, with the list of allowed methods."""

    @property
    def allow(self) -> str:
        """The value of the ``allow`` header."""
        return ", ".join(method for method in METHODS if method in self)

    def __missing__(self, _method: str) -> Callable[..., None]:
        def refuse(_req: Request, _resp: Response, **_params: str) -> None:
            told = "The method specified is not allowed for this resource."
            raise Refused(405, told, headers={"allow": self.allow})

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
