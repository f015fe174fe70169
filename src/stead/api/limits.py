"""How much one request may ask for. What is over a limit is refused before anything is read or written for it.

Source: "Limits", docs/api.md, which also says how the defaults were chosen.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from stead.api.body_limits import longest_body
from stead.api.errors import Refused

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from stead.api.request import Request, Response
    from stead.domain.claim import Claim
    from stead.domain.request import RequestGroup


@dataclass(frozen=True, slots=True)
class Limits:
    """The most that one request may have of each; ``body`` and ``query`` are in bytes."""

    body: int = 16 * 1024 * 1024
    query: int = 64_000
    groups: int = 3000
    suffix: int = 64
    allocations: int = 250_000
    claims: int = 1000

    def require_groups(self, groups: Sequence[RequestGroup]) -> None:
        """Refuse too many request groups, or one whose suffix is too long.

        Raises:
            Refused: 400
        """
        if len(groups) > self.groups:
            raise Refused(400, f"The query has {len(groups)} request groups; at most {self.groups} are accepted.")
        longest = max((len(group.suffix) for group in groups), default=0)
        if longest > self.suffix:
            raise Refused(400, f"A suffix has {longest} characters; at most {self.suffix} are accepted.")

    def require_allocations(self, claims: Iterable[Claim]) -> None:
        """Refuse too many allocations: one is an amount of one class, of one provider, for one consumer.

        Raises:
            Refused: 413
        """
        count = sum(len(amounts) for claim in claims for amounts in claim.allocations.values())
        if count > self.allocations:
            raise Refused(413, f"The request has {count} allocations; at most {self.allocations} are accepted.")

    def require_claims(self, claims: Sequence[object], queries: Iterable[str]) -> None:
        """Refuse too many claims in one request, and queries that are longer than one of a URL may be.

        Raises:
            Refused: 413
        """
        if len(claims) > self.claims:
            raise Refused(413, f"The request has {len(claims)} claims; at most {self.claims} are accepted.")
        if any(len(query.encode("utf-8", "surrogatepass")) > self.query for query in queries):
            raise Refused(413, f"A query has more than {self.query} bytes.")


class Sizes:
    """Falcon middleware: refuses what is too long to be looked at, before it is routed."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits

    def process_request(self, req: Request, _resp: Response) -> None:
        """Refuse a long query and a body that says that it is long; leave a limit for one that does not say."""
        if len(req.query_string) > self._limits.query:
            raise Refused(414, f"The query has more than {self._limits.query} bytes.")
        req.longest_body = longest_body(req.method, req.path, self._limits.body)
        if (req.content_length or 0) > req.longest_body:
            raise Refused(413, f"The body has more than {req.longest_body} bytes.")
