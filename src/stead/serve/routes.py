"""What the HTTP server is told about Stead's API: which requests go first, and how large their bodies may be."""

from __future__ import annotations

from stead.api.body_limits import longest_body
from stead.httpd.requests import Lane

_BULK_PATHS = frozenset(
    {"/allocation_candidates", "/allocation_candidates/explain", "/resource_providers", "/provider_trees", "/changes"}
)
SMALL_LIMIT = 100
"""A read that asks for at most so many has a small answer."""


class ApiRoutes:
    """The requests of the API, below a prefix."""

    def __init__(self, prefix: str, longest_body: int) -> None:
        """*prefix* begins with a slash, or is empty; *longest_body* is in bytes."""
        self._prefix = prefix
        self._longest = longest_body

    def lane(self, method: str, path: str, query: str) -> Lane:
        """The lane of a request."""
        path = path.removeprefix(self._prefix)
        if method not in ("GET", "HEAD"):
            return Lane.CLAIM
        if path.startswith("/healthcheck"):
            if path == "/healthcheck/live":
                return Lane.LIVE
            if path in ("/healthcheck", "/healthcheck/ready"):
                return Lane.HEALTH
        if path in _BULK_PATHS and not _is_limited(query):
            return Lane.BULK
        return Lane.READ

    def longest_body(self, method: str, path: str) -> int:
        """Bytes of a body that the API reads."""
        return longest_body(method, path.removeprefix(self._prefix), self._longest)


def _is_limited(query: str) -> bool:
    """Whether the query asks for few; what is no number, the application refuses."""
    for pair in query.split("&", 50):
        if pair.startswith("limit="):
            digits = pair[6:]
            return digits.isascii() and digits.isdigit() and len(digits) < 4 and int(digits) <= SMALL_LIMIT
    return False
