"""The request and the response as handlers see them: Accept, UUIDs, and the provider that a path names."""

from __future__ import annotations

import re
import sys
import time
from typing import TYPE_CHECKING, Any, NamedTuple

import falcon

from stead.api.versions import OLDEST, Agreed, Microversion, SteadVersion
from stead.candidates.engine import UNTIMED, Timed
from stead.domain.errors import ProviderNotFound
from stead.observe.metrics import NOTES_KEY
from stead.process.runtime import cached_if_short

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from stead.candidates.engine import Phases
    from stead.catalog.snapshot import Snapshot
    from stead.domain.provider import Slot


REQUEST_ID_KEY = "stead.request_id"
"""The environ key under which the outermost middleware stores the request's id."""

Response = falcon.Response

_PART = 64 * 1024
"""Bytes per read of a body whose length is unknown."""


class BodyTooLong(Exception):
    """The body is longer than the limit."""


class BodyIncomplete(Exception):
    """The connection ended before the end of the body."""


class Request(falcon.Request):
    """A request, with the results of the checks before its handler.

    ``agreed`` are the negotiated versions. ``negotiated`` says whether they are determined yet; until then errors show
    no version.
    ``longest_body`` is in bytes.
    ``hidden`` is the version of Stead's own features that has the path, if the request does not have that version.
    ``require`` evaluates a policy rule, with a target if it is not the caller's own project; it raises Forbidden.
    """

    agreed: Agreed = Agreed(OLDEST)
    negotiated: bool = False
    longest_body: int = sys.maxsize
    hidden: SteadVersion | None = None
    require: Callable[[str, Mapping[str, Any] | None], None]

    def __init__(self, env: dict[str, Any], options: falcon.RequestOptions | None = None) -> None:
        super().__init__(env, options)
        # Replaced like bytes that cannot be decoded: PostgreSQL would reject a query for a name with NUL.
        if "\0" in self.path:
            self.path = self.path.replace("\0", "\ufffd")

    @property
    def version(self) -> Microversion:
        """The negotiated microversion."""
        return self.agreed.placement

    @property
    def stead(self) -> SteadVersion | None:
        """The version of Stead's own features; None if not requested."""
        return self.agreed.stead

    @property
    def id(self) -> str:
        """The request's id in logs, headers and errors."""
        return str(self.env.get(REQUEST_ID_KEY, ""))

    def note(self, **facts: Any) -> None:
        """Report facts to the watchers; their names are those of the fields of `Notes`."""
        notes = self.env.get(NOTES_KEY)
        if notes is not None:
            for name, fact in facts.items():
                setattr(notes, name, fact)

    def phases(self) -> Phases:
        """Records the durations of the phases of a query that begins now."""
        notes = self.env.get(NOTES_KEY)
        if notes is None:
            return UNTIMED
        notes.phases_began = time.perf_counter()
        return Timed(notes.marks)

    @property
    def accepted(self) -> str | None:
        """The Accept header; None if it is absent, empty, or exactly ``*/*``."""
        header = self.env.get("HTTP_ACCEPT", "").strip()
        return None if header in ("", "*/*") else str(header)

    def read_all(self) -> bytes:
        """The complete body. A chunked body declares no length; the server marks its end.

        Raises:
            BodyIncomplete: it is shorter than its Content-Length.
            BodyTooLong: it is longer than ``longest_body``. The rest was not read.
        """
        chunked = (
            self.env.get("wsgi.input_terminated") or "chunked" in self.env.get("HTTP_TRANSFER_ENCODING", "").lower()
        )
        stream = self.stream if chunked and not self.env.get("CONTENT_LENGTH") else self.bounded_stream
        if stream is self.bounded_stream:
            whole = bytes(stream.read())
            if len(whole) < (self.content_length or 0):
                raise BodyIncomplete(f"The body ended after {len(whole)} of {self.content_length} bytes.")
            return whole
        body = bytearray()
        while part := stream.read(_PART):
            body += part
            if len(body) > self.longest_body:
                raise BodyTooLong(self.longest_body)
        return bytes(body)


