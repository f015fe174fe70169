"""What the description of a machine leaves out or converts in an unexpected way, for the operator who reads the file.

Every device and every NUMA node of the machine is either a provider, part of one, or counted here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stead.topology.devices import Device, DeviceKind, devices_of, rest_of
from stead.topology.numa import layout_of
from stead.topology.relations import LINKS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from stead.topology.machine import Machine
    from stead.topology.objects import HwObject

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
