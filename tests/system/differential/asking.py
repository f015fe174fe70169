"""Requests written once and sent to both services: what each of them calls a thing is filled in when it is sent.

In paths, queries and bodies ``<p3>`` stands for the uuid of provider 3, ``<e3>`` for that of some provider that exists,
``<c1>`` for a consumer's, ``<a0>`` for an aggregate's; ``<p3~>`` is spelled without hyphens, ``<p3^>`` in upper case.
`Generation` stands for what a provider or a consumer has when the request is sent.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import quote

TOKEN = re.compile(r"<([peca]\d+)([~^]?)>")
SPELLINGS = {"": str, "~": lambda uuid: uuid.replace("-", ""), "^": str.upper}


@dataclass(frozen=True)
class Generation:
    """The generation that ``p3`` or ``c1`` has when the request is sent, and as much more as *off*."""

    of: str
    off: int = 0


ABSENT: Any = object()


@dataclass(frozen=True)
class Request:
    """One request, with tokens in it. *raw* is a body as bytes; a header of None is not sent."""

    method: str
    path: str
    version: int = 39
    query: tuple[tuple[str, str], ...] = ()
    body: Any = None
    raw: bytes | None = None
    headers: tuple[tuple[str, str | None], ...] = ()

    @property
    def route(self) -> str:
        """The method and the path without the names of things: ``PUT /resource_providers/*/inventories``."""
        parts = self.path.split("/")
        parts[2::2] = ["*"] * len(parts[2::2])
        return f"{self.method} {'/'.join(parts)}"

    def values(self, key: str) -> list[str]:
        return [value for found, value in self.query if found == key]

    def without(self, *keys: str) -> "Request":
        return replace(self, query=tuple((key, value) for key, value in self.query if key not in keys))

    def filled(self, uuid_of: Callable[[str], str], generation_of: Callable[[str], int | None]) -> "Request":
        """With all tokens and generations replaced by what stands for them."""

        def fill(value: Any) -> Any:
            match value:
                case str():
                    return TOKEN.sub(lambda token: SPELLINGS[token[2]](uuid_of(token[1])), value)
                case Generation(of, off):
                    now = generation_of(of)
                    return off or None if now is None else now + off
                case dict():
                    return {fill(key): fill(inner) for key, inner in value.items() if inner is not ABSENT}
                case list():
                    return [fill(inner) for inner in value if inner is not ABSENT]
                case _:
                    return value

        query = tuple((fill(key), fill(value)) for key, value in self.query)
        return replace(self, path=fill(self.path), query=query, body=None if self.body is ABSENT else fill(self.body))

    @property
    def target(self) -> str:
        """Path and query as they are sent."""
        query = "&".join(f"{quote(key)}={quote(value, safe=':,!')}" for key, value in self.query)
        return f"{self.path}?{query}" if query else self.path
