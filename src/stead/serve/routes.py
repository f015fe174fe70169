"""Classifies the requests of Stead's API for the HTTP server: their priority and their maximum body size."""

from __future__ import annotations

from stead.api.body_limits import longest_body
from stead.httpd.requests import Lane

_BULK_PATHS = frozenset(
    {"/allocation_candidates", "/allocation_candidates/explain", "/resource_providers", "/provider_trees", "/changes"}
)
SMALL_LIMIT = 100
"""A read with at most this limit has a small answer."""


class ApiRoutes:
    """The requests of the API, below a prefix."""

    def __init__(self, prefix: str, longest_body: int) -> None:
        """*prefix* begins with a slash, or is empty; *longest_body* is in bytes."""
        self._prefix = prefix
        self._longest = longest_body

    def lane(self, method: str, path: str, query: str) -> Lane:
        """The lane of a request."""
        path = path.removeprefix(self._prefix)
        if path.startswith("/ui/"):
            path = path.removeprefix("/ui/api")  # the API for the scripts of the pages
            if path.startswith("/ui/"):
                return Lane.READ if method not in ("GET", "HEAD") or path.startswith("/ui/static/") else Lane.BULK
        if method not in ("GET", "HEAD"):
            # These may take seconds. In this lane they leave threads free for claims.
            return Lane.BULK if path in ("/provider_trees", "/whatif") else Lane.CLAIM
        if path == "/":
            return Lane.INSTANT  # the versions: no token, no database, no catalog
        if path.startswith("/healthcheck"):
            if path == "/healthcheck/live":
                return Lane.LIVE
            if path in ("/healthcheck", "/healthcheck/ready"):
                return Lane.HEALTH
        if path == "/advice" or (path in _BULK_PATHS and not _is_limited(query)):
            return Lane.BULK
        return Lane.READ

    def longest_body(self, method: str, path: str) -> int:
        """Maximum size in bytes of a body that the API reads."""
        return longest_body(method, path.removeprefix(self._prefix).removeprefix("/ui/api"), self._longest)


def _is_limited(query: str) -> bool:
    """Whether the query has a small limit. The application rejects a limit that is not a number."""
    # The event loop runs this, so a long query must not take long: few pairs, and few digits.
    for pair in query.split("&", 50):
        if pair.startswith("limit="):
            digits = pair[6:]
            return digits.isascii() and digits.isdigit() and len(digits) < 4 and int(digits) <= SMALL_LIMIT
    return False
