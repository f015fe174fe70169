"""A small client of the Placement API for tests: one call, one answer, in the words of the contract.

The same client drives an application in this process (`wsgi_door`) or a server over HTTP (`http_door`). It looks at the
form of *every* answer by itself (`require_form`), so that a test only speaks of its own subject.
"""

import io
import json
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from http.client import HTTPConnection
from typing import Any
from urllib.parse import unquote_to_bytes, urlencode, urlsplit
from uuid import uuid4
from wsgiref.types import WSGIApplication

NEWEST = "1.39"
MAX_INT = 2147483647

UNDEFINED = "placement.undefined_code"
CONCURRENT_UPDATE = "placement.concurrent_update"
DUPLICATE_NAME = "placement.duplicate_name"
INVENTORY_IN_USE = "placement.inventory.inuse"

REASONS = {
    400: "Bad Request",
    403: "Forbidden",
    404: "Not Found",
    405: "Method Not Allowed",
    406: "Not Acceptable",
    409: "Conflict",
    410: "Gone",
    413: "Content Too Large",
    414: "URI Too Long",
    415: "Unsupported Media Type",
    503: "Service Unavailable",
    431: "Request Header Fields Too Large",
}

Headers = list[tuple[str, str]]
Reply = tuple[int, Headers, bytes]
Door = Callable[[str, str, Headers, bytes | None], Reply]


def fresh_uuid() -> str:
    return str(uuid4())


def fresh_name(prefix: str = "host") -> str:
    return f"{prefix}-{uuid4().hex[:12]}"


def fresh_custom(prefix: str = "LAMP") -> str:
    """A name no other test uses, for a resource class or a trait."""
    return f"CUSTOM_{prefix}_{uuid4().hex[:12].upper()}"


def one_header(headers: Headers, name: str) -> str | None:
    """The value of the header; repeated ones joined by a comma, None if absent."""
    found = [value for key, value in headers if key.lower() == name]
    return ", ".join(found) if found else None


@dataclass(frozen=True)
class Error:
    """``errors[0]`` of an error answer."""

    status: int
    title: str
    detail: str
    request_id: str
    code: str | None = None
    max_version: str | None = None
    min_version: str | None = None
    claim: int | None = None
    explanation: Any = None
    in_use: Any = None
    overcommitted: Any = None


@dataclass(frozen=True)
class Answer:
    """One response. Fields of its JSON object are attributes: ``answer.aggregates``."""

    status: int
    headers: Headers = field(repr=False)
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    def header(self, name: str) -> str | None:
        return one_header(self.headers, name)

    @property
    def error(self) -> Error:
        (only,) = self.json["errors"]
        return Error(**only)

    @property
    def generation(self) -> int:
        """The provider generation this answer shows."""
        found = self.json
        return int(found["resource_provider_generation" if "resource_provider_generation" in found else "generation"])

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return self.json[name]

    def expect(self, *statuses: int) -> "Answer":
        """Itself, if its status is one of *statuses*: for the steps that lead up to the subject of a test."""
        assert self.status in statuses, self
        return self

    def refused(self, status: int, *texts: str, code: str | None = UNDEFINED) -> bool:
        """Is it an error of this status and code, whose detail contains all *texts*?"""
        if self.status != status:
            return False
        error = self.error
        return error.code == code and all(text in error.detail for text in texts)


@dataclass(frozen=True)
class Provider:
    """A provider that a test made, and its paths."""

    uuid: str
    name: str

    @property
    def path(self) -> str:
        return f"/resource_providers/{self.uuid}"

    @property
    def inventories(self) -> str:
        return f"{self.path}/inventories"

    def inventory(self, resource_class: str) -> str:
        return f"{self.path}/inventories/{resource_class}"

    @property
    def usages(self) -> str:
        return f"{self.path}/usages"

    @property
    def aggregates(self) -> str:
        return f"{self.path}/aggregates"

    @property
    def traits(self) -> str:
        return f"{self.path}/traits"

    @property
    def allocations(self) -> str:
        return f"{self.path}/allocations"


def holding(
    *amounts: tuple[Provider | str, Mapping[str, Any]],
    generation: int | None = None,
    project: str = "a-project",
    user: str = "a-user",
    consumer_type: str = "INSTANCE",
    **more: Any,
) -> dict[str, Any]:
    """The body that gives one consumer these amounts, at the newest microversion."""
    allocations = {
        of.uuid if isinstance(of, Provider) else of: {"resources": dict(resources)} for of, resources in amounts
    }
    return {
        "allocations": allocations,
        "consumer_generation": generation,
        "project_id": project,
        "user_id": user,
        "consumer_type": consumer_type,
        **more,
    }


