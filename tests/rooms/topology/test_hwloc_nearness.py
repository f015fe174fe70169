"""Where memory without CPUs and shared devices stand in a machine's tree."""

import pytest

from stead.topology.hwloc import read_machine
from stead.topology.site import Site
from tests.checkout import ROOT
from tests.rooms.topology.machines import (
    GPU,
    bridge,
    latencies,
    memory_attribute,
    numa,
    os_device,
    package,
    pci,
    read,
    topology,
    traits,
    what,
    where,
)

SAMPLES = ROOT / "samples" / "site"

ALONE = "CUSTOM_NUMA_MEMORY_ONLY"
EIGHT = 'cpuset="0xff" nodeset="0xff"'
HIGHER, LOWER = 5, 6
"""Flags of a memory attribute that needs an initiator."""


def group(inside: str, cpus: int, nodes: int) -> str:
    return f'<object type="Group" cpuset="{cpus:#x}" nodeset="{nodes:#x}">{inside}</object>'


def four_nodes(inside: str = "", *, first: str = "", second: str = "", relations: str = "") -> Site:
    """Two packages of two nodes with two threads each, *first* and *second* in them, and *inside* beside them."""
    packages = [
        package(numa(2 * n, 3 << 4 * n) + numa(2 * n + 1, 12 << 4 * n) + objects, cpus=15 << 4 * n, nodes=3 << 2 * n)
        for n, objects in enumerate((first, second))
    ]
    return read("".join(packages) + inside, sets=EIGHT, relations=relations)


# Memory without CPUs


def test_the_samples_hbm_stands_below_the_node_of_its_cores():
    site = read_machine((SAMPLES / "hbm.xml").read_bytes(), "h")
    assert {name: parent for name, parent in where(site).items() if "NUMA" in name} == {
        "h_NUMA0": "h",
        "h_NUMA1": "h",
        "h_NUMA2": "h_NUMA0",
        "h_NUMA3": "h_NUMA1",
    }
    assert traits(site, "h_NUMA0") == {"HW_NUMA_ROOT", "HW_CPU_HYPERTHREADING"}
    assert traits(site, "h_NUMA2") == {"CUSTOM_MEMORY_HBM", ALONE}
    assert what(site)["h_NUMA2"] == {"MEMORY_MB": 16384}


def test_the_samples_cxl_memory_stands_below_the_group_or_node_it_is_near_to():
    site = read_machine((SAMPLES / "cxl.xml").read_bytes(), "h")
    assert where(site)["h_NUMA4"] == "h_NUMA0-1"
    assert where(site)["h_NUMA5"] == "h_NUMA3"
    assert traits(site, "h_NUMA4") == {"CUSTOM_MEMORY_CXL_DRAM", ALONE}


@pytest.mark.parametrize("dram", [0, 1])
@pytest.mark.parametrize("around", ["{}", '<object type="MemCache" cpuset="0xf" nodeset="0x3">{}</object>'])
@pytest.mark.parametrize("subtype", ["HBM", "MCDRAM", "CXL-DRAM", "NVM", "SPM", "GPUMemory"])
def test_cores_belong_to_ordinary_memory_whatever_the_order_and_caches(dram: int, around: str, subtype: str):
    special = numa(1 - dram, extra=f'subtype="{subtype}"')
    site = read(package(around.format(numa(dram, extra='subtype="DRAM"')) + around.format(special), nodes=3))
    assert what(site)[f"h_NUMA{dram}"]["PCPU"] == 4
    assert traits(site, f"h_NUMA{dram}") == {"HW_NUMA_ROOT"}
    assert where(site)[f"h_NUMA{1 - dram}"] == f"h_NUMA{dram}"
    assert ALONE in traits(site, f"h_NUMA{1 - dram}")


def test_cores_without_ordinary_memory_belong_to_the_hbm():
    site = read(package(numa(0, 3, extra='subtype="HBM"') + numa(1, 12, extra='subtype="HBM"'), nodes=3))
    assert [traits(site, name) for name in ("h_NUMA0", "h_NUMA1")] == [{"HW_NUMA_ROOT", "CUSTOM_MEMORY_HBM"}] * 2
    assert where(site)["h_NUMA1"] == "h"


