"""The web interface as a WSGI application: its routes over a service, its errors as pages."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

import falcon

from stead.api.answers import ASK_THE_OPERATORS, problem_of
from stead.api.middleware import FrontRouter
from stead.api.request import Refused, Request, Response
from stead.auth.authentication import Credentials
from stead.domain.errors import Forbidden, SteadError
from stead.store.extensions import ended_sessions
from stead.ui.pages.activity import Activity, Counts
from stead.ui.pages.ask import Ask
from stead.ui.pages.consumers import Consumers
from stead.ui.pages.drain import Drained
from stead.ui.pages.provider import ProviderPage
from stead.ui.pages.reference import PublicDocument, Reference, Style
from stead.ui.pages.signing_in import SignIn, SignOut
from stead.ui.pages.site import Front, Site
from stead.ui.rendering import HeadAsGet, Rendering, StaticFiles
from stead.ui.sessions import HostCheck, Sessions

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path
    from typing import Any
    from wsgiref.types import WSGIApplication

    from stead.auth.attempts import Attempts
    from stead.auth.authentication import Strategy
    from stead.auth.policy import Policy
    from stead.domain.limits import RequestLimits
    from stead.service.service import Service
    from wsgi_lanes.hosts import Hosts


_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Features:
    """What of the web interface is served, and for which Host headers."""

    pages: bool
    writes: bool
    public_docs: bool
    hosts: Hosts
    aliases: Path | None = None


def with_ui(
    outer: WSGIApplication,
    api: WSGIApplication,
    service: Service,
    policy: Policy,
    strategy: Strategy,
    authenticated: Callable[[WSGIApplication], WSGIApplication],
    features: Features,
    limits: RequestLimits,
    counts: Counts | None,
    attempts: Attempts,
) -> WSGIApplication:
    """*outer* beside the web interface.

    Args:
        outer: *api* with authentication and all other layers, for every request that is not of a browser.
        api: the API without authentication, for the scripts of the pages.
        strategy: how users sign in.
        authenticated: puts authentication before an application.
        limits: of one request, as for the API.
        counts: of requests, for the Activity page; None if nothing counts them.
        attempts: to sign in.
    """
    static = StaticFiles()
    rendering = Rendering(static, writes=features.writes, aliases=features.aliases)
    pages = _pages(service, policy, strategy, rendering, static, limits, counts, attempts)
    is_token = strategy.kind == "token"

    def has_ended(session: str) -> bool:
        return is_token and service.read(ended_sessions.has_ended, session)

    ui = Sessions(HeadAsGet(pages), authenticated, api, is_token=is_token, has_ended=has_ended, writes=features.writes)
    guarded = HostCheck(ui, features.hosts)
    return FrontRouter(outer, guarded, pages=features.pages, public_docs=features.public_docs)


def _pages(
    service: Service,
    policy: Policy,
    strategy: Strategy,
    rendering: Rendering,
    static: StaticFiles,
    limits: RequestLimits,
    counts: Counts | None,
    attempts: Attempts,
) -> falcon.App[Request, Response]:
    app = falcon.App(request_type=Request, response_type=Response, middleware=[_Caller(policy)])
    app.req_options.strip_url_path_trailing_slash = False
    # `read_form` reads forms, because it limits their size and their fields.
    app.req_options.auto_parse_form_urlencoded = False
    app.add_error_handler(Exception, _unexpected(rendering))
    app.add_error_handler(falcon.HTTPError, _of_framework(rendering))
    app.add_error_handler(falcon.HTTPStatus, _status)
    app.add_error_handler(Refused, _refused(rendering))
    app.add_error_handler(SteadError, _foreseen(rendering))
    app.add_sink(_serve(static), r"/ui/static/(?P<path>.+)$")
    site = Site(service, rendering)
    for path, resource in {
        "/": Front(rendering),
        "/docs": Reference(rendering),
        "/openapi.json": PublicDocument(),
        "/ui": site,
        "/ui/": site,
        "/ui/providers/{uuid}": ProviderPage(service, rendering),
        "/ui/providers/{uuid}/drain": Drained(service, rendering, limits),
        "/ui/ask": Ask(service, rendering, limits),
        "/ui/consumers": Consumers(service, rendering),
        "/ui/style": Style(rendering),
        "/ui/activity": Activity(service, rendering, counts),
        "/ui/sign-in": SignIn(strategy, rendering, attempts),
        "/ui/sign-out": SignOut(service, strategy, rendering),
    }.items():
        app.add_route(path, resource)
    return app


def _serve(static: StaticFiles) -> Callable[..., None]:
    def serve(req: Request, resp: Response, path: str) -> None:
        if req.method not in ("GET", "HEAD"):
            raise falcon.HTTPMethodNotAllowed(["GET", "HEAD"])
        static.serve(req, resp, path)

    return serve


class _Caller:
    """Falcon middleware: gives each request its policy, and its route to the metrics."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy

    def process_request(self, req: Request, _resp: Response) -> None:
        """Attach the function that evaluates a rule for the caller."""
        credentials = Credentials.of(req.env)

        def require(rule: str, target: Mapping[str, Any] | None) -> None:
            self._policy.require(rule, credentials, target)

        req.require = require

    def process_response(self, req: Request, _resp: Response, _resource: object, _succeeded: bool) -> None:
        """Report the route."""
        req.note(route=req.uri_template)


def _error(req: Request, resp: Response, rendering: Rendering, status: int, message: str) -> None:
    resp.status = falcon.code_to_http_status(status)
    rendering.show(req, resp, "error", status=status, title=str(resp.status)[4:], message=message)


def _foreseen(rendering: Rendering) -> Callable[[Request, Response, SteadError, object], None]:
    def handle(req: Request, resp: Response, error: SteadError, _params: object) -> None:
        req.note(error=type(error).__name__)
        problem = problem_of(error)
        message = problem.message
        if isinstance(error, Forbidden):
            user = Credentials.of(req.env).user_id
            message = f"User {user} may not see this page: {error}. Sign in as another user, or ask the operators."
        _error(req, resp, rendering, problem.status, message)

    return handle


def _refused(rendering: Rendering) -> Callable[[Request, Response, Refused, object], None]:
    def handle(req: Request, resp: Response, error: Refused, _params: object) -> None:
        _error(req, resp, rendering, error.problem.status, error.problem.message)

    return handle


def _status(_req: Request, resp: Response, error: falcon.HTTPStatus, _params: object) -> None:
    resp.status = error.status
    resp.set_headers(error.headers or {})


def _of_framework(rendering: Rendering) -> Callable[[Request, Response, falcon.HTTPError, object], None]:
    def handle(req: Request, resp: Response, error: falcon.HTTPError, _params: object) -> None:
        resp.set_headers(error.headers or {})
        message = error.description or ""
        if error.status_code == 404:
            message = message or f"There is no page at {req.path}."
        _error(req, resp, rendering, error.status_code, message)

    return handle


def _unexpected(rendering: Rendering) -> Callable[[Request, Response, Exception, object], None]:
    def handle(req: Request, resp: Response, error: Exception, _params: object) -> None:
        req.note(error=type(error).__name__)
        _log.error("%s %r failed (%s)", ascii(req.method)[1:-1], req.path, req.id, exc_info=error)
        _error(req, resp, rendering, 500, f"{ASK_THE_OPERATORS} ({req.id})")

    return handle
