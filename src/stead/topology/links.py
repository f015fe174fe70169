"""Direct links between a machine's devices: NVLink, XGMI (Infinity Fabric) or Xe Link."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from stead.topology.relations import LINKS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from stead.topology.devices import Device
    from stead.topology.machine import Machine
    from stead.topology.objects import HwObject
    from stead.topology.relations import Distances

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
