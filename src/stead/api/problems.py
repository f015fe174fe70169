"""Writes a problem as JSON, HTML or text, whichever the request accepts.

Source: "Errors", docs/api.md. The last line of ``detail`` is the message, and some clients show only that line.
"""

from __future__ import annotations

import html
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import orjson

from stead.api.accept import quality
from stead.api.excerpts import shorten
from stead.api.versions import V

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stead.api.request import Request, Response

UNDEFINED = "placement.undefined_code"

TITLES_AND_SENTENCES = {
    400: (
        "Bad Request",
        "The server could not comply with the request since it is either malformed or otherwise incorrect.",
    ),
    403: ("Forbidden", "Access was denied to this resource."),
    404: ("Not Found", "The resource could not be found."),
    405: ("Method Not Allowed", "The method {method} is not allowed for this resource."),
    406: ("Not Acceptable", "The resource could not be given in a form that the request accepts."),
    409: ("Conflict", "There was a conflict when trying to complete your request."),
    410: ("Gone", "This resource is no longer available. No forwarding address is given."),
    413: ("Content Too Large", "The request is larger than the server accepts."),
    414: ("URI Too Long", "The query is longer than the server accepts."),
    415: ("Unsupported Media Type", "The request media type is not supported by this server."),
    431: ("Request Header Fields Too Large", "A header of the request is larger than the server accepts."),
    500: (
        "Internal Server Error",
        "The server has either erred or is incapable of performing the requested operation.",
    ),
    503: ("Service Unavailable", "The server is currently unavailable. Please try again at a later time."),
}

_MARKUP = re.compile(r"</?[A-Za-z!][^<>]*>")


@dataclass(frozen=True, slots=True)
class Problem:
    """An error answer, ready to be written. ``more`` are further fields of the JSON error object."""

    status: int
    message: str
    code: str = UNDEFINED
    headers: Mapping[str, str] = field(default_factory=dict)
    more: Mapping[str, object] = field(default_factory=dict)


def _in_one_line(text: str) -> str:
    return " ".join(text.splitlines())


def write(req: Request, resp: Response, problem: Problem) -> None:
    """Write *problem* to the response, in the form that the request accepts."""
    title, sentence = TITLES_AND_SENTENCES[problem.status]
    sentence = sentence.format(method=_in_one_line(req.method))
    # Shortened first, because a message can repeat a whole body.
    message = _MARKUP.sub("", _in_one_line(shorten(problem.message, 100_000)))
    resp.status = f"{problem.status} {title}"
    for name in ("location", "last-modified", "cache-control"):
        # A handler that failed late has already set these, and they describe the success.
        resp.delete_header(name)
    for name, value in problem.headers.items():
        resp.set_header(name, value)
    resp.content_type, resp.data = _FORMS[_form(req.accepted)](req, problem, title, sentence, message)


def _form(accepted: str | None) -> str:
    if accepted is None:
        return "json"
    as_html, as_json = quality("text/html", accepted), quality("application/json", accepted)
    if max(as_html, as_json) <= 0:
        return "text"
    return "html" if as_html >= as_json else "json"


def _as_json(req: Request, problem: Problem, title: str, sentence: str, message: str) -> tuple[str, bytes]:
    error: dict[str, object] = {
        "status": problem.status,
        "title": title,
        "detail": f"{sentence}\n\n {message}  ",
    }
    if req.negotiated and req.version >= V.ERROR_CODES:
        error["code"] = problem.code
    error |= problem.more
    error["request_id"] = req.id
    return "application/json", orjson.dumps({"errors": [error]})


def _as_html(_req: Request, problem: Problem, title: str, sentence: str, message: str) -> tuple[str, bytes]:
    heading, body = f"{problem.status} {title}", f"{html.escape(sentence)}<br /><br />\n{html.escape(message)}"
    page = (
        f"<html>\n <head>\n  <title>{heading}</title>\n </head>\n"
        f" <body>\n  <h1>{heading}</h1>\n  {body}\n </body>\n</html>\n"
    )
    return "text/html; charset=UTF-8", page.encode()


def _as_text(_req: Request, problem: Problem, title: str, sentence: str, message: str) -> tuple[str, bytes]:
    return "text/plain; charset=UTF-8", f"{problem.status} {title}\n\n{sentence}\n\n {message}  ".encode()


_FORMS = {"json": _as_json, "html": _as_html, "text": _as_text}
