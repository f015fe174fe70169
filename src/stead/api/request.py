"""One request up to its handler: what handlers see of it, and what it must pass before them.

It passes, in this order: versions, sizes, a route, and the gates of the handler. Handlers and parsers also check here
what the content of a request may cost.
Source: "Microversion negotiation", "Request body headers" and "Limits", docs/api.md.
"""

from __future__ import annotations

import re
import sys
import time
from dataclasses import dataclass, field
from functools import wraps
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar, cast

import falcon
from falcon.routing import map_http_methods

from stead.api.versions import OLDEST, Agreed, Microversion, SteadVersion, Step, V, extent, header_of
from stead.auth.authentication import Credentials
from stead.candidates.engine import UNTIMED, Timed
from stead.domain.errors import BadRequest, ProviderNotFound
from stead.observe.metrics import NOTES_KEY
from stead.process.runtime import cached_if_short

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from wsgiref.types import StartResponse, WSGIEnvironment

    from stead.api.versions import Versioned
    from stead.auth.policy import Policy
    from stead.candidates.engine import Phases
    from stead.catalog.snapshot import Snapshot
    from stead.domain.claim import Claim
    from stead.domain.limits import RequestLimits
    from stead.domain.provider import Slot
    from stead.domain.request import RequestGroup


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


# How a request is refused.


UNDEFINED = "placement.undefined_code"


@dataclass(frozen=True, slots=True)
class Problem:
    """An error answer, ready to be written. ``more`` are further fields of the JSON error object."""

    status: int
    message: str
    code: str = UNDEFINED
    headers: Mapping[str, str] = field(default_factory=dict)
    more: Mapping[str, object] = field(default_factory=dict)


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


class MalformedBody(BadRequest):
    """The body is not JSON, or does not have the form that the route requires."""


# The checks before routing: which versions apply, and whether the body headers are valid.


N = TypeVar("N", bound=Step)

HEADER = "openstack-api-version"

NEEDED_BY_STEAD = V.ANY_TRAITS
"""The first microversion with which Stead's own versions may be combined."""


_MOST_DIGITS = 100
"""Digits of a length. Python cannot parse numbers of several thousand digits, and no real body has such a length."""


