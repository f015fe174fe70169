"""Representations: the fields of an answer by microversion, and the headers of the answer."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from email.utils import formatdate
from enum import Enum
from functools import lru_cache, partial
from time import time
from typing import TYPE_CHECKING, Generic, NamedTuple, Protocol, TypeVar
from urllib.parse import quote

import orjson

from stead import __version__
from stead.api.versions import V
from stead.catalog.listing import Listing
from stead.process.runtime import cached_if_short, sliced

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from stead.api.request import Request, Response
    from stead.api.versions import Microversion, Step
    from stead.catalog.fragments import Slots
    from stead.catalog.snapshot import Snapshot
    from stead.domain.provider import Provider


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
    def since(self) -> Step:
        """The first version that shows the key."""

    def reader(self, req: Request) -> Callable[[T_contra], object]:
        """The function that computes the key's value, for answers to *req*."""


@dataclass(frozen=True, slots=True)
class Field(Generic[T]):
    """A key whose value is read from the object."""

    since: Step
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
    readers = [(name, part.reader(req)) for name, part in shape.items() if req.agreed.knows(part.since)]
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


# Conditional reads: the ``ETag`` of an answer, and status 304 for a client that already has the answer.
#
# Source: "Conditional reads", docs/stead-api.md; RFC 9110, sections 8.8.3 and 13.1.2.


_TAG = re.compile(r'\s*(?:W/)?("[\x21\x23-\x7e\x80-\xff]*")\s*(?:,|$)')
_LENGTH = 32


def is_current(req: Request, resp: Response, moment: str) -> bool:
    """Send the ETag of an answer that depends on *moment* only; if the client already has the answer, send 304.

    The tag is weak, since a proxy or this service may compress the answer. It differs between versions of the API and
    of Stead, which may show the same state in different ways.

    Args:
        moment: a text that differs between any two states of the data in the answer.
    """
    made_of = repr((__version__, *req.agreed, moment))
    tag = f'"{hashlib.sha256(made_of.encode()).hexdigest()[:_LENGTH]}"'
    resp.set_header("etag", f"W/{tag}")
    if not _names(req.env.get("HTTP_IF_NONE_MATCH", ""), tag):
        return False
    resp.set_header("cache-control", "no-cache")
    answer_nothing(resp, 304)
    return True


def _names(header: str, tag: str) -> bool:
    """Whether an If-None-Match header lists *tag*. The header is read up to its first syntax error."""
    if header.strip() == "*":
        return True
    position = 0
    while match := _TAG.match(header, position):
        if match[1] == tag:
            return True
        position = match.end()
    return False


# A provider as JSON text. Since lists are long, the text is written directly, without intermediate objects.


FIELDS = {
    "uuid": V.INITIAL,
    "name": V.INITIAL,
    "generation": V.INITIAL,
    "links": V.INITIAL,
    "parent_provider_uuid": V.NESTED_PROVIDERS,
    "root_provider_uuid": V.NESTED_PROVIDERS,
}
"""Each key with its first microversion."""

LINKS = {
    "self": V.INITIAL,
    "inventories": V.INITIAL,
    "usages": V.INITIAL,
    "aggregates": V.AGGREGATES,
    "traits": V.TRAITS,
    "allocations": V.ALLOCATIONS_LINK,
}
"""Each relation with its first microversion; "self" is the provider, the paths of the others are below it."""


class ProviderForm(NamedTuple):
    """The fields of a provider that an answer shows; equal forms give equal texts."""

    around_uuid: tuple[str, ...]
    """The text of the links, split at each occurrence of the uuid."""
    tells_tree: bool

    @classmethod
    def of(cls, req: Request) -> ProviderForm:
        """The form of answers to *req*; its links include the prefix under which the application is mounted."""
        return _form(req.version, req.root_path)

    def text(self, provider: Provider) -> str:
        """The text of one provider."""
        return self._text(provider.uuid, provider.name, provider.generation, provider.parent, provider.root)

    def texts(self, snapshot: Snapshot, slots: Slots) -> Iterator[bytes]:
        """The encoded texts of the providers at *slots*, in their order, with a comma before each, joined in parts.

        Lets other requests run in between.
        """
        return sliced(snapshot.texts(self, slots, partial(self._made, snapshot)), 1)

    def _made(self, snapshot: Snapshot, slots: Sequence[int]) -> Iterable[bytes]:
        listed = Listing(snapshot, slots)
        columns = listed.uuids(), listed.names(), listed.generations(), listed.parents(), listed.roots()
        return map(str.encode, map(self._text, *columns))

    def _text(self, uuid: str, name: str, generation: int, parent: str | None, root: str) -> str:
        tree = ""
        if self.tells_tree:
            above = "null" if parent is None else f'"{parent}"'
            tree = f',"parent_provider_uuid":{above},"root_provider_uuid":"{root}"'
        return (
            f'{{"uuid":"{uuid}","name":{orjson.dumps(name).decode()},"generation":{generation},'
            f'"links":{uuid.join(self.around_uuid)}{tree}}}'
        )


@cached_if_short(256)  # proxies may send different prefixes
def _form(version: Microversion, prefix: str) -> ProviderForm:
    # A proxy controls the prefix, so it is escaped like any other text.
    path = orjson.dumps(f"{prefix}/resource_providers/").decode().removesuffix('"')
    rels = [rel for rel, since in LINKS.items() if since <= version]
    starts = [f'{{"rel":"{rel}","href":{path}' for rel in rels]
    ends = ['"}' if rel == "self" else f'/{rel}"}}' for rel in rels]
    between = [f"{end},{start}" for end, start in zip(ends[:-1], starts[1:], strict=True)]
    return ProviderForm((f"[{starts[0]}", *between, f"{ends[-1]}]"), version >= V.NESTED_PROVIDERS)
