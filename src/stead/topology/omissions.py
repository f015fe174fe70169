"""What the description of a machine leaves out, and why: for the operator who reads the site file."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from stead.topology.devices import DeviceKind, devices_of
from stead.topology.numa import layout_of
from stead.topology.relations import LINKS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stead.topology.machine import Machine

_DISK = re.compile(r"(?:sd[a-z]+|vd[a-z]+|hd[a-z]+|mmcblk\d+|dasd[a-z]+)$")
_NAMED = 4  # disks in a sentence


def omissions(machine: Machine) -> Iterator[str]:
    """A sentence for each kind of thing that is left out.

    Raises:
        SiteError: more NUMA nodes than any machine has.
    """
    if not machine.shows_devices:
        yield (
            "no I/O devices in the file, so its hosts get no GPUs, NICs or disks; "
            "if they have some, run `lstopo --of xml` on the machine itself, without --no-io"
        )
    yield from _links(machine)
    yield from _memory(machine)
    yield from _disks(machine)


def _links(machine: Machine) -> Iterator[str]:
    gpus = sum(device.kind is DeviceKind.GPU for device in devices_of(machine))
    if gpus > 1 and not any(matrix.name in LINKS for matrix in machine.distances):
        yield (
            f"no links between GPUs (NVLink, XGMI, Xe Link) in the file, so its {gpus} GPUs get no traits of links; "
            "if they have some, use an lstopo with NVML, RSMI or Level Zero"
        )


def _memory(machine: Machine) -> Iterator[str]:
    layout = layout_of(machine)
    tiers = [node for node in layout.nodes if node.is_beside_cpus and not node.kind]
    if tiers:
        yield (
            f"no memory tier in the file for {_counted(len(tiers), 'NUMA node')} without CPUs, so no trait says "
            "whether it is HBM or CXL memory; use hwloc 2.8 or newer"
        )
    unusable = (layout.present & ~layout.usable).bit_count()
    if unusable:
        yield f"{_counted(unusable, 'hardware thread')} offline or not allowed to the process that wrote the file"
    empty = sum(not node.memory for node in layout.nodes)
    if empty:
        yield f"{_counted(empty, 'NUMA node')} of unknown or forbidden memory, so without MEMORY_MB"


def _disks(machine: Machine) -> Iterator[str]:
    names = [hw.attributes.get("name", "") for hw in machine.root.walk() if hw.type == "OSDev"]
    disks = sorted({name for name in names if _DISK.fullmatch(name)})
    if disks:
        more = f" and {len(disks) - _NAMED} more" if len(disks) > _NAMED else ""
        yield f"disks that are no NVMe disks: {', '.join(disks[:_NAMED])}{more}; only NVMe disks become providers"


def _counted(count: int, noun: str) -> str:
    return f"1 {noun}" if count == 1 else f"{count} {noun}s"
