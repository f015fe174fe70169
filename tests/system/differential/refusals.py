"""One request for each way in which a route refuses. Random histories meet some of them only once in 10,000 steps."""

from collections.abc import Iterator
from itertools import count
from typing import Any
from uuid import uuid5

from tests.system.differential.asking import Request
from tests.system.differential.pair import SPACE

PROVIDER, ABSENT = str(uuid5(SPACE, "refusing")), str(uuid5(SPACE, "absent"))
VERSIONS = (0, 5, 8, 12, 27, 36, 39)

SITE = (
    Request("POST", "/resource_providers", body={"name": "refusing", "uuid": PROVIDER}),
    Request("POST", "/resource_providers", body={"name": "taken", "uuid": str(uuid5(SPACE, "taken"))}),
    Request("POST", "/resource_classes", body={"name": "CUSTOM_LAMP"}),
    Request(
        "PUT",
        f"/resource_providers/{PROVIDER}/inventories",
        body={"resource_provider_generation": 0, "inventories": {"DISK_GB": {"total": 10, "step_size": 2}}},
    ),
)
"""What must exist before."""


def refusals(version: int) -> Iterator[Request]:
    """Requests at *version* that both services refuse, and some GETs that they do not."""
    for method, path, query, body in (*_of_providers(), *_of_names(), *_of_queries(), *_of_claims(version)):
        yield Request(method, path, version, query, body)
    new = "/resource_providers"
    yield Request("POST", new, version, raw=b"{")
    for media_type in (None, "", "text/plain", "text/plain; charset=utf-8", "application/xml"):
        yield Request("POST", new, version, raw=b"{}", headers=(("Content-Type", media_type),))
    for accepted in (None, "*/*", "text/html", "text/plain", "text/html, application/xml", "application/json"):
        yield Request("GET", new, version, headers=(("Accept", accepted),))
        unknown = (("Accept", accepted), ("OpenStack-API-Version", "placement 1.99"))
        yield Request("GET", new, version, headers=unknown)
    for roles in ("reader", "nobody"):
        yield Request("POST", new, version, body={"name": "refused"}, headers=(("X-Roles", roles),))


Row = tuple[str, str, tuple[tuple[str, str], ...], Any]


def _of_providers() -> Iterator[Row]:
    for uuid in (ABSENT, PROVIDER):
        own = f"/resource_providers/{uuid}"
        for part in ("", "/inventories", "/usages", "/aggregates", "/allocations", "/traits"):
            yield "GET", own + part, (), None
        if uuid == PROVIDER:
            yield "PUT", own, (), {"name": "taken"}
        yield "PUT", own, (), {"name": "n" * 201}
        for parent in (ABSENT, uuid):
            yield "PUT", own, (), {"name": "refused", "parent_provider_uuid": parent}
        for name in ("VCPU", "CUSTOM_NONE", "odd"):
            yield "GET", f"{own}/inventories/{name}", (), None
            yield "DELETE", f"{own}/inventories/{name}", (), None
            yield "POST", f"{own}/inventories", (), {"resource_class": name, "total": 4, "reserved": 8}
            for generation in (0, 7):
                told = {"resource_provider_generation": generation}
                yield "PUT", f"{own}/inventories/{name}", (), {**told, "total": 4}
                yield "PUT", f"{own}/inventories/{name}", (), {**told, "total": 4, "reserved": 5}
        yield "PUT", f"{own}/inventories", (), {"resource_provider_generation": 7, "inventories": {}}
        yield "PUT", f"{own}/traits", (), {"resource_provider_generation": 7, "traits": []}
        yield "PUT", f"{own}/traits", (), {"resource_provider_generation": 1, "traits": ["CUSTOM_NONE"]}
        yield "PUT", f"{own}/aggregates", (), {"resource_provider_generation": 7, "aggregates": []}
    for part in ("", "/inventories", "/traits"):
        yield "DELETE", f"/resource_providers/{ABSENT}{part}", (), None
    for fields in ({"name": "taken"}, {"uuid": PROVIDER}, {"uuid": "odd"}, {"parent_provider_uuid": ABSENT},
                   {"uuid": ABSENT, "parent_provider_uuid": ABSENT}):  # fmt: skip
        yield "POST", "/resource_providers", (), {"name": "refused", **fields}


