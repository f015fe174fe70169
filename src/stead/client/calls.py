"""Requests and responses of the API without any input or output: what is sent for what, and what comes back."""

from __future__ import annotations

import io
import random
import stat
import sys
from dataclasses import dataclass, replace
from datetime import datetime
from http import HTTPStatus
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import parse_qsl, quote, unquote, urlsplit

import orjson

from stead.client import BY_NAME
from stead.client.consumers import DEFAULT_TYPE, UNKNOWN_TYPE
from stead.client.errors import (
    Failed,
    InvalidRequest,
    NotFound,
    Refused,
    Unavailable,
    Unreachable,
    Unsupported,
    refusal,
)
from stead.client.request import as_request, encoded
from stead.client.times import moment, seconds_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from datetime import timedelta
    from wsgiref.types import WSGIApplication

    from stead.client.request import RequestLike


Json = dict[str, Any]

PLACEMENT = "1.39"
"""The microversion of all calls, except those that name another one."""

WITHOUT_TYPES = "1.37"
"""The last microversion that writes a consumer without its type. The consumer keeps its type, or has none."""

OWN, TREES, ORDER = "1.0", "1.1", "1.2"
LEASES = ORDER
"""Versions of Stead's own features. A call requests the lowest one that has what it needs, so that older servers do."""

OWN_PATHS = (
    *("/allocation_candidates/explain", "/changes", "/claims", "/consumers", "/flavors", "/headroom"),
    *("/advice", "/leases", "/mix", "/provider_trees", "/whatif"),
)
"""What the paths of Stead's own features begin with. OpenStack Placement has none of them."""

_NAMING_AN_OBJECT = ("resource provider", "no such flavor", "changes[")
"""Parts of the details of 404s that are about an object, not about the path."""

MOST_TREES = 10_000
"""Maximum number of trees in a headroom."""

PAGE = 1_000
"""Objects in one page of a list."""


@dataclass(frozen=True, slots=True)
class Call:
    """A request of HTTP.

    Attributes:
        target: the path with its query, percent-encoded.
        stead: the version of Stead's own features, or None.
        is_repeatable: whether it may be sent again if it is unknown whether it was done.
        placement: the microversion of OpenStack's API.
    """

    method: str
    target: str
    body: Any = None
    stead: str | None = None
    is_repeatable: bool = True
    placement: str = PLACEMENT

    @property
    def path(self) -> str:
        """The target without its query."""
        return self.target.partition("?")[0]

    @property
    def versions(self) -> str:
        """The versions that the call requires."""
        return f"placement {self.placement}" + (f", stead {self.stead}" if self.stead else "")

    @property
    def headers(self) -> dict[str, str]:
        """The header fields, without a token."""
        headers = {"openstack-api-version": self.versions, "accept": "application/json"}
        if self.body is not None:
            headers["content-type"] = "application/json"
        return headers

    @property
    def content(self) -> bytes | None:
        """The body as JSON; None if there is none."""
        try:
            return None if self.body is None else orjson.dumps(self.body)
        except TypeError as error:
            raise InvalidRequest(f"{error}: no amount or count is as large") from error


@dataclass(frozen=True, slots=True)
class Reply:
    """A response of HTTP; names of *headers* are in lower case."""

    status: int
    headers: dict[str, str]
    content: bytes

    def json(self) -> Any:
        """The decoded body; None if there is none.

        Raises:
            Failed: it is not JSON, so what answers is not the Placement API.
        """
        if not self.content:
            return None
        try:
            return orjson.loads(self.content)
        except orjson.JSONDecodeError as error:
            raise Failed(
                self.status, "the response is not JSON, so this is not the Placement API; check the URL"
            ) from error

    def error(self, call: Call) -> Refused | None:
        """What the status says is wrong; None if nothing is."""
        if self.status < HTTPStatus.MULTIPLE_CHOICES:
            return None
        if self.status < HTTPStatus.BAD_REQUEST:
            return Failed(self.status, f"redirected to {self.headers.get('location')}; connect to that URL")
        try:
            body = orjson.loads(self.content)
        except orjson.JSONDecodeError:
            body = None
        error = refusal(self.status, body, self.headers)
        path = call.path
        if (
            isinstance(error, NotFound)
            and path.startswith(OWN_PATHS)
            and not any(words in error.detail.lower() for words in _NAMING_AN_OBJECT)
        ):
            unsupported = Unsupported(error.status, f"{path} requires Stead {call.stead}: {error}")
            unsupported.missing, unsupported.version = f"{call.method} {path}", call.stead or ""
            return unsupported
        newest = error.facts.get("max_version")
        if isinstance(error, Unsupported) and newest is not None:
            return error.worded(f"{error.detail}; the server has {newest} at most, and {call.versions} is required")
        return error


