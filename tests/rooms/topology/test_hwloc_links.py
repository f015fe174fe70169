"""Devices that are linked with each other directly, and matrices that cannot be read."""

import pytest

from stead.topology.hwloc import read_machine
from stead.topology.machine import MAX_RELATED_OBJECTS
from stead.topology.site import Site, SiteError
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
    where,
)

SAMPLES = ROOT / "samples" / "site"
DOMAIN = "CUSTOM_NVLINK_DOMAIN"


def gpu(number: int) -> str:
    """With the index 10 + *number*, and a compute device with 20 + *number*."""
    compute = os_device(f"nvml{number}", 12).replace("<object ", f'<object gp_index="{20 + number}" ', 1)
    return pci(f"0{number}:00.0", GPU, compute).replace("<object ", f'<object gp_index="{10 + number}" ', 1)


def switch(number: int) -> str:
    return pci(f"1{number}:00.0", "0680 [10de:1ac2]").replace("<object ", f'<object gp_index="{30 + number}" ', 1)


def name(number: int) -> str:
    return f"h_GPU_0000:0{number}:00.0"


def links(*pairs: tuple[str, str], matrix: str = "NVLinkBandwidth") -> str:
    """A matrix between objects of several types, linked in both directions."""
    ends = sorted({end for pair in pairs for end in pair})
    rows = [
        " ".join("25000" if (a, b) in pairs or (b, a) in pairs else "1000000" if a == b else "0" for b in ends)
        for a in ends
    ]
    values = "".join(f"<u64values>{row} </u64values>" for row in rows)
    return (
        f'<distances2hetero nbobjs="{len(ends)}" kind="25" name="{matrix}"><indexes>{" ".join(ends)} </indexes>'
        f"{values}</distances2hetero>"
    )


def pair(first: int, second: int) -> tuple[str, str]:
    return f"OSDev:{20 + first}", f"OSDev:{20 + second}"


def machine(first: str, second: str, relations: str) -> Site:
    """Two packages with a node each, and devices."""
    inside = package(numa(0, 3) + bridge(first), cpus=3) + package(numa(1, 12) + bridge(second), cpus=12, nodes=2)
    return read(inside, relations=relations)


def holders(site: Site, trait: str = DOMAIN) -> set[str]:
    return {name for name, described in site.providers.items() if trait in described.traits}


def test_the_samples_pairs_have_providers_of_their_own_where_others_stand_beside_them():
    site = read_machine((SAMPLES / "nvlink.xml").read_bytes(), "h")
    assert holders(site) == {"h_NVLINK0", "h_NVLINK1", "h_NUMA1"}
    assert where(site)["h_NVLINK0"] == "h_NUMA0"
    assert [where(site)[f"h_GPU_0000:{bus}:00.0"] for bus in ("17", "18", "19", "1a")] == [
        "h_NVLINK0", "h_NVLINK0", "h_NVLINK1", "h_NVLINK1"
    ]  # fmt: skip
    assert [where(site)[f"h_GPU_0000:{bus}:00.0"] for bus in ("81", "82", "83")] == ["h_NUMA1"] * 3
    assert traits(site, "h_GPU_0000:81:00.0") == {"CUSTOM_NVLINK", "CUSTOM_NVLINK_DOMAIN_2"}
    assert traits(site, "h_GPU_0000:83:00.0") == set()


def test_gpus_that_are_all_linked_are_the_hosts_domain():
    site = machine(gpu(0) + gpu(1), gpu(2) + gpu(3), links(pair(0, 1), pair(1, 2), pair(2, 3)))
    assert holders(site) == {"h"}
    assert holders(site, "CUSTOM_NVLINK_DOMAIN_0") == {name(n) for n in range(4)}


def test_gpus_of_one_node_that_are_all_linked_are_the_nodes_domain():
    site = machine(gpu(0) + gpu(1), gpu(2) + gpu(3), links(pair(0, 1), pair(2, 3)))
    assert holders(site) == {"h_NUMA0", "h_NUMA1"}
    assert where(site)[name(0)] == "h_NUMA0"


def test_switches_join_what_is_linked_to_them():
    through = links(("OSDev:20", "PCIDev:30"), ("PCIDev:30", "PCIDev:31"), ("PCIDev:31", "OSDev:22"))
    site = machine(gpu(0) + gpu(1) + switch(0), gpu(2) + switch(1), through)
    assert holders(site, "CUSTOM_NVLINK_DOMAIN_0") == {name(0), name(2)}
    assert holders(site) == {"h"}


def test_domains_that_are_spread_over_the_same_nodes_are_told_apart_by_number():
    site = machine(gpu(0) + gpu(1), gpu(2) + gpu(3), links(pair(0, 2), pair(1, 3)))
    assert holders(site) == set()
    assert holders(site, "CUSTOM_NVLINK_DOMAIN_0") == {name(0), name(2)}
    assert holders(site, "CUSTOM_NVLINK_DOMAIN_1") == {name(1), name(3)}
    assert holders(site, "CUSTOM_NVLINK") == {name(n) for n in range(4)}


def test_a_domain_of_some_gpus_beside_one_that_is_spread_is_a_provider():
    site = machine(gpu(0) + gpu(1) + gpu(2), gpu(3), links(pair(0, 1), pair(2, 3)))
    assert holders(site) == {"h_NVLINK0"}
    assert where(site)[name(2)] == "h_NUMA0"


def test_a_processor_with_links_joins_no_gpus():
    inside = package(numa() + bridge(gpu(0) + gpu(1))).replace("<object ", '<object gp_index="5" ', 1)
    to_processor = links(("OSDev:20", "Package:5"), ("Package:5", "OSDev:21"))
    assert holders(read(inside, relations=to_processor), "CUSTOM_NVLINK") == set()


