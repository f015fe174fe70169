"""Representations: the fields of an answer by microversion, and the headers of the answer."""

from __future__ import annotations

import json
from dataclasses import dataclass
from email.utils import formatdate
from enum import Enum
from functools import lru_cache
from time import time
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar
from urllib.parse import quote

import orjson

from stead.api.versions import V

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from stead.api.request import Request, Response
    from stead.api.versions import Microversion

T = TypeVar("T")
T_contra = TypeVar("T_contra", contravariant=True)


_SAFE_IN_URL = "%/:?#[]@!$&'()*+,;=~"


class Modified(Enum):
    """When the answer last changed, if that is not a moment in the past."""

    NOW = "now"
    UNKNOWN = "unknown"


NOW = Modified.NOW
UNKNOWN = Modified.UNKNOWN


class Part(Protocol[T_contra]):
    """One key of a JSON object: the first microversion that shows it, and how its value is computed."""

    @property
    def since(self) -> Microversion:
        """The first microversion that shows the key."""

    def reader(self, req: Request) -> Callable[[T_contra], object]:
        """The function that computes the key's value, for answers to *req*."""


@dataclass(frozen=True, slots=True)
class Field(Generic[T]):
    """A key whose value is read from the object."""

    since: Microversion
    read: Callable[[T], object]

    def reader(self, req: Request) -> Callable[[T], object]:  # noqa: ARG002  # the signature of Part
        """``read`` itself."""
        return self.read


@dataclass(frozen=True, slots=True)
class SelfLink(Generic[T]):
    """A link to the object itself, as an absolute path."""

    since: Microversion
    path: Callable[[T], str]

    def reader(self, req: Request) -> Callable[[T], object]:
        """A function that builds links with the prefix under which the application is mounted."""
        prefix = req.root_path
        return lambda value: [{"rel": "self", "href": f"{prefix}{self.path(value)}"}]


Shape = dict[str, Part[T]]
"""A JSON object: its keys in the order in which they are written."""


def maker(req: Request, shape: Shape[T]) -> Callable[[T], dict[str, object]]:
    """The function that converts values into objects of the request's microversion; build it once for many values."""
    readers = [(name, part.reader(req)) for name, part in shape.items() if part.since <= req.version]
    return lambda value: {name: read(value) for name, read in readers}


def encoded(value: object, option: int | None = None) -> bytes:
    """JSON of *value*, which may have integers of any size: amounts of many providers with great ratios add up.

    Args:
        option: of orjson.
    """
    try:
        return orjson.dumps(value, option=option)
    except TypeError:  # an integer beyond 64 bits
        return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def answer(
    req: Request, resp: Response, body: object, *, status: int = 200, modified: int | Modified | None = NOW
) -> None:
    """Answer with *body*: a JSON value, or bytes that contain JSON.

    Args:
        modified: see :func:`mark_modified`; None sends no cache headers.
    """
    resp.status = status
    resp.content_type = "application/json"
    resp.data = body if isinstance(body, bytes) else encoded(body)
    if modified is not None:
        mark_modified(req, resp, modified)


def answer_in_pieces(
    req: Request, resp: Response, pieces: list[bytes], *, modified: int | Modified | None = NOW
) -> None:
    """Answer with JSON in *pieces*, which are not joined: a large answer would need its memory twice.

    Args:
        modified: as of :func:`answer`.
    """
    answer(req, resp, pieces[0] if len(pieces) == 1 else b"", modified=modified)
    if len(pieces) > 1:
        resp.data = None
        resp.stream = pieces
        resp.content_length = sum(map(len, pieces))


def answer_nothing(resp: Response, status: int = 204) -> None:
    """Answer without a body and without a content type."""
    resp.status = status


def mark_modified(req: Request, resp: Response, modified: int | Modified) -> None:
    """Send when the answer last changed (seconds since 1970), and that caches must not store it; from 1.15 on."""
    if req.version < V.CACHE_HEADERS:
        return
    resp.set_header("cache-control", "no-cache")
    if modified is not UNKNOWN:
        resp.set_header("last-modified", _date(int(time()) if isinstance(modified, Modified) else modified))


@lru_cache(maxsize=1024)  # answers of one second share a date, and so do providers written in one second
def _date(seconds: int) -> str:
    return formatdate(seconds, usegmt=True)


def newest(moments: Iterable[int], otherwise: Modified = NOW) -> int | Modified:
    """The latest of *moments* (seconds since 1970); *otherwise* if *moments* is empty."""
    return max(moments, default=otherwise)


def locate(req: Request, resp: Response, path: str) -> None:
    """Send the absolute URL of *path*."""
    # Clients and proxies control the host and the prefix: characters that are invalid in a URL must not reach a header.
    resp.set_header("location", quote(f"{req.prefix}{path}", safe=_SAFE_IN_URL))
