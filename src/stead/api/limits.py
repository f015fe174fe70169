"""The limits of one request. A request over a limit is refused before it reads or writes anything.

Source: "Limits", docs/api.md, which also explains the defaults.
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
    """Maximum values for one request; ``body`` and ``query`` are in bytes."""

    body: int = 16 * 1024 * 1024
    query: int = 64_000
    groups: int = 3000
    suffix: int = 64
    allocations: int = 250_000
    claims: int = 1000
    tree_providers: int = 10_000

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
        """Refuse too many allocations. An allocation is an amount of one class, of one provider, for one consumer.

        Raises:
            Refused: 413
        """
        count = sum(len(amounts) for claim in claims for amounts in claim.allocations.values())
        if count > self.allocations:
            raise Refused(413, f"The request has {count} allocations; at most {self.allocations} are accepted.")

    def require_claims(self, claims: Sequence[object], queries: Iterable[str]) -> None:
        """Refuse too many claims in one request, and queries longer than the limit for URLs.

        Raises:
            Refused: 413
        """
        if len(claims) > self.claims:
            raise Refused(413, f"The request has {len(claims)} claims; at most {self.claims} are accepted.")
        if any(len(query.encode("utf-8", "surrogatepass")) > self.query for query in queries):
            raise Refused(413, f"A query has more than {self.query} bytes.")

    def require_tree_providers(self, counts: Sequence[int]) -> None:
        """Refuse too many providers in one document of provider trees.

        Args:
            counts: the number of providers in each tree of the document.

        Raises:
            Refused: 413, with the place of the first provider over the limit.
        """
        count = sum(counts)
        if count <= self.tree_providers:
            return
        before = 0
        for tree, size in enumerate(counts):
            if before + size > self.tree_providers:
                place = f"provider_trees[{tree}].providers[{self.tree_providers - before}]"
                most = f"at most {self.tree_providers} are accepted ([stead] max_tree_providers)"
                raise Refused(413, f"The document has {count} providers; {most}. The first one too many is {place}.")
            before += size


class Sizes:
    """Falcon middleware: refuses long queries and bodies before routing."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits

    def process_request(self, req: Request, _resp: Response) -> None:
        """Refuse a long query, and a body whose declared length is too long; set the limit for other bodies."""
        if len(req.query_string) > self._limits.query:
            raise Refused(414, f"The query has more than {self._limits.query} bytes.")
        req.longest_body = longest_body(req.method, req.path, self._limits.body)
        if (req.content_length or 0) > req.longest_body:
            raise Refused(413, f"The body has more than {req.longest_body} bytes.")