def _of_names() -> Iterator[Row]:
    for method in ("GET", "DELETE"):
        for name in ("CUSTOM_NONE", "NONE", "custom_x"):
            yield method, f"/resource_classes/{name}", (), None
            yield method, f"/traits/{name}", (), None
    for name in ("NONE", "custom_x"):
        yield "PUT", f"/traits/{name}", (), None
    for path in ("/resource_classes/VCPU", "/traits/HW_CPU_X86_VMX"):
        yield "DELETE", path, (), None
    for name in ("CUSTOM_LAMP", "NONE", "custom_x"):
        yield "POST", "/resource_classes", (), {"name": name}


def _of_queries() -> Iterator[Row]:
    for pair in (("uuid", "odd"), ("resources", "CUSTOM_NONE:1"), ("required", "CUSTOM_NONE"), ("in_tree", "odd"),
                 ("member_of", "odd")):  # fmt: skip
        yield "GET", "/resource_providers", (pair,), None
    cpu = ("resources", "VCPU:1")
    for query in ((), (("resources", "CUSTOM_NONE:1"),), (("resources", "VCPU"),), (cpu, ("required", "CUSTOM_NONE")),
                  (cpu, ("in_tree", "odd")), (cpu, ("root_required", "CUSTOM_NONE")), (cpu, ("member_of", "odd")),
                  (cpu, ("limit", "0")), (("resources1", "VCPU:1"), ("resources2", "VCPU:1"))):  # fmt: skip
        yield "GET", "/allocation_candidates", query, None
    yield "GET", "/usages", (), None
    yield "GET", "/usages", (("project_id", ""),), None
    for path in ("/", "/usages", "/resource_providers", f"/allocations/{ABSENT}"):
        yield "PATCH", path, (), None
    yield "GET", "/nowhere", (), None


def _of_claims(version: int) -> Iterator[Row]:
    consumers = (str(uuid5(SPACE, f"refused/{version}/{number}")) for number in count())
    yield "DELETE", f"/allocations/{next(consumers)}", (), None
    for method in ("GET", "DELETE"):
        yield method, "/allocations/odd", (), None
    fields: dict[str, Any] = {"project_id": "p", "user_id": "u"} if version >= 8 else {}
    fields |= {"consumer_generation": None} if version >= 28 else {}
    owner = fields | ({"consumer_type": "INSTANCE"} if version >= 38 else {})
    for uuid, name, amount in ((ABSENT, "VCPU", 1), (PROVIDER, "CUSTOM_NONE", 1), (PROVIDER, "VCPU", 1),
                               (PROVIDER, "DISK_GB", 100), (PROVIDER, "DISK_GB", 3)):  # fmt: skip
        resources = {"resources": {name: amount}}
        held = {uuid: resources} if version >= 12 else [{"resource_provider": {"uuid": uuid}, **resources}]
        yield "PUT", f"/allocations/{next(consumers)}", (), {"allocations": held, **owner}
        if version >= 13:
            yield "POST", "/allocations", (), {next(consumers): {"allocations": held, **owner}}
        if version >= 28:
            stale = {"allocations": held, **owner, "consumer_generation": 7}
            yield "PUT", f"/allocations/{next(consumers)}", (), stale
    for uuid, generation in ((ABSENT, 0), (PROVIDER, 7)):
        new = {uuid: {"resource_provider_generation": generation, "inventories": {}}}
        yield "POST", "/reshaper", (), {"inventories": new, "allocations": {}}