class Sender(Protocol):
    """What sends a call in this process or to another: the synchronous form."""

    def send(self, call: Call, headers: dict[str, str], timeout: float) -> Reply:
        """The response.

        Raises:
            Unreachable: there is none.
        """


def with_query(path: str, parameters: Mapping[str, object]) -> str:
    """*path*, which may have a query already, with the parameters that are not None; a list or tuple repeats one."""
    pairs: list[tuple[str, str]] = []
    for key, value in parameters.items():
        values = value if isinstance(value, list | tuple) else [value]
        pairs += [(key, str(each)) for each in values if each is not None]
    return f"{path}{'&' if '?' in path else '?'}{encoded(pairs)}" if pairs else path


def versions() -> Call:
    """What the server announces."""
    return Call("GET", "/", stead=OWN)


def announces(body: Any, version: str) -> bool:
    """Whether *body*, of :func:`versions`, announces Stead's own features of *version*."""
    try:
        own = body["versions"][0]["stead"]
        return _numbers(own["min_version"]) <= _numbers(version) <= _numbers(own["max_version"])
    except (AttributeError, LookupError, TypeError, ValueError):
        return False


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


_QUERY_CHARACTERS = "%=&+!,:;/?@$'()*[]~"


def query_of(asked: RequestLike, limit: int | None = None) -> str:
    """The query string of a request, percent-encoded. A text may be a query string, or a URL with one.

    *limit* replaces that of a request; that of a text stays.

    Raises:
        InvalidRequest: *asked* is no request.
    """
    request = as_request(asked)
    if not isinstance(request, str):
        return request.query(limit)
    query = quote(request.strip().rpartition("?")[2], safe=_QUERY_CHARACTERS)
    if limit is None or any(key == "limit" for key, _ in parse_qsl(query, keep_blank_values=True)):
        return query
    return f"{query}&limit={limit}" if query else f"limit={limit}"


def candidates(request: RequestLike, limit: int | None) -> Call:
    """The candidates of *request*."""
    return Call("GET", f"/allocation_candidates?{query_of(request, limit)}", stead=version_for(request))


def explain(request: RequestLike) -> Call:
    """Why *request* finds what it finds."""
    return Call("GET", f"/allocation_candidates/explain?{query_of(request)}", stead=version_for(request))


def headroom(request: RequestLike) -> Call:
    """How many times *request* fits, with the trees of one page."""
    return Call("GET", f"/headroom?{query_of(request, MOST_TREES)}", stead=_since_trees(version_for(request)))


def stranded() -> Call:
    """What is free, and what of it the mix cannot use."""
    return Call("GET", "/headroom", stead=ORDER)


def advice(request: RequestLike, number: int, *, same_traits: bool, same_aggregates: bool) -> Call:
    """Which consumers to move so that *request* fits this number of times."""
    options = {
        "make_room_for": str(number),
        "same_traits": "true" if same_traits else None,
        "same_aggregates": "true" if same_aggregates else None,
    }
    query = query_of(request)
    # Before, the order of new places was always `pack`.
    has_order = any(key == "order_by" and value != "pack" for key, value in parse_qsl(query))
    return Call("GET", with_query(f"/advice?{query}", options), stead=ORDER if has_order else TREES)


def improvement(moves: int, *, same_traits: bool, same_aggregates: bool) -> Call:
    """Which consumers to move so that the most room is left for the mix."""
    options = {
        "same_traits": "true" if same_traits else None,
        "same_aggregates": "true" if same_aggregates else None,
    }
    return Call("GET", with_query(f"/advice?improve=mix&moves={moves}", options), stead=ORDER)


