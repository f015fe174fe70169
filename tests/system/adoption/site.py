"""A small site, put into any release over HTTP, and the questions that are asked about it before and after."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID, uuid5

from tests.system.differential.asking import Request

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.system.api.client import Answer

    Ask = Callable[[Request], Answer]

SPACE = UUID("ad0b7ed0-0000-4000-8000-000000000000")
OLDEST, CONSUMER_TYPES = 31, 38
"""Microversions: the newest of the oldest release, and the first at which consumers have types."""


def uuid(name: str) -> str:
    return str(uuid5(SPACE, name))


HOST, NUMA0, NUMA1, OTHER, POOL = (uuid(name) for name in ("host", "numa 0", "numa 1", "other host", "pool"))
PROVIDERS = {HOST: None, NUMA0: HOST, NUMA1: HOST, OTHER: None, POOL: None}
RACK = uuid("rack")
SERVER, VOLUME, PAIR = (uuid(name) for name in ("server", "volume", "a consumer of two"))
PROJECT, USER = uuid("project"), uuid("user")


def newest(ask: Ask) -> int:
    """The newest microversion that is spoken."""
    return int(ask(Request("GET", "/", version=0)).json["versions"][0]["max_version"].partition(".")[2])


def fill(ask: Ask) -> None:
    """Make the site, at the newest microversion there is."""
    version = newest(ask)

    def send(method: str, path: str, body: object = None, at: int = version) -> None:
        answer = ask(Request(method, path, at, body=body))
        assert answer.status < 300, (method, path, answer.status, answer.body)

    send("PUT", "/resource_classes/CUSTOM_GOLD")
    send("PUT", "/traits/CUSTOM_FAST")
    for provider, parent in PROVIDERS.items():
        send("POST", "/resource_providers", {"name": provider, "uuid": provider, "parent_provider_uuid": parent})
    send("PUT", f"/resource_providers/{HOST}", {"name": "the host"})
    for provider, generation, stock in (
        (HOST, 0, {"DISK_GB": _stock(100, reserved=10)}),
        (NUMA0, 0, {"VCPU": _stock(8, allocation_ratio=4.0), "MEMORY_MB": _stock(4096, step_size=64)}),
        (NUMA1, 0, {"VCPU": _stock(8, max_unit=2), "CUSTOM_GOLD": _stock(3)}),
        (OTHER, 0, {"VCPU": _stock(16), "MEMORY_MB": _stock(8192)}),
        (POOL, 0, {"DISK_GB": _stock(2000)}),
    ):
        body = {"resource_provider_generation": generation, "inventories": stock}
        send("PUT", f"/resource_providers/{provider}/inventories", body)
    for provider, traits in ((NUMA0, ["CUSTOM_FAST", "HW_CPU_X86_AVX2"]), (POOL, ["MISC_SHARES_VIA_AGGREGATE"])):
        send("PUT", f"/resource_providers/{provider}/traits", {"resource_provider_generation": 1, "traits": traits})
    for provider, generation in ((OTHER, 1), (POOL, 2)):
        body = {"resource_provider_generation": generation, "aggregates": [RACK]}
        send("PUT", f"/resource_providers/{provider}/aggregates", body)
    for consumer, amounts in (
        (SERVER, {NUMA0: {"VCPU": 3, "MEMORY_MB": 128}, HOST: {"DISK_GB": 20}}),
        (VOLUME, {POOL: {"DISK_GB": 70}}),
        (PAIR, {NUMA1: {"CUSTOM_GOLD": 1, "VCPU": 2}, OTHER: {"VCPU": 5}}),
    ):
        send("PUT", f"/allocations/{consumer}", claim(version, amounts, "VOLUME" if consumer == VOLUME else "INSTANCE"))
    send("PUT", f"/allocations/{uuid('gone')}", claim(version, {OTHER: {"VCPU": 1}}))
    send("DELETE", f"/allocations/{uuid('gone')}")


def _stock(total: int, **more: object) -> dict[str, object]:
    return {"total": total, **more}


def claim(
    version: int, amounts: dict[str, dict[str, int]], kind: str = "INSTANCE", generation: int | None = None
) -> dict[str, object]:
    """The body of a claim, of a consumer that is new unless it has a *generation*."""
    allocations = {provider: {"resources": resources} for provider, resources in amounts.items()}
    body: dict[str, object] = {"allocations": allocations, "project_id": PROJECT, "user_id": USER}
    body |= {"consumer_generation": generation}
    return body | ({"consumer_type": kind} if version >= CONSUMER_TYPES else {})


def questions(version: int) -> Iterator[Request]:
    """Every GET about the site, but for the lists of standard names, which grow with the libraries installed."""
    for at in sorted({version, OLDEST, 14}):
        yield Request("GET", "/resource_providers", at)
        for provider in PROVIDERS:
            path = f"/resource_providers/{provider}"
            yield Request("GET", path, at)
            for part in ("inventories", "usages", "aggregates", "traits", "allocations"):
                yield Request("GET", f"{path}/{part}", at)
        yield Request("GET", f"/resource_providers/{NUMA0}/inventories/VCPU", at)
        for consumer in (SERVER, VOLUME, PAIR, uuid("gone")):
            yield Request("GET", f"/allocations/{consumer}", at)
        yield Request("GET", "/usages", at, (("project_id", PROJECT),))
        yield Request("GET", "/usages", at, (("project_id", PROJECT), ("user_id", USER)))
        yield Request("GET", "/traits", at, (("name", "startswith:CUSTOM_"),))
        yield Request("GET", "/resource_classes/CUSTOM_GOLD", at)
        for query in ("VCPU:1", "VCPU:2,MEMORY_MB:64", "VCPU:1,DISK_GB:10", "CUSTOM_GOLD:2", "CUSTOM_GOLD:3"):
            yield Request("GET", "/allocation_candidates", at, (("resources", query),))
    for query in (
        (("in_tree", HOST),),
        (("member_of", RACK),),
        (("resources", "VCPU:6"),),
        (("required", "CUSTOM_FAST"),),
    ):
        yield Request("GET", "/resource_providers", version, query)
    granular = (
        ("resources1", "VCPU:1"),
        ("required1", "CUSTOM_FAST"),
        ("resources2", "VCPU:1"),
        ("group_policy", "isolate"),
    )
    yield Request("GET", "/allocation_candidates", version, granular)