class Negotiation:
    """Falcon middleware: determines microversion and caller before routing, and names the versions in every answer."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy

    def process_request(self, req: Request, _resp: Response) -> None:
        """Determine the microversion and the caller; refuse body headers that no route could accept."""
        req.agreed = agree(req.env.get("HTTP_OPENSTACK_API_VERSION"))
        req.negotiated = True
        credentials = Credentials.of(req.env)

        def require(rule: str, target: Mapping[str, Any] | None) -> None:
            self._policy.require(rule, credentials, target)

        req.require = require
        _require_body_headers(req)

    def process_response(self, req: Request, resp: Response, _resource: object, _succeeded: bool) -> None:
        """Add the headers with the versions in use."""
        req.note(route=req.uri_template)
        if req.negotiated:
            resp.set_header(HEADER, header_of(req.agreed))
            resp.append_header("vary", HEADER)


def asks_for_several(environ: WSGIEnvironment) -> bool:
    """Whether the header may name more than one service."""
    return "," in environ.get("HTTP_OPENSTACK_API_VERSION", "")


def lines_of(name: str, value: str) -> list[tuple[str, str]]:
    """The lines in which a response header is sent: one for each version, one for any other header."""
    return [(name, version) for version in value.split(", ")] if name == HEADER else [(name, value)]


@cached_if_short(256)  # all clients together send a handful of different headers
def agree(header: str | None) -> Agreed:
    """The versions that the header requests. The defaults are the oldest of Placement and none of Stead.

    Raises:
        Refused: 400 if a version is malformed, or Stead's is requested with a Placement version that is too old; 406 if
            this service does not have a version.
    """
    asked = _asked_for(header or "")
    placement = _version(asked["placement"], Microversion) if "placement" in asked else OLDEST
    stead = _version(asked["stead"], SteadVersion) if "stead" in asked else None
    if stead is not None and placement < NEEDED_BY_STEAD:
        raise Refused(400, f"stead {stead} needs placement {NEEDED_BY_STEAD} or newer, not {placement}")
    return Agreed(placement, stead)


def _asked_for(header: str) -> dict[str, str]:
    """Version by service type. The last entry of a service applies; entries without a version are ignored."""
    entries = (entry.split(None, 1) for entry in header.split(","))
    return {entry[0].lower(): entry[1].strip() for entry in entries if len(entry) == 2}


def _version(value: str, versions: type[N]) -> N:
    if value == "latest":
        return max(versions)
    major, _, minor_text = value.partition(".")
    try:
        number, minor = int(major), int(minor_text)
    except ValueError:
        raise Refused(400, f"Invalid microversion: invalid version string: {_named(value, versions)}") from None
    if number != 1 or not min(versions) <= minor <= max(versions):
        told = f"Invalid microversion: Unacceptable version header: {_named(value, versions)}"
        raise Refused(406, told, more=extent(versions))
    return versions(minor)  # type: ignore[call-arg]  # mypy takes the meaning for an argument of look-ups too


def _named(value: str, versions: type[Step]) -> str:
    """*value* as refusals show it. Clients know the form for Placement, which does not name the service."""
    return value if versions is Microversion else f"stead {value}"


def _require_body_headers(req: Request) -> None:
    length = req.env.get("CONTENT_LENGTH")
    if not length:
        return
    if not (length.isascii() and length.strip().isdigit()):
        raise Refused(400, "content-length header must be an integer")
    if len(length) > _MOST_DIGITS:
        raise Refused(413, "No body may be as long as the content-length header says.")
    if int(length) > 0 and not req.env.get("CONTENT_TYPE"):
        raise Refused(400, "content-type header required when content-length > 0")


class App(falcon.App[Request, Response]):
    """Sends the version of each service in its own header line, where Falcon would join them into one line."""

    def __call__(self, env: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        """Answer one request."""
        if not asks_for_several(env):
            return super().__call__(env, start_response)

        def start(status: str, headers: list[tuple[str, str]], *exc_info: Any) -> Callable[[bytes], object]:
            return start_response(status, [line for header in headers for line in lines_of(*header)], *exc_info)

        return super().__call__(env, start)


# What a request may cost: it is refused before it reads or writes anything if it is over a limit.
#
# Source: "Limits", docs/api.md, which also explains the defaults.


def require_groups(limits: RequestLimits, groups: Sequence[RequestGroup]) -> None:
    """Refuse too many request groups, or one whose suffix is too long.

    Raises:
        Refused: 400
    """
    if len(groups) > limits.groups:
        raise Refused(400, f"The query has {len(groups)} request groups; at most {limits.groups} are accepted.")
    longest = max((len(group.suffix) for group in groups), default=0)
    if longest > limits.suffix_length:
        raise Refused(400, f"A suffix has {longest} characters; at most {limits.suffix_length} are accepted.")


def require_allocations(limits: RequestLimits, claims: Iterable[Claim]) -> None:
    """Refuse too many allocations. An allocation is an amount of one class, of one provider, for one consumer.

    Raises:
        Refused: 413
    """
    count = sum(len(amounts) for claim in claims for amounts in claim.allocations.values())
    if count > limits.allocations:
        raise Refused(413, f"The request has {count} allocations; at most {limits.allocations} are accepted.")


def require_claims(limits: RequestLimits, claims: Sequence[object], queries: Iterable[str]) -> None:
    """Refuse too many claims in one request, and queries longer than the limit for URLs.

    Raises:
        Refused: 413
    """
    if len(claims) > limits.claims:
        raise Refused(413, f"The request has {len(claims)} claims; at most {limits.claims} are accepted.")
    if any(len(query.encode("utf-8", "surrogatepass")) > limits.query_length for query in queries):
        raise Refused(413, f"A query has more than {limits.query_length} bytes.")


def require_tree_providers(limits: RequestLimits, counts: Sequence[int]) -> None:
    """Refuse too many providers in one document of provider trees.

    Args:
        counts: the number of providers in each tree of the document.

    Raises:
        Refused: 413, with the place of the first provider over the limit.
    """
    count = sum(counts)
    if count <= limits.tree_providers:
        return
    before = 0
    for tree, size in enumerate(counts):
        if before + size > limits.tree_providers:
            place = f"provider_trees[{tree}].providers[{limits.tree_providers - before}]"
            most = f"at most {limits.tree_providers} are accepted ([stead] max_tree_providers)"
            raise Refused(413, f"The document has {count} providers; {most}. The first one too many is {place}.")
        before += size


class Sizes:
    """Falcon middleware: refuses long queries and bodies before routing."""

    def __init__(self, limits: RequestLimits) -> None:
        self._limits = limits

    def process_request(self, req: Request, _resp: Response) -> None:
        """Refuse a long query, and a body whose declared length is too long; set the limit for other bodies."""
        if len(req.query_string) > self._limits.query_length:
            raise Refused(414, f"The query has more than {self._limits.query_length} bytes.")
        req.longest_body = longest_body(req.method, req.path, self._limits.body_size)
        if (req.content_length or 0) > req.longest_body:
            raise Refused(413, f"The body has more than {req.longest_body} bytes.")


# The maximum length of a body by route. HTTP servers that read bodies before the application also use this.


SMALL = 64 * 1024
"""Maximum size in bytes of a body that describes one object: a provider, an inventory, a name."""

_LISTS = frozenset(
    {
        ("POST", "/allocations"),
        ("POST", "/reshaper"),
        ("POST", "/claims"),
        ("POST", "/whatif"),
        ("PUT", "/provider_trees"),
        ("PUT", "/leases"),
    }
)
_METHODS_OF_LISTS = frozenset({"POST", "PUT"})
_LISTS_OF_A_PROVIDER = frozenset({"aggregates", "inventories", "traits"})

_BYTES_PER_VALUE = 12
"""The minimum average size of a value in a realistic body.

