import pytest
from hypothesis import given
from hypothesis import strategies as st

from stead.domain.provider import MAX_INT, Inventory
from stead.topology.document import dump, load
from stead.topology.hwloc import Options, read_machine
from stead.topology.machine import MAX_DEPTH
from stead.topology.site import SiteError
from tests.checkout import ROOT
from tests.rooms.topology.machines import (
    GPU,
    NIC,
    NVME,
    VF,
    bridge,
    numa,
    os_device,
    package,
    pci,
    read,
    topology,
    what,
    where,
)

SAMPLES = ROOT / "samples" / "site"
MACHINES = sorted(SAMPLES.glob("*.xml"))


# What there is


def test_the_sample_compute_host_has_nodes_virtual_functions_and_disks():
    site = read_machine((SAMPLES / "compute.xml").read_bytes(), "c")
    assert what(site) == {
        "c": {},
        "c_NUMA0": {"PCPU": 16, "MEMORY_MB": 65536},
        "c_NIC_0000:16:00.0": {"SRIOV_NET_VF": 4},
        "c_NIC_0000:16:00.1": {"SRIOV_NET_VF": 4},
        "c_NVME_0000:17:00.0": {"DISK_GB": 1788},
        "c_NUMA1": {"PCPU": 16, "MEMORY_MB": 65536},
        "c_NIC_0000:81:00.0": {"SRIOV_NET_VF": 4},
        "c_NIC_0000:81:00.1": {"SRIOV_NET_VF": 4},
        "c_NVME_0000:82:00.0": {"DISK_GB": 1788},
    }
    assert where(site)["c_NVME_0000:82:00.0"] == "c_NUMA1"
    assert site.providers["c"].traits == {"HW_ARCH_X86_64", "CUSTOM_HAS_NIC", "CUSTOM_HAS_SRIOV_VF", "CUSTOM_HAS_NVME"}
    assert site.providers["c_NUMA0"].traits == {"HW_NUMA_ROOT", "HW_CPU_HYPERTHREADING"}
    assert site.providers["c_NIC_0000:16:00.1"].traits >= {"HW_NIC_SRIOV", "CUSTOM_NIC_ETHERNET"}
    assert site.providers["c_NVME_0000:17:00.0"].traits >= {"STORAGE_DISK_SSD", "CUSTOM_DISK_NVME"}


def test_the_sample_gpu_host_has_two_gpus_on_each_node_and_its_console_is_none():
    site = read_machine((SAMPLES / "gpu.xml").read_bytes(), "g")
    gpus = {name: parent for name, parent in where(site).items() if "_GPU_" in name}
    assert sorted(gpus.values()) == ["g_NUMA0", "g_NUMA0", "g_NUMA1", "g_NUMA1"]
    assert all(what(site)[name] == {"PGPU": 1} for name in gpus)
    assert "CUSTOM_GPU_NVIDIA_L40S" in site.providers["g_GPU_0000:17:00.0"].traits


def test_threads_are_dedicated_shared_or_split_as_the_operator_says():
    machine = package(numa())
    assert what(read(machine, Options(shared=None)))["h_NUMA0"] == {"VCPU": 4, "MEMORY_MB": 1024}
    split = read(machine, Options(shared=1, vcpu_ratio=16.0)).providers["h_NUMA0"].inventories
    assert split == {"PCPU": Inventory(3), "VCPU": Inventory(1, allocation_ratio=16.0), "MEMORY_MB": Inventory(1024)}
    assert what(read(machine, Options(shared=99)))["h_NUMA0"] == {"VCPU": 4, "MEMORY_MB": 1024}


def test_the_file_names_the_host_unless_the_operator_does():
    named = topology('<info name="HostName" value="rack1"/>' + package(numa()))
    assert set(read_machine(named).providers) == {"rack1", "rack1_NUMA0"}
    assert "mine" in read_machine(named, "mine").providers
    with pytest.raises(SiteError, match="give a name with --name"):
        read_machine(topology(package(numa())))


# Odd machines


def test_offline_and_forbidden_threads_are_not_given_away():
    sets = 'cpuset="0x7" complete_cpuset="0xff" allowed_cpuset="0x3" nodeset="0x1"'
    assert what(read(package(numa(cpus=0xFF), cpus=0xFF), sets=sets))["h_NUMA0"]["PCPU"] == 2


def test_forbidden_memory_is_not_given_away():
    sets = 'cpuset="0xf" nodeset="0x3" allowed_nodeset="0x1"'
    site = read(package(numa(0) + numa(1, cpus=0), nodes=3), sets=sets)
    assert (what(site)["h_NUMA0"], what(site)["h_NUMA1"]) == ({"PCPU": 4, "MEMORY_MB": 1024}, {})


