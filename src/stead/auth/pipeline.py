"""Authentication as WSGI: from a token in a header to :class:`Credentials` in the environ, or 401."""

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

_ROOT = frozenset({"/", ""})
OPEN_PATHS = _ROOT | {"/healthcheck"}


def authenticate(app: WSGIApplication, settings: Settings) -> WSGIApplication:
    """*app* behind the strategy the operator chose. What reaches *app* is authenticated, or asks for an open path.

    Open are the root, with and without its slash, and ``/healthcheck``; only under ``noauth2`` does the root without
    slash need a token. Requests on open paths carry nobody's credentials, unless under ``noauth2``, where all is
    believed.

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
    assert settings.token_file is not None  # `load` sees to it
    return TokenAuth(app, TokenFile(settings.token_file))


class _OpenPaths:
    """Lets requests on open paths go around the strategy, without anything they claim to be."""

    def __init__(self, app: WSGIApplication, strategy: WSGIApplication) -> None:
        self._app = app
        self._strategy = strategy

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        strip_identity(environ)
        chosen = self._app if environ.get("PATH_INFO", "") in OPEN_PATHS else self._strategy
        return chosen(environ, start_response)


class _RequireUser:
    """Reads what the strategy found out; answers 401 if that is nobody."""

    def __init__(self, app: WSGIApplication) -> None:
        self._app = app

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        credentials = Credentials.from_headers(environ)
        if credentials.user_id is None and environ.get("PATH_INFO", "") not in OPEN_PATHS:
            return unauthorized.answer(environ, start_response)
        environ[ENVIRON_KEY] = credentials
        return self._app(environ, start_response)
