"""The devices of a machine that can be allocated, and their kinds.

hwloc states the class, vendor, device and often the name of a PCI function, and which operating system devices drive it
(`cuda0`, `eth4`, `nvme0n1`). The tables below map these to a few kinds of device; docs/topology.md explains them.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from stead.topology.machine import LINKS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from stead.topology.machine import Distances, HwObject, Machine


class DeviceKind(StrEnum):
    """The kind under which a device is offered; the value is part of the provider's name."""

    GPU = "GPU"
    FPGA = "FPGA"
    ACCELERATOR = "ACCELERATOR"
    NIC = "NIC"
    NVME = "NVME"


class Role(StrEnum):
    """What an operating system device does."""

    STORAGE = "storage"
    GPU = "gpu"
    NETWORK = "network"
    RDMA = "rdma"
    COMPUTE = "compute"


_ROLES_BEFORE_FORMAT_3 = {0: Role.STORAGE, 1: Role.GPU, 2: Role.NETWORK, 3: Role.RDMA, 5: Role.COMPUTE}
"""By number, until format 2. Source: hwloc 1's and 2's ``hwloc_obj_osdev_type_t``."""

_ROLES_OF_FORMAT_3 = {0: Role.STORAGE, 2: Role.GPU, 3: Role.COMPUTE, 4: Role.NETWORK, 5: Role.RDMA}
"""By bit: a device may have several. Source: hwloc 3's ``hwloc_obj_osdev_types_t``."""

_KINDS_BY_PCI_CLASS = {
    0x0108: DeviceKind.NVME,
    0x0200: DeviceKind.NIC,  # Ethernet
    0x0207: DeviceKind.NIC,  # InfiniBand
    0x0208: DeviceKind.NIC,  # fabric: Omni-Path
    0x0300: DeviceKind.GPU,  # VGA, except devices that only show a console
    0x0302: DeviceKind.GPU,  # 3D
    0x0380: DeviceKind.GPU,  # other display controllers: AMD Instinct
    0x0C06: DeviceKind.NIC,  # InfiniBand, in older adapters
    0x1200: DeviceKind.ACCELERATOR,
}
_VGA = 0x0300
_PROCESSING = 0x1200
_ETHERNET = 0x0200
_FABRIC = 0x0208
_OTHER_NETWORK = 0x0280
"""The class of some InfiniBand adapters (ConnectX-2 and -3), of Wi-Fi, and of others."""
_INFINIBAND_NAME = re.compile(r"ib")
_WIRELESS_NAME = re.compile(r"wl")
_NVIDIA = 0x10DE

_KINDS_OF_ACCELERATORS = {0x1002: DeviceKind.GPU, 0x10EE: DeviceKind.FPGA, 0x1172: DeviceKind.FPGA}
"""Kinds of PCI class 1200, by vendor: AMD, Xilinx, Altera."""

_CONSOLE_VENDORS = frozenset(
    {
        0x1013,  # Cirrus Logic, as emulated
        0x102B,  # Matrox
        0x1234,  # QEMU's standard VGA
        0x126F,  # Silicon Motion
        0x1414,  # Hyper-V
        0x15AD,  # VMware
        0x18CA,  # XGI
        0x19E5,  # Huawei iBMC
        0x1A03,  # ASPEED
        0x1AF4,  # virtio
        0x1B36,  # QXL
        0x80EE,  # VirtualBox
    }
)
_CONSOLES = frozenset({(0x1002, 0x4752), (0x1002, 0x5159), (0x1002, 0x515E)})  # ATI Rage XL, RV100, ES1000

_VIRTUAL_FUNCTIONS = frozenset(
    {(0x8086, device) for device in (0x10CA, 0x10ED, 0x1515, 0x1520, 0x154C, 0x1565, 0x15C5, 0x1889, 0x37CD)}
    | {(0x15B3, device) for device in (0x1002, 0x1004, 0x1012, 0x1014, 0x1016, 0x1018, 0x101A, 0x101C, 0x101E)}
    | {(0x1137, device) for device in (0x0071, 0x00CF, 0x02B7)}
    | {(0x14E4, device) for device in (0x16A9, 0x16AF, 0x16DC, 0x1806, 0x1807)}
)
"""For files without device names. hwloc does not mark virtual functions, but SR-IOV gives them their own device id."""

_VIRTUAL_NAME = re.compile(r"virtual function|userspace nic", re.IGNORECASE)

_COMPUTE_NAME = re.compile(r"(cuda|nvml|rsmi|ze|opencl|mic|ve)\d")
"""Device names of hwloc's backends, those with the most information about the hardware first."""
_COMPUTE_BACKENDS = ("cuda", "nvml", "rsmi", "ze", "opencl", "mic", "ve")
_PARTITIONING = "rsmi"
_NOT_GPUS = frozenset({"mic", "ve"})

