"""Sessions: a cookie that stands for a token, for every strategy of authentication.

No process remembers a session, so that every worker and every host can answer each request.
Source: decision 39.
"""

from __future__ import annotations

from base64 import urlsafe_b64encode
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from stead.auth import sessions, unauthorized
from stead.ui.guard import CSRF_HEADER, is_own_write, refuse

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

    from stead.auth.token_file import TokenFile

SESSION_KEY = "stead.ui.session"
"""The environ key of the session's text; absent on open paths."""

_API = "/ui/api"


def is_open(path: str) -> bool:
    """Whether *path* needs no session."""
    return not path.startswith("/ui") or path.startswith(("/ui/static/", "/ui/sign-in", "/ui/sign-out"))


class Sessions:
    """Answers requests of a session as its token would, and sends all others to the page for signing in.

    Below ``/ui/api`` is the API, for the scripts of the pages: reads, and with *writes* also writes with the token
    against forgery in the header ``X-Stead-CSRF``.
    """

    def __init__(
        self,
        pages: WSGIApplication,
        authenticated: Callable[[WSGIApplication], WSGIApplication],
        api: WSGIApplication,
        *,
        is_token: bool,
        writes: bool,
    ) -> None:
        """*authenticated* puts the configured strategy before an application; *api* needs that before it."""
        self._pages = pages
        self._api = api
        self._behind = authenticated(self._chosen)
        self._is_token = is_token
        self._writes = writes

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        """Answer one request."""
        path = environ.get("PATH_INFO", "")
        if is_open(path):
            return self._pages(environ, start_response)
        session = read(environ)
        if session is None:
            return _ask(environ, start_response)
        environ[SESSION_KEY] = session
        # The cookie alone identifies the user: a token beside it could be another identity.
        environ.pop("HTTP_X_AUTH_TOKEN", None)
        environ.pop("HTTP_X_SERVICE_TOKEN", None)
        if self._is_token:
            environ[sessions.ENVIRON_KEY] = session
        else:
            environ["HTTP_X_AUTH_TOKEN"] = session
        return self._answered(environ, start_response)

    def _answered(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        """The answer, or the page for signing in if the session has ended."""
        refused: list[bool] = []

        def start(status: str, headers: list[tuple[str, str]], *exc_info: Any) -> Callable[[bytes], object]:
            if status.startswith("401"):
                refused.append(True)
                return lambda _data: None
            return start_response(status, headers, *exc_info)

        parts = self._behind(environ, start)
        return _ask(environ, start_response) if refused else parts

    def _chosen(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        path = environ["PATH_INFO"]
        if not path.startswith(f"{_API}/"):
            return self._pages(environ, start_response)
        if environ["REQUEST_METHOD"] not in ("GET", "HEAD"):
            if not self._writes:
                return refuse(environ, start_response, 403, "The web interface only reads ([stead] ui_writes).")
            if not is_own_write(environ, environ[SESSION_KEY], environ.get(CSRF_HEADER, "")):
                return refuse(environ, start_response, 403, "The header X-Stead-CSRF is missing or wrong.")
        environ["SCRIPT_NAME"] = environ.get("SCRIPT_NAME", "") + _API
        environ["PATH_INFO"] = path.removeprefix(_API)
        return self._api(environ, start_response)


def open_for(token: str, file: TokenFile | None) -> str | None:
    """The session that stands for *token*; None if *file* is given and does not have it."""
    if file is None:
        return token
    entry = file.find(token)
    return None if entry is None else sessions.open_session(entry, datetime.now(UTC))


def read(environ: WSGIEnvironment) -> str | None:
    """The session in the cookie of a request; None if there is none."""
    return sessions.session_in(environ.get("HTTP_COOKIE", ""))


def cookie(session: str, environ: WSGIEnvironment) -> str:
    """The value of ``set-cookie`` that begins *session*, or ends it if it is empty. It ends with the browser."""
    # A token of Keystone or noauth2 may have characters that a cookie cannot have.
    value = urlsafe_b64encode(session.encode()).decode()
    secure = "; Secure" if environ.get("wsgi.url_scheme") == "https" else ""
    gone = "" if session else "; Max-Age=0"
    return (
        f"{sessions.COOKIE}={value}; Path={environ.get('SCRIPT_NAME', '')}/ui; HttpOnly; SameSite=Strict{secure}{gone}"
    )


def _ask(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
    """401 for scripts, and the page for signing in for people."""
    root = environ.get("SCRIPT_NAME", "")
    if environ["PATH_INFO"].startswith(f"{_API}/") or environ["REQUEST_METHOD"] not in ("GET", "HEAD"):
        return unauthorized.answer(environ, start_response)
    query = environ.get("QUERY_STRING", "")
    target = quote(environ["PATH_INFO"] + (f"?{query}" if query else ""), safe="/")
    headers = [("location", f"{root}/ui/sign-in?next={target}"), ("content-length", "0"), ("cache-control", "no-store")]
    start_response("303 See Other", headers)
    return []
