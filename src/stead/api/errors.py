"""Converts exceptions into answers: one table of statuses and codes.

A route with its own wording or code for an error states it in rows beside its handler: see :func:`answering`.
"""

from __future__ import annotations

import html
import logging
import re
from dataclasses import dataclass, field
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar, cast

import falcon
import orjson

from stead.api.request import quality
from stead.api.validation import shorten
from stead.api.versions import NEWEST, V
from stead.domain import errors as domain
from stead.domain.provider import BY_NAME

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from stead.api.request import Request, Response


# Writes a problem as JSON, HTML or text, whichever the request accepts.
#
# Source: "Errors", docs/api.md. The last line of ``detail`` is the message, and some clients show only that line.


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
    415: ("Unsupported Media Type", "The request media type {media_type} is not supported by this server."),
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
    media_type = shorten(req.content_type or "None", 1_000)
    sentence = sentence.format(method=_in_one_line(req.method), media_type=_in_one_line(media_type))
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


H = TypeVar("H", bound="Callable[..., None]")

LOG = logging.getLogger(__name__)

CONCURRENT_UPDATE = "placement.concurrent_update"
INVENTORY_IN_USE = "placement.inventory.inuse"
DUPLICATE_NAME = "placement.duplicate_name"
PROVIDER_IN_USE = "placement.resource_provider.inuse"
PROVIDER_HAS_CHILDREN = "placement.resource_provider.cannot_delete_parent"
PROVIDER_NOT_FOUND = "placement.resource_provider.not_found"
NOTHING_FITS = "stead.nothing_fits"
NOTHING_FOUND = "stead.nothing_found"
START_OVER = "stead.start_over"
PROVIDER_DISABLED = "stead.provider_disabled"


@dataclass(frozen=True, slots=True)
class Answer:
    """Status and code of an error. ``text`` is the message, with ``{error}``, its fields and path parameters."""

    status: int
    code: str | Callable[[Any], str] = UNDEFINED
    text: str = "{error}"
    more: Mapping[str, Callable[[Any], object]] = field(default_factory=dict)
    """Further fields of the JSON error object, each with the function that reads it from the error."""


def _code_of_unknown_provider(error: domain.UnknownProvider) -> str:
    return PROVIDER_NOT_FOUND if error.among == "Inventory" else UNDEFINED


ASK_THE_OPERATORS = "The request id tells the operators where to look."

Rows = dict[type[domain.SteadError], Answer]

ANSWERS: Rows = {
    domain.SteadError: Answer(500, text=ASK_THE_OPERATORS),
    domain.Forbidden: Answer(403),
    domain.Unavailable: Answer(503),
    domain.BadRequest: Answer(400),
    domain.InvalidQuery: Answer(400, code=lambda error: error.code or UNDEFINED),
    domain.UnknownProvider: Answer(400, code=_code_of_unknown_provider),
    domain.NotFound: Answer(404),
    domain.Conflict: Answer(409),
    domain.GenerationConflict: Answer(409, CONCURRENT_UPDATE),
    domain.ConsumerConflict: Answer(409, CONCURRENT_UPDATE),
    domain.DuplicateProvider: Answer(409, DUPLICATE_NAME),
    domain.ProviderHasChildren: Answer(409, PROVIDER_HAS_CHILDREN),
    domain.ProviderInUse: Answer(409, PROVIDER_IN_USE),
    domain.InventoryExists: Answer(409, CONCURRENT_UPDATE),
    domain.InventoryInUse: Answer(409, INVENTORY_IN_USE),
    domain.NothingFits: Answer(409, NOTHING_FITS),
    domain.NothingFound: Answer(409, NOTHING_FOUND),
    domain.ProviderDisabled: Answer(409, PROVIDER_DISABLED, "Unable to allocate inventory: {error}"),
    domain.StartOver: Answer(410, START_OVER),
}
"""A class that is not listed has the answer of its base class."""


def race(doing: str) -> Rows:
    """The row of a route on which a write that lost every race returns 409 instead of 503."""
    again = "Another thread concurrently updated the resource provider data. Please retry your update"
    return {domain.ConcurrentUpdate: Answer(409, CONCURRENT_UPDATE, f"{doing}: {again}")}


class MalformedBody(domain.BadRequest):
    """The body is not JSON, or does not have the form that the route requires."""


