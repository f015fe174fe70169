"""The queries of sites: every request of a query differs from the one before, but has the same number of answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from stead_bench.sites import ZONES, Site, gpu_type, physnet, zone

if TYPE_CHECKING:
    from collections.abc import Callable


CANDIDATES = "/allocation_candidates"
PROVIDERS = "/resource_providers"

COUNTED = {CANDIDATES: b'"allocations"', PROVIDERS: b'"uuid"'}
"""A text that occurs once per answer in a body, to count answers without parsing."""


@dataclass(frozen=True)
class Query:
    """A path, and the query string of the n-th request to it; n is at least 0."""

    name: str
    path: str
    vary: Callable[[int], str]

    def target(self, number: int, limit: int | None) -> str:
        """The n-th request."""
        parts = [self.vary(number), f"limit={limit}" if limit else ""]
        query = "&".join(filter(None, parts))
        return f"{self.path}?{query}" if query else self.path

    def count(self, body: bytes) -> int:
        """The number of answers in *body*."""
        return body.count(COUNTED[self.path])


def _memory(number: int) -> int:
    """MiB; a multiple of the step of NUMA nodes, and different for some thousand successive requests."""
    return 512 + 4 * (number % 4096)


def _disk(number: int) -> int:
    return 10 + number % 90


def host_in_zones(site: Site) -> Query:
    """Three classes of one host, with a trait that all have, in any of the zones: every host has room."""
    common = site.common_traits()
    zones = ",".join(zone(number) for number in range(ZONES))

    def vary(number: int) -> str:
        amounts = f"VCPU:{1 + number % 4},MEMORY_MB:{_memory(number)},DISK_GB:{_disk(number)}"
        return f"resources={amounts}&required={common[number % len(common)]}&member_of=in:{zones}"

    return Query("host in zones", CANDIDATES, vary)


def one_subtree(_site: Site) -> Query:
    """Cores, a virtual function and a virtual GPU of one NUMA node; disk of the host."""

    def vary(number: int) -> str:
        node, nic, gpu = (f"_{letter}{number}" for letter in "NVG")
        return (
            f"resources=DISK_GB:{_disk(number)}&resources{node}=PCPU:{1 + number % 4},MEMORY_MB:{_memory(number)}"
            f"&required{node}=HW_NUMA_ROOT&resources{nic}=SRIOV_NET_VF:1&resources{gpu}=VGPU:1"
            f"&same_subtree={node},{nic},{gpu}&group_policy=isolate"
        )

    return Query("same subtree", CANDIDATES, vary)


def port_and_gpu(_site: Site) -> Query:
    """Cores, a port with bandwidth on one network, and a virtual GPU of one type, all of one NUMA node."""

    def vary(number: int) -> str:
        node, port, gpu = (f"_{letter}{number}" for letter in "NPG")
        bandwidth = 1000 * (1 + number % 100)
        return (
            f"resources=DISK_GB:{_disk(number)}&resources{node}=PCPU:{1 + number % 4},MEMORY_MB:{_memory(number)}"
            f"&required{node}=HW_NUMA_ROOT"
            f"&resources{port}=NET_BW_EGR_KILOBIT_PER_SEC:{bandwidth},NET_BW_IGR_KILOBIT_PER_SEC:{bandwidth},SRIOV_NET_VF:1"
            f"&required{port}={physnet(number)}&resources{gpu}=VGPU:1&required{gpu}={gpu_type(number // 2)}"
            f"&same_subtree={node},{port},{gpu}&group_policy=none"
        )

    return Query("port and GPU", CANDIDATES, vary)


def shared_disk(_site: Site) -> Query:
    """VCPU and memory of a host, disk of a pool that is shared with it."""

    def vary(number: int) -> str:
        return f"resources=VCPU:{1 + number % 4},MEMORY_MB:{_memory(number)},DISK_GB:{_disk(number)}"

    return Query("shared disk", CANDIDATES, vary)


def isolated(groups: int) -> Query:
    """Query with *groups* groups that request one device each, from different providers."""

    def vary(number: int) -> str:
        asked = "".join(f"&resources_{number}G{group}=PGPU:1" for group in range(groups))
        return f"resources=VCPU:{1 + number % 4},MEMORY_MB:{_memory(number)}{asked}&group_policy=isolate"

    return Query(f"{groups} isolated", CANDIDATES, vary)


def torn_apart(_site: Site) -> Query:
    """Cores and a GPU of one NUMA node, which exist on different nodes but never on the same."""

    def vary(number: int) -> str:
        cores, gpu = f"_C{number}", f"_G{number}"
        return (
            f"resources=DISK_GB:{_disk(number)}&resources{cores}=PCPU:{8 + number % 16}&resources{gpu}=VGPU:1"
            f"&same_subtree={cores},{gpu}&group_policy=none"
        )

    return Query("never in one node", CANDIDATES, vary)


def node_with_function(_site: Site) -> Query:
    """Cores of a NUMA node, and a virtual function of a card attached to it."""

    def vary(number: int) -> str:
        node, port = f"_N{number}", f"_P{number}"
        return (
            f"resources{node}=PCPU:{1 + number % 4},MEMORY_MB:{_memory(number)}&required{node}=HW_NUMA_ROOT"
            f"&resources{port}=SRIOV_NET_VF:1&same_subtree={node},{port}&group_policy=none"
        )

    return Query("node with function", CANDIDATES, vary)


def providers_with_room(_site: Site) -> Query:
    """The list of hosts with room for some amounts, which all hosts have."""

    def vary(number: int) -> str:
        return f"resources=VCPU:{1 + number % 4},MEMORY_MB:{_memory(number)}"

    return Query("providers with room", PROVIDERS, vary)


def all_providers(_site: Site) -> Query:
    """The list of all providers: the only query whose requests are equal; claims change its answer."""
    return Query("all providers", PROVIDERS, lambda _: "")
