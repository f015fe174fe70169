"""Gates before a handler: what must hold for a request to come in. They stand in the order in which they are checked.

``gates_of`` lists them, so that tests and docs can walk over all there are.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast

from stead.api.accept import quality
from stead.api.errors import Refused

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from stead.api.request import Request, Response
    from stead.api.versions import Microversion, Versioned

H = TypeVar("H", bound="Callable[..., None]")

JSON = "application/json"
EVENTS = "text/event-stream"


class Gate(Protocol):
    """Something a request must pass."""

    def check(self, req: Request) -> None:
        """Let *req* pass, or raise."""


@dataclass(frozen=True, slots=True)
class Since:
    """The route exists since microversion ``first``; before it answers ``otherwise``."""

    first: Microversion
    otherwise: int = 404

    def check(self, req: Request) -> None:
        """Refuse microversions that do not know the route, as if it were not there."""
        if req.version < self.first:
            raise Refused(self.otherwise, f"{req.method} {req.path} is not known to microversion {req.version}")


@dataclass(frozen=True, slots=True)
class Allowed:
    """A policy rule must allow it; ``target`` reads what the rule is about, where it is not the caller itself."""

    rule: str
    target: Callable[[Request], Mapping[str, Any]] | None = None

    def check(self, req: Request) -> None:
        """Ask the policy."""
        req.require(self.rule, self.target(req) if self.target else None)


@dataclass(frozen=True, slots=True)
class JsonBody:
    """The body is declared to be JSON."""

    def check(self, req: Request) -> None:
        """Refuse every other media type, also none."""
        media_type = (req.content_type or "").partition(";")[0].strip()
        if media_type != JSON:
            raise Refused(415, f"The media type {media_type or None} is not supported, use {JSON}")


@dataclass(frozen=True, slots=True)
class JsonAnswer:
    """The client accepts JSON; or, where ``events`` are offered, a stream of these."""

    events: bool = False

    def check(self, req: Request) -> None:
        """Refuse an Accept header that does not admit JSON."""
        if req.accepted is None or (self.events and quality(EVENTS, req.accepted) > 0):
            return
        if quality(JSON, req.accepted) <= 0:
            raise Refused(406, f"Only {JSON} is provided")


def gates_of(handler: object) -> tuple[Gate, ...]:
    """The gates before *handler*, first to last."""
    found: tuple[Gate, ...] = getattr(handler, "gates", ())
    return found


def since(first: Microversion, *, otherwise: int = 404) -> _Decorator:
    """Refuse the route before microversion *first*."""
    return _Decorator(Since(first, otherwise))


def allowed(rule: str, target: Callable[[Request], Mapping[str, Any]] | None = None) -> _Decorator:
    """403 unless the policy allows *rule*."""
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
"""415 unless the body is declared to be JSON."""

json_answer = _Decorator(JsonAnswer())
"""406 unless the client accepts JSON."""

json_or_events = _Decorator(JsonAnswer(events=True))
"""406 unless the client accepts JSON or a stream of events."""


def by_version(handlers: Versioned[Callable[..., None]]) -> Callable[..., None]:
    """One handler made of several, for a route whose meaning changed; each has gates of its own.

    A microversion older than all of them is left to the gates of the oldest. To who looks at it, it is the newest.
    """
    oldest = min(handlers)

    @wraps(handlers[max(handlers)])
    def call(this: object, req: Request, resp: Response, **params: str) -> None:
        handlers.at(max(req.version, oldest))(this, req, resp, **params)

    return call
