"""The tree of a machine's providers, and their names."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from stead.topology.devices import DeviceKind
from stead.topology.links import domains_of
from stead.topology.nearness import Nearness, Place, innermost, used_groups

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stead.topology.devices import Device
    from stead.topology.links import Domain
    from stead.topology.machine import Machine
    from stead.topology.numa import Layout, NumaNode


@dataclass(slots=True)
class Tree:
    """Parents by name (None for the host), and traits that follow from positions in the tree.

    The tree also has providers that are not objects in hwloc: groups of NUMA nodes, domains of linked devices.
    """

    host: str
    parents: dict[str, str | None]
    traits: defaultdict[str, set[str]] = field(default_factory=lambda: defaultdict(set))

    def numa(self, node: NumaNode) -> str:
        """The name of a NUMA node."""
        return self.nodes(1 << node.index)

    def nodes(self, place: Place) -> str:
        """The name of a NUMA node or a group of them, in Linux's list format: `0-3,8`."""
        return f"{self.host}_NUMA{_listed(place)}"

    def device(self, device: Device) -> str:
        """The name of a device."""
        return f"{self.host}_{device.kind}_{device.label}"

    def ancestors(self, name: str) -> list[str]:
        """The ancestors of *name*, nearest first."""
        above = []
        parent = self.parents[name]
        while parent is not None:
            above.append(parent)
            parent = self.parents[parent]
        return above


def tree_of(host: str, machine: Machine, layout: Layout, devices: Sequence[Device]) -> Tree:
    """The tree of *machine*; its *devices* become providers.

    Raises:
        SiteError: there are too many places, so the file must be wrong.
    """
    tree = Tree(host, {host: None})
    nearness = Nearness(machine, layout)
    near_devices = [nearness.of_device(device.hw) for device in devices]
    by_address = {device.label: device for device in devices if device.kind is DeviceKind.GPU}
    gpus = {node.index: by_address.get(node.gpu_address) for node in layout.nodes if node.is_of_gpu}
    beside = [node for node in layout.nodes if node.is_beside_cpus and gpus.get(node.index) is None]
    near_memory = [nearness.of_memory(node) for node in beside]
    hwlocs = [*nearness.groups(), *near_devices]  # a device is always attached to an object of hwloc
    groups = used_groups([*near_devices, *near_memory], hwlocs, nearness.everything)

    def around(place: Place) -> str:
        if place.bit_count() == 1:
            return tree.nodes(place)
        group = innermost(place, groups) if place else 0
        return tree.nodes(group) if group else host

    for group in reversed(groups):
        larger = innermost(group, (other for other in groups if other != group))
        tree.parents[tree.nodes(group)] = tree.nodes(larger) if larger else host
        tree.traits[tree.nodes(group)].add("CUSTOM_NUMA_GROUP")
    for node in layout.nodes:
        if (gpu := gpus.get(node.index)) is not None:
            tree.parents[tree.numa(node)] = tree.device(gpu)
        elif node.is_beside_cpus:
            tree.parents[tree.numa(node)] = around(nearness.of_memory(node))
        else:
            group = innermost(1 << node.index, groups)
            tree.parents[tree.numa(node)] = tree.nodes(group) if group else host
        tree.traits[tree.numa(node)].add("HW_NUMA_ROOT" if node.threads else "CUSTOM_NUMA_MEMORY_ONLY")
    for device, place in zip(devices, near_devices, strict=True):
        tree.parents[tree.device(device)] = around(place)
    _add_domains(tree, machine, devices)
    return tree


def _add_domains(tree: Tree, machine: Machine, devices: Sequence[Device]) -> None:
    """Find or add, for each domain of linked devices, a provider whose linked descendants are exactly its devices.

    That is an existing provider, or a new one between the devices and their common parent. If neither is possible, as
    for two domains across the same NUMA nodes, only numbered traits distinguish the domains.
    """
    domains = domains_of(machine, devices)
    for link in dict.fromkeys(domain.link for domain in domains):
        _add_domains_of_a_link(tree, [domain for domain in domains if domain.link == link])


def _add_domains_of_a_link(tree: Tree, domains: Sequence[Domain]) -> None:
    lines = {name: tree.ancestors(name) for domain in domains for name in map(tree.device, domain.devices)}
    linked_below = Counter(above for line in lines.values() for above in line)
    for domain in domains:
        members = [tree.device(device) for device in domain.devices]
        for name in members:
            tree.traits[name] |= {f"CUSTOM_{domain.link}", f"CUSTOM_{domain.link}_DOMAIN_{domain.number}"}
        common = next(above for above in lines[members[0]] if all(above in lines[name] for name in members))
        if linked_below[common] == len(members):
            holder = common
        elif all(lines[name][0] == common for name in members):
            holder = f"{tree.host}_{domain.link}{domain.number}"
            tree.parents[holder] = common
            tree.parents |= dict.fromkeys(members, holder)
        else:
            continue
        tree.traits[holder].add(f"CUSTOM_{domain.link}_DOMAIN")


def _listed(place: Place) -> str:
    ranges: list[list[int]] = []
    for number in range(place.bit_length()):
        if place >> number & 1:
            if ranges and ranges[-1][1] == number - 1:
                ranges[-1][1] = number
            else:
                ranges.append([number, number])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in ranges)
