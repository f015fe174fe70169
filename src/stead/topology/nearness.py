"""The place of an object: near one NUMA node, near a group of nodes that is an object in hwloc, or the whole machine.

A place is the set of the nearest NUMA nodes with CPUs, as bits by their numbers; 0 is the whole machine.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from stead.topology.numa import all_threads
from stead.topology.relations import LATENCY
from stead.topology.site import SiteError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from stead.topology.machine import Machine
    from stead.topology.numa import Layout, NumaNode
    from stead.topology.objects import HwObject
    from stead.topology.relations import MemoryAccess

MAX_PLACES = 4096
"""Maximum number of different places on one machine."""

Place: TypeAlias = int

_GROUPING_TYPES = frozenset({"Group", "Package", "Socket", "Die"})
_ATTRIBUTES = ("Latency", "ReadLatency", "WriteLatency", "Bandwidth", "ReadBandwidth", "WriteBandwidth")
"""Memory attributes that determine nearness; of each node the first that the file has applies."""


@dataclass(slots=True)
class Nearness:
    """The places of the objects of one machine.

    Attributes:
        everything: all nodes with CPUs, as bits.
    """

    machine: Machine
    layout: Layout
    everything: Place = field(init=False)
    _with_cpus: list[NumaNode] = field(init=False)
    _beside_cpus: list[NumaNode] = field(init=False)
    _accesses: defaultdict[HwObject, list[MemoryAccess]] = field(init=False)
    _by_nodeset: dict[int, Place] = field(default_factory=dict)
    _by_node: dict[int, Place] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._with_cpus = [node for node in self.layout.nodes if not node.is_beside_cpus]
        self._beside_cpus = [node for node in self.layout.nodes if node.is_beside_cpus]
        self.everything = sum(1 << node.index for node in self._with_cpus)
        self._accesses = defaultdict(list)
        for access in self.machine.accesses:
            self._accesses[access.node].append(access)

    def of_device(self, hw: HwObject) -> Place:
        """The nodes of the object that contains a device; if it lists no nodes, the nodes of its threads."""
        around = hw.locality()
        if around is None:
            return 0
        nodeset = around.bitmap("nodeset")
        if nodeset and (place := self._of_nodeset(nodeset)):
            return place
        threads = all_threads(around) & self.layout.present
        owners = self._owners(threads)
        if owners:
            owned = sum(node.own for node in self._with_cpus if 1 << node.index & owners)
            return owners if threads & ~owned == 0 else 0
        place = 0
        for node in self._beside_cpus:
            if nodeset and node.nodeset & nodeset:
                place |= self.of_memory(node)
        return place

    def of_memory(self, node: NumaNode) -> Place:
        """The nodes whose CPUs are nearest to a node without CPUs.

        Its cpuset decides, or that of the object around it, unless that is the whole machine. Otherwise the best
        initiators of a memory attribute decide, and last the latencies between NUMA nodes.
        """
        if node.index not in self._by_node:
            place = self._by_position(node) or self._by_accesses(node) or self._by_latencies(node)
            self._by_node[node.index] = place
        return self._by_node[node.index]

    def groups(self) -> list[Place]:
        """The sets of several nodes that are objects in hwloc, other than the machine."""
        places = {
            self._of_nodeset(hw.bitmap("nodeset") or 0) or self._owners(all_threads(hw) & self.layout.present)
            for hw in self.machine.root.walk()
            if hw.type in _GROUPING_TYPES
        }
        if len(places) > MAX_PLACES:
            raise SiteError(f"packages and groups of more than {MAX_PLACES} different sets of NUMA nodes")
        return sorted(place for place in places if place.bit_count() > 1)

    def _of_nodeset(self, nodeset: int) -> Place:
        if nodeset not in self._by_nodeset:
            if len(self._by_nodeset) == MAX_PLACES:
                raise SiteError(f"more than {MAX_PLACES} different nodesets")
            near = [node for node in self._with_cpus if node.nodeset & nodeset]
            self._by_nodeset[nodeset] = sum(1 << node.index for node in near)
        return self._by_nodeset[nodeset]

    def _owners(self, threads: int) -> Place:
        return sum(1 << node.index for node in self._with_cpus if node.own & threads)

    def _by_position(self, node: NumaNode) -> Place:
        around: HwObject | None = node.hw
        while around is not None:
            if owners := self._owners(all_threads(around)):
                break
            around = around.parent
        else:
            return 0
        # hwloc 2 gives a node with unknown locality the cpuset of the machine.
        is_known = owners != self.everything or owners.bit_count() == 1
        return owners if is_known else 0

    def _by_accesses(self, node: NumaNode) -> Place:
        for attribute in _ATTRIBUTES:
            values = [access for access in self._accesses.get(node.hw, ()) if access.attribute == attribute]
            best = min((access.value for access in values), default=0)
            threads = 0
            for access in values:
                threads |= access.threads if access.value == best else 0
            if owners := self._owners(threads):
                return owners
        return 0

    def _by_latencies(self, node: NumaNode) -> Place:
        numbers = {other.hw: other.index for other in self._with_cpus}
        for matrix in self.machine.distances:
            if matrix.name != LATENCY or node.hw not in matrix.objects:
                continue
            column = matrix.objects.index(node.hw)
            latencies = {
                numbers[hw]: matrix.values[row * len(matrix.objects) + column]
                for row, hw in enumerate(matrix.objects)
                if hw is not None and hw in numbers
            }
            if latencies:
                best = min(latencies.values())
                return sum(1 << number for number, latency in latencies.items() if latency == best)
        return 0


def used_groups(places: Iterable[Place], groups: Sequence[Place], everything: Place) -> list[Place]:
    """The groups of nodes that are the exact place of some object. Two groups are nested or disjoint.

    Args:
        places: the places of all objects.
        groups: sets of nodes that are objects in hwloc. Another place is replaced by the smallest group around it.
        everything: all nodes with CPUs; the machine itself is not a group.
    """
    used: set[Place] = set()
    # In the order of the places: of two groups that overlap, the first is used.
    for place in dict.fromkeys(places):
        group = innermost(place, groups) if place.bit_count() > 1 else 0
        if group not in (0, everything) and all(_is_apart_or_nested(group, other) for other in used):
            used.add(group)
    return sorted(used, key=lambda group: (group.bit_count(), group))


def innermost(place: Place, groups: Iterable[Place]) -> Place:
    """The smallest of *groups* that contains *place*; 0 if none does."""
    around = [group for group in groups if place & ~group == 0]
    return min(around, key=lambda group: (group.bit_count(), group), default=0)


def _is_apart_or_nested(first: Place, second: Place) -> bool:
    shared = first & second
    return shared in (0, first, second)