def headroom_of_mix(mix: Mapping[str, int] | str, request: RequestLike | None) -> Call:
    """How many times several flavors fit together, each as often as its weight says."""
    text = mix if isinstance(mix, str) else ",".join(f"{name}:{weight}" for name, weight in mix.items())
    path = "/headroom" if request is None else f"/headroom?{query_of(request)}"
    return Call("GET", with_query(path, {"mix": text}), stead=TREES)


def claim(records: Sequence[Json], requests: Iterable[RequestLike], *, distinct_roots: bool, explain: bool) -> Call:
    """Claims for all *records*, or for none. May be repeated: the server recognizes what it did."""
    body = {"claims": records, "explain": explain, **({"distinct_roots": True} if distinct_roots else {})}
    has_ends = any("on_expiry" in record for record in records)
    needed = [OWN, *map(version_for, requests), *([LEASES] if has_ends else [])]
    return Call("POST", "/claims", body, max(needed, key=_numbers))


def lease_of(lease: float | timedelta | datetime, on_expiry: str) -> Json:
    """The fields of a claim about its end.

    Raises:
        InvalidRequest: it is no length, and no time with a zone.
    """
    if isinstance(lease, datetime):
        return {"expires_at": moment(lease), "on_expiry": on_expiry}
    return {"lease": seconds_of(lease), "on_expiry": on_expiry}


def renew(seconds_of: Mapping[str, int], known: Mapping[str, int | None]) -> Call:
    """Let the leases of some consumers end a number of seconds from now, by uuid.

    Args:
        known: generations. A consumer that was released, and claimed again, is not renewed.
    """
    records: list[Json] = [{"consumer_uuid": uuid, "lease": seconds} for uuid, seconds in seconds_of.items()]
    for record in records:
        if (generation := known.get(record["consumer_uuid"])) is not None:
            record["consumer_generation"] = generation
    return Call("PUT", "/leases", {"leases": records}, LEASES)


_SPAN = 1024
"""What the server adds to the generation of a new consumer with a lease is a random multiple of this, so that it is not
that of an earlier claim."""


def is_same_claim(known: int | None, generation: int | None) -> bool:
    """Whether a consumer has the claim that it had at the generation *known*, perhaps moved, and no new one."""
    return known is not None and generation is not None and 0 <= generation - known < _SPAN


def is_next(known: int | None, generation: int | None) -> bool:
    """Whether one write leads from one generation to the other; None: there was no consumer."""
    return generation is not None and (generation % _SPAN == 1 if known is None else generation == known + 1)


def flavors(*, headroom: bool, weights: bool = False) -> Call:
    """The first page of flavors."""
    target = with_query("/flavors", {"headroom": "true" if headroom else None})
    return Call("GET", target, stead=ORDER if weights else TREES)


def flavor(name: str, *, weight: bool = False) -> Call:
    """One flavor."""
    return Call("GET", f"/flavors{path_of(name)}", stead=ORDER if weight else TREES)


def put_flavor(name: str, query: str, description: str, weight: float | None) -> Call:
    """Create or replace a flavor. Without a weight, the flavor keeps that which it has."""
    body: Json = {"query": query, "description": description}
    if weight is None:
        # A query may have an order that only a later version knows.
        return Call("PUT", f"/flavors{path_of(name)}", body, ORDER if "order_by=headroom" in query else TREES)
    return Call("PUT", f"/flavors{path_of(name)}", {**body, "weight": weight}, ORDER)


def delete_flavor(name: str) -> Call:
    """Delete a flavor."""
    return Call("DELETE", f"/flavors{path_of(name)}", stead=TREES)


def mix() -> Call:
    """The mix of requests that the site is to serve."""
    return Call("GET", "/mix", stead=ORDER)


def forget_mix() -> Call:
    """Forget what was learned of the mix."""
    return Call("DELETE", "/mix", stead=ORDER)


def what_if(changes: Sequence[Json], ask: Json) -> Call:
    """What planned changes would lead to. It writes nothing."""
    questions = [query for query in ask.values() if isinstance(query, str)]
    has_order = any("order_by" in change for change in changes)
    newest = ORDER if has_order else _since_trees(*map(version_for, questions))
    return Call("POST", "/whatif", {"changes": changes, "ask": ask}, newest)