_NVME_NAME = re.compile(r"nvme\d+n\d+$")

_KIB_PER_GIB = 1024 * 1024
_SIZE = re.compile(r"(\d{1,20})\s*(KiB)?")

_PCI_TYPE = re.compile(r"([0-9a-f]{4}) \[([0-9a-f]{4}):([0-9a-f]{4})\]", re.IGNORECASE)
_PCI_ADDRESS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-9a-f]", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class OsDevice:
    """One operating system device: its name, its roles, and hwloc's info attributes."""

    name: str
    roles: frozenset[Role]
    hw: HwObject

    @property
    def backend(self) -> str | None:
        """The compute API that detected it; None if it does not compute, or only emulates a device on the CPU."""
        match = _COMPUTE_NAME.match(self.name)
        if match is None or self.hw.infos.get("OpenCLDeviceType", "GPU").upper() == "CPU":
            return None
        return match[1]


@dataclass(frozen=True, slots=True)
class Device:
    """An allocatable device: a PCI function, or an operating system device that hwloc shows without one.

    Attributes:
        label: PCI address, or the operating system's name; unique on the machine.
        pci: vendor and device id; None if unknown.
        is_virtual: whether it is an SR-IOV virtual function.
    """

    label: str
    kind: DeviceKind
    pci_class: int
    pci: tuple[int, int] | None
    is_virtual: bool
    hw: HwObject
    os_devices: tuple[OsDevice, ...]

    @property
    def model(self) -> str:
        """The vendor's name of the model; empty if the file lacks it."""
        remarks = [os_device.hw.infos.get("GPUModel", "") for os_device in self.os_devices]
        return next(filter(None, [*remarks, self.hw.infos.get("PCIDevice", "")]), "")

    @property
    def is_nvidia_gpu(self) -> bool:
        """Whether it is a GPU of NVIDIA, by its PCI vendor or by the API that shows it."""
        vendor = self.pci[0] if self.pci else None
        apis = {os_device.backend for os_device in self.os_devices}
        return self.kind is DeviceKind.GPU and (vendor == _NVIDIA or bool(apis & {"cuda", "nvml"}))

    @property
    def partitions(self) -> int:
        """The number of GPUs that it is divided into: 1 if it is not.

        RSMI shows each partition of an AMD GPU (the modes TPX and CPX of an MI300A) as a device of one PCI function.
        Other APIs are not counted: OpenCL shows a GPU once per installed platform.
        """
        return max(1, sum(os_device.backend == _PARTITIONING for os_device in self.os_devices))

    @property
    def gibibytes(self) -> int:
        """The size of its disks; 0 if the file lacks it."""
        disks = (os_device for os_device in self.os_devices if Role.STORAGE in os_device.roles)
        sizes = [_SIZE.match(disk.hw.infos.get("Size", "")) for disk in disks]
        return sum(int(size[1]) for size in sizes if size) // _KIB_PER_GIB

    @property
    def interfaces(self) -> tuple[str, ...]:
        """Names of its network interfaces."""
        return tuple(
            os_device.name
            for os_device in self.os_devices
            if Role.NETWORK in os_device.roles and Role.RDMA not in os_device.roles
        )

    @property
    def does_rdma(self) -> bool:
        """Whether the device has an RDMA device."""
        return any(Role.RDMA in os_device.roles for os_device in self.os_devices)

    @property
    def network(self) -> str:
        """The kind of its network."""
        if self.pci_class == _FABRIC:
            return "FABRIC"
        if self.pci_class == _OTHER_NETWORK:
            return "INFINIBAND" if any(map(_INFINIBAND_NAME.match, self.interfaces)) else "ETHERNET"
        return "ETHERNET" if self.pci_class == _ETHERNET else "INFINIBAND"


def devices_of(machine: Machine) -> list[Device]:
    """The allocatable devices of *machine*, in the order of the file, each once."""
    by_label: dict[str, Device] = {}
    for device in [*_pci_devices(machine), *_bare_devices(machine)]:
        by_label.setdefault(device.label, device)
    return list(by_label.values())


@dataclass(frozen=True, slots=True)
class Rest:
    """The devices of a machine that are no providers, nor parts or virtual functions of one.

    Attributes:
        functions: PCI functions by class.
        others: operating system devices that are shown without a PCI function.
    """

    functions: Mapping[int, Sequence[HwObject]]
    others: Sequence[OsDevice]