def test_memory_of_a_whole_package_with_several_nodes_stands_below_their_group():
    site = four_nodes(second=numa(4, 0xF0))
    assert (where(site)["h_NUMA4"], where(site)["h_NUMA2"], where(site)["h_NUMA0"]) == ("h_NUMA2-3", "h_NUMA2-3", "h")
    assert traits(site, "h_NUMA2-3") == {"CUSTOM_NUMA_GROUP"}
    assert traits(site, "h_NUMA4") == {ALONE}


def test_a_node_without_any_cpuset_is_near_the_cpus_of_what_is_around_it():
    assert where(four_nodes(second=numa(4, 0)))["h_NUMA4"] == "h_NUMA2-3"
    inner = group(numa(1, 12) + numa(2, 0), 12, 6)
    assert where(read(package(numa(0, 3) + inner, nodes=7)))["h_NUMA2"] == "h_NUMA1"


NEAR_1 = (4, 'initiator_cpuset="0xc"', 10)
NEAR_2 = (4, 'initiator_cpuset="0x30"', 20)


@pytest.mark.parametrize(
    ("attributes", "parent"),
    [
        (memory_attribute("Latency", LOWER, NEAR_1, NEAR_2), "h_NUMA1"),
        (memory_attribute("Bandwidth", HIGHER, NEAR_1, NEAR_2), "h_NUMA2"),
        (memory_attribute("Bandwidth", HIGHER, NEAR_2) + memory_attribute("Latency", LOWER, NEAR_1), "h_NUMA1"),
        (memory_attribute("ReadBandwidth", HIGHER, NEAR_1), "h_NUMA1"),
        (memory_attribute("Latency", LOWER, NEAR_1, (4, 'initiator_cpuset="0x3"', 10)), "h_NUMA0-1"),
        (memory_attribute("Latency", LOWER, NEAR_1, (4, 'initiator_cpuset="0x30"', 10)), "h"),
        (
            memory_attribute(
                "Latency", LOWER, (4, 'initiator_obj_type="NUMANode" initiator_obj_gp_index="103"', 1), NEAR_1
            ),
            "h_NUMA3",
        ),
        (memory_attribute("Latency", LOWER, (4, 'initiator_obj_type="Core" initiator_obj_gp_index="9"', 1)), "h"),
        (memory_attribute("Latency", LOWER, (77, 'initiator_cpuset="0xc"', 1)), "h"),
        (memory_attribute("Latency", LOWER, (4, 'initiator_obj_type="NUMANode" initiator_obj_gp_index="104"', 1)), "h"),
        (memory_attribute("Capacity", 1, (4, "", 1)), "h"),
        (memory_attribute("Colour", HIGHER, NEAR_1), "h"),
    ],
)
@pytest.mark.parametrize("cpus", [0, 0xFF])
def test_memory_of_unknown_position_is_near_its_best_initiators(attributes: str, parent: str, cpus: int):
    """hwloc 2 gives such a node the cpuset of the machine, hwloc 1 an empty one."""
    assert where(four_nodes(numa(4, cpus), relations=attributes))["h_NUMA4"] == parent


FIVE = ["10 12 20 20 {}", "12 10 20 20 {}", "20 20 10 12 {}", "20 20 12 10 {}", "1 2 3 4 10"]


@pytest.mark.parametrize(
    ("to_memory", "parent"),
    [
        ((14, 17, 24, 24), "h_NUMA0"),  # as the CPUs see it: the row of the memory says the opposite
        ((24, 24, 24, 14), "h_NUMA3"),
        ((24, 24, 14, 14), "h_NUMA2-3"),
        ((14, 24, 14, 24), "h"),
        ((14, 14, 14, 14), "h"),
    ],
)
@pytest.mark.parametrize("attributes", ['kind="5" name="NUMALatency"', 'kind="5"'])
def test_memory_of_which_nothing_else_is_known_is_near_the_least_latency(to_memory, parent: str, attributes: str):
    rows = [row.format(latency) for row, latency in zip(FIVE, (*to_memory, 10), strict=True)]
    site = four_nodes(numa(4, 0xFF), relations=latencies(*rows, attributes=attributes))
    assert where(site)["h_NUMA4"] == parent


