"""From what went wrong to an answer: one table for statuses and codes, one shape for JSON, HTML and text.

A route that words or codes an error in its own way says so in rows beside its handler: see :func:`answering`.
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

from stead.api.accept import quality
from stead.api.versions import V
from stead.domain import errors as domain

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from stead.api.request import Request, Response

H = TypeVar("H", bound="Callable[..., None]")

LOG = logging.getLogger(__name__)

UNDEFINED = "placement.undefined_code"
CONCURRENT_UPDATE = "placement.concurrent_update"
INVENTORY_IN_USE = "placement.inventory.inuse"
DUPLICATE_NAME = "placement.duplicate_name"
PROVIDER_IN_USE = "placement.resource_provider.inuse"
PROVIDER_HAS_CHILDREN = "placement.resource_provider.cannot_delete_parent"
PROVIDER_NOT_FOUND = "placement.resource_provider.not_found"

_TITLES_AND_SENTENCES = {
    400: (
        "Bad Request",
        "The server could not comply with the request since it is either malformed or otherwise incorrect.",
    ),
    403: ("Forbidden", "Access was denied to this resource."),
    404: ("Not Found", "The resource could not be found."),
    405: ("Method Not Allowed", "The method {method} is not allowed for this resource."),
    406: ("Not Acceptable", "The resource could not be given in a form that the request accepts."),
    409: ("Conflict", "There was a conflict when trying to complete your request."),
    415: ("Unsupported Media Type", "The request media type is not supported by this server."),
    500: (
        "Internal Server Error",
        "The server has either erred or is incapable of performing the requested operation.",
    ),
    503: ("Service Unavailable", "The server is currently unavailable. Please try again at a later time."),
}

_MARKUP = re.compile(r"</?[A-Za-z!][^<>]*>")


@dataclass(frozen=True, slots=True)
class Answer:
    """Status and code of an error; ``text`` words it: ``{error}``, its own facts, the path's parameters."""

    status: int
    code: str | Callable[[Any], str] = UNDEFINED
    text: str = "{error}"


def _code_of_unknown_provider(error: domain.UnknownProvider) -> str:
    return PROVIDER_NOT_FOUND if error.among == "Inventory" else UNDEFINED


Rows = dict[type[domain.SteadError], Answer]

ANSWERS: Rows = {
    domain.SteadError: Answer(500),
    domain.Forbidden: Answer(403),
    domain.Unavailable: Answer(503),
    domain.BadRequest: Answer(400),
    domain.InvalidQuery: Answer(400, code=lambda error: error.code or UNDEFINED),
    domain.UnknownProvider: Answer(400, code=_code_of_unknown_provider),
    domain.NotFound: Answer(404),
    domain.Conflict: Answer(409),
    domain.GenerationConflict: Answer(409, CONCURRENT_UPDATE),
    domain.ConsumerConflict: Answer(409, CONCURRENT_UPDATE),
    domain.ConcurrentUpdate: Answer(409, CONCURRENT_UPDATE),
    domain.DuplicateProvider: Answer(409, DUPLICATE_NAME),
    domain.ProviderHasChildren: Answer(409, PROVIDER_HAS_CHILDREN),
    domain.ProviderInUse: Answer(409, PROVIDER_IN_USE),
    domain.InventoryExists: Answer(409, CONCURRENT_UPDATE),
    domain.InventoryInUse: Answer(409, INVENTORY_IN_USE),
}
"""A class that is not listed answers as its base does."""


@dataclass(frozen=True, slots=True)
class Problem:
    """An error answer, ready to be written. ``more`` are further fields of the JSON error object."""

    status: int
    message: str
    code: str = UNDEFINED
    headers: Mapping[str, str] = field(default_factory=dict)
    more: Mapping[str, str] = field(default_factory=dict)


class MalformedBody(domain.BadRequest):
    """The body is not JSON, or not of the form the route asks for."""


class Refused(Exception):
    """The edge itself refuses the request: for its path, method, media types, version or headers."""

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
    """A domain error together with the rows of the route it was raised on."""

    def __init__(self, error: domain.SteadError, rows: Rows, names: Mapping[str, str]) -> None:
        super().__init__(str(error))
        self.error = error
        self.rows = rows
        self.names = names


def answering(rows: Rows) -> Callable[[H], H]:
    """Word and code errors on this route as *rows* say, and all others as :data:`ANSWERS` does."""

    def around(handler: H) -> H:
        @wraps(handler)
        def call(this: object, req: Request, resp: Response, **params: str) -> None:
            try:
                handler(this, req, resp, **params)
            except domain.SteadError as error:
                raise Worded(error, rows, params) from error

        return cast("H", call)

    return around


def problem_of(error: domain.SteadError, rows: Rows | None = None, names: Mapping[str, str] | None = None) -> Problem:
    """The answer to *error*: its own class decides before its bases do, and *rows* before the table."""
    own = rows or {}
    row = next(own.get(cls) or ANSWERS[cls] for cls in type(error).__mro__ if cls in own or cls in ANSWERS)
    facts = {"error": error, **vars(error), **(names or {})}
    code = row.code if isinstance(row.code, str) else row.code(error)
    headers = {"retry-after": str(error.retry_after)} if isinstance(error, domain.Unavailable) else {}
    return Problem(row.status, row.text.format_map(facts), code, headers)


def install(app: falcon.App[Request, Response]) -> None:
    """Let *app* answer every exception in the contract's form."""
    app.add_error_handler(Exception, _unexpected)
    app.add_error_handler(falcon.HTTPError, _of_framework)
    app.add_error_handler(Refused, _refused)
    app.add_error_handler(domain.SteadError, _foreseen)
    app.add_error_handler(Worded, _worded)


def _foreseen(req: Request, resp: Response, error: domain.SteadError, _params: object) -> None:
    write(req, resp, problem_of(error))


def _worded(req: Request, resp: Response, error: Worded, _params: object) -> None:
    write(req, resp, problem_of(error.error, error.rows, error.names))


def _refused(req: Request, resp: Response, error: Refused, _params: object) -> None:
    write(req, resp, error.problem)


def _of_framework(req: Request, resp: Response, error: falcon.HTTPError, _params: object) -> None:
    status = error.status_code if error.status_code in _TITLES_AND_SENTENCES else 400
    if status == 404:
        write(req, resp, Problem(404, f"There is nothing at {req.path}"))
    else:
        write(req, resp, Problem(status, error.description or error.title or ""))


def _unexpected(req: Request, resp: Response, error: Exception, _params: object) -> None:
    LOG.error("%s %s failed (%s)", req.method, req.path, req.id, exc_info=error)
    write(req, resp, Problem(500, "The request id tells the operators where to look."))
    req.negotiated = False  # no version headers: whatever failed, it was not the version's doing


def write(req: Request, resp: Response, problem: Problem) -> None:
    """Make *problem* the response, in the form the request accepts."""
    title, sentence = _TITLES_AND_SENTENCES[problem.status]
    sentence = sentence.format(method=req.method)
    message = _MARKUP.sub("", " ".join(problem.message.splitlines()))
    resp.status = f"{problem.status} {title}"
    for name in ("location", "last-modified", "cache-control"):
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