def test_memory_without_cpus_is_a_provider_of_memory():
    site = read(package(numa(0) + numa(2, cpus=0), nodes=5))
    assert what(site)["h_NUMA2"] == {"MEMORY_MB": 1024}


def test_two_nodes_near_the_same_cpus_do_not_count_them_twice_and_devices_go_to_the_one_with_cpus():
    nodes = numa(0) + numa(1, extra='subtype="HBM"')
    site = read(package(nodes + bridge(pci("01:00.0", GPU)), nodes=3))
    assert (what(site)["h_NUMA0"]["PCPU"], what(site)["h_NUMA1"]) == (4, {"MEMORY_MB": 1024})
    assert "CUSTOM_MEMORY_HBM" in site.providers["h_NUMA1"].traits
    assert where(site)["h_GPU_0000:01:00.0"] == "h_NUMA0"


def test_a_node_behind_a_memory_side_cache_is_found():
    site = read(package(f'<object type="MemCache" cpuset="0xf" nodeset="0x1">{numa()}</object>'))
    assert what(site)["h_NUMA0"] == {"PCPU": 4, "MEMORY_MB": 1024}


def test_cpus_of_a_package_without_memory_are_the_hosts():
    site = read(package(numa(cpus=3), cpus=3) + package(cpus=0xC, nodes=0))
    assert what(site) == {"h": {"PCPU": 2}, "h_NUMA0": {"PCPU": 2, "MEMORY_MB": 1024}}


def test_a_machine_without_nodes_gives_its_cpus_and_devices_itself():
    site = read(package(bridge(pci("01:00.0", GPU))))
    assert what(site) == {"h": {"PCPU": 4}, "h_GPU_0000:01:00.0": {"PGPU": 1}}
    assert where(site)["h_GPU_0000:01:00.0"] == "h"


def test_a_device_without_locality_is_the_hosts():
    two_nodes = package(numa(0, cpus=3), cpus=3) + package(numa(1, cpus=0xC), cpus=0xC, nodes=2)
    assert where(read(two_nodes + bridge(pci("01:00.0", GPU))))["h_GPU_0000:01:00.0"] == "h"


def test_a_device_is_placed_by_cpus_where_memory_is_not_said():
    group = f'<object type="Group" cpuset="0xc">{bridge(pci("01:00.0", GPU))}</object>'
    two_nodes = package(numa(0, cpus=3), cpus=3) + package(numa(1, cpus=0xC), cpus=0xC, nodes=2)
    assert where(read(two_nodes + group))["h_GPU_0000:01:00.0"] == "h_NUMA1"


@pytest.mark.parametrize("memory", ["-1", "lots", "1e9", "", "0", "9" * 30])
def test_memory_that_is_no_number_is_no_memory(memory: str):
    assert what(read(package(numa(memory=memory))))["h_NUMA0"] == {"PCPU": 4}


def test_more_memory_than_the_api_can_say_is_as_much_as_it_can_say():
    assert what(read(package(numa(memory=1 << 62))))["h_NUMA0"]["MEMORY_MB"] == MAX_INT


def test_numbers_that_repeat_or_are_absurd_still_give_distinct_providers():
    nodes = numa(3) + numa(3) + numa(0).replace('os_index="0"', 'os_index="99999999999"')
    assert {name for name in read(package(nodes)).providers if "NUMA" in name} == {"h_NUMA3", "h_NUMA4", "h_NUMA5"}


@pytest.mark.parametrize("cpuset", ["0xf...f", "0xf...f,0xfffffffc", "nonsense", "", "0xfffffffff", ","])
def test_a_cpuset_of_any_form_is_survived(cpuset: str):
    machine = package(numa()).replace('cpuset="0xf"', f'cpuset="{cpuset}"')
    amounts = what(read(machine))
    assert sum(amounts[name].get("PCPU", 0) for name in amounts) == 4


# Devices


def test_several_apis_that_show_one_gpu_are_one_gpu():
    shown = os_device("cuda0", 12) + os_device("nvml0", 12) + os_device("opencl0d0", 12) + os_device("card0", 4)
    assert what(read(package(numa() + bridge(pci("01:00.0", GPU, shown)))))["h_GPU_0000:01:00.0"] == {"PGPU": 1}


def test_a_device_that_is_listed_twice_is_given_away_once():
    site = read(package(numa() + bridge(pci("01:00.0", GPU), pci("01:00.0", GPU))))
    assert [name for name in site.providers if "GPU" in name] == ["h_GPU_0000:01:00.0"]


