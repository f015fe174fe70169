"""Who uses the web interface: sessions, sign-in with a password, and what protects every write.

No process remembers a session, so that every worker and every host can answer each request. The database has the
sessions that users ended. Source: decisions 39 and 61.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
from base64 import urlsafe_b64encode
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, quote, urlencode

from stead.api.answers import write
from stead.api.request import BodyIncomplete, BodyTooLong, Problem, Refused, Request, Response
from stead.auth import authentication, sessions
from stead.domain.errors import Forbidden, Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

    from stead.auth.authentication import Strategy
    from stead.auth.tokens import TokenFile
    from wsgi_lanes.hosts import Hosts


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
        has_ended: Callable[[str], bool],
        writes: bool,
    ) -> None:
        """*authenticated* puts the configured strategy before an application; *api* needs that before it.

        Args:
            has_ended: whether the user of a session, which is valid otherwise, has signed out; raises Unavailable.
        """
        self._pages = pages
        self._api = api
        self._behind = authenticated(self._chosen)
        self._is_token = is_token
        self._has_ended = has_ended
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
        # After authentication, so that invented sessions cost no query.
        try:
            if self._has_ended(environ[SESSION_KEY]):
                return authentication.answer(environ, start_response)
        except Unavailable as error:
            return refuse(environ, start_response, 503, str(error))
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
        return authentication.answer(environ, start_response)
    query = environ.get("QUERY_STRING", "")
    target = quote(environ["PATH_INFO"] + (f"?{query}" if query else ""), safe="/")
    headers = [("location", f"{root}/ui/sign-in?next={target}"), ("content-length", "0"), ("cache-control", "no-store")]
    start_response("303 See Other", headers)
    return []


# What protects the pages: the names of hosts, the headers of every answer, and the token of every write.


HEADERS = [
    (
        "content-security-policy",
        "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; object-src 'none'",
    ),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
    ("referrer-policy", "same-origin"),
    ("x-content-type-options", "nosniff"),
    ("x-frame-options", "DENY"),
]
"""In every answer of the web interface."""

CSRF_FIELD = "csrf"
CSRF_HEADER = "HTTP_X_STEAD_CSRF"


class HostCheck:
    """Adds :data:`HEADERS`, and refuses Host headers that are not a name of this service."""

    def __init__(self, app: WSGIApplication, hosts: Hosts) -> None:
        self._app = app
        self._hosts = hosts

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        """Answer one request."""

        def start(status: str, headers: list[tuple[str, str]], *exc_info: Any) -> Callable[[bytes], object]:
            return start_response(status, [*headers, *HEADERS], *exc_info)

        problem = self._hosts.problem(environ)
        if problem is None:
            return self._app(environ, start)
        return refuse(environ, start, 403, problem)


def csrf_token(session: str) -> str:
    """The token that a write of *session* must carry. Another origin can send the cookie, but not read it."""
    return hmac.new(session.encode(), b"stead csrf", hashlib.sha256).hexdigest()


def is_own_write(environ: WSGIEnvironment, session: str, given: str) -> bool:
    """Whether a write comes from a page of this session: the right token, and no other origin."""
    # As bytes, because `compare_digest` rejects text that is not ASCII.
    return is_same_origin(environ) and hmac.compare_digest(csrf_token(session).encode(), given.encode())


def is_same_origin(environ: WSGIEnvironment) -> bool:
    """Whether no header says that a page of another origin sent the request."""
    if environ.get("HTTP_SEC_FETCH_SITE", "same-origin") not in ("same-origin", "none"):
        return False
    origin = environ.get("HTTP_ORIGIN")
    return origin is None or origin.partition("://")[2] == environ.get("HTTP_HOST", "")


def refuse(environ: WSGIEnvironment, start_response: StartResponse, status: int, message: str) -> Iterable[bytes]:
    """Answer an error in the form that the request accepts."""
    resp = Response()
    write(Request(environ), resp, Problem(status, message))
    body = resp.data or b""
    start_response(str(resp.status), [*resp.headers.items(), ("content-length", str(len(body)))])
    return [body]


# The fields of a submitted form.


_LONGEST = 64 * 1024
_MOST_FIELDS = 200


def read_form(req: Request) -> dict[str, str]:
    """The fields of the form in the body; the last of several with one name.

    Raises:
        Refused: 400 or 413 if the body is not a form of reasonable size.
    """
    return dict(_fields(req))


def _fields(req: Request) -> list[tuple[str, str]]:
    """All fields of the form in the body.

    Raises:
        Refused: 400 or 413 if the body is not a form of reasonable size.
    """
    req.longest_body = _LONGEST
    if (req.content_length or 0) > _LONGEST:
        raise Refused(413, f"A form may have {_LONGEST} bytes.")
    try:
        text = req.read_all().decode()
        return parse_qsl(text, keep_blank_values=True, max_num_fields=_MOST_FIELDS)
    except BodyTooLong:
        raise Refused(413, f"A form may have {_LONGEST} bytes.") from None
    except (BodyIncomplete, ValueError):
        raise Refused(400, "The body is not a form.") from None


def read_own_form(req: Request) -> dict[str, str]:
    """The fields of a form that changes something; the last of several with one name.

    Raises:
        Refused: 403 if the form does not come from a page of this session.
    """
    return dict(read_own_fields(req))


def read_own_fields(req: Request) -> list[tuple[str, str]]:
    """All fields of a form that changes something.

    Raises:
        Refused: 403 if the form does not come from a page of this session.
    """
    fields = _fields(req)
    form = dict(fields)
    if not is_own_write(req.env, req.env.get(SESSION_KEY, ""), form.get(CSRF_FIELD, "")):
        raise Refused(403, "The form is not from a page of this session. Load the page again, and repeat.")
    return fields


# A user and a password become a token of Keystone. Source: Identity API v3, "Password authentication".


_log = logging.getLogger(__name__)

_SECONDS = 10.0
"""For one request to Keystone."""


class SignInRefused(Exception):
    """The attempt gave no session; ``status`` is 401 if the credential is not valid, 503 if Keystone did not answer."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


