"""A machine's NUMA nodes: their hardware threads, their memory, and their devices."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from stead.domain.provider import MAX_INT
from stead.topology.devices import devices_of
from stead.topology.machine import LATENCY
from stead.topology.site import SiteError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from stead.topology.machine import HwObject, Machine, MemoryAccess


MAX_NUMBER = 1 << 16
"""Numbers of hardware threads and NUMA nodes from here on count as errors of the file."""

GPU_MEMORY = "GPUMemory"
"""hwloc's name for the memory of a GPU that its CPUs can address: Grace Hopper, POWER9 with NVLink."""

MAX_NODES = 1024  # the maximum of Linux

_MIB = 1024 * 1024


@dataclass(slots=True, eq=False)
class NumaNode:
    """A NUMA node with its own hardware threads, as bits, and its usable memory in MiB.

    Attributes:
        kind: hwloc's name for the memory: `HBM`, `CXL-DRAM` and so on; empty if it is ordinary or unknown.
            `GPU_MEMORY` is the memory of a GPU, which guests of the host cannot have as theirs.
        own: the threads nearest to it, including offline and forbidden ones; each thread has one such node.
        threads: the usable ones among them.
    """

    hw: HwObject
    index: int
    nodeset: int
    memory: int
    kind: str = ""
    own: int = 0
    threads: int = 0
    has_siblings: bool = False

    @property
    def is_beside_cpus(self) -> bool:
        """Whether it has no hardware threads of its own, not even unusable ones: other nodes own those near it."""
        return not self.own

    @property
    def is_of_gpu(self) -> bool:
        """Whether it is the memory of a GPU."""
        return self.kind == GPU_MEMORY

    @property
    def gpu_address(self) -> str:
        """The PCI address of the GPU whose memory it is, in small letters; empty if the file does not state it."""
        return self.hw.infos.get("PCIBusID", "").strip().lower()


@dataclass(slots=True)
class Layout:
    """The NUMA nodes by index, all usable threads, usable threads near no node, and memory outside all nodes in MiB.

    Attributes:
        present: all threads of the machine, including offline and forbidden ones.
    """

    nodes: list[NumaNode] = field(default_factory=list)
    usable: int = 0
    homeless: int = 0
    present: int = 0
    homeless_memory: int = 0


def layout_of(machine: Machine) -> Layout:
    """Assign the threads of *machine* to nodes; each usable thread counts once.

    Raises:
        SiteError: more NUMA nodes than the maximum.
    """
    objects = list(machine.root.walk())
    usable = _usable_threads(machine.root, objects)
    present = usable | all_threads(machine.root) & (1 << MAX_NUMBER) - 1
    nodes = _numa_nodes(machine, objects)
    without_owner = present
    # Several nodes may be near the same threads (DRAM and HBM of one package). Each thread counts once: first for
    # ordinary memory, then for the node with the fewest threads, then for the lowest number.
    near = {node.index: all_threads(node.hw) & present for node in nodes}
    _recognize_gpu_memory(machine, nodes)
    for node in nodes:
        if node.is_of_gpu:
            near[node.index] = 0  # hwloc states the threads of the package; none of them is the GPU's
        if node.kind and near[node.index] == present and len(nodes) > 1:
            near[node.index] = 0  # hwloc uses this cpuset for a node with unknown locality; see stead.topology.numa
    for node in sorted(nodes, key=lambda node: (bool(node.kind), near[node.index].bit_count(), node.index)):
        node.own = near[node.index] & without_owner
        node.threads = node.own & usable
        without_owner &= ~node.own
    siblings = _sibling_threads(objects, usable)
    for node in nodes:
        node.has_siblings = (siblings & node.threads).bit_count() > 1
    homeless_memory = 0 if nodes else _memory(machine.root)  # only in hwloc 1 can a machine have no node
    return Layout(nodes, usable, usable & without_owner, present, homeless_memory)


def _recognize_gpu_memory(machine: Machine, nodes: Iterable[NumaNode]) -> None:
    """Name the memory of GPUs on POWER9, which hwloc 1 shows as NUMA nodes without a name.

    Linux makes a NUMA node of each NVIDIA GPU there. The machine has no other memory without threads.
    """
    is_power = machine.infos.get("Architecture", "").lower().startswith("ppc64")
    if is_power and any(device.is_nvidia_gpu for device in devices_of(machine)):
        for node in nodes:
            if not node.kind and "cpuset" in node.hw.attributes and not all_threads(node.hw):
                node.kind = GPU_MEMORY


def all_threads(hw: HwObject) -> int:
    """The threads of an object, online or not; if it lists none, those of the object around it."""
    around: HwObject | None = hw
    while around is not None and "cpuset" not in around.attributes:
        around = around.parent
    if around is None:
        return 0
    return (around.bitmap("cpuset") or 0) | (around.bitmap("complete_cpuset") or 0)


def _usable_threads(root: HwObject, objects: Iterable[HwObject]) -> int:
    """Threads that exist, are online, and that the process that ran lstopo was allowed to use."""
    numbers = {hw.number("os_index") for hw in objects if hw.type == "PU"}
    threads = 0
    for number in numbers:
        # A bit at a greater number of a hostile file would need gigabytes.
        if number is not None and number < MAX_NUMBER:
            threads |= 1 << number
    for limit in ("cpuset", "online_cpuset", "allowed_cpuset"):
        if (bits := root.bitmap(limit)) is not None:
            threads &= bits
    return threads


def _sibling_threads(objects: Iterable[HwObject], usable: int) -> int:
    """Threads that share their core with another usable thread."""
    siblings = 0
    for hw in objects:
        if hw.type == "Core":
            threads = all_threads(hw) & usable
            siblings |= threads if threads.bit_count() > 1 else 0
    return siblings


def _numa_nodes(machine: Machine, objects: Iterable[HwObject]) -> list[NumaNode]:
    allowed = machine.root.bitmap("allowed_nodeset")
    nodes: dict[int, NumaNode] = {}
    for hw in objects:
        if hw.type != "NUMANode":
            continue
        if len(nodes) == MAX_NODES:
            raise SiteError(f"more than {MAX_NODES} NUMA nodes")
        index = hw.number("os_index")
        if index is None or index in nodes or index >= MAX_NUMBER:
            index = max(nodes, default=-1) + 1
        nodeset = hw.bitmap("nodeset") or 1 << index
        is_allowed = allowed is None or bool(nodeset & allowed)
        nodes[index] = NumaNode(hw, index, nodeset, _memory(hw) if is_allowed else 0, _kind(hw))
    return [nodes[index] for index in sorted(nodes)]


def _memory(hw: HwObject) -> int:
    return min((hw.number("local_memory") or 0) // _MIB, MAX_INT)


def _kind(hw: HwObject) -> str:
    """The kind of memory, if it is not DRAM: an info attribute in hwloc 1; otherwise a DAX device may reveal it."""
    remarks = (hw.attributes.get("subtype"), hw.infos.get("Type"), hw.infos.get("DAXType"))
    kind = next(filter(None, remarks), "").strip()
    return "" if kind == "DRAM" else kind


# The place of an object: near one NUMA node, near a group of nodes that is an object in hwloc, or the whole machine.
#
# A place is the set of the nearest NUMA nodes with CPUs, as bits by their numbers; 0 is the whole machine.


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