@pytest.mark.parametrize(
    "console", ["0300 [1a03:2000]", "0300 [102b:0538]", "0300 [1002:515e]", "0300 [1234:1111]", "0680 [10de:1ac2]"]
)
def test_consoles_and_switches_are_not_given_away(console: str):
    assert set(read(package(numa() + bridge(pci("01:00.0", console, os_device("card0", 4))))).providers) == {
        "h",
        "h_NUMA0",
    }


@pytest.mark.parametrize(
    ("kind", "inside", "resource_class"),
    [
        ("0300 [1002:744c]", "", "PGPU"),
        ("0380 [1002:740f]", "", "PGPU"),
        ("1200 [1002:74a1]", "", "PGPU"),
        ("1200 [10ee:5000]", "", "FPGA"),
        ("1200 [1da3:1020]", "", "CUSTOM_ACCELERATOR"),
        ("0b40 [8086:2260]", os_device("mic0", 8), "CUSTOM_ACCELERATOR"),
        ("0000 [0000:0000]", os_device("cuda0", 12), "PGPU"),
    ],
)
def test_what_computes_is_given_away_as_what_it_is(kind: str, inside: str, resource_class: str):
    assert {resource_class: 1} in what(read(package(numa() + bridge(pci("01:00.0", kind, inside))))).values()


def test_a_cpu_that_opencl_shows_is_no_gpu():
    opencl = os_device("opencl0d0", 8, OpenCLDeviceType="CPU")
    assert set(read(package(numa() + opencl)).providers) == {"h", "h_NUMA0"}


def test_devices_shown_without_pci_are_taken_from_one_api():
    shown = os_device("opencl0d0", 12) + os_device("cuda0", 12) + os_device("cuda1", 12) + os_device("nvme0n1", 1)
    site = read(package(numa() + shown))
    assert set(site.providers) == {"h", "h_NUMA0", "h_GPU_cuda0", "h_GPU_cuda1", "h_NVME_nvme0n1"}


def test_virtual_functions_belong_to_the_interface_they_are_named_after():
    physical = [pci(f"01:00.{n}", NIC, os_device(f"eth{n}", 16)) for n in range(2)]
    virtual = [pci(f"01:01.{n}", VF, os_device(f"eth1v{n}", 16)) for n in range(3)]
    amounts = what(read(package(numa() + bridge(*physical, *virtual))))
    assert (amounts["h_NIC_0000:01:00.0"], amounts["h_NIC_0000:01:00.1"]) == ({}, {"SRIOV_NET_VF": 3})


def test_virtual_functions_without_interface_are_shared_out_on_their_bridge():
    cards = [
        bridge(pci("01:00.0", NIC), pci("01:00.1", NIC), *[pci(f"01:01.{n}", VF) for n in range(5)]),
        bridge(pci("02:00.0", NIC)),
    ]
    amounts = what(read(package(numa() + "".join(cards))))
    assert amounts["h_NIC_0000:01:00.0"] == {"SRIOV_NET_VF": 3}
    assert amounts["h_NIC_0000:01:00.1"] == {"SRIOV_NET_VF": 2}
    assert amounts["h_NIC_0000:02:00.0"] == {}


def test_virtual_functions_belong_to_a_card_of_their_vendor_if_there_is_one():
    intel, cisco = pci("01:00.0", NIC), pci("01:00.1", "0200 [1137:0043]")
    amounts = what(read(package(numa() + bridge(intel, cisco, pci("01:01.0", "0200 [1137:00cf]")))))
    assert (amounts["h_NIC_0000:01:00.0"], amounts["h_NIC_0000:01:00.1"]) == ({}, {"SRIOV_NET_VF": 1})
    foreign = what(read(package(numa() + bridge(intel, pci("01:01.0", "0200 [1137:00cf]")))))
    assert foreign["h_NIC_0000:01:00.0"] == {"SRIOV_NET_VF": 1}


def test_virtual_functions_without_a_physical_one_are_counted_together():
    site = read(package(numa() + bridge(pci("01:01.0", VF), pci("01:01.1", VF))))
    assert what(site)["h_NIC_0000:01:01.0"] == {"SRIOV_NET_VF": 2}
    assert "h_NIC_0000:01:01.1" not in site.providers


def test_a_virtual_function_is_known_by_name_where_its_number_is_not():
    unknown = pci("01:01.0", "0200 [ffff:0001]", model="Some Virtual Function")
    site = read(package(numa() + bridge(pci("01:00.0", "0200 [ffff:0000]"), unknown)))
    assert what(site)["h_NIC_0000:01:00.0"] == {"SRIOV_NET_VF": 1}


