"""What a host keeps for itself, and what its description leaves out."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stead.domain.inventory import Inventory
from stead.topology.machine import read_xml
from stead.topology.omissions import omissions
from stead.topology.reserving import Reserve, reserve
from stead.topology.site import Description, SiteError
from tests.rooms.topology.machines import GPU, bridge, numa, package, pci, topology


def host(*nodes):
    return [
        Description("host"),
        *(
            Description(f"numa{place}", parent="host", inventories=each, traits=frozenset({"HW_NUMA_ROOT"}))
            for place, each in enumerate(nodes)
        ),
    ]


def reserved(descriptions, resource_class):
    return [each.inventories[resource_class].reserved for each in descriptions if resource_class in each.inventories]


@given(st.integers(0, 4000), st.integers(1, 9))
def test_an_amount_of_the_host_is_taken_evenly_from_its_nodes(amount, nodes):
    parts = reserved(reserve(host(*[{"MEMORY_MB": Inventory(4096)}] * nodes), Reserve(amount), Reserve()), "MEMORY_MB")
    assert sum(parts) == amount
    assert max(parts) - min(parts) <= 1


def test_an_amount_of_each_node_is_taken_from_each():
    descriptions = host({"MEMORY_MB": Inventory(4096)}, {"MEMORY_MB": Inventory(4096)})
    assert reserved(reserve(descriptions, Reserve(100, per_node=True), Reserve()), "MEMORY_MB") == [100, 100]


def test_threads_of_guests_of_their_own_are_reserved_before_shared_ones():
    descriptions = host({"PCPU": Inventory(4), "VCPU": Inventory(8)})
    with_reserve = reserve(descriptions, Reserve(), Reserve(6))
    assert (reserved(with_reserve, "PCPU"), reserved(with_reserve, "VCPU")) == ([4], [2])


def test_a_host_without_nodes_reserves_of_its_own():
    alone = [Description("host", inventories={"MEMORY_MB": Inventory(4096)})]
    assert reserved(reserve(alone, Reserve(96, per_node=True), Reserve()), "MEMORY_MB") == [96]


def test_more_than_there_is_cannot_be_reserved():
    with pytest.raises(SiteError, match="numa1: cannot reserve 5,000 MiB, it has 4,096"):
        reserve(host({"MEMORY_MB": Inventory(9000)}, {"MEMORY_MB": Inventory(4096)}), Reserve(10000), Reserve())
    with pytest.raises(SiteError, match="numa0: cannot reserve 1 hardware threads, it has 0"):
        reserve(host({}), Reserve(), Reserve(1))


def left_out(inside, **settings):
    return list(omissions(read_xml(topology(inside, **settings))))


ONE_GPU = bridge(pci("16:00.0", GPU))
TWO_GPUS = bridge(pci("16:00.0", GPU), pci("17:00.0", GPU))
DISK = '<object type="OSDev" name="sda" osdev_type="1"/>'


@pytest.mark.parametrize(
    ("inside", "reasons"),
    [
        (package(numa()) + ONE_GPU, []),
        (package(numa()), ["no I/O devices in the file"]),
        (package(numa()) + TWO_GPUS, ["no links between GPUs"]),
        (package(numa()) + ONE_GPU + DISK, ["disks that are no NVMe disks: sda"]),
        (package(numa(memory=0)) + ONE_GPU, ["1 NUMA node of unknown or forbidden memory"]),
        (package(numa() + numa(1)) + ONE_GPU, ["no memory tier in the file for 1 NUMA node"]),
        (package(numa() + numa(1, extra='subtype="HBM"')) + ONE_GPU, []),
    ],
)
def test_each_kind_of_omission_is_named_with_its_reason(inside, reasons):
    said = left_out(inside)
    assert len(said) == len(reasons), said
    for sentence, reason in zip(said, reasons, strict=True):
        assert sentence.startswith(reason)


def test_offline_threads_are_counted():
    said = left_out(package(numa()) + ONE_GPU, sets='cpuset="0x7" complete_cpuset="0xf" nodeset="0x1"')
    assert said == ["1 hardware thread offline or not allowed to the process that wrote the file"]
