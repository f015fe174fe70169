"""Answers: what of a value each microversion shows, and the headers around it."""

from __future__ import annotations

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
    """When the answer last changed, where that is no moment of the past."""

    NOW = "now"
    UNKNOWN = "unknown"


NOW = Modified.NOW
UNKNOWN = Modified.UNKNOWN


class Part(Protocol[T_contra]):
    """One key of a JSON object: since which microversion it is shown, and how it is made of the value."""

    @property
    def since(self) -> Microversion:
        """The first microversion that shows it."""

    def reader(self, req: Request) -> Callable[[T_contra], object]:
        """What makes the key's value, in answers to *req*."""


@dataclass(frozen=True, slots=True)
class Field(Generic[T]):
    """A key whose value is read off the value shown."""

    since: Microversion
    read: Callable[[T], object]

    def reader(self, req: Request) -> Callable[[T], object]:  # noqa: ARG002  # as its sibling that needs it
        """``read`` itself."""
        return self.read


@dataclass(frozen=True, slots=True)
class SelfLink(Generic[T]):
    """A link to the value itself, by its absolute path."""

    since: Microversion
    path: Callable[[T], str]

    def reader(self, req: Request) -> Callable[[T], object]:
        """A maker of links with the prefix under which the application is mounted."""
        prefix = req.root_path
        return lambda value: [{"rel": "self", "href": f"{prefix}{self.path(value)}"}]


Shape = dict[str, Part[T]]
"""A JSON object, key by key, in the order in which they are written."""


def maker(req: Request, shape: Shape[T]) -> Callable[[T], dict[str, object]]:
    """What turns values into the objects that the request's microversion shows; made once for many values."""
    readers = [(name, part.reader(req)) for name, part in shape.items() if part.since <= req.version]
    return lambda value: {name: read(value) for name, read in readers}


def answer(
    req: Request, resp: Response, body: object, *, status: int = 200, modified: int | Modified | None = NOW
) -> None:
    """Answer with *body*: a JSON value, or bytes that are JSON already.

    Args:
        modified: see :func:`mark_modified`; None sends no cache headers.
    """
    resp.status = status
    resp.content_type = "application/json"
    resp.data = body if isinstance(body, bytes) else orjson.dumps(body)
    if modified is not None:
        mark_modified(req, resp, modified)


def answer_nothing(resp: Response, status: int = 204) -> None:
    """Answer without a body, and so without a content type."""
    resp.status = status


def mark_modified(req: Request, resp: Response, modified: int | Modified) -> None:
    """Say when the answer last changed (seconds since 1970), and that nobody may keep it; from 1.15 on."""
    if req.version < V.CACHE_HEADERS:
        return
    resp.set_header("cache-control", "no-cache")
    if modified is not UNKNOWN:
        resp.set_header("last-modified", _date(int(time()) if isinstance(modified, Modified) else modified))


@lru_cache(maxsize=1024)  # many answers in one second, many providers written in another
def _date(seconds: int) -> str:
    return formatdate(seconds, usegmt=True)


def newest(moments: Iterable[int], otherwise: Modified = NOW) -> int | Modified:
    """The latest of *moments* (seconds since 1970); *otherwise* if there are none."""
    return max(moments, default=otherwise)


def locate(req: Request, resp: Response, path: str) -> None:
    """Send the absolute URL of what stands at *path*."""
    # Host and prefix are the client's or a proxy's words: what may not stand in a URL may not stand in a header either.
    resp.set_header("location", quote(f"{req.prefix}{path}", safe=_SAFE_IN_URL))