def test_infiniband_adapters_are_nics_that_do_rdma():
    adapter = pci("01:00.0", "0c06 [15b3:6746]", os_device("ib0", 16) + os_device("mlx4_0", 48))
    traits = read(package(numa() + bridge(adapter))).providers["h_NIC_0000:01:00.0"].traits
    assert traits == {"CUSTOM_PCI_15B3_6746", "CUSTOM_NIC_INFINIBAND", "HW_NIC_OFFLOAD_RDMA"}


def test_formats_number_devices_differently():
    def adapter(rdma: int) -> str:
        return package(numa() + bridge(pci("01:00.0", NIC, os_device("mlx5_0", rdma))))

    for version, rdma in (("2.0", 3), ("3.0", 48)):
        site = read(adapter(rdma), version=version)
        assert "HW_NIC_OFFLOAD_RDMA" in site.providers["h_NIC_0000:01:00.0"].traits


@pytest.mark.parametrize(
    ("size", "inventory"),
    [("104857600", {"DISK_GB": 100}), ("104857600KiB", {"DISK_GB": 100}), ("12", {}), ("big", {}), ("", {})],
)
def test_a_disk_gives_its_size_if_the_file_says_it(size: str, inventory: dict[str, int]):
    disk = pci("01:00.0", NVME, os_device("nvme0n1", 1, Size=size))
    assert what(read(package(numa() + bridge(disk))))["h_NVME_0000:01:00.0"] == inventory


# Files that are none


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        (b"", "not hwloc XML"),
        (b"\xff\xfe\x00", "not hwloc XML"),
        (b"just text", "not hwloc XML"),
        (b"<html/>", "the outermost element is <html>"),
        (b"<topology/>", "it has no Machine object"),
        (b'<topology version="0.9"/>', "of format '0.9'"),
        (b'<topology version="4.0"/>', "of format '4.0'"),
        (b'<topology version="3.0"/>', "it has no Machine object"),
        (b'<topology version="3.0"><object type="Package"/></topology>', "it has no Machine object"),
        (topology(package(numa()))[:-20], "not hwloc XML"),
        (topology("").replace(b"UTF-8", b"UTF-9"), "not hwloc XML"),
        (topology('<object type="Group">' * MAX_DEPTH), "levels deep"),
        (topology("").replace(b"</topology>", b'<object type="Machine"/></topology>'), "more than one outermost"),
        (topology("".join(numa(n, cpus=0) for n in range(1025))), "more than 1024 NUMA nodes"),
        (
            b'<!DOCTYPE t [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;">]><topology version="2.0">&b;</topology>',
            "declares XML entities",
        ),
        (
            b'<!DOCTYPE t [<!ENTITY a SYSTEM "file:///etc/passwd">]><topology version="2.0">&a;</topology>',
            "declares XML entities",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_file_that_is_no_machine_is_refused(data: bytes, complaint: str):
    with pytest.raises(SiteError) as refused:
        read_machine(data, "h", source="m.xml")
    assert str(refused.value).startswith("m.xml: ")
    assert complaint in str(refused.value)


def test_a_name_that_leaves_no_room_for_devices_is_refused():
    with pytest.raises(SiteError, match="longer than 200 characters"):
        read_machine(topology(package(numa())), "h" * 198)


@given(st.data())
def test_a_machine_with_anything_in_it_gives_a_site_or_a_complaint(data: st.DataObject):
    text = data.draw(st.sampled_from(MACHINES)).read_text()
    for _ in range(data.draw(st.integers(1, 4))):
        start = data.draw(st.integers(0, len(text)))
        length = data.draw(st.sampled_from([0, 1, 2, 8, 60, 1000]))
        junk = data.draw(st.sampled_from(["", "0", "9" * 40, "-", '"', "<", "/>", "</object>", "é", ",", "0xf...f"]))
        text = text[:start] + junk + text[start + length :]
    try:
        site = read_machine(text.encode(), "h")
    except SiteError:
        return
    assert load(dump(site)) == site


@given(st.data())
def test_a_machine_with_any_attribute_changed_gives_a_site_or_a_complaint(data: st.DataObject):
    parts = data.draw(st.sampled_from(MACHINES)).read_text().split('"')
    values = range(13, len(parts), 2)  # after the declarations
    for _ in range(data.draw(st.integers(1, 6))):
        place = data.draw(st.sampled_from(values))
        strange = st.sampled_from(["", "0", "-1", "0x0", "0xf...f", "18446744073709551616", "PU", "NUMANode", "OSDev"])
        parts[place] = data.draw(strange | st.text(st.sampled_from("0123456789abcdefx:,.[] "), max_size=20))
    try:
        site = read_machine('"'.join(parts).encode(), "h")
    except SiteError:
        return
    assert load(dump(site)) == site
