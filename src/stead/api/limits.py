"""What a request may cost: it is refused before it reads or writes anything if it is over a limit.

Source: "Limits", docs/api.md, which also explains the defaults.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stead.api.errors import Refused

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from stead.api.request import Request, Response
    from stead.domain.claim import Claim
    from stead.domain.limits import RequestLimits
    from stead.domain.request import RequestGroup


def require_groups(limits: RequestLimits, groups: Sequence[RequestGroup]) -> None:
    """Refuse too many request groups, or one whose suffix is too long.

    Raises:
        Refused: 400
    """
    if len(groups) > limits.groups:
        raise Refused(400, f"The query has {len(groups)} request groups; at most {limits.groups} are accepted.")
    longest = max((len(group.suffix) for group in groups), default=0)
    if longest > limits.suffix_length:
        raise Refused(400, f"A suffix has {longest} characters; at most {limits.suffix_length} are accepted.")


def require_allocations(limits: RequestLimits, claims: Iterable[Claim]) -> None:
    """Refuse too many allocations. An allocation is an amount of one class, of one provider, for one consumer.

    Raises:
        Refused: 413
    """
    count = sum(len(amounts) for claim in claims for amounts in claim.allocations.values())
    if count > limits.allocations:
        raise Refused(413, f"The request has {count} allocations; at most {limits.allocations} are accepted.")


def require_claims(limits: RequestLimits, claims: Sequence[object], queries: Iterable[str]) -> None:
    """Refuse too many claims in one request, and queries longer than the limit for URLs.

    Raises:
        Refused: 413
    """
    if len(claims) > limits.claims:
        raise Refused(413, f"The request has {len(claims)} claims; at most {limits.claims} are accepted.")
    if any(len(query.encode("utf-8", "surrogatepass")) > limits.query_length for query in queries):
        raise Refused(413, f"A query has more than {limits.query_length} bytes.")


def require_tree_providers(limits: RequestLimits, counts: Sequence[int]) -> None:
    """Refuse too many providers in one document of provider trees.

    Args:
        counts: the number of providers in each tree of the document.

    Raises:
        Refused: 413, with the place of the first provider over the limit.
    """
    count = sum(counts)
    if count <= limits.tree_providers:
        return
    before = 0
    for tree, size in enumerate(counts):
        if before + size > limits.tree_providers:
            place = f"provider_trees[{tree}].providers[{limits.tree_providers - before}]"
            most = f"at most {limits.tree_providers} are accepted ([stead] max_tree_providers)"
            raise Refused(413, f"The document has {count} providers; {most}. The first one too many is {place}.")
        before += size


class Sizes:
    """Falcon middleware: refuses long queries and bodies before routing."""

    def __init__(self, limits: RequestLimits) -> None:
        self._limits = limits

    def process_request(self, req: Request, _resp: Response) -> None:
        """Refuse a long query, and a body whose declared length is too long; set the limit for other bodies."""
        if len(req.query_string) > self._limits.query_length:
            raise Refused(414, f"The query has more than {self._limits.query_length} bytes.")
        req.longest_body = longest_body(req.method, req.path, self._limits.body_size)
        if (req.content_length or 0) > req.longest_body:
            raise Refused(413, f"The body has more than {req.longest_body} bytes.")


# The maximum length of a body by route. HTTP servers that read bodies before the application also use this.


SMALL = 64 * 1024
"""Maximum size in bytes of a body that describes one object: a provider, an inventory, a name."""

_LISTS = frozenset(
    {
        ("POST", "/allocations"),
        ("POST", "/reshaper"),
        ("POST", "/claims"),
        ("POST", "/whatif"),
        ("PUT", "/provider_trees"),
        ("PUT", "/leases"),
    }
)
_METHODS_OF_LISTS = frozenset({"POST", "PUT"})
_LISTS_OF_A_PROVIDER = frozenset({"aggregates", "inventories", "traits"})

_BYTES_PER_VALUE = 12
"""The minimum average size of a value in a realistic body.

The smallest values take 2 bytes of text and up to 90 of memory: 16 MiB of nested lists took 770 MB and 11 s to parse.
"""


def longest_body(method: str, path: str, most: int) -> int:
    """Maximum size of a body in bytes; *path* is without any prefix, *most* is `[stead] max_body_size`."""
    return most if _takes_lists(method, path) else min(SMALL, most)


def _takes_lists(method: str, path: str) -> bool:
    if method not in _METHODS_OF_LISTS:
        return False
    if (method, path) in _LISTS:
        return True
    match method, path.split("/", 4):
        case "PUT", ["", "allocations", _]:
            return True
        case "PUT", ["", "resource_providers", _, noun]:
            return noun in _LISTS_OF_A_PROVIDER
    return False


def most_values(longest: int) -> int:
    """Maximum number of JSON values (members of objects, elements of arrays) in a body of at most *longest* bytes."""
    return longest // _BYTES_PER_VALUE


def counts_at_most(body: bytes, values: int) -> bool:
    """Whether *body* has at most that number of JSON values, counted without parsing it.

    Each value but the first follows a comma or the start of a container. These characters count in strings too, so
    the count may be too high.
    """
    return len(body) <= values or sum(body.count(start) for start in (b",", b"[", b"{")) <= values
