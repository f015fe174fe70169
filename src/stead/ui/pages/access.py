"""What a caller may do, and the addresses of changed pages."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlencode

from stead.domain.errors import Forbidden

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from stead.api.request import Request


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
