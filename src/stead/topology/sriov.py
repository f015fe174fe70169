"""Which NIC a virtual function belongs to, which hwloc does not say."""

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
    """How many virtual functions each NIC has, by label; NICs without any are absent.

    hwloc does not say whose function a virtual one is. Its interface's name may (`ens5f0v3` is of `ens5f0`); what is
    left is shared out evenly among the physical functions on the same bridge, of the same vendor where there are any,
    which is exact for a card whose functions were all given the same number. All of a bridge are attached to the same
    NUMA node, so an amount per NUMA node is right in any case. A bridge that shows no physical function, as in a
    guest, has its virtual ones counted under the first of them.
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
    """How many of the *virtual* functions of one bridge each of the *holders* has, by label."""
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
    """`ens5f0` for `ens5f0v3`, the form in which Linux names the interface of a virtual function."""
    return _VIRTUAL_SUFFIX.sub("", interface)
