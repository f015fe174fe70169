"""``auth_strategy = noauth2``: the token is the identity and is not verified. For tests and trusted networks.

Source: "Authentication and policy", docs/api.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stead.auth import unauthorized

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment


class NoAuth2:
    """Accepts ``X-Auth-Token: user[:project]`` and most identity headers unverified; *open_paths* need no token."""

    def __init__(self, app: WSGIApplication, open_paths: Collection[str]) -> None:
        self._app = app
        self._open_paths = open_paths

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        """Return 401, or the answer of *app*."""
        if environ.get("PATH_INFO", "") in self._open_paths:
            return self._app(environ, start_response)
        token = environ.get("HTTP_X_AUTH_TOKEN")
        if token is None:
            return unauthorized.answer(environ, start_response)
        user, colon, project = token.partition(":")
        environ["HTTP_X_USER_ID"] = user
        if "HTTP_X_ROLES" not in environ:
            environ["HTTP_X_ROLES"] = "admin" if user == "admin" else ""
        if not environ.get("HTTP_OPENSTACK_SYSTEM_SCOPE"):
            environ["HTTP_X_TENANT_ID"] = project if colon else user
        return self._app(environ, start_response)
