"""Random small sites with consumers, and random changes of them. Everything follows from one generator."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

from stead import (
    AddTrait,
    DeleteAggregate,
    Disable,
    Drain,
    Group,
    Inventory,
    Node,
    NothingFits,
    RemoveInventory,
    RemoveTrait,
    Request,
    SetInventory,
)

if TYPE_CHECKING:
    from random import Random

    from stead import PlannedChange, Site

TRAITS = ("HW_CPU_X86_AVX2", "HW_CPU_X86_VMX", "COMPUTE_STATUS_DISABLED")
SHARING = "MISC_SHARES_VIA_AGGREGATE"
PROJECT = "lab"


def aggregates(rng: Random) -> list[str]:
    """Names of aggregates for a new site."""
    return [str(uuid(rng)) for _ in range(3)]


def uuid(rng: Random) -> UUID:
    """A random uuid."""
    return UUID(int=rng.getrandbits(128), version=4)


def inventory(rng: Random, most: int) -> Inventory:
    """Up to this total, with something reserved or overcommitted at times."""
    total = rng.randint(2, most)
    return Inventory(
        total,
        reserved=rng.choice([0, 0, 1]),
        allocation_ratio=rng.choice([1.0, 1.0, 1.5, 2.0]),
        max_unit=rng.choice([total, 2, most]),
    )


def host(rng: Random, number: int, zones: list[str]) -> Node:
    """A host, flat or with two NUMA nodes of which one may have a GPU."""
    name = f"host-{number}"
    traits = rng.sample(TRAITS, rng.randint(0, 2))
    zone = rng.sample(zones, rng.randint(0, 2))
    if rng.random() < 0.5:
        return Node(name, traits=traits, aggregates=zone, VCPU=inventory(rng, 12), MEMORY_MB=inventory(rng, 16))
    gpu = [Node(f"{name}-gpu", VGPU=rng.randint(1, 3))] if rng.random() < 0.6 else []
    nodes = [
        Node(f"{name}-numa{place}", traits=["HW_NUMA_ROOT"], children=gpu if place == 0 else (),
             VCPU=inventory(rng, 8), MEMORY_MB=inventory(rng, 8))
        for place in range(2)
    ]  # fmt: skip
    return Node(name, {"DISK_GB": rng.randint(4, 12)}, traits=traits, aggregates=zone, children=nodes)


def request(rng: Random, zones: list[str]) -> Request:
    """A request that fits somewhere more often than not."""
    if rng.random() < 0.25:
        return Request(
            Group("cpu", VCPU=rng.randint(1, 3)),
            Group("gpu", VGPU=1),
            near=["cpu", "gpu"],
            order=rng.choice(["pack", None]),
        )
    amounts = {"VCPU": rng.randint(1, 3)}
    if rng.random() < 0.6:
        amounts["MEMORY_MB"] = rng.randint(1, 4)
    if rng.random() < 0.3:
        amounts["DISK_GB"] = rng.randint(1, 2)
    required = [rng.choice(TRAITS)] if rng.random() < 0.2 else []
    member_of = [rng.choice(zones)] if rng.random() < 0.2 else []
    return Request(Group(**amounts, required=required, member_of=member_of), order=rng.choice(["pack", "spread", None]))


def fill(site: Site, rng: Random, zones: list[str]) -> None:
    """Make a site of three to five hosts, at times with a pool that some share, and consumers on them."""
    hosts = [host(rng, number, zones) for number in range(rng.randint(3, 5))]
    if rng.random() < 0.4:
        hosts.append(Node("pool", {"DISK_GB": rng.randint(5, 20)}, traits=[SHARING], aggregates=[rng.choice(zones)]))
    site.apply(hosts)
    for number in range(rng.randint(0, 10)):
        try:
            site.claim(request(rng, zones), str(uuid(rng)), project=PROJECT, user=f"u{number % 2}")
        except NothingFits:
            continue


def changes(site: Site, rng: Random, zones: list[str]) -> list[PlannedChange]:
    """One to four changes that do not contradict each other, each of another provider."""
    providers = [provider for provider in site.providers() if provider.name != "pool"]
    trees: set[str] = set()
    chosen: list[PlannedChange] = []
    for provider in rng.sample(providers, min(len(providers), rng.randint(1, 4))):
        held = site.request("GET", f"/resource_providers/{provider.uuid}/inventories")["inventories"]
        has = site.request("GET", f"/resource_providers/{provider.uuid}/traits")["traits"]
        usages = site.request("GET", f"/resource_providers/{provider.uuid}/usages")["usages"]
        root = provider.name.partition("-numa")[0].partition("-gpu")[0]
        kind = rng.choice(["drain", "disable", "set", "set", "add", "remove", "trait"])
        if kind in ("drain", "disable"):
            if root in trees:
                continue
            trees.add(root)
            chosen.append(Drain(root) if kind == "drain" else Disable(provider.uuid))
        elif kind == "set" and held:
            name = rng.choice(sorted(held))
            fields = rng.choice([{"total": rng.randint(2, 20)}, {"allocation_ratio": rng.choice([0.5, 1.0, 3.0])}])
            chosen.append(SetInventory(provider.uuid, name, **fields))
        elif kind == "add":
            name = rng.choice([name for name in ("VCPU", "MEMORY_MB", "DISK_GB", "VGPU") if name not in held])
            chosen.append(SetInventory(provider.uuid, name, total=rng.randint(1, 6)))
        elif kind == "remove" and any(not usages.get(name) for name in held):
            chosen.append(RemoveInventory(provider.uuid, rng.choice([n for n in sorted(held) if not usages.get(n)])))
        elif kind == "trait":
            trait = rng.choice(TRAITS)
            chosen.append((RemoveTrait if trait in has else AddTrait)(provider.uuid, trait))
    used = {zone for zone in zones if site.request("GET", "/resource_providers", member_of=zone)["resource_providers"]}
    if used and rng.random() < 0.2:
        chosen.append(DeleteAggregate(rng.choice(sorted(used))))
    return chosen