def token_of_password(strategy: Strategy, *, user: str, password: str, domain: str, project: str) -> str:
    """A token scoped to *project*, or to the user's default project if it is empty; *domain* is that of both.

    Raises:
        SignInRefused: Keystone refused, or did not answer. The message does not contain the password.
    """
    import httpx2

    identity = {"name": user, "domain": {"name": domain}, "password": password}
    request: dict[str, object] = {"identity": {"methods": ["password"], "password": {"user": identity}}}
    if project:
        request["scope"] = {"project": {"name": project, "domain": {"name": domain}}}
    base = (strategy.keystone_url or "").rstrip("/").removesuffix("/v3")
    try:
        answer = httpx2.post(
            f"{base}/v3/auth/tokens", json={"auth": request}, timeout=_SECONDS, verify=strategy.keystone_cafile or True
        )
    except (httpx2.HTTPError, OSError) as error:
        # Only the type, and no cause: the error of the library has the request, and with it the password.
        _log.warning("sign-in: Keystone does not answer: %s", type(error).__name__)
        raise SignInRefused(503, "Keystone does not answer. Retry, or paste a token.") from None
    token = answer.headers.get("x-subject-token")
    if answer.status_code == 201 and token:
        return str(token)
    if answer.status_code >= 500:
        raise SignInRefused(503, f"Keystone returned {answer.status_code}. Retry, or paste a token.")
    raise SignInRefused(401, "Keystone does not accept this user, password and project.")


# What a caller may do, and the addresses of changed pages.


def may(req: Request, rule: str, target: Mapping[str, str | None] | None = None) -> bool:
    """Whether the policy allows *rule*, for parts of a page that are left out otherwise."""
    try:
        req.require(rule, target)
    except Forbidden:
        return False
    return True


def query_of(pairs: Iterable[tuple[str, str]]) -> str:
    """*pairs* as a query string, with the question mark; empty if there are none."""
    text = urlencode([(key, value) for key, value in pairs if value])
    return f"?{text}" if text else "?"


def changed(pairs: Iterable[tuple[str, str]], **changes: str) -> str:
    """The query string with other values of some keys; an empty value removes a key."""
    remaining = [(key, value) for key, value in pairs if key not in changes]
    return query_of([*remaining, *changes.items()])