# Which media types the Accept header admits.
#
# Falcon's own parser lets ``application/json; charset=utf8`` admit ``application/json``; the contract does not.
# Source: RFC 9110, section 12.5.1.


_TOKEN = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_VALUE = rf'(?:{_TOKEN}|"(?:[^"\\]|\\.)*")'
_RANGE = re.compile(
    rf"\s*(?P<main>{_TOKEN})/(?P<sub>{_TOKEN})"
    rf"(?P<parameters>(?:\s*;\s*(?![qQ]\s*=){_TOKEN}={_VALUE})*)"
    rf"(?:\s*;\s*[qQ]=(?P<quality>0(?:\.\d{{0,3}})?|1(?:\.0{{0,3}})?)(?:\s*;\s*{_TOKEN}(?:={_VALUE})?)*)?\s*"
)
_EMPTY = re.compile(r"\s*(?:,|$)")


class MediaRange(NamedTuple):
    """One element of the header, in lower case."""

    main: str
    sub: str
    quality: float
    has_parameters: bool

    def specificity(self, main: str, sub: str) -> int | None:
        """How exactly the range matches a media type without parameters; None if it does not admit the type."""
        if self.has_parameters:
            return None
        if (self.main, self.sub) == (main, sub):
            return 2
        if (self.main, self.sub) == (main, "*"):
            return 1
        return 0 if (self.main, self.sub) == ("*", "*") else None


def media_ranges(header: str) -> tuple[MediaRange, ...] | None:
    """The ranges of an Accept header; None if it is malformed, which counts as absent."""
    ranges: list[MediaRange] = []
    at = 0
    while at < len(header):
        if empty := _EMPTY.match(header, at):  # lists may have empty elements
            at = empty.end()
            continue
        match = _RANGE.match(header, at)
        if match is None or header[match.end() : match.end() + 1] not in ("", ","):
            return None
        quality = match["quality"]
        ranges.append(
            MediaRange(
                match["main"].lower(),
                match["sub"].lower(),
                1.0 if quality is None else float(quality),
                bool(match["parameters"]),
            )
        )
        at = match.end() + 1
    return tuple(ranges)


@cached_if_short(256)  # all clients together send a handful of different headers
def quality(media_type: str, header: str) -> float:
    """The preference of *header* for *media_type*, from 0 to 1. The most specific range decides; 1 if malformed."""
    ranges = media_ranges(header)
    if ranges is None:
        return 1.0
    main, _, sub = media_type.partition("/")
    fitting = [(exactness, at.quality) for at in ranges if (exactness := at.specificity(main, sub)) is not None]
    return max(fitting, default=(0, 0.0))[1]


# Looks up the provider that a path names.


def find_provider(snapshot: Snapshot, uuid: str) -> Slot:
    """The slot of the provider with exactly this spelling of the uuid.

    Raises:
        ProviderNotFound: no provider has this uuid.
    """
    slot = snapshot.find(uuid)
    if slot is None:
        raise ProviderNotFound(uuid)
    return slot


# The spellings of a UUID that clients may use: lenient in bodies and paths, strict in some queries.


_HEX = re.compile(r"[0-9a-f]{32}")
_STRICT = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


def normalised_uuid(text: str) -> str | None:
    """The stored form, lower case with hyphens, of a UUID in any spelling; None if *text* is not a UUID.

    Accepted are any case, hyphens anywhere or nowhere, surrounding braces, and the prefix ``urn:uuid:``.
    """
    digits = text.lower().removeprefix("urn:").removeprefix("uuid:").strip("{}").replace("-", "")
    if not _HEX.fullmatch(digits):
        return None
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def is_like(text: str) -> bool:
    """Whether *text* is a UUID in any spelling."""
    return normalised_uuid(text) is not None


def is_strict(text: str) -> bool:
    """Whether *text* is a UUID of 36 characters with the hyphens in their places, in any case."""
    return _STRICT.fullmatch(text) is not None
