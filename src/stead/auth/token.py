"""``auth_strategy = token``: static tokens from a file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stead.auth import unauthorized

if TYPE_CHECKING:
    from collections.abc import Iterable
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

    from stead.auth.token_file import TokenFile


class TokenAuth:
    """Sets the identity headers as Keystone's middleware would; the client's own must have been stripped before."""

    def __init__(self, app: WSGIApplication, tokens: TokenFile) -> None:
        self._app = app
        self._tokens = tokens

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        """Answer 401, or let *app* answer."""
        token = environ.get("HTTP_X_AUTH_TOKEN")
        entry = self._tokens.find(token) if token else None
        if entry is None:
            return unauthorized.answer(environ, start_response)
        environ["HTTP_X_IDENTITY_STATUS"] = "Confirmed"
        environ["HTTP_X_USER_ID"] = entry.user
        environ["HTTP_X_PROJECT_ID"] = entry.project
        environ["HTTP_X_ROLES"] = ",".join(entry.roles)
        return self._app(environ, start_response)
