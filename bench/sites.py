"""The sites that are asked, and what they are asked for."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from uuid import NAMESPACE_DNS, uuid5

from stead.domain.inventory import Inventory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping


@dataclass(frozen=True)
class Plan:
    """One provider to be made; its uuid follows from its name, so that every run has the same bytes."""

    name: str
    parent: str | None = None
    inventories: Mapping[str, Inventory] = field(default_factory=dict)
    traits: frozenset[str] = frozenset()

    @property
    def uuid(self) -> str:
        return str(uuid5(NAMESPACE_DNS, self.name))


@dataclass(frozen=True)
class Site:
    """Providers, parents first, and a query that every host can serve."""

    name: str
    providers: Callable[[], Iterator[Plan]]
    query: str


def flat(hosts: int) -> Iterator[Plan]:
    """Hosts without children, as a site without NUMA or devices has them."""
    for number in range(hosts):
        inventories = {
            "VCPU": Inventory(64, allocation_ratio=4.0),
            "MEMORY_MB": Inventory(262144, reserved=4096, allocation_ratio=1.0),
            "DISK_GB": Inventory(2000, reserved=100),
        }
        yield Plan(f"host-{number:05}.example.org", inventories=inventories, traits=frozenset({"HW_CPU_X86_AVX2"}))


def trees(hosts: int) -> Iterator[Plan]:
    """Hosts of seven providers: a root, two NUMA nodes, and a network card and a GPU at each of them."""
    for number in range(hosts):
        host = f"host-{number:05}.example.org"
        yield Plan(host, inventories={"DISK_GB": Inventory(2000)})
        for node in ("numa0", "numa1"):
            numa = f"{host}_{node}"
            held = {"PCPU": Inventory(32), "MEMORY_MB": Inventory(131072, reserved=2048, step_size=4)}
            yield Plan(numa, host, held, frozenset({"HW_NUMA_ROOT"}))
            yield Plan(f"{numa}_nic", numa, {"SRIOV_NET_VF": Inventory(16)}, frozenset({"HW_NIC_SRIOV"}))
            yield Plan(f"{numa}_gpu", numa, {"VGPU": Inventory(8)})


ASKED_OF_FLAT = "resources=VCPU:2,MEMORY_MB:4096,DISK_GB:40&required=HW_CPU_X86_AVX2"

ASKED_OF_TREES = (
    "resources=DISK_GB:40&resources_N=PCPU:4,MEMORY_MB:8192&required_N=HW_NUMA_ROOT"
    "&resources_V=SRIOV_NET_VF:1&resources_G=VGPU:1&same_subtree=_N,_V,_G&group_policy=isolate"
)

SITES = (
    Site("1,000 flat hosts", lambda: flat(1_000), ASKED_OF_FLAT),
    Site("10,000 flat hosts", lambda: flat(10_000), ASKED_OF_FLAT),
    Site("1,000 trees of 7", lambda: trees(1_000), ASKED_OF_TREES),
)

LIMITS = (10, 1_000, None)