def rest_of(machine: Machine, devices: Iterable[Device]) -> Rest:
    """What *devices*, those of *machine*, leave out."""
    taken = {device.hw for device in devices}
    functions: dict[int, list[HwObject]] = {}
    others = []
    for hw in machine.root.walk():
        if hw in taken:
            continue
        if hw.type == "PCIDev":
            functions.setdefault(_described(hw)[0], []).append(hw)
        elif hw.type == "OSDev" and not _is_below_pci(hw):
            others.append(_os_device(hw, machine.format))
    return Rest(functions, others)


def _pci_devices(machine: Machine) -> Iterator[Device]:
    for hw in machine.root.walk():
        if hw.type != "PCIDev":
            continue
        os_devices = tuple(_os_device(below, machine.format) for below in hw.walk() if below.type == "OSDev")
        pci_class, pci = _described(hw)
        kind = _kind(pci_class, pci, os_devices)
        if kind is None:
            continue
        is_virtual = pci in _VIRTUAL_FUNCTIONS or bool(_VIRTUAL_NAME.search(hw.infos.get("PCIDevice", "")))
        if is_virtual and kind is not DeviceKind.NIC:
            continue  # part of a device that is allocated as a whole
        yield Device(_label(hw), kind, pci_class, pci, is_virtual, hw, os_devices)


def _described(hw: HwObject) -> tuple[int, tuple[int, int] | None]:
    """The class of a PCI function, and its vendor and device id; 0 and None if the file lacks them."""
    described = _PCI_TYPE.match(hw.attributes.get("pci_type", ""))
    pci_class, *ids = [int(digits, 16) for digits in described.groups()] if described else (0, 0, 0)
    return pci_class, (ids[0], ids[1]) if any(ids) else None


def _bare_devices(machine: Machine) -> Iterator[Device]:
    """Disks and GPUs that are shown without their PCI function, as in files that were written without PCI devices.

    Several compute APIs may show the same GPU. Without a PCI function nothing identifies it, so only one API counts.
    """
    bare = [
        _os_device(hw, machine.format) for hw in machine.root.walk() if hw.type == "OSDev" and not _is_below_pci(hw)
    ]
    for os_device in bare:
        if _NVME_NAME.match(os_device.name):
            yield Device(os_device.name, DeviceKind.NVME, 0, None, False, os_device.hw, (os_device,))
    shown = {os_device.backend for os_device in bare}
    believed = next((backend for backend in _COMPUTE_BACKENDS if backend in shown), None)
    for os_device in bare:
        if believed is not None and os_device.backend == believed:
            kind = DeviceKind.ACCELERATOR if believed in _NOT_GPUS else DeviceKind.GPU
            yield Device(os_device.name, kind, 0, None, False, os_device.hw, (os_device,))


def _kind(pci_class: int, pci: tuple[int, int] | None, os_devices: tuple[OsDevice, ...]) -> DeviceKind | None:
    backends = {os_device.backend for os_device in os_devices} - {None}
    if backends:
        return DeviceKind.ACCELERATOR if backends <= _NOT_GPUS else DeviceKind.GPU
    vendor = pci[0] if pci is not None else None
    if pci_class == _VGA and (vendor in _CONSOLE_VENDORS or pci in _CONSOLES):
        return None
    if pci_class == _PROCESSING and vendor is not None:
        return _KINDS_OF_ACCELERATORS.get(vendor, DeviceKind.ACCELERATOR)
    if pci_class == _OTHER_NETWORK and _is_wired(os_devices):
        return DeviceKind.NIC
    return _KINDS_BY_PCI_CLASS.get(pci_class)


def _is_wired(os_devices: tuple[OsDevice, ...]) -> bool:
    networks = [os_device for os_device in os_devices if os_device.roles & {Role.NETWORK, Role.RDMA}]
    return bool(networks) and not any(_WIRELESS_NAME.match(os_device.name) for os_device in networks)


def _os_device(hw: HwObject, file_format: int) -> OsDevice:
    number = hw.number("osdev_type")
    roles: frozenset[Role]
    if number is None:
        roles = frozenset()
    elif file_format < 3:
        roles = frozenset(role for value, role in _ROLES_BEFORE_FORMAT_3.items() if value == number)
    else:
        roles = frozenset(role for bit, role in _ROLES_OF_FORMAT_3.items() if number >> bit & 1)
    return OsDevice(hw.attributes.get("name", ""), roles, hw)


def _label(hw: HwObject) -> str:
    address = hw.attributes.get("pci_busid", "").strip()
    return address.lower() if _PCI_ADDRESS.fullmatch(address) else f"gp{hw.number('gp_index') or 0}"


def _is_below_pci(hw: HwObject) -> bool:
    around = hw.parent
    while around is not None and around.type != "PCIDev":
        around = around.parent
    return around is not None


# Direct links between a machine's devices: NVLink, XGMI (Infinity Fabric) or Xe Link.


