"""Authentication as WSGI middleware: turns a token into :class:`Credentials` in the environ, or returns 401."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stead.auth import unauthorized
from stead.auth.admin_token import ensure_admin_token
from stead.auth.credentials import ENVIRON_KEY, Credentials, strip_identity
from stead.auth.keystone import keystone
from stead.auth.noauth2 import NoAuth2
from stead.auth.token import TokenAuth
from stead.auth.token_file import TokenFile

if TYPE_CHECKING:
    from collections.abc import Iterable
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

    from stead.config import Settings

ACCEPT = "stead.accept_credential"
"""In the environ: the function of the server to call when a credential is accepted. Its queue gives each accepted
credential a share of its own, and no other one."""

_ROOT = frozenset({"/", ""})
OPEN_PATHS = _ROOT | {"/healthcheck"}


def authenticate(app: WSGIApplication, settings: Settings) -> WSGIApplication:
    """*app* behind the configured strategy. *app* gets only authenticated requests and requests for open paths.

    The open paths are the root, with and without its slash, and ``/healthcheck``. Under ``noauth2``, only the root
    without slash needs a token. Requests on open paths carry no credentials, except under ``noauth2``, which accepts
    every identity.

    Raises:
        ConfigError: the strategy cannot work: a package or the token file is missing, or the file is malformed.
    """
    identified = _RequireUser(app)
    if settings.auth_strategy == "noauth2":
        return NoAuth2(identified, open_paths=OPEN_PATHS - {""})
    if settings.auth_strategy == "token":
        return _OpenPaths(identified, _token(identified, settings))
    return _OpenPaths(identified, keystone(identified, settings.conf))


def _token(app: WSGIApplication, settings: Settings) -> WSGIApplication:
    if settings.embedded:
        ensure_admin_token(settings.data_dir)
    assert settings.token_file is not None  # `load` sets it for this strategy
    return TokenAuth(app, TokenFile(settings.token_file))


class _OpenPaths:
    """Passes requests on open paths around the strategy, without identity headers."""

    def __init__(self, app: WSGIApplication, strategy: WSGIApplication) -> None:
        self._app = app
        self._strategy = strategy

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        strip_identity(environ)
        chosen = self._app if environ.get("PATH_INFO", "") in OPEN_PATHS else self._strategy
        return chosen(environ, start_response)


class _RequireUser:
    """Reads the identity that the strategy determined; returns 401 if there is none."""

    def __init__(self, app: WSGIApplication) -> None:
        self._app = app

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        credentials = Credentials.from_headers(environ)
        if credentials.user_id is None:
            if environ.get("PATH_INFO", "") not in OPEN_PATHS:
                return unauthorized.answer(environ, start_response)
        elif (accept := environ.get(ACCEPT)) is not None:
            accept()
        environ[ENVIRON_KEY] = credentials
        return self._app(environ, start_response)
