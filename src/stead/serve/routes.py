"""Classifies the requests of Stead's API for the HTTP server: their priority and their maximum body size."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stead.api.body_limits import longest_body
from stead.auth.sessions import session_in
from stead.httpd.requests import Lane

if TYPE_CHECKING:
    from stead.httpd.requests import Request

_SLOW_PATHS = frozenset({"/advice", "/headroom", "/allocation_candidates/explain", "/ui/ask"})
_SLOW_WITHOUT_LIMIT = frozenset(
    {"/allocation_candidates", "/resource_providers", "/provider_trees", "/consumers", "/changes"}
)
_OWN_LANES = {
    "/": Lane.INSTANT,  # the versions: no token, no database, no catalog
    "/healthcheck/live": Lane.LIVE,
    "/healthcheck": Lane.HEALTH,
    "/healthcheck/ready": Lane.HEALTH,
}
SMALL_LIMIT = 100
"""A read with at most this limit has a small answer."""

SMALL_CLAIM = 16 * 1024
"""Maximum size in bytes of a body with the query of one consumer that is not read further here."""


class ApiRoutes:
    """The requests of the API and of the web interface, below a prefix."""

    def __init__(self, prefix: str, longest_body: int) -> None:
        """*prefix* begins with a slash, or is empty; *longest_body* is in bytes."""
        self._prefix = prefix
        self._longest = longest_body

    def lane(self, request: Request) -> Lane:
        """The lane of a request."""
        method, path = request.method, request.path.removeprefix(self._prefix)
        if path.startswith("/ui/"):
            if path == "/ui/sign-in" and method == "POST":
                return Lane.SIGN_IN
            path = path.removeprefix("/ui/api")  # the API for the scripts of the pages
            if path.startswith("/ui/"):
                return Lane.BULK if path in _SLOW_PATHS or path.endswith("/drain") else Lane.READ
        if method not in ("GET", "HEAD"):
            # These may take seconds. In this lane they leave threads free for claims.
            is_slow = path in ("/provider_trees", "/whatif") or (path == "/claims" and _is_gang(request.body))
            return Lane.BULK if is_slow else Lane.CLAIM
        own_lane = _OWN_LANES.get(path)
        if own_lane is not None:
            return own_lane
        if path in _SLOW_PATHS or (path in _SLOW_WITHOUT_LIMIT and not _is_limited(request.query)):
            return Lane.BULK
        return Lane.BULK if path.startswith("/flavors") and "headroom" in request.query else Lane.READ

    def credential(self, request: Request) -> str | None:
        """The token or, for the web interface, the session of its cookie, which alone identifies the user there."""
        if request.path.removeprefix(self._prefix).startswith("/ui"):
            return session_in(request.fields.get("HTTP_COOKIE", ""))
        return request.fields.get("HTTP_X_AUTH_TOKEN") or None

    def longest_body(self, method: str, path: str) -> int:
        """Maximum size in bytes of a body that the API reads."""
        return longest_body(method, path.removeprefix(self._prefix).removeprefix("/ui/api"), self._longest)


def _is_gang(body: bytes) -> bool:
    """Whether POST `/claims` has several consumers. A wrong guess only puts the request into the other lane."""
    return len(body) > SMALL_CLAIM or body.find(b'"consumer_uuid"', body.find(b'"consumer_uuid"') + 1) > 0


def _is_limited(query: str) -> bool:
    """Whether the query has a small limit. The application rejects a limit that is not a number."""
    # The event loop runs this, so a long query must not take long: few pairs, and few digits.
    for pair in query.split("&", 50):
        if pair.startswith("limit="):
            digits = pair[6:]
            return digits.isascii() and digits.isdigit() and len(digits) < 4 and int(digits) <= SMALL_LIMIT
    return False