def test_position_counts_more_than_attributes_and_attributes_more_than_latencies():
    rows = [row.format(latency) for row, latency in zip(FIVE, (1, 9, 9, 9, 9), strict=True)]
    both = latencies(*rows) + memory_attribute("Latency", LOWER, NEAR_1)
    assert where(four_nodes(second=numa(4, 0xC0), relations=both))["h_NUMA4"] == "h_NUMA3"
    assert where(four_nodes(numa(4, 0xFF), relations=both))["h_NUMA4"] == "h_NUMA1"
    assert where(four_nodes(numa(4, 0xFF), relations=latencies(*rows)))["h_NUMA4"] == "h_NUMA0"


def test_other_matrices_say_nothing_of_nearness():
    rows = ["10 1", "1 10"]
    bandwidth = latencies(*rows, attributes='kind="9" name="Mine"')
    assert where(four_nodes(numa(4, 0), relations=bandwidth))["h_NUMA4"] == "h"


def test_special_memory_of_unknown_position_takes_no_cpus_that_have_no_memory():
    cxl = numa(1, extra='subtype="CXL-DRAM"')
    site = read(package(numa(0, 3), cpus=3) + package(cpus=12, nodes=0) + cxl)
    assert what(site) == {"h": {"PCPU": 2}, "h_NUMA0": {"PCPU": 2, "MEMORY_MB": 1024}, "h_NUMA1": {"MEMORY_MB": 1024}}


def test_a_node_whose_own_cpus_cannot_be_used_gives_memory_and_is_near_no_others():
    sets = 'cpuset="0x3" complete_cpuset="0xf" nodeset="0x3"'
    offline = numa(1, 0, extra='complete_cpuset="0xc"')
    site = read(package(numa(0, 3) + offline, nodes=3), sets=sets)
    assert (where(site)["h_NUMA1"], what(site)["h_NUMA1"]) == ("h", {"MEMORY_MB": 1024})
    assert traits(site, "h_NUMA1") == {ALONE}
    assert traits(site, "h_NUMA0") == {"HW_NUMA_ROOT"}


def test_memory_of_a_machine_without_cpus_is_the_hosts():
    site = read(numa(0, 0), sets='cpuset="0x0" nodeset="0x1"')
    assert (where(site)["h_NUMA0"], traits(site, "h_NUMA0")) == ("h", {ALONE})


def test_what_a_dax_device_says_of_memory_is_a_trait():
    node = numa(1).replace("/>", '><info name="DAXType" value="NVM"/></object>')
    assert traits(read(package(numa(0) + node, nodes=3)), "h_NUMA1") == {"CUSTOM_MEMORY_NVM", ALONE}


# Devices that several nodes share


def test_a_device_of_a_package_with_several_nodes_stands_beside_them_in_their_group():
    site = four_nodes(first=bridge(pci("01:00.0", GPU)))
    assert where(site) == {
        "h": None,
        "h_NUMA0-1": "h",
        "h_NUMA0": "h_NUMA0-1",
        "h_NUMA1": "h_NUMA0-1",
        "h_NUMA2": "h",
        "h_NUMA3": "h",
        "h_GPU_0000:01:00.0": "h_NUMA0-1",
    }
    assert (what(site)["h_NUMA0-1"], traits(site, "h_NUMA0-1")) == ({}, {"CUSTOM_NUMA_GROUP"})


def test_a_group_that_shares_nothing_is_no_provider():
    site = four_nodes(first=group("", 0xF, 3))
    assert set(site.providers) == {"h", "h_NUMA0", "h_NUMA1", "h_NUMA2", "h_NUMA3"}


def test_what_all_nodes_share_is_the_hosts():
    nodes = numa(0, 3) + numa(1, 12)
    assert set(where(read(package(nodes + bridge(pci("01:00.0", GPU)), nodes=3))).values()) == {None, "h"}


