"""Answers: the fields of a body by microversion, the headers, and the answer to each exception."""

from __future__ import annotations

import hashlib
import html
import json
import logging
import re
from dataclasses import dataclass, field
from email.utils import formatdate
from enum import Enum
from functools import lru_cache, partial, wraps
from time import time
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol, TypeVar, cast
from urllib.parse import quote

import falcon
import orjson

from stead import __version__
from stead.api.bodies import shorten
from stead.api.request import UNDEFINED, Problem, Refused, quality
from stead.api.versions import NEWEST, V
from stead.catalog.listing import Listing
from stead.domain import errors as domain
from stead.domain.provider import BY_NAME
from stead.process.runtime import cached_if_short, sliced

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

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


# Converts exceptions into answers: one table of statuses and codes.
#
# A route with its own wording or code for an error states it in rows beside its handler: see :func:`answering`.


# Writes a problem as JSON, HTML or text, whichever the request accepts.
#
# Source: "Errors", docs/api.md. The last line of ``detail`` is the message, and some clients show only that line.


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
    resp.content_type, resp.data = _FORMS[_error_form(req.accepted)](req, problem, title, sentence, message)


def _error_form(accepted: str | None) -> str:
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