@dataclass(frozen=True)
class Api:
    """The API as one caller at one microversion sees it."""

    door: Door
    token: str = "admin"
    roles: str | None = "admin,service"
    version: str = NEWEST

    def at(self, version: str) -> "Api":
        return replace(self, version=version)

    def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        query: Mapping[str, Any] | Iterable[tuple[str, Any]] | None = None,
        headers: Mapping[str, str | None] | None = None,
        raw: bytes | None = None,
    ) -> Answer:
        """One request. *path* is percent-encoded. *raw* sends bytes as they are; a header of None is not sent."""
        sent: dict[str, str | None] = {
            "X-Auth-Token": self.token,
            "X-Roles": self.roles,
            "Accept": "application/json",
            "OpenStack-API-Version": f"placement {self.version}",
        }
        payload = raw
        if body is not None:
            payload = json.dumps(body).encode()
        if payload is not None:
            sent["Content-Type"] = "application/json"
            sent["Content-Length"] = str(len(payload))
        sent.update(headers or {})
        if query:
            path = f"{path}?{urlencode(list(query.items()) if isinstance(query, Mapping) else list(query), safe=':,!')}"
        wire = [(name, value) for name, value in sent.items() if value is not None]
        answer = Answer(*self.door(method, path, wire, payload))
        require_form(method, wire, answer)
        return answer

    def get(self, path: str, query: Any = None, **options: Any) -> Answer:
        return self.call("GET", path, query=query, **options)

    def delete(self, path: str, **options: Any) -> Answer:
        return self.call("DELETE", path, **options)

    def put(self, path: str, body: Any = None, **fields: Any) -> Answer:
        """PUT *body*, or the object made of *fields*; ``generation`` is the provider's."""
        return self.call("PUT", path, _body(body, fields))

    def post(self, path: str, body: Any = None, **fields: Any) -> Answer:
        return self.call("POST", path, _body(body, fields))

    def create_provider(
        self,
        name: str | None = None,
        *,
        parent: Provider | None = None,
        inventories: Mapping[str, int | Mapping[str, Any]] | None = None,
        traits: Iterable[str] = (),
        aggregates: Iterable[str] = (),
    ) -> Provider:
        """A new provider with all that is given; a number as inventory is its total."""
        made = self.post(
            "/resource_providers",
            {"name": name or fresh_name(), **({"parent_provider_uuid": parent.uuid} if parent else {})},
        ).expect(200)
        provider = Provider(made.uuid, made.name)
        generation = 0
        if inventories:
            self.set_inventories(provider, inventories, generation=0)
            generation = 1
        if traits := list(traits):
            generation = self.put(provider.traits, traits=traits, generation=generation).expect(200).generation
        if aggregates := list(aggregates):
            self.put(provider.aggregates, aggregates=aggregates, generation=generation).expect(200)
        return provider

    def set_inventories(
        self,
        provider: Provider,
        inventories: Mapping[str, int | Mapping[str, Any]],
        *,
        generation: int | None = None,
    ) -> Answer:
        records = {name: {"total": of} if isinstance(of, int) else dict(of) for name, of in inventories.items()}
        expected = self.generation(provider) if generation is None else generation
        return self.put(provider.inventories, inventories=records, generation=expected).expect(200)

    def create_class(self, prefix: str = "LAMP") -> str:
        name = fresh_custom(prefix)
        self.put(f"/resource_classes/{name}").expect(201)
        return name

    def create_trait(self, prefix: str = "MAGIC") -> str:
        name = fresh_custom(prefix)
        self.put(f"/traits/{name}").expect(201)
        return name

    def generation(self, provider: Provider) -> int:
        return self.get(provider.path).expect(200).generation

    def used(self, provider: Provider) -> dict[str, int]:
        """Used amounts per class with inventory."""
        return dict(self.get(provider.usages).expect(200).usages)

    def claim(self, *amounts: tuple[Provider | str, Mapping[str, Any]], **body: Any) -> str:
        """A new consumer that holds *amounts*."""
        consumer = fresh_uuid()
        self.put(f"/allocations/{consumer}", holding(*amounts, **body)).expect(204)
        return consumer

    def held(self, consumer: str) -> dict[str, dict[str, int]]:
        """What *consumer* holds: provider uuid to class to amount."""
        allocations = self.get(f"/allocations/{consumer}").expect(200).allocations
        return {uuid: of["resources"] for uuid, of in allocations.items()}


