"""``auth_strategy = token``: static tokens from a file, and the sessions of browsers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stead.auth import unauthorized
from stead.auth.sessions import ENVIRON_KEY as SESSION_KEY
from stead.auth.sessions import find_session

if TYPE_CHECKING:
    from collections.abc import Iterable
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

    from stead.auth.token_file import TokenFile


class TokenAuth:
    """Sets the identity headers, like Keystone's middleware. The client's own must have been removed before."""

    def __init__(self, app: WSGIApplication, tokens: TokenFile) -> None:
        self._app = app
        self._tokens = tokens

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        """Return 401, or the answer of *app*."""
        token = environ.get("HTTP_X_AUTH_TOKEN")
        entry = self._tokens.find(token) if token else None
        if entry is None and SESSION_KEY in environ:
            entry = find_session(self._tokens.current(), environ[SESSION_KEY])
        if entry is None:
            return unauthorized.answer(environ, start_response)
        environ["HTTP_X_IDENTITY_STATUS"] = "Confirmed"
        environ["HTTP_X_USER_ID"] = entry.user
        environ["HTTP_X_PROJECT_ID"] = entry.project
        environ["HTTP_X_ROLES"] = ",".join(entry.roles)
        return self._app(environ, start_response)
