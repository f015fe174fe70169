"""Every device and every NUMA node of a machine is a provider, a part of one, or counted in a warning."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stead.topology.devices import devices_of
from stead.topology.hwloc import omissions
from stead.topology.machine import read_xml
from stead.topology.numa import layout_of
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
    traits,
    what,
    where,
)  # fmt: skip

SAMPLES = sorted((ROOT / "samples" / "site").glob("*.xml"))


def left_out(inside, **settings):
    return list(omissions(read_xml(topology(inside, **settings))))


ONE_GPU = bridge(pci("16:00.0", GPU))
TWO_GPUS = bridge(pci("16:00.0", GPU), pci("17:00.0", GPU))
DISK = '<object type="OSDev" name="sda" osdev_type="1"/>'
SATA = bridge(pci("17:00.0", "0106 [8086:a182]", DISK))


@pytest.mark.parametrize(
    ("inside", "reasons"),
    [
        (package(numa()) + ONE_GPU, []),
        (package(numa()), ["no I/O devices in the file"]),
        (package(numa()) + TWO_GPUS, ["no links between GPUs"]),
        (package(numa()) + ONE_GPU + DISK, ["1 device without a PCI device that become no providers: sda"]),
        (package(numa()) + ONE_GPU + SATA, ["PCI devices that become no providers: 1 of class 0106 (storage: sda)"]),
        (package(numa()) + bridge(pci("18:00.0", NVME)), ["no size in the file for 1 NVMe disk, so without DISK_GB"]),
        (numa() + ONE_GPU, ["no hardware threads (objects of type PU) in the file"]),
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


GPU_MEMORY = 'subtype="GPUMemory"'


def gpu_memory(index=1, address=None):
    info = f'<info name="PCIBusID" value="{address}"/>' if address else ""
    return numa(index, extra=GPU_MEMORY).replace("/>", f">{info}</object>")


def test_memory_of_a_gpu_is_no_memory_of_its_host():
    machine = package(numa() + gpu_memory(address="0000:16:00.0"), nodes=3) + ONE_GPU
    site = read(machine)
    assert what(site)["h_NUMA1"] == {"CUSTOM_GPU_MEMORY_MB": 1024}
    assert where(site)["h_NUMA1"] == "h_GPU_0000:16:00.0"
    assert traits(site, "h_NUMA1") == {"CUSTOM_NUMA_MEMORY_ONLY", "CUSTOM_MEMORY_GPUMEMORY"}
    assert what(site)["h_NUMA0"] == {"PCPU": 4, "MEMORY_MB": 1024}
    assert [sentence.split(":")[0] for sentence in left_out(machine)] == ["1 NUMA node of GPU memory"]


def test_memory_of_an_unknown_gpu_is_beside_the_cpus():
    site = read(package(numa() + gpu_memory(address="0000:99:00.0") + gpu_memory(2), nodes=7) + ONE_GPU)
    assert where(site)["h_NUMA1"] == where(site)["h_NUMA2"] == "h_NUMA0"
    assert what(site)["h_NUMA2"] == {"CUSTOM_GPU_MEMORY_MB": 1024}


@pytest.mark.parametrize(
    ("architecture", "gpu", "resource_class"),
    [
        ("ppc64le", "0302 [10de:1db1]", "CUSTOM_GPU_MEMORY_MB"),
        ("ppc64le", "0302 [1002:1db1]", "MEMORY_MB"),
        ("x86_64", "0302 [10de:1db1]", "MEMORY_MB"),
    ],
)
def test_hwloc_1_shows_the_memory_of_gpus_on_power9_without_a_name(architecture, gpu, resource_class):
    info = f'<info name="Architecture" value="{architecture}"/>'
    device = '<object type="PCIDev" pci_busid="0004:04:00.0" pci_type="' + gpu + ' [0000:0000] a1"/>'
    nodes = numa() + numa(255, cpus=0, extra='complete_cpuset="0x0"')
    site = read(info + package(nodes) + bridge(device), version="", sets='cpuset="0xf" nodeset="0x1"')
    assert what(site)["h_NUMA255"] == {resource_class: 1024}
    assert what(site)["h_NUMA0"] == {"PCPU": 4, "MEMORY_MB": 1024}


@pytest.mark.parametrize("partitions", [3, 6])
def test_the_partitions_of_an_amd_gpu_are_counted(partitions):
    devices = "".join(os_device(f"rsmi{n}", 8) + os_device(f"opencl{n}d0", 8) for n in range(partitions))
    site = read(package(numa()) + bridge(pci("02:00.0", "1200 [1002:74a0]", devices)))
    assert what(site)["h_GPU_0000:02:00.0"] == {"PGPU": partitions}


def test_one_gpu_that_several_platforms_show_is_one():
    shown = os_device("opencl0d0", 8) + os_device("opencl1d0", 8) + os_device("cuda0", 8) + os_device("nvml0", 4)
    assert what(read(package(numa()) + bridge(pci("02:00.0", GPU, shown))))["h_GPU_0000:02:00.0"] == {"PGPU": 1}


@pytest.mark.parametrize(
    ("interfaces", "trait"),
    [
        (os_device("ib0", 16) + os_device("mlx4_0", 32), "CUSTOM_NIC_INFINIBAND"),
        (os_device("ens1", 16), "CUSTOM_NIC_ETHERNET"),
        (os_device("wlp2s0", 16), None),
        ("", None),
    ],
)
def test_a_network_adapter_of_class_0280_is_a_nic_unless_it_is_wireless_or_unknown(interfaces, trait):
    machine = package(numa()) + bridge(pci("03:00.0", "0280 [15b3:1003]", interfaces))
    names = [name for name in what(read(machine)) if "_NIC_" in name]
    if trait is None:
        assert names == []
        (sentence,) = left_out(machine)
        assert sentence.startswith("PCI devices that become no providers: 1 of class 0280 (network")
    else:
        assert trait in traits(read(machine), names[0])
        assert left_out(machine) == []


FUNCTIONS = st.sampled_from(
    [
        GPU,
        NIC,
        VF,
        NVME,
        "0280 [15b3:1003]",
        "0106 [8086:a182]",
        "0300 [1a03:2000]",
        "0b40 [8086:37c8]",
        "1200 [10ee:5000]",
    ]
)
OS_DEVICES = st.sampled_from(["sda", "eth0", "ib0", "wlan0", "cuda0", "nvml1", "rsmi0", "pmem0", "dax0.0", "nvme0n1"])
ROLES = st.sampled_from([0, 1, 4, 8, 16, 32])


def converted(machine):
    return {device.hw for device in devices_of(machine)}


def counted(sentences):
    """The PCI devices, devices without one, and GPU memories that the sentences count."""
    text = "\n".join(sentences)
    functions = sum(map(int, re.findall(r"(\d+) of class [0-9a-f]{4}", text)))
    bare = re.search(r"^(\d+) devices? without a PCI device", text, re.MULTILINE)
    memories = re.search(r"^(\d+) NUMA nodes? of GPU memory", text, re.MULTILINE)
    return functions, int(bare[1]) if bare else 0, int(memories[1]) if memories else 0


def require_every_object_to_be_accounted_for(machine):
    devices = converted(machine)
    objects = list(machine.root.walk())
    functions = [hw for hw in objects if hw.type == "PCIDev" and hw not in devices]
    inside = {below for hw in objects if hw.type == "PCIDev" for below in hw.walk()}
    bare = [hw for hw in objects if hw.type == "OSDev" and hw not in inside and hw not in devices]
    memories = [node for node in layout_of(machine).nodes if node.is_of_gpu and node.memory]
    assert counted(omissions(machine)) == (len(functions), len(bare), len(memories))


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda path: path.stem)
def test_every_object_of_a_sample_is_converted_or_named(sample):
    require_every_object_to_be_accounted_for(read_xml(sample.read_bytes()))


@given(
    st.lists(st.tuples(FUNCTIONS, st.lists(st.tuples(OS_DEVICES, ROLES), max_size=3)), max_size=8),
    st.lists(st.tuples(OS_DEVICES, ROLES), max_size=6),
    st.integers(0, 3),
)
def test_every_device_and_memory_of_any_machine_is_converted_or_named(functions, bare, memories):
    inside = package(numa() + "".join(gpu_memory(index + 1) for index in range(memories)), nodes=15)
    inside += bridge(
        *(
            pci(f"{number:02x}:00.0", kind, "".join(os_device(name, role) for name, role in below))
            for number, (kind, below) in enumerate(functions)
        )
    )
    inside += "".join(os_device(name, role) for name, role in bare)
    require_every_object_to_be_accounted_for(read_xml(topology(inside)))