The smallest values take 2 bytes of text and up to 90 of memory: 16 MiB of nested lists took 770 MB and 11 s to parse.
"""


def longest_body(method: str, path: str, most: int) -> int:
    """Maximum size of a body in bytes; *path* is without any prefix, *most* is `[stead] max_body_size`."""
    return most if _takes_lists(method, path) else min(SMALL, most)


def _takes_lists(method: str, path: str) -> bool:
    if method not in _METHODS_OF_LISTS:
        return False
    if (method, path) in _LISTS:
        return True
    match method, path.split("/", 4):
        case "PUT", ["", "allocations", _]:
            return True
        case "PUT", ["", "resource_providers", _, noun]:
            return noun in _LISTS_OF_A_PROVIDER
    return False


def most_values(longest: int) -> int:
    """Maximum number of JSON values (members of objects, elements of arrays) in a body of at most *longest* bytes."""
    return longest // _BYTES_PER_VALUE


def counts_at_most(body: bytes, values: int) -> bool:
    """Whether *body* has at most that number of JSON values, counted without parsing it.

    Each value but the first follows a comma or the start of a container. These characters count in strings too, so
    the count may be too high.
    """
    return len(body) <= values or sum(body.count(start) for start in (b",", b"[", b"{")) <= values


# Maps paths to resources, and lists the methods of each.
#
# Replaces Falcon's router, which skips leading slashes, accepts empty segments as values, and adds OPTIONS.


METHODS = ("GET", "POST", "PUT", "DELETE", "PATCH")
"""All methods of all routes, in the order in which ``allow`` lists them."""


class Methods(dict[str, Any]):
    """The handlers of one route by method. Any other method is refused, with the list of allowed methods."""

    @property
    def allow(self) -> str:
        """The value of the ``allow`` header."""
        return ", ".join(method for method in METHODS if method in self)

    def __missing__(self, _method: str) -> Callable[..., None]:
        def refuse(_req: Request, _resp: Response, **_params: str) -> None:
            told = "The method specified is not allowed for this resource."
            raise Refused(405, told, headers={"allow": self.allow})

        return refuse


class Router:
    """Matches whole paths, segment by segment; ``{name}`` matches one nonempty segment, never the first."""

    def __init__(self) -> None:
        self.routes: dict[str, Methods] = {}
        self._by_start: dict[tuple[int, str], list[tuple[list[str], object, Methods, str]]] = {}

    def add_route(self, uri_template: str, resource: object, **_options: Any) -> None:
        """Route *uri_template* to the ``on_…`` methods of *resource*. ``stead_since``, if set, hides it from others."""
        methods = Methods(map_http_methods(resource))
        self.routes[uri_template] = methods
        segments = uri_template.split("/")[1:]
        self._by_start.setdefault((len(segments), segments[0]), []).append((segments, resource, methods, uri_template))

    def find(self, uri: str, req: Request) -> tuple[object, Methods, dict[str, str], str] | None:
        """The resource at *uri*, its handlers, the path parameters, and the template; None if no route matches.

        Stead's own routes do not exist for requests that do not ask for Stead's features. Then ``req.hidden`` is set.
        """
        before, *given = uri.split("/")
        if before or not given:
            return None
        for segments, resource, methods, template in self._by_start.get((len(given), given[0]), ()):
            params = _match(segments, given)
            if params is None:
                continue
            first = stead_since(resource)
            if first is None or req.agreed.knows(first):
                return resource, methods, params, template
            req.hidden = first
        return None


def stead_since(resource: object) -> SteadVersion | None:
    """The version of Stead's own features that added *resource*; None if it belongs to the Placement API."""
    first: SteadVersion | None = getattr(resource, "stead_since", None)
    return first