def _since_trees(*versions: str) -> str:
    return max([TREES, *versions], key=_numbers)


def version_for(asked: RequestLike) -> str:
    """The version of Stead's own features that a request needs: a newer one if it names a provider or a flavor."""
    request = as_request(asked)
    if isinstance(request, str):
        pairs = parse_qsl(request.rpartition("?")[2])
        if ("order_by", "headroom") in pairs:
            return ORDER
        return TREES if any(key == "flavor" or value.startswith(BY_NAME) for key, value in pairs) else OWN
    if request.order == "headroom":
        return ORDER
    if request.flavor is not None:
        return TREES
    references = [reference for group in request.groups for reference in (group.in_tree, group.in_subtree)]
    return TREES if any(reference and reference.startswith(BY_NAME) for reference in references) else OWN


def allocations(consumer: str, *, with_end: bool = False) -> Call:
    """What *consumer* has."""
    return Call("GET", f"/allocations/{consumer}", stead=LEASES if with_end else None)


def hold(consumer: str, record: Json) -> Call:
    """Give *consumer* exactly the allocations of *record*, if it is still at its generation; its type stays."""
    stead = LEASES if "on_expiry" in record else None
    if record["consumer_type"] != UNKNOWN_TYPE:
        return Call("PUT", f"/allocations/{consumer}", record, stead)
    untyped = {name: value for name, value in record.items() if name != "consumer_type"}
    return Call("PUT", f"/allocations/{consumer}", untyped, stead, placement=WITHOUT_TYPES)


def release(consumer: str, project: str, user: str, kind: str, generation: int | None) -> Call:
    """Release everything of *consumer* if it is still at *generation*; None if it has no row."""
    body: Json = {
        "allocations": {},
        "project_id": project,
        "user_id": user,
        # Any type will do, since the consumer is deleted.
        "consumer_type": DEFAULT_TYPE if kind == UNKNOWN_TYPE else kind,
        "consumer_generation": generation,
    }
    return Call("PUT", f"/allocations/{consumer}", body)


def release_whatever(consumer: str) -> Call:
    """Release everything of *consumer*, at any generation."""
    return Call("DELETE", f"/allocations{path_of(consumer)}", is_repeatable=False)


def consumers(
    project: str | None,
    user: str | None,
    kind: str | None,
    provider: str | None,
    in_tree: str | None,
    expires_before: str | None = None,
) -> list[Call]:
    """The first page of consumers; the further ones are for older servers, which lack ends, and filters by provider.

    Args:
        provider, in_tree: references to a provider.
        expires_before: a time.
    """
    filters = {"project_id": project, "user_id": user, "consumer_type": kind, "limit": PAGE}
    named = {"provider": provider, "in_tree": in_tree, "expires_before": expires_before}
    call = Call("GET", with_query("/consumers", {**filters, **named}), stead=LEASES)
    if expires_before is not None:
        return [call]
    return [call, replace(call, stead=TREES), *([replace(call, stead=OWN)] if provider is None is in_tree else [])]


def part_of_provider(provider: str, part: str) -> Call:
    """The inventories, usages, traits, aggregates or allocations of the provider with this uuid."""
    return Call("GET", f"/resource_providers{path_of(provider, part)}")


def delete_provider(provider: str) -> Call:
    """Delete the provider with this uuid."""
    return Call("DELETE", f"/resource_providers{path_of(provider)}", is_repeatable=False)


def traits(prefix: str) -> Call:
    """The names of all traits that begin with *prefix*."""
    return Call("GET", with_query("/traits", {"name": f"startswith:{prefix}" if prefix else None}))


def resource_classes() -> Call:
    """The names of all resource classes."""
    return Call("GET", "/resource_classes")


def providers(filters: Mapping[str, object]) -> Call:
    """The first page of providers."""
    return Call("GET", with_query("/resource_providers", {**filters, "limit": PAGE}), stead=TREES)


def all_providers(filters: Mapping[str, object]) -> Call:
    """All providers in one response, from a server without pages."""
    return Call("GET", with_query("/resource_providers", filters))