def _body(body: Any, fields: Mapping[str, Any]) -> Any:
    if not fields:
        return body
    return {"resource_provider_generation" if name == "generation" else name: of for name, of in fields.items()}


def require_form(method: str, sent: Headers, answer: Answer) -> None:
    """What holds for every answer, whatever was asked.

    Source: "Microversion negotiation", "Errors", "Response headers" and "Request ids", docs/api.md.
    """
    assert answer.status < 500 or (answer.status == 503 and answer.header("retry-after")), answer
    assert re.fullmatch(r"req-[0-9a-f-]{36}", answer.header("x-openstack-request-id") or ""), answer.headers
    if answer.status == 401:
        return
    asked = one_header(sent, "openstack-api-version") or ""
    accepted = one_header(sent, "accept")
    plain_version = re.fullmatch(r"placement (1\.(?:0|[1-9]\d?))", asked)
    if plain_version and answer.status not in (400, 406):
        assert answer.header("openstack-api-version") == asked
        assert "openstack-api-version" in (answer.header("vary") or "").lower() or answer.status in (403, 404, 405)
    if answer.status == 204:
        assert (answer.body, answer.header("content-type")) == (b"", None)
        assert answer.header("content-length") in (None, "0")
    elif answer.body and accepted in (None, "*/*", "application/json"):
        assert answer.header("content-type") == "application/json", answer.headers
        assert isinstance(answer.json, dict), answer
    if answer.status >= 400 and accepted in (None, "*/*", "application/json") and method != "HEAD":
        error = answer.error
        assert (error.status, error.title) == (answer.status, REASONS[answer.status])
        assert error.request_id == answer.header("x-openstack-request-id")
        assert error.detail.count("\n") == 2, "a generic sentence, an empty line, and the message in one line"
        if plain_version and error.max_version is None:
            assert (error.code is not None) == (int(plain_version[1].split(".")[1]) >= 23), error


def http_door(url: str, *, timeout: float = 120.0) -> Door:
    """A door to the server at *url*; every call has a connection of its own."""
    at = urlsplit(url)
    assert at.hostname is not None

    def knock(method: str, target: str, headers: Headers, body: bytes | None) -> Reply:
        connection = HTTPConnection(at.hostname or "", at.port, timeout=timeout)
        try:
            connection.putrequest(method, at.path.rstrip("/") + target, skip_accept_encoding=True)
            for name, value in headers:
                connection.putheader(name, value.encode("utf-8"))
            connection.endheaders()
            if body:
                with suppress(OSError):  # a server may answer before it has read all of a huge body
                    connection.send(body)
            response = connection.getresponse()
            return response.status, response.getheaders(), response.read()
        finally:
            connection.close()

    return knock


def wsgi_door(application: WSGIApplication, *, script_name: str = "") -> Door:
    """A door to *application* in this process, as PEP 3333 describes it."""

    def knock(method: str, target: str, headers: Headers, body: bytes | None) -> Reply:
        path, _, query = target.partition("?")
        environ: dict[str, Any] = {
            "REQUEST_METHOD": method,
            "SCRIPT_NAME": script_name,
            "PATH_INFO": unquote_to_bytes(path).decode("latin-1"),
            "QUERY_STRING": query,
            "SERVER_NAME": "127.0.0.1",
            "SERVER_PORT": "8778",
            "SERVER_PROTOCOL": "HTTP/1.1",
            "REMOTE_ADDR": "127.0.0.1",
            "HTTP_HOST": "127.0.0.1:8778",
            "wsgi.version": (1, 0),
            "wsgi.url_scheme": "http",
            "wsgi.input": io.BytesIO(body or b""),
            "wsgi.errors": sys.stderr,
            "wsgi.multithread": True,
            "wsgi.multiprocess": True,
            "wsgi.run_once": False,
        }
        for name, value in headers:
            key = name.upper().replace("-", "_")
            bare = key in ("CONTENT_TYPE", "CONTENT_LENGTH")
            environ[key if bare else f"HTTP_{key}"] = value.encode("utf-8").decode("latin-1")
        started: list[tuple[int, Headers]] = []
        chunks: list[bytes] = []

        def start_response(status: str, found: Headers, exc_info: Any = None) -> Callable[[bytes], None]:
            started.append((int(status.split(" ", 1)[0]), list(found)))
            return chunks.append

        parts = application(environ, start_response)
        try:
            chunks.extend(parts)
        finally:
            close = getattr(parts, "close", None)
            if close is not None:
                close()
        status, found = started[-1]
        return status, found, b"".join(chunks)

    return knock