_LINKED_TYPES = frozenset({"PCIDev", "OSDev"})
"""Types whose links count. A processor with its own links (POWER9) does not link devices with each other."""


@dataclass(frozen=True, slots=True)
class Domain:
    """Two or more devices that reach each other by links, directly, through other devices or through switches.

    Attributes:
        link: the name of the links in traits, such as `NVLINK`.
        number: from 0, in the order of the file, for each kind of link.
    """

    link: str
    number: int
    devices: tuple[Device, ...]


def domains_of(machine: Machine, devices: Sequence[Device]) -> list[Domain]:
    """The domains of *devices*, by kind of link and number."""
    domains: list[Domain] = []
    for link in sorted(set(LINKS.values())):
        matrices = [matrix for matrix in machine.distances if LINKS.get(matrix.name) == link]
        number = 0
        for members in _connected(matrices, devices):
            if len(members) > 1:
                domains.append(Domain(link, number, members))
                number += 1
    return domains


def _connected(matrices: Iterable[Distances], devices: Sequence[Device]) -> Iterator[tuple[Device, ...]]:
    """The groups of connected devices; each device is in one group."""
    leaders: dict[HwObject, HwObject] = {}
    for matrix in matrices:
        ends = [None if hw is None or hw.type not in _LINKED_TYPES else _function(hw) for hw in matrix.objects]
        for place, value in enumerate(matrix.values):
            first, second = ends[place // len(ends)], ends[place % len(ends)]
            if value and first is not None and second is not None:
                leaders[_leader(leaders, first)] = _leader(leaders, second)
    members: dict[HwObject, list[Device]] = {}
    for device in devices:
        members.setdefault(_leader(leaders, device.hw), []).append(device)
    return (tuple(connected) for connected in members.values())


def _leader(leaders: dict[HwObject, HwObject], hw: HwObject) -> HwObject:
    while (leader := leaders.get(hw, hw)) is not hw:
        leaders[hw] = leaders.get(leader, leader)  # path halving: shortens later lookups
        hw = leader
    return hw


def _function(hw: HwObject) -> HwObject:
    """The PCI function of an operating system device; the device itself if the file shows none."""
    around: HwObject | None = hw
    while around is not None and around.type != "PCIDev":
        around = around.parent
    return hw if around is None else around


# Assigns virtual functions to their NICs, which hwloc does not do.


_VIRTUAL_SUFFIX = re.compile(r"v\d+$")


def count_virtual_functions(devices: Iterable[Device]) -> dict[str, int]:
    """The number of virtual functions of each NIC, by label; NICs without any are absent.

    hwloc does not state the physical function of a virtual one. The name of its interface may (`ens5f0v3` belongs to
    `ens5f0`). The other virtual functions are divided evenly among the physical functions on the same bridge, of the
    same vendor if there are any. That is exact for a card whose functions all have the same number. All functions of a
    bridge are attached to the same NUMA node, so an amount per NUMA node is right in any case. If a bridge shows no
    physical function, as in a guest, its virtual ones count for the first of them.
    """
    by_bridge: defaultdict[HwObject | None, list[Device]] = defaultdict(list)
    for device in devices:
        if device.kind is DeviceKind.NIC:
            by_bridge[device.hw.parent].append(device)
    amounts: Counter[str] = Counter()
    for nics in by_bridge.values():
        virtual = [nic for nic in nics if nic.is_virtual]
        physical = sorted((nic for nic in nics if not nic.is_virtual), key=lambda nic: nic.label)
        if virtual:
            amounts += _share_out(virtual, physical or virtual[:1])
    return dict(amounts)


def _share_out(virtual: Iterable[Device], holders: Sequence[Device]) -> Counter[str]:
    """The number of the *virtual* functions of one bridge that each of the *holders* has, by label."""
    owners = {interface: nic for nic in holders for interface in nic.interfaces}
    amounts: Counter[str] = Counter()
    adrift: Counter[int | None] = Counter()
    for nic in virtual:
        owner = next((owners[base] for base in map(_owning_interface, nic.interfaces) if base in owners), None)
        if owner is not None:
            amounts[owner.label] += 1
        else:
            adrift[_vendor(nic)] += 1
    for vendor, amount in adrift.items():
        likely = [nic for nic in holders if _vendor(nic) == vendor] or holders
        for place, nic in enumerate(likely):
            amounts[nic.label] += amount // len(likely) + (place < amount % len(likely))
    return amounts


def _vendor(nic: Device) -> int | None:
    return nic.pci[0] if nic.pci else None


def _owning_interface(interface: str) -> str:
    """`ens5f0` for `ens5f0v3`, the name that Linux gives to the interface of a virtual function."""
    return _VIRTUAL_SUFFIX.sub("", interface)
