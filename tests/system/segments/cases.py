"""Every request that is sent in segments: each method of each route with each refusal that it can get, and a success.

Routes, methods and gates are those of the application's own table, so a new route comes in by itself.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from uuid import NAMESPACE_URL, uuid5

from scripts.docs import the_routes
from stead.api.request import METHODS, Allowed, JsonAnswer, JsonBody, Router, Since, gates_of, longest_body, stead_since
from stead.api.versions import NEWEST, NEWEST_STEAD

if TYPE_CHECKING:
    from collections.abc import Iterator

LONGEST_BODY = 70_000
"""The server's `max_body_size`: little more than the limit of routes that take small bodies, to make 413 cheap."""

STRANGE_METHODS = ("PATCH", "OPTIONS")
VERSION = f"placement {NEWEST}, stead {NEWEST_STEAD}"
USER = {
    "X-Auth-Token": "admin",
    "X-Roles": "admin,service",
    "OpenStack-API-Version": VERSION,
    "Content-Type": "application/json",
}
CLAIM = {"project_id": "p", "user_id": "u", "consumer_type": "INSTANCE", "consumer_generation": None}

Json = Any


@dataclass(frozen=True)
class Case:
    """A request with a body, and what is expected of its answer.

    ``statuses`` are those of the answer when it is sent for the first time; ``again``, of those later. ``closes``: the
    answer ends the connection.
    """

    kind: str
    method: str
    target: str
    fields: dict[str, str]
    body: bytes
    statuses: frozenset[int]
    again: frozenset[int] = frozenset()
    closes: bool = False
    head: bytes = field(init=False)

    def __post_init__(self) -> None:
        lines = [f"{self.method} {self.target} HTTP/1.1", "Host: localhost", f"Content-Length: {len(self.body)}"]
        lines += [f"{name}: {value}" for name, value in self.fields.items()]
        object.__setattr__(self, "head", ("\r\n".join(lines) + "\r\n\r\n").encode())

    def __str__(self) -> str:
        return f"{self.kind}: {self.method} {self.target}"


def of_route(method: str, template: str, what: str = "") -> str:
    """A uuid that only the success of this method of this route uses."""
    return str(uuid5(NAMESPACE_URL, f"{method} {template} {what}"))


def cases() -> list[Case]:
    """All of them."""
    router = Router()
    for path, resource in the_routes().items():
        router.add_route(path, resource)
    made = [
        case
        for template, handlers in router.routes.items()
        for method, handler in handlers.items()
        for case in _of_handler(method, template, handler, stead_since(the_routes()[template]) is not None)
    ]
    for template, handlers in router.routes.items():
        others = [method for method in (*METHODS, *STRANGE_METHODS) if method not in handlers]
        made += [_refused("another method", 405, method, template) for method in others]
    made += [_refused("an unknown path", 404, method, "/nothing/like/this") for method in (*METHODS, *STRANGE_METHODS)]
    made += [_case("a health check", "GET", path, 200) for path in ("/healthcheck", "/healthcheck/live")]
    return made


def _of_handler(method: str, template: str, handler: object, is_own: bool) -> Iterator[Case]:
    gates = gates_of(handler)
    yield _success(method, template)
    yield _refused("a malformed version", 400, method, template, **{"OpenStack-API-Version": "placement nonsense"})
    yield _refused("an unknown version", 406, method, template, **{"OpenStack-API-Version": "placement 1.9999"})
    longest = longest_body(method, _target(method, template), LONGEST_BODY)
    yield _case("a long body", method, _target(method, template), 413, body=b" " * (longest + 1), closes=True)
    if template == "/openapi.json":
        # [stead] public_docs is true by default.
        yield _case("no token", method, template, 200, fields={"X-Auth-Token": ""})
    elif template != "/":
        yield _refused("no token", 401, method, template, **{"X-Auth-Token": ""})
    if is_own:
        yield _refused("no such route", 404, method, template, **{"OpenStack-API-Version": f"placement {NEWEST}"})
    for gate in gates:
        match gate:
            case Allowed():
                # The rules of a project's own are asked for somebody else's.
                other = {"X-Auth-Token": "someone:else", "X-Roles": "nothing"}
                yield _refused("not allowed", 403, method, template, **other)
            case JsonAnswer():
                yield _refused("another media type wanted", 406, method, template, Accept="image/png")
            case JsonBody():
                yield _refused("another media type sent", 415, method, template, **{"Content-Type": "text/plain"})
            case Since(first, otherwise):
                before = f"placement 1.{first - 1}"
                yield _refused("an old version", otherwise, method, template, **{"OpenStack-API-Version": before})


def _refused(kind: str, status: int, method: str, template: str, **fields: str) -> Case:
    return _case(kind, method, _target(method, template), status, fields=fields)


def _case(
    kind: str,
    method: str,
    target: str,
    status: int,
    *,
    fields: dict[str, str] | None = None,
    body: bytes = b"{}",
    closes: bool = False,
) -> Case:
    sent = {name: value for name, value in {**USER, **(fields or {})}.items() if value}
    return Case(kind, method, target, sent, body, frozenset({status}), closes=closes)


