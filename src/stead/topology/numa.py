"""A machine's NUMA nodes: which hardware threads and how much memory are whose, and what is attached where."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from stead.domain.inventory import MAX_INT
from stead.topology.site import SiteError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from stead.topology.machine import HwObject, Machine

MAX_NUMBER = 1 << 16
"""Numbers of hardware threads and NUMA nodes from here on are believed to be errors of the file."""

MAX_NODES = 1024  # as many as Linux knows

_MIB = 1024 * 1024


@dataclass(slots=True, eq=False)
class NumaNode:
    """A NUMA node with the hardware threads that are its own, as bits, and its usable memory in MiB."""

    hw: HwObject
    index: int
    nodeset: int
    memory: int
    threads: int = 0
    has_siblings: bool = False


@dataclass(slots=True)
class Layout:
    """The NUMA nodes by index, all usable hardware threads, and those of them that are near no node."""

    nodes: list[NumaNode] = field(default_factory=list)
    usable: int = 0
    homeless: int = 0


def layout_of(machine: Machine) -> Layout:
    """Who owns which threads of *machine*: each usable one is counted once.

    Raises:
        SiteError: more NUMA nodes than any machine has.
    """
    objects = list(machine.root.walk())
    usable = _usable_threads(machine.root, objects)
    nodes = _numa_nodes(machine.root, objects)
    homeless = usable
    # Two nodes may be near the same threads (DRAM and HBM of one package): each thread is counted once, for the node
    # with the fewest threads, then for the one that the system numbers first.
    near = {node.index: (_cpuset(node.hw) or 0) & usable for node in nodes}
    for node in sorted(nodes, key=lambda node: (near[node.index].bit_count(), node.index)):
        node.threads = near[node.index] & homeless
        homeless &= ~node.threads
    siblings = _sibling_threads(objects, usable)
    for node in nodes:
        node.has_siblings = (siblings & node.threads).bit_count() > 1
    return Layout(nodes, usable, homeless)


def _usable_threads(root: HwObject, objects: Iterable[HwObject]) -> int:
    """Threads that exist, are online, and that the process which looked was allowed to use."""
    numbers = {hw.number("os_index") for hw in objects if hw.type == "PU"}
    threads = 0
    for number in numbers:
        if number is not None and number < MAX_NUMBER:
            threads |= 1 << number
    for limit in ("cpuset", "allowed_cpuset"):
        if (bits := root.bitmap(limit)) is not None:
            threads &= bits
    return threads


def _sibling_threads(objects: Iterable[HwObject], usable: int) -> int:
    """Threads that share their core with another usable one."""
    siblings = 0
    for hw in objects:
        if hw.type == "Core":
            threads = (_cpuset(hw) or 0) & usable
            siblings |= threads if threads.bit_count() > 1 else 0
    return siblings


def _numa_nodes(root: HwObject, objects: Iterable[HwObject]) -> list[NumaNode]:
    allowed = root.bitmap("allowed_nodeset")
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
        memory = (hw.number("local_memory") or 0) // _MIB if is_allowed else 0
        nodes[index] = NumaNode(hw, index, nodeset, min(memory, MAX_INT))
    return [nodes[index] for index in sorted(nodes)]


def _cpuset(hw: HwObject) -> int | None:
    around: HwObject | None = hw
    while around is not None and "cpuset" not in around.attributes:
        around = around.parent
    return None if around is None else around.bitmap("cpuset")


def nearest(hw: HwObject, layout: Layout) -> NumaNode | None:
    """The one NUMA node that a device is attached to; None if it is attached to none or to several."""
    around = hw.locality()
    if around is None:
        return None
    nodeset = around.bitmap("nodeset")
    if nodeset is not None:
        near = [node for node in layout.nodes if node.nodeset & nodeset]
    else:
        threads = (_cpuset(around) or 0) & layout.usable
        near = [node for node in layout.nodes if threads and node.threads & threads == threads]
    if len(near) > 1:  # memory without CPUs (HBM, CXL) is no place to attach devices to
        near = [node for node in near if node.threads]
    return near[0] if len(near) == 1 else None
