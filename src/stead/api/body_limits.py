"""The maximum length of a body by route. HTTP servers that read bodies before the application also use this.

Source: "Limits", docs/api.md.
"""

from __future__ import annotations

SMALL = 64 * 1024
"""Maximum size in bytes of a body that describes one object: a provider, an inventory, a name."""

_LISTS = frozenset(
    {
        ("POST", "/allocations"),
        ("POST", "/reshaper"),
        ("POST", "/claims"),
        ("POST", "/whatif"),
        ("PUT", "/provider_trees"),
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