QUERIES = {
    "/allocation_candidates": "?resources=VCPU:1&limit=1",
    "/allocation_candidates/explain": "?resources=VCPU:1&limit=1",
    "/headroom": "?resources=VCPU:1&limit=1",
    "/advice": "?resources=VCPU:1&make_room_for=1",
    "/usages": "?project_id=p",
    "/consumers": "?project_id=p",
}
NAMES = {"PUT": "CUSTOM_PUT", "DELETE": "CUSTOM_DELETED"}


def _target(method: str, template: str) -> str:
    name = NAMES.get(method, "VCPU" if template.startswith("/resource_classes") else "HW_CPU_X86_SHA")
    path = template.format(
        uuid=of_route(method, template), resource_class="VCPU", name=name, consumer_uuid=of_route(method, template)
    )
    return path + QUERIES.get(template, "")


_PROVIDER = "/resource_providers/{uuid}"
_ONE_CLASS = f"{_PROVIDER}/inventories/{{resource_class}}"
INVENTORIES = {"VCPU": {"total": 8}}
CLAIMED_FROM = of_route("", "", "claimed from")


def _body(method: str, template: str) -> Json:
    """One that the route accepts, at least once."""
    claim = CLAIM | {"allocations": {CLAIMED_FROM: {"resources": {"VCPU": 1}}}}
    replaced = {"resource_provider_generation": 0, "inventories": INVENTORIES}
    consumer = of_route(method, template)
    bodies: dict[tuple[str, str], Json] = {
        ("POST", "/resource_providers"): {"name": "posted"},
        ("PUT", _PROVIDER): {"name": "renamed"},
        ("POST", f"{_PROVIDER}/inventories"): {"resource_class": "MEMORY_MB", "total": 8},
        ("PUT", f"{_PROVIDER}/inventories"): replaced,
        ("PUT", _ONE_CLASS): {"resource_provider_generation": 1, "total": 9},
        ("PUT", f"{_PROVIDER}/aggregates"): {"resource_provider_generation": 0, "aggregates": [consumer]},
        ("PUT", f"{_PROVIDER}/traits"): {"resource_provider_generation": 0, "traits": ["HW_CPU_X86_SHA"]},
        ("POST", "/resource_classes"): {"name": "CUSTOM_POSTED"},
        ("POST", "/allocations"): {consumer: claim},
        ("PUT", "/allocations/{consumer_uuid}"): claim,
        ("POST", "/reshaper"): {"inventories": {consumer: replaced}, "allocations": {}},
        ("PUT", "/provider_trees"): {"provider_trees": [{"providers": [{"uuid": consumer, "name": "in a tree"}]}]},
        ("PATCH", "/provider_trees/{uuid}"): {"disabled": {"reason": "broken fan", "until": None}},
        ("PUT", "/flavors/{name}"): {"query": "resources=VCPU:1"},
        ("POST", "/whatif"): {"changes": [], "ask": {"totals": True}},
        ("PUT", "/leases"): {"leases": [{"consumer_uuid": consumer, "lease": 60}]},
        ("POST", "/claims"): {"claims": [{**CLAIM, "consumer_uuid": consumer, "query": "resources=VCPU:1"}]},
    }
    return bodies.get((method, template), {})


def _success(method: str, template: str) -> Case:
    """Its handler answers. A write that succeeded once is refused later by what it made, or made go."""
    statuses = frozenset({200, 201, 204})
    body = json.dumps(_body(method, template)).encode()
    again = statuses if method == "GET" else statuses | {404, 409}
    return Case("a success", method, _target(method, template), USER, body, statuses, again)


def preparations() -> Iterator[tuple[str, str, Json]]:
    """Method, path and body of the writes after which each success may happen."""
    router = Router()
    for path, resource in the_routes().items():
        router.add_route(path, resource)
    providers = {CLAIMED_FROM}
    for template, handlers in router.routes.items():
        for method in handlers:
            if "{uuid}" in template or template == "/reshaper":
                providers.add(of_route(method, template))
    for uuid in sorted(providers):
        yield "POST", "/resource_providers", {"name": uuid, "uuid": uuid}
    filled = {CLAIMED_FROM, *(of_route(method, _ONE_CLASS) for method in ("GET", "PUT", "DELETE"))}
    for uuid in sorted(filled):
        body = {"resource_provider_generation": 0, "inventories": INVENTORIES}
        yield "PUT", f"/resource_providers/{uuid}/inventories", body
    yield "PUT", "/traits/CUSTOM_DELETED", {}
    yield "PUT", "/resource_classes/CUSTOM_DELETED", {}
    for name in ("CUSTOM_DELETED", "HW_CPU_X86_SHA"):
        yield "PUT", f"/flavors/{name}", {"query": "resources=VCPU:1"}
    claim = CLAIM | {"allocations": {CLAIMED_FROM: {"resources": {"VCPU": 1}}}}
    yield "PUT", f"/allocations/{of_route('DELETE', '/allocations/{consumer_uuid}')}", claim
