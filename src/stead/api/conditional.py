"""Conditional reads: the ``ETag`` of an answer, and status 304 for a client that already has the answer.

Source: "Conditional reads", docs/api.md; RFC 9110, sections 8.8.3 and 13.1.2.
"""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING

from stead import __version__
from stead.api.representations import answer_nothing

if TYPE_CHECKING:
    from stead.api.request import Request, Response

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