class Refused(Exception):
    """The HTTP layer refuses the request because of its path, method, media types, version or headers."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        headers: Mapping[str, str] | None = None,
        more: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.problem = Problem(status, message, headers=headers or {}, more=more or {})


class Worded(Exception):
    """A domain error together with the rows of the route that raised it."""

    def __init__(self, error: domain.SteadError, rows: Rows, names: Mapping[str, str]) -> None:
        super().__init__(str(error))
        self.error = error
        self.rows = rows
        self.names = names


def answering(rows: Rows) -> Callable[[H], H]:
    """Answer errors on this route as *rows* say, and all others as :data:`ANSWERS` says."""

    def around(handler: H) -> H:
        @wraps(handler)
        def call(this: object, req: Request, resp: Response, **params: str) -> None:
            try:
                handler(this, req, resp, **params)
            except domain.SteadError as error:
                raise Worded(error, rows, params) from error

        call.rows = rows  # type: ignore[attr-defined]  # a note on the function
        return cast("H", call)

    return around


def rows_of(handler: object) -> Rows:
    """The rows of *handler*'s route."""
    rows: Rows = getattr(handler, "rows", {})
    return rows


def problem_of(error: domain.SteadError, rows: Rows | None = None, names: Mapping[str, str] | None = None) -> Problem:
    """The answer to *error*: its own class precedes its base classes, and *rows* precede the table."""
    own = rows or {}
    row = next(own.get(cls) or ANSWERS[cls] for cls in type(error).__mro__ if cls in own or cls in ANSWERS)
    facts = {"error": error, **vars(error), **(names or {})}
    code = row.code if isinstance(row.code, str) else row.code(error)
    headers = {}
    if isinstance(error, domain.Unavailable) and row.status == 503:
        headers["retry-after"] = str(error.retry_after)
    more = {name: make(error) for name, make in row.more.items()}
    return Problem(row.status, row.text.format_map(facts), code, headers, more)


def install(app: falcon.App[Request, Response]) -> None:
    """Make *app* answer every exception in the contract's error format."""
    app.add_error_handler(Exception, _unexpected)
    app.add_error_handler(falcon.HTTPError, _of_framework)
    app.add_error_handler(Refused, _refused)
    app.add_error_handler(domain.SteadError, _foreseen)
    app.add_error_handler(Worded, _worded)


def _foreseen(req: Request, resp: Response, error: domain.SteadError, _params: object) -> None:
    _tell(req, resp, error, problem_of(error))


def _worded(req: Request, resp: Response, error: Worded, _params: object) -> None:
    _tell(req, resp, error.error, problem_of(error.error, error.rows, error.names))


def _tell(req: Request, resp: Response, error: domain.SteadError, problem: Problem) -> None:
    req.note(error=type(error).__name__)
    if problem.status >= 500:
        LOG.warning("%s %r failed (%s): %s", _method(req), req.path, req.id, " ".join(str(error).split()))
    write(req, resp, problem)


def _refused(req: Request, resp: Response, error: Refused, _params: object) -> None:
    write(req, resp, error.problem)


def _of_framework(req: Request, resp: Response, error: falcon.HTTPError, _params: object) -> None:
    status = error.status_code if error.status_code in TITLES_AND_SENTENCES else 400
    if status == 404:
        write(req, resp, Problem(404, f"No such path: {req.path}{_advice(req)}"))
    else:
        write(req, resp, Problem(status, error.description or error.title or ""))


def _advice(req: Request) -> str:
    """What to do about a path that no route matches."""
    if req.hidden is not None:
        return f"; requires OpenStack-API-Version: placement {NEWEST}, stead {req.hidden}"
    # WSGI decodes %2F, so the router reads a name with a slash as several segments.
    if req.path.startswith(f"/provider_trees/{BY_NAME}"):
        return ". A path cannot have a provider name that contains a slash; use the uuid of the provider"
    return ""


def _unexpected(req: Request, resp: Response, error: Exception, _params: object) -> None:
    req.note(error=type(error).__name__)
    LOG.error("%s %r failed (%s)", _method(req), req.path, req.id, exc_info=error)
    write(req, resp, Problem(500, ASK_THE_OPERATORS))
    req.negotiated = False  # no version headers: the failure is unrelated to the version


def _method(req: Request) -> str:
    """The method, made safe for a line of the log: a client can send any text as the method."""
    return ascii(req.method)[1:-1]
