"""``/ui/sign-in`` and ``/ui/sign-out``: a token, a password or a one-time code becomes a session."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import falcon

from stead.api.request import Refused
from stead.auth import tokens
from stead.auth.attempts import TooManyAttempts
from stead.auth.sessions import end_of, find_session
from stead.auth.tokens import ensure_admin_token
from stead.store.extensions import ended_sessions
from stead.ui.rendering import IS_HEAD_KEY
from stead.ui.sessions import (
    CSRF_FIELD,
    SignInRefused,
    cookie,
    is_own_write,
    is_same_origin,
    open_for,
    read,
    read_form,
    token_of_password,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from stead.api.request import Request, Response
    from stead.auth.attempts import Attempts
    from stead.auth.authentication import Strategy
    from stead.service.service import Service
    from stead.ui.rendering import Rendering

_PLACE = re.compile(r"/ui(/[^\\\x00-\x20]*)?")
"""A page of the web interface: nothing that a browser takes for another host."""


class SignIn:
    """The page for signing in."""

    def __init__(self, strategy: Strategy, rendering: Rendering, attempts: Attempts) -> None:
        self._strategy = strategy
        self._rendering = rendering
        self._attempts = attempts

    def on_get(self, req: Request, resp: Response) -> None:
        """Show the form, or accept the one-time code of an embedded service."""
        code = req.get_param("code")
        data_dir = self._strategy.data_dir
        if code is None or data_dir is None or IS_HEAD_KEY in req.env:
            self._form(req, resp, _place(req.get_param("next")))
        else:

            def session() -> str:
                if not tokens.accept(data_dir, code):
                    raise SignInRefused(403, "The code was used already, or is older than an hour.")
                return self._session_of(ensure_admin_token(data_dir))

            self._begin(req, resp, session, "/ui/")

    def on_post(self, req: Request, resp: Response) -> None:
        """Begin a session."""
        # Otherwise another site could sign this browser in as a user of its own.
        if not is_same_origin(req.env):
            raise Refused(403, "A page of another site sent this form.")
        form = read_form(req)
        place = _place(form.get("next"))
        token = form.get("token", "").strip()
        if token or self._strategy.kind != "keystone":
            self._begin(req, resp, lambda: self._session_of(token), place)
            return
        user, domain = form.get("user", ""), form.get("domain", "") or "Default"

        def session() -> str:
            password, project = form.get("password", ""), form.get("project", "")
            given = token_of_password(self._strategy, user=user, password=password, domain=domain, project=project)
            return self._session_of(given)

        self._begin(req, resp, session, place, f"{user}\0{domain}")

    def _session_of(self, token: str) -> str:
        session = open_for(token, self._strategy.tokens) if token.isprintable() else None
        if not session:
            raise SignInRefused(401, "The token is unknown or has expired.")
        return session

    def _begin(
        self, req: Request, resp: Response, session_of: Callable[[], str], place: str, name: str | None = None
    ) -> None:
        """Set the cookie, and lead on by a page of our own.

        A redirect would count as sent by the site with the link, and the browser would keep the new cookie back.

        Args:
            session_of: checks the credential; raises SignInRefused.
            name: of the user whose password it is.
        """
        try:
            with self._attempts.attempt(req.remote_addr or "", name) as attempt:
                try:
                    session = session_of()
                except SignInRefused as error:
                    if error.status < 500:
                        attempt.refuse()
                    raise
                attempt.accept()
        except SignInRefused as error:
            resp.status = falcon.code_to_http_status(error.status)
            self._form(req, resp, place, str(error))
            return
        except TooManyAttempts as error:
            resp.status = falcon.HTTP_429
            resp.set_header("retry-after", str(error.seconds))
            self._form(req, resp, place, str(error))
            return
        resp.append_header("set-cookie", cookie(session, req.env))
        self._rendering.show(req, resp, "signed_in", place=place)

    def _form(self, req: Request, resp: Response, place: str, problem: str = "") -> None:
        self._rendering.show(
            req,
            resp,
            "sign_in",
            kind=self._strategy.kind,
            embedded=self._strategy.data_dir is not None,
            password=self._strategy.kind == "keystone" and self._strategy.keystone_url is not None,
            place=place,
            problem=problem,
        )


class SignOut:
    """Ends the session."""

    def __init__(self, service: Service, strategy: Strategy, rendering: Rendering) -> None:
        self._service = service
        self._tokens = strategy.tokens
        self._rendering = rendering

    def on_post(self, req: Request, resp: Response) -> None:
        """End the session for all workers, and remove the cookie.

        Raises:
            Refused: 403 if the form is not from this session.
            Unavailable: the session goes on.
        """
        session = read(req.env) or ""
        if session and not is_own_write(req.env, session, read_form(req).get(CSRF_FIELD, "")):
            raise Refused(403, "The form is not from a page of this session.")
        # Only valid ones are stored: invented ones would fill the table.
        if self._tokens is not None and find_session(self._tokens.current(), session) is not None:
            self._service.write(ended_sessions.end, session, end_of(session))
        resp.append_header("set-cookie", cookie("", req.env))
        self._rendering.show(req, resp, "signed_out")


def _place(given: str | None) -> str:
    return given if given and _PLACE.fullmatch(given) else "/ui/"