def _match(segments: list[str], given: list[str]) -> dict[str, str] | None:
    params: dict[str, str] = {}
    for segment, value in zip(segments, given, strict=True):
        if segment.startswith("{"):
            if not value:
                return None
            params[segment[1:-1]] = value
        elif segment != value:
            return None
    return params


# The gates of a handler: conditions that a request must meet, in the order of their checks.
#
# ``gates_of`` lists them for tests and docs.


H = TypeVar("H", bound="Callable[..., None]")

JSON = "application/json"
EVENTS = "text/event-stream"


class Gate(Protocol):
    """A condition that a request must meet."""

    def check(self, req: Request) -> None:
        """Return if *req* meets the condition, else raise."""


@dataclass(frozen=True, slots=True)
class Since:
    """The route exists since microversion ``first``; older requests get status ``otherwise``."""

    first: Microversion
    otherwise: int = 404

    def check(self, req: Request) -> None:
        """Refuse older microversions, as if the route did not exist."""
        if req.version < self.first:
            raise Refused(self.otherwise, f"{req.method} {req.path} is not known to microversion {req.version}")


@dataclass(frozen=True, slots=True)
class Allowed:
    """A policy rule must allow the request; ``target`` reads the rule's target, None for the caller itself."""

    rule: str
    target: Callable[[Request], Mapping[str, Any]] | None = None

    def check(self, req: Request) -> None:
        """Evaluate the policy rule."""
        req.require(self.rule, self.target(req) if self.target else None)


@dataclass(frozen=True, slots=True)
class JsonBody:
    """The request must declare its body as JSON."""

    def check(self, req: Request) -> None:
        """Refuse every other media type, and a missing one."""
        media_type = (req.content_type or "").partition(";")[0].strip()
        if media_type != JSON:
            raise Refused(415, f"The media type {media_type or None} is not supported, use {JSON}")


@dataclass(frozen=True, slots=True)
class JsonAnswer:
    """The client accepts JSON or, on routes with ``events``, a stream of events."""

    events: bool = False

    def check(self, req: Request) -> None:
        """Refuse an Accept header that does not admit JSON."""
        accepted = req.accepted
        if accepted is None or (self.events and quality(EVENTS, accepted) > 0):
            return
        if quality(JSON, accepted) <= 0:
            raise Refused(406, f"Only {JSON} is provided")


def gates_of(handler: object) -> tuple[Gate, ...]:
    """The gates before *handler*, in order."""
    gates: tuple[Gate, ...] = getattr(handler, "gates", ())
    return gates


def since(first: Microversion, *, otherwise: int = 404) -> _Decorator:
    """Refuse requests before microversion *first*."""
    return _Decorator(Since(first, otherwise))


def allowed(rule: str, target: Callable[[Request], Mapping[str, Any]] | None = None) -> _Decorator:
    """Return 403 unless the policy allows *rule*."""
    return _Decorator(Allowed(rule, target))


class _Decorator:
    """Puts one gate before a handler."""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate

    def __call__(self, handler: H) -> H:
        check = self._gate.check

        @wraps(handler)
        def call(this: object, req: Request, resp: Response, **params: str) -> None:
            check(req)
            handler(this, req, resp, **params)

        call.gates = (self._gate, *gates_of(handler))  # type: ignore[attr-defined]  # a note on the function
        return cast("H", call)


json_body = _Decorator(JsonBody())
"""Returns 415 unless the request declares its body as JSON."""

json_answer = _Decorator(JsonAnswer())
"""Returns 406 unless the client accepts JSON."""

json_or_events = _Decorator(JsonAnswer(events=True))
"""Returns 406 unless the client accepts JSON or a stream of events."""


def by_version(handlers: Versioned[Callable[..., None]]) -> Callable[..., None]:
    """Combine several handlers into one, for a route whose meaning changed; each has its own gates.

    For a microversion older than all of them, the gates of the oldest handler decide. Its attributes are those of the
    newest handler.
    """
    oldest = min(handlers)

    @wraps(handlers[max(handlers)])
    def call(this: object, req: Request, resp: Response, **params: str) -> None:
        handlers.at(max(req.version, oldest))(this, req, resp, **params)

    return call
