"""The answer to a request without a valid token.

It is sent before version negotiation and has its own form, unlike other errors. An outer layer adds the request id.
Source: "Authentication and policy", docs/api.md.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable
    from wsgiref.types import StartResponse, WSGIEnvironment

_STATUS = "401 Unauthorized"
_MESSAGE = (
    "This server could not verify that you are authorized to access the document you requested. "
    "Either you supplied the wrong credentials, or you did not supply any."
)
_JSON = json.dumps({"message": _MESSAGE, "code": _STATUS, "title": "Unauthorized"})
_PLAIN = f"{_STATUS}\n\n{_MESSAGE}\n"
_HTML = f"<html><head><title>{_STATUS}</title></head>\n<body><h1>{_STATUS}</h1>\n<p>{_MESSAGE}</p></body></html>\n"


def answer(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
    """Return 401, as JSON unless the client prefers another form."""
    media_type, text = _representation(environ.get("HTTP_ACCEPT", ""))
    body = text.encode()
    start_response(_STATUS, [("Content-Type", media_type), ("Content-Length", str(len(body)))])
    return [body]


def _representation(accept: str) -> tuple[str, str]:
    accept = accept.lower()
    if not accept.strip() or "json" in accept or "*/*" in accept:
        return "application/json", _JSON
    if "text/html" in accept or "text/*" in accept:
        return "text/html; charset=UTF-8", _HTML
    return "text/plain; charset=UTF-8", _PLAIN
