"""A real machine, as ``lstopo --of xml`` describes it, as a tree of providers.

The host is the root. A NUMA node with CPUs is a child of the host. Memory without CPUs and devices are children of the
nearest node. Devices and memory that several nodes share are below a provider for that group of nodes. Those near no
part of the machine are children of the host. docs/topology.md has the mapping as a table.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from stead.domain.inventory import MAX_INT, Inventory
from stead.domain.names import NAME_LENGTH, STANDARD_TRAITS
from stead.topology.devices import Device, DeviceKind, devices_of
from stead.topology.machine import Machine, read_xml
from stead.topology.numa import layout_of
from stead.topology.site import Description, Site, SiteError, site_of
from stead.topology.sriov import count_virtual_functions
from stead.topology.tree import tree_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from stead.topology.numa import NumaNode

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
