"""Sites for measurements. Every kind is deterministic, and a site is a prefix of each larger one of its kind.

So a server with the smaller site needs only the additional providers, and servers that were loaded at different times
have the same providers with the same uuids.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from itertools import islice
from random import Random
from typing import TYPE_CHECKING
from uuid import UUID, uuid5

from stead.domain.provider import Inventory
from stead.topology.hwloc import describe
from stead.topology.machine import read_xml
from stead.topology.site import Description, SiteError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

SPACE = UUID("be9c0000-0000-4000-8000-000000000000")
PREFIX = "bench-"
"""Prefix of the names of all providers created here; nothing else is ever deleted from a server."""

RACK = 100
"""Hosts that share an aggregate, and with it a storage pool."""

ZONES = 3
MODELS = 64
"""Number of models of hosts: hosts of one model have the same traits, as in sites that are bought by the rack."""


@dataclass(frozen=True)
class Site:
    """The content of a server for a measurement.

    Attributes:
        kind: one of :data:`KINDS`.
        size: hosts; for ``wide`` the devices and for ``split`` the NUMA nodes of the only host.
        traits: of each flat host; all hosts have two thirds of them in common.
        seed: for the differences between hosts.
        folder: the folder of the hwloc XML files of ``machines``.
    """

    kind: str
    size: int
    traits: int = 30
    seed: int = 1
    folder: Path | None = None

    def __str__(self) -> str:
        traits = f", {self.traits} traits" if self.kind == "flat" else ""
        return f"{self.kind} {self.size:,}{traits}"

    def descriptions(self) -> Iterator[Description]:
        """The providers, every parent before its children and the trees one after the other; all have uuids.

        Raises:
            SiteError: the folder of ``machines`` has no file.
        """
        return KINDS[self.kind](self)

    def common_traits(self) -> list[str]:
        """The traits that every flat host has."""
        return [trait(number) for number in range(self.traits * 2 // 3)]


def trait(number: int) -> str:
    """The name of a generated trait."""
    return f"CUSTOM_BENCH_{number:03}"


@cache
def uuid_of(name: str) -> str:
    """The uuid of the aggregate *name*."""
    return str(uuid5(SPACE, name))


def zone(number: int) -> str:
    """The uuid of the aggregate of a third of all flat hosts."""
    return uuid_of(f"zone-{number % ZONES}")


def rack(host: int) -> str:
    """The uuid of the aggregate of a host and its neighbours."""
    return uuid_of(f"rack-{host // RACK}")


def roomy(site: Site, most: int = 1000) -> list[tuple[str, str]]:
    """Providers, by uuid, with a resource class in which one unit more or less does not affect any query."""
    providers = (
        (str(described.uuid), next(iter(roomy_classes)))
        for described in site.descriptions()
        if (roomy_classes := [name for name, inventory in described.inventories.items() if _is_roomy(inventory)])
    )
    return list(islice(providers, most))


def _is_roomy(inventory: Inventory) -> bool:
    return inventory.capacity >= 64 and inventory.min_unit == 1 and inventory.step_size == 1


def _provider(
    name: str,
    parent: str | None = None,
    inventories: Mapping[str, Inventory] | None = None,
    traits: frozenset[str] = frozenset(),
    aggregates: frozenset[str] = frozenset(),
) -> Description:
    return Description(name, str(uuid5(SPACE, name)), parent, inventories or {}, traits, aggregates)


HOST = {
    "VCPU": Inventory(64, allocation_ratio=4.0),
    "MEMORY_MB": Inventory(262144, reserved=4096),
    "DISK_GB": Inventory(2000, reserved=100),
}
NUMA = {"PCPU": Inventory(32), "MEMORY_MB": Inventory(131072, reserved=2048, step_size=4)}
NUMA_ROOT = frozenset({"HW_NUMA_ROOT"})


def flat(site: Site) -> Iterator[Description]:
    """Hosts without children: VCPU, memory, disk; an aggregate per rack and per zone."""
    models = _models(site)
    for number in range(site.size):
        yield _provider(
            f"{PREFIX}flat-{site.traits}-{site.seed}-{number:07}",
            inventories=HOST,
            traits=models[number % MODELS],
            aggregates=frozenset({rack(number), zone(number)}),
        )


def _models(site: Site) -> list[frozenset[str]]:
    common = site.common_traits()
    others = [trait(number) for number in range(len(common), len(common) + 2 * (site.traits - len(common)))]
    random = Random(site.seed)
    return [frozenset(common + random.sample(others, site.traits - len(common))) for _ in range(MODELS)]


def nested(site: Site) -> Iterator[Description]:
    """Trees of seven providers: a host, two NUMA nodes, a network card and a GPU at each of them."""
    for number in range(site.size):
        host = f"{PREFIX}nested-{number:07}"
        yield _provider(host, inventories={"DISK_GB": Inventory(2000)})
        for node in ("numa0", "numa1"):
            numa = f"{host}-{node}"
            yield _provider(numa, host, NUMA, NUMA_ROOT)
            yield _provider(f"{numa}-nic", numa, {"SRIOV_NET_VF": Inventory(16)}, frozenset({"HW_NIC_SRIOV"}))
            yield _provider(f"{numa}-gpu", numa, {"VGPU": Inventory(8)})


PHYSNETS = 2
GPU_TYPES = 2


def numa(site: Site) -> Iterator[Description]:
    """Trees of fifteen: two NUMA nodes, each with a port to two networks and with four GPUs of two types."""
    for number in range(site.size):
        host = f"{PREFIX}numa-{number:07}"
        yield _provider(host, inventories={"DISK_GB": Inventory(4000)})
        for node in ("numa0", "numa1"):
            near = f"{host}-{node}"
            yield _provider(near, host, NUMA, NUMA_ROOT)
            for net in range(PHYSNETS):
                yield _provider(f"{near}-pf{net}", near, PHYSICAL_FUNCTION, frozenset({physnet(net), "HW_NIC_SRIOV"}))
            for gpu in range(2 * GPU_TYPES):
                yield _provider(f"{near}-gpu{gpu}", near, {"VGPU": Inventory(16)}, frozenset({gpu_type(gpu)}))


PHYSICAL_FUNCTION = {
    "NET_BW_EGR_KILOBIT_PER_SEC": Inventory(25_000_000),
    "NET_BW_IGR_KILOBIT_PER_SEC": Inventory(25_000_000),
    "SRIOV_NET_VF": Inventory(63),
}


def physnet(number: int) -> str:
    """The trait of the physical functions on one of the networks."""
    return f"CUSTOM_PHYSNET_{number % PHYSNETS}"


def gpu_type(number: int) -> str:
    """The trait of the GPUs that are divided into virtual ones of one type."""
    return f"CUSTOM_VGPU_TYPE_{number % GPU_TYPES}"


POOLS = 2
SHARES = frozenset({"MISC_SHARES_VIA_AGGREGATE"})


def shared(site: Site) -> Iterator[Description]:
    """Hosts without disks; two storage pools for the hosts of each rack."""
    inventories = {name: inventory for name, inventory in HOST.items() if name != "DISK_GB"}
    for number in range(site.size):
        if number % RACK == 0:
            for pool in range(POOLS):
                yield _provider(
                    f"{PREFIX}shared-pool-{number // RACK:05}-{pool}",
                    inventories={"DISK_GB": Inventory(1_000_000)},
                    traits=SHARES,
                    aggregates=frozenset({rack(number)}),
                )
        yield _provider(f"{PREFIX}shared-{number:07}", inventories=inventories, aggregates=frozenset({rack(number)}))


def wide(site: Site) -> Iterator[Description]:
    """One host with *size* equal devices."""
    host = f"{PREFIX}wide"
    yield _provider(host, inventories=HOST)
    for number in range(site.size):
        yield _provider(f"{host}-gpu{number:03}", host, {"PGPU": Inventory(1)})


FEW_CORES, MANY_CORES = 4, 32


def split(site: Site) -> Iterator[Description]:
    """One host with *size* NUMA nodes: every second has many cores, the others a GPU; none has both."""
    host = f"{PREFIX}split"
    yield _provider(host, inventories={"DISK_GB": Inventory(2000)})
    for number in range(site.size):
        node, has_gpu = f"{host}-numa{number:03}", number % 2 == 1
        yield _provider(node, host, {"PCPU": Inventory(FEW_CORES if has_gpu else MANY_CORES)}, NUMA_ROOT)
        if has_gpu:
            yield _provider(f"{node}-gpu", node, {"VGPU": Inventory(8)})


def machines(site: Site) -> Iterator[Description]:
    """The machines of the hwloc XML files in the site's folder, repeated until there are *size* of them."""
    if site.folder is None or not (files := sorted(site.folder.glob("*.xml"))):
        raise SiteError(f"no hwloc XML files (*.xml) in {site.folder or 'the folder, which was not given'}")
    read = [read_xml(file.read_bytes(), str(file)) for file in files]
    for number in range(site.size):
        for described in describe(read[number % len(read)], f"{PREFIX}machine-{number:07}"):
            yield replace(described, uuid=str(uuid5(SPACE, described.name)))


KINDS: Mapping[str, Callable[[Site], Iterator[Description]]] = {
    "flat": flat,
    "nested": nested,
    "numa": numa,
    "shared": shared,
    "wide": wide,
    "split": split,
    "machines": machines,
}
