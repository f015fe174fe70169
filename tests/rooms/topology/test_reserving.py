"""What a host keeps for itself, and what its description leaves out."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stead.domain.provider import Inventory
from stead.topology.hwloc import Reserve, reserve
from stead.topology.site import Description, SiteError


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