def trees(filters: Mapping[str, object]) -> Call:
    """The first page of trees."""
    filters = {name: str(value).lower() if isinstance(value, bool) else value for name, value in filters.items()}
    return Call("GET", with_query("/provider_trees", filters), stead=TREES)


def apply(document: Json, options: Mapping[str, bool]) -> Call:
    """Change trees as *document* describes. May be repeated unless it names generations.

    *options* are those of the route, and ``exact`` instead of ``merge``: what a document lacks stays by default.
    """
    records = [record for tree in document["provider_trees"] for record in tree.get("providers", [])]
    is_repeatable = not any("generation" in record for record in records)
    chosen = {name: True for name, is_set in options.items() if is_set}
    is_exact = chosen.pop("exact", False) or chosen.get("prune") or document.get("prune")
    body = {"merge": not is_exact, **document, **chosen}
    return Call("PUT", "/provider_trees", body, TREES, is_repeatable=is_repeatable)


def disable(provider: str, state: Json | None) -> Call:
    """Disable the provider with this uuid, or enable it."""
    return Call("PATCH", f"/provider_trees/{provider}", {"disabled": state}, TREES)


def usages(project: str, user: str | None, kind: str | None) -> Call:
    """What a project uses, by consumer type."""
    filters = {"project_id": project, "user_id": user, "consumer_type": kind}
    return Call("GET", with_query("/usages", filters))


def changes(since: str | None, seconds: int, *, with_ends: bool = False) -> Call:
    """What changed since a token; without one, the current token at once."""
    filters = {"since": since, "timeout": None if since is None else seconds}
    return Call("GET", with_query("/changes", filters), stead=LEASES if with_ends else OWN)


def next_page(call: Call, body: Json) -> Call | None:
    """The call for the page after *body*; None after the last one."""
    for link in body.get("links", []):
        if link.get("rel") == "next":
            path = call.target.partition("?")[0]  # a proxy may have put a prefix before that of the link
            return Call(call.method, f"{path}?{str(link['href']).partition('?')[2]}", stead=call.stead)
    return None


def path_of(*segments: str) -> str:
    """A path of percent-encoded segments."""
    return "".join(f"/{quote(segment, safe='')}" for segment in segments)


# When a call is sent again, and after which pause.


FIRST_PAUSE = 0.05
LONGEST_PAUSE = 2.0
"""Seconds. The bound of the random pause doubles from the first to the longest."""


def random_pause(attempts: int, first: float = FIRST_PAUSE, longest: float = LONGEST_PAUSE) -> float:
    """Seconds to wait after *attempts* attempts and one more: random, so that clients that collided spread out.

    Args:
        first, longest: the bound of the first pause, and of all.
    """
    # A client that waits for days has too many attempts for a power of two that is a float.
    return random.uniform(0, min(first * 2 ** min(attempts, 32), longest))


class NotSent(Unreachable):
    """There was no connection, so the call was not done."""

    advice = "Check the URL and that the server runs."


def pause_before(
    call: Call, error: Refused, attempts: int, remaining: float, retry_after: float | None = None
) -> float | None:
    """Seconds until *call* is sent again after *error*; None if the error is final.

    Args:
        attempts: how often it was sent.
        remaining: seconds until the deadline.
        retry_after: what the server asked for.
    """
    if not isinstance(error, Unavailable) or not (call.is_repeatable or isinstance(error, NotSent)):
        return None
    # The random part is added, so that clients with the same Retry-After do not return at the same moment.
    pause = random_pause(attempts) + (retry_after or 0.0)
    return pause if pause < remaining else None


def retry_after(headers: dict[str, str]) -> float | None:
    """The seconds that the header field of this name asks for; None if it is missing or is a date."""
    text = headers.get("retry-after", "")
    return float(text) if text.isascii() and text.isdigit() else None


# The URL of a server: http, https, or a Unix socket with a path below it.


_UNIX = "unix://"