@pytest.mark.parametrize(
    ("matrix", "link"), [("NVLinkBandwidth", "NVLINK"), ("XGMIBandwidth", "XGMI"), ("XeLinkBandwidth", "XELINK")]
)
def test_links_of_other_vendors_have_names_of_their_own(matrix: str, link: str):
    site = machine(gpu(0) + gpu(1), gpu(2), links(pair(0, 1), matrix=matrix))
    assert holders(site, f"CUSTOM_{link}_DOMAIN") == {"h_NUMA0"}
    assert traits(site, name(0)) == {f"CUSTOM_{link}", f"CUSTOM_{link}_DOMAIN_0"}


def test_two_kinds_of_links_between_the_same_gpus_are_two_domains():
    both = links(pair(0, 1)) + links(pair(0, 1), matrix="XGMIBandwidth") + links(pair(2, 3), matrix="XGMIBandwidth")
    site = machine(gpu(0) + gpu(1) + gpu(2) + gpu(3), "", both + links(pair(2, 3)))
    assert {where(site)[name(n)] for n in (0, 1)} == {"h_NVLINK0"}
    assert holders(site, "CUSTOM_XGMI_DOMAIN") == holders(site) == {"h_NVLINK0", "h_NVLINK1"}


def test_gpus_that_are_shown_without_pci_are_linked_too():
    shown = "".join(os_device(f"nvml{n}", 12).replace("<object ", f'<object gp_index="{20 + n}" ', 1) for n in range(2))
    assert holders(read(package(numa() + shown), relations=links(pair(0, 1)))) == {"h_NUMA0"}


@pytest.mark.parametrize(
    "relations",
    [
        links(("OSDev:20", "OSDev:20")),  # itself
        links(("OSDev:20", "OSDev:99")),  # lstopo left the other out
        links(("OSDev:98", "OSDev:99")),
        links(("OSDev:20", "PCIDev:10")),  # its own function
        links(("OSDev:20", "PCIDev:30")),  # a switch that leads nowhere
        links(pair(0, 1), matrix="Mine"),
        links(pair(0, 1)).replace("25000", "0"),
    ],
)
def test_links_to_nothing_are_no_domain(relations: str):
    site = machine(gpu(0) + switch(0), gpu(1), relations)
    assert holders(site, "CUSTOM_NVLINK") == holders(site) == set()


# Files that are wrong


TWO = latencies("10 20", "20 10")


@pytest.mark.parametrize(
    ("relations", "complaint"),
    [
        (TWO.replace(' nbobjs="2"', ""), "distances NUMALatency: nbobjs is '', not a number from 1 to 1024"),
        (TWO.replace('nbobjs="2"', 'nbobjs="0"'), "nbobjs is '0'"),
        (TWO.replace('nbobjs="2"', 'nbobjs="-2"'), "nbobjs is '-2'"),
        (TWO.replace('nbobjs="2"', f'nbobjs="{MAX_RELATED_OBJECTS + 1}"'), "nbobjs is '1025'"),
        (TWO.replace('nbobjs="2"', f'nbobjs="{"9" * 5000}"'), "nbobjs is '9999999999"),
        (TWO.replace('nbobjs="2"', 'nbobjs="3"'), "it does not have 3 indexes and 3 x 3 values"),
        (TWO.replace("<indexes>0 1</indexes>", ""), "it does not have 2 indexes and 2 x 2 values"),
        (latencies("10 20", "20 10 30"), "it does not have 2 indexes and 2 x 2 values"),
        (latencies("10 20", "20 -10"), "'-10' is not a number"),
        (latencies("10 20", "20 1e3"), "'1e3' is not a number"),
        (latencies("10 20", f"20 {'9' * 100}"), f"'{'9' * 40}' is not a number"),
        (latencies("10 20", "20 " + "9" * 5000), "it has more text than values"),
        (TWO.replace("0 1</indexes>", "0 x</indexes>"), "'x' is not a number"),
        (links(pair(0, 1)).replace("OSDev:20", "OSDev"), "distances NVLinkBandwidth: 'OSDev' is not a number"),
        (memory_attribute("Latency", 6).replace('flags="6"', ""), "memory attribute 'Latency': flags are missing"),
        (memory_attribute("Latency", 6, (0, "", -1)), "memory attribute 'Latency': a value is missing or no number"),
        (
            memory_attribute("Latency", 6, (0, "", 1)).replace('target_obj_gp_index="100"', ""),
            "a target_obj_gp_index is missing or no number",
        ),
    ],
)
def test_relations_that_cannot_be_read_are_refused(relations: str, complaint: str):
    with pytest.raises(SiteError) as refused:
        read_machine(topology(package(numa()), relations=relations), "h", source="m.xml")
    assert str(refused.value).startswith("m.xml: ")
    assert complaint in str(refused.value)
    assert len(str(refused.value)) < 200


@pytest.mark.parametrize(
    "relations",
    [
        "<indexes>0 1</indexes><u64values>1 2 3</u64values>",
        '<memattr_value value="1"/>',
        memory_attribute("Latency", 6, (0, 'initiator_cpuset="nonsense"', 1)),
        memory_attribute("Latency", 6, (0, 'initiator_cpuset="0xf...f"', 1)),
        memory_attribute("Latency", 6, (0, "", 1)),
        latencies("10 20", "20 10", attributes='kind="5" name="NUMALatency" more="x"') * 2,
        latencies("10 20", "20 " + "9" * 5000, attributes='name="Mine"'),
    ],
)
def test_relations_that_say_nothing_are_left_aside(relations: str):
    assert set(read(package(numa()), relations=relations).providers) == {"h", "h_NUMA0"}
