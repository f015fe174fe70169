"""Which media types the Accept header admits.

Falcon's own parser lets ``application/json; charset=utf8`` admit ``application/json``; the contract does not.
Source: RFC 9110, section 12.5.1.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from stead.process.short_keys import cached_if_short

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