@dataclass(frozen=True, slots=True)
class Address:
    """Where calls go.

    Attributes:
        shown: the URL for messages, without user and password.
        base: what targets are appended to; for a socket its host is meaningless.
        socket: the Unix socket, or None.
        may_use_proxy: TLS to another machine. Every other proxy could read the token.
    """

    shown: str
    base: str
    socket: Path | None = None
    may_use_proxy: bool = False

    @property
    def is_encrypted(self) -> bool:
        """Whether TLS protects the calls."""
        return self.base.startswith("https:")

    @property
    def obstacle(self) -> str | None:
        """Why there is no socket to connect to; None if there is one, or none is needed."""
        if self.socket is None or self.socket.is_socket():
            return None
        return "not a socket" if self.socket.exists() else "no such file or directory"


def read(url: str, *, encrypted: bool = False) -> Address:
    """What *url* names. In ``unix:///run/stead.sock/placement`` the first part that is a socket ends its path.

    Args:
        encrypted: whether a Unix socket has TLS.

    Raises:
        InvalidRequest: it cannot be the URL of a server. The message does not show it: it may hold a password.
    """
    url = url.rstrip("/")
    if url.startswith(_UNIX + "/"):
        socket, prefix = _socket_in(Path(unquote(url.removeprefix(_UNIX))))
        return Address(url, ("https" if encrypted else "http") + "://localhost" + quote(prefix), socket)
    try:
        parts = urlsplit(url)
        host = parts.hostname if parts.port != 0 else None  # reading the port checks it
    except ValueError:
        host = None
    if not host or parts.scheme not in ("http", "https"):
        raise InvalidRequest(
            "the URL must begin with http:// or https:// and a host, or be unix:// and a socket's path"
        )
    shown = url.replace(parts.netloc, parts.netloc.rpartition("@")[2], 1)
    return Address(shown, url, may_use_proxy=parts.scheme == "https" and not _is_of_this_machine(host))


def _is_of_this_machine(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _socket_in(path: Path) -> tuple[Path, str]:
    """The socket that *path* leads to or through, and what follows it. A missing one may be created later."""
    for place in (*reversed(path.parents), path):
        try:
            mode = place.stat().st_mode
        except OSError:
            break
        if stat.S_ISSOCK(mode):
            below = str(path.relative_to(place))
            return place, "" if below == "." else f"/{below}"
    return path, ""


# A WSGI application called as a function: no socket, no HTTP.


def answer(application: WSGIApplication, call: Call, headers: dict[str, str]) -> Reply:
    """What *application* answers.

    Raises:
        Unreachable: the application broke the connection, as fault injection does.
    """
    started: list[Any] = []

    def start_response(status: str, fields: list[tuple[str, str]], _exc_info: Any = None) -> Callable[[bytes], object]:
        started[:] = [status, fields]
        return lambda _part: None

    try:
        parts = application(_environ(call, headers), start_response)
        try:
            content = b"".join(parts)
        finally:
            getattr(parts, "close", lambda: None)()
    except ConnectionError as error:
        raise Unreachable(0, f"the connection broke: {error}") from error
    status, fields = started
    return Reply(int(status[:3]), {name.lower(): value for name, value in fields}, content)


def _environ(call: Call, headers: dict[str, str]) -> dict[str, Any]:
    path, _, query = call.target.partition("?")
    content = call.content
    environ: dict[str, Any] = {
        "REQUEST_METHOD": call.method,
        "SCRIPT_NAME": "",
        "PATH_INFO": _decoded(path),
        "QUERY_STRING": query,
        "SERVER_NAME": "localhost",
        "SERVER_PORT": "0",
        "SERVER_PROTOCOL": "HTTP/1.1",
        "REMOTE_ADDR": "",
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": "http",
        "wsgi.input": io.BytesIO(content or b""),
        "wsgi.input_terminated": True,
        "wsgi.errors": sys.stderr,
        "wsgi.multithread": True,
        "wsgi.multiprocess": True,
        "wsgi.run_once": False,
    }
    for name, value in headers.items():
        key = name.upper().replace("-", "_")
        environ["CONTENT_TYPE" if key == "CONTENT_TYPE" else f"HTTP_{key}"] = value
    if content is not None:
        environ["CONTENT_LENGTH"] = str(len(content))
    return environ


def _decoded(path: str) -> str:
    if "%" not in path:
        return path
    from urllib.parse import unquote_to_bytes

    return unquote_to_bytes(path).decode("latin-1")  # PEP 3333: bytes in the guise of Latin-1
