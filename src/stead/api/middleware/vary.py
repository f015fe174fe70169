"""The Vary header of an answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    Headers = list[tuple[str, str]]


def with_vary(headers: Iterable[tuple[str, str]], name: str) -> Headers:
    """*headers* with the request header *name* added to Vary."""
    headers = list(headers)
    varied = [value for key, value in headers if key.lower() == "vary"]
    others = [(key, value) for key, value in headers if key.lower() != "vary"]
    return [*others, ("vary", ", ".join([*varied, name]))]
