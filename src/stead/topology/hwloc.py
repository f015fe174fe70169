"""A real machine, as ``lstopo --of xml`` describes it, as a tree of providers.

The host is the root. A NUMA node with CPUs is a child of the host. Memory without CPUs and devices are children of the
nearest node. Devices and memory that several nodes share are below a provider for that group of nodes. Those near no
part of the machine are children of the host. docs/topology.md has the mapping as a table.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from stead.domain.names import NAME_LENGTH, STANDARD_TRAITS
from stead.domain.provider import MAX_INT, Inventory
from stead.topology.devices import Device, DeviceKind, count_virtual_functions, devices_of, domains_of, rest_of
from stead.topology.machine import LINKS, Machine, read_xml
from stead.topology.numa import Nearness, Place, innermost, layout_of, used_groups
from stead.topology.site import Description, Site, SiteError, site_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from stead.topology.machine import HwObject
    from stead.topology.numa import Layout, NumaNode


_DEVICE_CLASSES = {DeviceKind.GPU: "PGPU", DeviceKind.FPGA: "FPGA", DeviceKind.ACCELERATOR: "CUSTOM_ACCELERATOR"}
"""The resource class of devices of a kind; NICs and disks have other amounts, or none."""


@dataclass(frozen=True, slots=True)
class Options:
    """The operator's choices for a machine, which the hardware does not determine.

    Attributes:
        shared: hardware threads of each NUMA node that guests share (`VCPU`); the other threads are dedicated (`PCPU`).
            None shares all.
        vcpu_ratio: allocation ratio of `VCPU`.
        aggregates: uuids of the host's aggregates.
    """

    shared: int | None = 0
    vcpu_ratio: float = 1.0
    aggregates: frozenset[str] = frozenset()


def read_machine(
    data: bytes, name: str | None = None, options: Options | None = None, *, source: str = "machine"
) -> Site:
    """The provider tree of one machine.

    Args:
        data: hwloc XML, as versions 1 to 3 write it.
        name: the host's name; None takes the name in the file.
        options: the operator's choices.
        source: the name of *data* in error messages.

    Raises:
        SiteError: not hwloc XML (see :func:`stead.topology.machine.read_xml`), no name, or a name that is too long.
    """
    return site_of(describe(read_xml(data, source), name, options, source=source))


def describe(
    machine: Machine, name: str | None = None, options: Options | None = None, *, source: str = "machine"
) -> list[Description]:
    """The providers of *machine*, as in :func:`read_machine`; for several equal hosts with different names.

    Each comes after its parent, so that they can be created in this order.

    Raises:
        SiteError: no name, or too many NUMA nodes.
    """
    host = (machine.infos.get("HostName", "") if name is None else name).strip()
    if not host:
        raise SiteError(f"{source}: the file does not say what the machine is called; give a name with --name")
    try:
        return _parents_first(list(_providers(machine, host, options or Options())))
    except SiteError as error:
        raise SiteError(f"{source}: {error}") from error


def _parents_first(descriptions: list[Description]) -> list[Description]:
    """The same sorted by depth, otherwise in order: a provider for linked devices is built after its devices."""
    parents = {each.name: each.parent for each in descriptions}

    def depth(name: str) -> int:
        parent = parents[name]
        return 0 if parent is None else 1 + depth(parent)

    return sorted(descriptions, key=lambda each: depth(each.name))


def _providers(machine: Machine, host: str, options: Options) -> Iterator[Description]:
    layout = layout_of(machine)
    all_devices = devices_of(machine)
    virtual = count_virtual_functions(all_devices)
    # In a guest, hwloc shows virtual functions only, and the first of a bridge stands for all of them.
    devices = [device for device in all_devices if not device.is_virtual or device.label in virtual]
    tree = tree_of(host, machine, layout, devices)
    inventories = {host: _cpu_inventories(layout.homeless, options) | _memory_inventory(layout.homeless_memory)}
    traits = tree.traits
    traits[host] |= set(_host_traits(machine, all_devices))
    for node in layout.nodes:
        name = tree.numa(node)
        inventories[name] = _cpu_inventories(node.threads, options) | _memory_inventory(node.memory, node)
        traits[name] |= set(_numa_traits(node))
    for device in devices:
        name = tree.device(device)
        inventories[name] = _device_inventories(device, virtual)
        traits[name] |= set(_device_traits(device, virtual))
    for name, parent in tree.parents.items():
        yield Description(
            name=name,
            parent=parent,
            inventories=inventories.get(name, {}),
            traits=frozenset(traits[name]),
            aggregates=options.aggregates if parent is None else frozenset(),
        )


def _numa_traits(node: NumaNode) -> Iterator[str]:
    if node.has_siblings:
        yield "HW_CPU_HYPERTHREADING"
    if node.kind:
        yield custom("MEMORY", node.kind)


def _memory_inventory(mebibytes: int, node: NumaNode | None = None) -> dict[str, Inventory]:
    resource_class = "CUSTOM_GPU_MEMORY_MB" if node is not None and node.is_of_gpu else "MEMORY_MB"
    return {resource_class: Inventory(mebibytes)} if mebibytes else {}


def _cpu_inventories(threads: int, options: Options) -> dict[str, Inventory]:
    count = threads.bit_count()
    shared = count if options.shared is None else min(options.shared, count)
    inventories = {}
    if count > shared:
        inventories["PCPU"] = Inventory(count - shared)
    if shared:
        inventories["VCPU"] = Inventory(shared, allocation_ratio=options.vcpu_ratio)
    return inventories


def _host_traits(machine: Machine, devices: Iterable[Device]) -> Iterator[str]:
    """Traits for queries about the whole host: queries can require and forbid root traits, but not those of a tree."""
    architecture = f"HW_ARCH_{machine.infos.get('Architecture', '').upper()}"
    if architecture in STANDARD_TRAITS:
        yield architecture
    for device in devices:
        yield f"CUSTOM_HAS_{'SRIOV_VF' if device.is_virtual else device.kind}"


def _device_inventories(device: Device, virtual: Mapping[str, int]) -> dict[str, Inventory]:
    match device.kind:
        case DeviceKind.NIC:
            amount, resource_class = virtual.get(device.label, 0), "SRIOV_NET_VF"
        case DeviceKind.NVME:
            amount, resource_class = device.gibibytes, "DISK_GB"
        case kind:
            amount, resource_class = device.partitions, _DEVICE_CLASSES[kind]
    return {resource_class: Inventory(min(amount, MAX_INT))} if amount > 0 else {}


def _device_traits(device: Device, virtual: Mapping[str, int]) -> Iterator[str]:
    if device.pci is not None:
        yield "CUSTOM_PCI_{:04X}_{:04X}".format(*device.pci)
    match device.kind:
        case DeviceKind.NIC:
            yield custom("NIC", device.network)
            if device.label in virtual:
                yield "HW_NIC_SRIOV"
            if device.does_rdma:
                yield "HW_NIC_OFFLOAD_RDMA"
        case DeviceKind.NVME:
            yield "STORAGE_DISK_SSD"
            yield "CUSTOM_DISK_NVME"
        case kind:
            yield custom(kind, device.model)


def custom(*words: str) -> str:
    """A custom class or trait name made of *words*, whatever they contain."""
    text = "_".join(re.sub(r"[^A-Z0-9]+", "_", word.upper()).strip("_") for word in words)
    return f"CUSTOM_{text}"[:NAME_LENGTH].rstrip("_")


# The tree of a machine's providers, and their names.


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
        return f"{self.host}_NUMA{_ranges_of(place)}"

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

    def add_domains(self, link: str, domains: Sequence[Sequence[str]]) -> None:
        """Find or add, for each domain of devices with *link*, a provider whose linked descendants are its devices.

        That is an existing provider, or a new one between the devices and their common parent. If neither is possible,
        as for two domains across the same NUMA nodes, only numbered traits distinguish the domains.
        """
        lines = {name: self.ancestors(name) for members in domains for name in members}
        linked_below = Counter(above for line in lines.values() for above in line)
        for number, members in enumerate(domains):
            for name in members:
                self.traits[name] |= {f"CUSTOM_{link}", f"CUSTOM_{link}_DOMAIN_{number}"}
            common = next(above for above in lines[members[0]] if all(above in lines[name] for name in members))
            if linked_below[common] == len(members):
                holder = common
            elif all(lines[name][0] == common for name in members):
                holder = f"{self.host}_{link}{number}"
                self.parents[holder] = common
                self.parents |= dict.fromkeys(members, holder)
            else:
                continue
            self.traits[holder].add(f"CUSTOM_{link}_DOMAIN")


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
    domains = domains_of(machine, devices)
    for link in dict.fromkeys(domain.link for domain in domains):
        tree.add_domains(link, [list(map(tree.device, domain.devices)) for domain in domains if domain.link == link])


def _ranges_of(place: Place) -> str:
    ranges: list[list[int]] = []
    for number in range(place.bit_length()):
        if place >> number & 1:
            if ranges and ranges[-1][1] == number - 1:
                ranges[-1][1] = number
            else:
                ranges.append([number, number])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in ranges)


# What the description of a machine leaves out or converts in an unexpected way, for the operator who reads the file.
#
# Every device and every NUMA node of the machine is either a provider, part of one, or counted here.


_NAMED = 4  # devices in a sentence

_CLASSES = {
    0x01: "storage", 0x02: "network", 0x03: "display", 0x04: "multimedia", 0x05: "memory", 0x06: "bridge",
    0x07: "communication", 0x08: "system peripheral", 0x0B: "co-processor", 0x0C: "serial bus", 0x0D: "wireless",
    0x10: "encryption", 0x11: "signal processing", 0x12: "accelerator",
}  # fmt: skip
"""By the high byte of a PCI class. Source: the PCI Code and ID Assignment Specification."""


def omissions(machine: Machine) -> Iterator[str]:
    """A sentence for each kind of thing that is left out or needs a look.

    Raises:
        SiteError: more NUMA nodes than any machine has.
    """
    devices = devices_of(machine)
    if not machine.shows_devices:
        yield (
            "no I/O devices in the file, so its hosts get no GPUs, NICs or disks; "
            "if they have some, run `lstopo --of xml` on the machine itself, without --no-io"
        )
    yield from _links(machine, devices)
    yield from _threads(machine)
    yield from _memory(machine)
    yield from _disks(devices)
    yield from _rest(machine, devices)


def _links(machine: Machine, devices: Sequence[Device]) -> Iterator[str]:
    gpus = sum(device.kind is DeviceKind.GPU for device in devices)
    if gpus > 1 and not any(matrix.name in LINKS for matrix in machine.distances):
        yield (
            f"no links between GPUs (NVLink, XGMI, Xe Link) in the file, so its {gpus} GPUs get no traits of links; "
            "if they have some, use an lstopo with NVML, RSMI or Level Zero"
        )


def _threads(machine: Machine) -> Iterator[str]:
    layout = layout_of(machine)
    if not any(hw.type == "PU" for hw in machine.root.walk()):
        yield (
            "no hardware threads (objects of type PU) in the file, so its hosts get no PCPU or VCPU; "
            "run `lstopo --of xml` without --only, --ignore and --filter"
        )
        return
    unusable = (layout.present & ~layout.usable).bit_count()
    if unusable:
        yield f"{_counted(unusable, 'hardware thread')} offline or not allowed to the process that wrote the file"


def _memory(machine: Machine) -> Iterator[str]:
    layout = layout_of(machine)
    tiers = [node for node in layout.nodes if node.is_beside_cpus and not node.kind]
    if tiers and any(hw.type == "PU" for hw in machine.root.walk()):
        yield (
            f"no memory tier in the file for {_counted(len(tiers), 'NUMA node')} without CPUs, so no trait says "
            "whether it is HBM or CXL memory; use hwloc 2.8 or newer"
        )
    empty = sum(not node.memory for node in layout.nodes)
    if empty:
        yield f"{_counted(empty, 'NUMA node')} of unknown or forbidden memory, so without MEMORY_MB"
    of_gpus = sum(node.is_of_gpu and node.memory > 0 for node in layout.nodes)
    if of_gpus:
        yield (
            f"{_counted(of_gpus, 'NUMA node')} of GPU memory: CUSTOM_GPU_MEMORY_MB below the GPU if the file names "
            "its PCI address, and no MEMORY_MB of the host"
        )


def _disks(devices: Sequence[Device]) -> Iterator[str]:
    unknown = [device.label for device in devices if device.kind is DeviceKind.NVME and not device.gibibytes]
    if unknown:
        yield (
            f"no size in the file for {_counted(len(unknown), 'NVMe disk')}, so without DISK_GB: {_listed(unknown)}; "
            "use hwloc 2.3 or newer, or add the total to the site file"
        )


def _rest(machine: Machine, devices: Sequence[Device]) -> Iterator[str]:
    rest = rest_of(machine, devices)
    if rest.functions:
        classes = [_described(*functions) for functions in sorted(rest.functions.items())]
        yield f"PCI devices that become no providers: {', '.join(classes)}"
    if rest.others:
        names = [os_device.name for os_device in rest.others]
        yield f"{_counted(len(names), 'device')} without a PCI device that become no providers: {_listed(names)}"


def _described(pci_class: int, functions: Sequence[HwObject]) -> str:
    names = [below.attributes.get("name", "") for hw in functions for below in hw.walk() if below.type == "OSDev"]
    known_as = f": {_listed(names)}" if names else ""
    return f"{len(functions)} of class {pci_class:04x} ({_CLASSES.get(pci_class >> 8, 'other')}{known_as})"


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f"{', '.join(sorted(names)[:_NAMED])}{more}"


def _counted(count: int, noun: str) -> str:
    return f"1 {noun}" if count == 1 else f"{count} {noun}s"


# Memory and hardware threads of a host that its operating system keeps: `reserved` of the inventories.


_NUMA_WITH_CPUS = "HW_NUMA_ROOT"
_CPUS = ("PCPU", "VCPU")
"""Threads of guests of their own are reserved first: the operating system needs whole ones."""


@dataclass(frozen=True, slots=True)
class Reserve:
    """An amount that each host keeps, or each NUMA node with CPUs of it."""

    amount: int = 0
    per_node: bool = False


def reserve(descriptions: Sequence[Description], memory: Reserve, cpus: Reserve) -> list[Description]:
    """The providers of one host with *memory*, in MiB, and *cpus*, in hardware threads, reserved.

    An amount of the host is taken evenly from its NUMA nodes with CPUs, or from the host if it has none.

    Raises:
        SiteError: a provider has less than it is to reserve.
    """
    holders = [each.name for each in descriptions if _NUMA_WITH_CPUS in each.traits] or [
        each.name for each in descriptions if each.parent is None
    ]
    shares = {
        name: (memory_share, cpu_share)
        for name, memory_share, cpu_share in zip(
            holders, _shares(memory, len(holders)), _shares(cpus, len(holders)), strict=True
        )
    }
    return [_with(each, *shares[each.name]) if each.name in shares else each for each in descriptions]


def _shares(reserve: Reserve, holders: int) -> list[int]:
    if reserve.per_node:
        return [reserve.amount] * holders
    even, more = divmod(reserve.amount, holders)
    return [even + (place < more) for place in range(holders)]


def _with(description: Description, memory: int, cpus: int) -> Description:
    inventories = dict(description.inventories)
    for classes, amount, unit in ((("MEMORY_MB",), memory, "MiB"), (_CPUS, cpus, "hardware threads")):
        remaining = amount
        for name in classes:
            if remaining and name in inventories:
                taken = min(remaining, inventories[name].total)
                inventories[name] = replace(inventories[name], reserved=taken)
                remaining -= taken
        if remaining:
            total = _total(description, classes)
            raise SiteError(f"{description.name}: cannot reserve {amount:,} {unit}, it has {total:,}")
    return replace(description, inventories=inventories)


def _total(description: Description, classes: Iterable[str]) -> int:
    return sum(description.inventories[name].total for name in classes if name in description.inventories)