def test_groups_stand_in_groups():
    inner = group(numa(0, 1) + numa(1, 2) + bridge(pci("01:00.0", GPU)), 3, 3)
    outer = group(inner + numa(2, 4) + bridge(pci("02:00.0", GPU)), 7, 7)
    site = read(package(outer + numa(3, 8), nodes=15), sets='cpuset="0xf" nodeset="0xf"')
    assert where(site) == {
        "h": None,
        "h_NUMA0-2": "h",
        "h_NUMA0-1": "h_NUMA0-2",
        "h_NUMA0": "h_NUMA0-1",
        "h_NUMA1": "h_NUMA0-1",
        "h_NUMA2": "h_NUMA0-2",
        "h_NUMA3": "h",
        "h_GPU_0000:01:00.0": "h_NUMA0-1",
        "h_GPU_0000:02:00.0": "h_NUMA0-2",
    }


def test_a_group_is_named_as_linux_lists_nodes():
    nodes = group(numa(0, 1) + numa(2, 2) + numa(3, 4) + bridge(pci("01:00.0", GPU)), 7, 13)
    site = read(package(nodes + numa(1, 8), nodes=15), sets='cpuset="0xf" nodeset="0xf"')
    assert where(site)["h_GPU_0000:01:00.0"] == "h_NUMA0,2-3"


def test_memory_near_a_set_of_nodes_without_object_stands_below_the_smallest_group_around_it():
    nodes = group(numa(0, 1) + numa(1, 2) + numa(2, 4), 7, 7)
    near = memory_attribute("Latency", LOWER, (4, 'initiator_cpuset="0x5"', 1))
    memory = numa(4, 0xF)
    site = read(package(nodes + numa(3, 8), nodes=15) + memory, sets='cpuset="0xf" nodeset="0x1f"', relations=near)
    assert where(site)["h_NUMA4"] == "h_NUMA0-2"


def test_groups_that_cross_are_not_both_providers():
    """Which no machine has, but a file may say."""
    crossing = group(bridge(pci("01:00.0", GPU)), 6, 6)
    nodes = group(numa(0, 1) + numa(1, 2) + bridge(pci("02:00.0", GPU)), 3, 3) + numa(2, 4) + numa(3, 8)
    site = read(package(nodes + crossing, nodes=15), sets='cpuset="0xf" nodeset="0xf"')
    assert {name: parent for name, parent in where(site).items() if "GPU" in name} == {
        "h_GPU_0000:02:00.0": "h_NUMA0-1",
        "h_GPU_0000:01:00.0": "h",
    }


def test_a_device_near_memory_only_is_near_the_cpus_of_that_memory():
    device = group(bridge(pci("01:00.0", GPU)), 0, 0x10)
    near = memory_attribute("Latency", LOWER, NEAR_2)
    assert where(four_nodes(numa(4, 0) + device, relations=near))["h_GPU_0000:01:00.0"] == "h_NUMA2"


# hwloc 1


def first_format(inside: str, sets: str = 'cpuset="0xf" online_cpuset="0x7" nodeset="0x3"') -> Site:
    return read_machine(topology(inside, version="", sets=sets), "h")


def around(index: int, cpus: int, inside: str, memory: int = 1 << 30) -> str:
    return (
        f'<object type="NUMANode" os_index="{index}" cpuset="{cpus:#x}" nodeset="{1 << index:#x}" '
        f'local_memory="{memory}">{inside}</object>'
    )


def test_nodes_of_hwloc_1_stand_around_their_cores_and_devices():
    mcdram = around(1, 0, '<info name="Type" value="MCDRAM"/>')
    device = bridge(pci("01:00.0", "0200 [8086:1592]", os_device("mlx5_0", 3)))
    site = first_format(f'<object type="Group" cpuset="0xf">{around(0, 15, package() + device)}{mcdram}</object>')
    assert what(site)["h_NUMA0"] == {"PCPU": 3, "MEMORY_MB": 1024}  # one thread is offline
    assert (where(site)["h_NUMA1"], where(site)["h_NIC_0000:01:00.0"]) == ("h_NUMA0", "h_NUMA0")
    assert traits(site, "h_NUMA1") == {"CUSTOM_MEMORY_MCDRAM", ALONE}
    assert "HW_NIC_OFFLOAD_RDMA" in traits(site, "h_NIC_0000:01:00.0")


def test_a_machine_of_hwloc_1_without_nodes_has_its_memory_itself():
    site = first_format(package(nodes=0), sets=f'cpuset="0xf" local_memory="{3 << 30}"')
    assert what(site) == {"h": {"PCPU": 4, "MEMORY_MB": 3072}}
