"""Assigns virtual functions to their NICs, which hwloc does not do."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from typing import TYPE_CHECKING

from stead.topology.devices import Device, DeviceKind

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from stead.topology.objects import HwObject

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
