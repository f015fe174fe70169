"""Nova's flavors become the candidate queries that nova sends for them."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stead.cli.flavors import NotFlavors, Translated, Untranslated, read_flavors
from stead.client.request import Request

BASE = "resources=VCPU:4,MEMORY_MB:8192,DISK_GB:80"


def record(properties=(), **changed):
    return {
        "ID": "1",
        "Name": "m1.large",
        "RAM": 8192,
        "Disk": 80,
        "Ephemeral": 0,
        "VCPUs": 4,
        "Is Public": True,
        "Swap": 0,
        "RXTX Factor": 1.0,
        "Properties": dict(properties),
        **changed,
    }


def translated(properties=(), **changed):
    (flavor,) = read_flavors(json.dumps([record(properties, **changed)]))
    return flavor


@pytest.mark.parametrize(
    ("changed", "query"),
    [
        ({}, BASE),
        ({"Ephemeral": 10, "Swap": 1025}, "resources=VCPU:4,MEMORY_MB:8192,DISK_GB:92"),
        ({"Swap": 1024}, "resources=VCPU:4,MEMORY_MB:8192,DISK_GB:81"),
        ({"Swap": 1}, "resources=VCPU:4,MEMORY_MB:8192,DISK_GB:81"),
        ({"Swap": ""}, BASE),
        ({"Swap": None, "Ephemeral": None}, BASE),
        ({"VCPUs": "4", "RAM": "8192"}, BASE),
        ({"Disk": 0}, "resources=VCPU:4,MEMORY_MB:8192"),
    ],
)
def test_disk_is_the_sum_of_three_and_swap_is_rounded_up(changed, query):
    assert translated(**changed).query == query


@pytest.mark.parametrize(
    ("properties", "query"),
    [
        ({"resources:VGPU": "1"}, f"{BASE},VGPU:1"),
        ({"resources:VCPU": "6"}, "resources=VCPU:6,MEMORY_MB:8192,DISK_GB:80"),
        (
            {"resources:VCPU": "0", "resources:MEMORY_MB": "0", "resources:DISK_GB": "0", "resources:CUSTOM_BM": "1"},
            "resources=CUSTOM_BM:1",
        ),
        ({"resources:VGPU": "0"}, BASE),
        (
            {"trait:HW_CPU_X86_AVX2": "required", "trait:CUSTOM_OLD": "forbidden"},
            f"{BASE}&required=HW_CPU_X86_AVX2,!CUSTOM_OLD",
        ),
        (
            {"resources1:VGPU": "1", "trait1:CUSTOM_A": "required", "resources_NIC:SRIOV_NET_VF": "2"},
            f"{BASE}&resources1=VGPU:1&required1=CUSTOM_A&resources_NIC=SRIOV_NET_VF:2&group_policy=none",
        ),
        (
            {"resources1:VGPU": "1", "resources2:VGPU": "1", "group_policy": "isolate"},
            f"{BASE}&resources1=VGPU:1&resources2=VGPU:1&group_policy=isolate",
        ),
        ({"hw:cpu_policy": "dedicated"}, "resources=PCPU:4,MEMORY_MB:8192,DISK_GB:80"),
        ({"hw:cpu_policy": "shared"}, BASE),
    ],
)
def test_extra_specs_are_part_of_the_query_in_either_form_of_the_output(properties, query):
    as_text = ", ".join(f"{key}='{value}'" for key, value in properties.items())
    assert translated(properties).query == translated(Properties=as_text).query == query
    assert str(Request.parse(query)) == query


def test_other_extra_specs_are_named():
    properties = {"quota:cpu_shares": "10", "hw:mem_page_size": "large", "trait:HW_CPU_X86_AVX2": "required"}
    assert translated(properties).ignored == ("hw:mem_page_size", "quota:cpu_shares")
    assert translated({"hw:cpu_policy": "dedicated"}).ignored == ()


@pytest.mark.parametrize(
    ("properties", "query"),
    [
        (
            {"hw:cpu_policy": "mixed", "hw:cpu_dedicated_mask": "^0-1"},
            "resources=VCPU:2,PCPU:2,MEMORY_MB:8192,DISK_GB:80",
        ),
        (
            {"hw:cpu_policy": "mixed", "hw:cpu_dedicated_mask": "0-2,^1"},
            "resources=VCPU:2,PCPU:2,MEMORY_MB:8192,DISK_GB:80",
        ),
        (
            {"hw:cpu_policy": "mixed", "hw:cpu_dedicated_mask": "3,99"},
            "resources=VCPU:3,PCPU:1,MEMORY_MB:8192,DISK_GB:80",
        ),
        (
            {"hw:cpu_policy": "mixed", "hw:cpu_realtime": "yes", "hw:cpu_realtime_mask": "^0"},
            "resources=VCPU:1,PCPU:3,MEMORY_MB:8192,DISK_GB:80",
        ),
        (
            {"hw:cpu_policy": "dedicated", "hw:emulator_threads_policy": "isolate"},
            "resources=PCPU:5,MEMORY_MB:8192,DISK_GB:80",
        ),
        (
            {"hw:cpu_policy": "dedicated", "hw:emulator_threads_policy": "share"},
            "resources=PCPU:4,MEMORY_MB:8192,DISK_GB:80",
        ),
        (
            {"hw:cpu_policy": "dedicated", "hw:cpu_thread_policy": "isolate"},
            "resources=PCPU:4,MEMORY_MB:8192,DISK_GB:80&required=!HW_CPU_HYPERTHREADING",
        ),
        (
            {"hw:cpu_policy": "dedicated", "hw:cpu_thread_policy": "require"},
            "resources=PCPU:4,MEMORY_MB:8192,DISK_GB:80&required=HW_CPU_HYPERTHREADING",
        ),
        (
            {"hw:cpu_policy": "dedicated", "hw:cpu_thread_policy": "prefer"},
            "resources=PCPU:4,MEMORY_MB:8192,DISK_GB:80",
        ),
        (
            {"hw:pmem": "6GB,small,6GB"},
            f"{BASE},CUSTOM_PMEM_NAMESPACE_6GB:2,CUSTOM_PMEM_NAMESPACE_SMALL:1",
        ),
        ({"hw:mem_encryption": "True"}, f"{BASE},MEM_ENCRYPTION_CONTEXT:1"),
        ({"hw:mem_encryption": "false"}, BASE),
        ({"hw:tpm_version": "2.0"}, f"{BASE}&required=COMPUTE_SECURITY_TPM_2_0"),
        ({"os:secure_boot": "required"}, f"{BASE}&required=COMPUTE_SECURITY_UEFI_SECURE_BOOT"),
        ({"os:secure_boot": "disabled"}, BASE),
    ],
)
def test_cpu_policies_memory_and_firmware_are_part_of_the_query(properties, query):
    flavor = translated(properties)
    assert flavor.query == query
    assert flavor.ignored == ()


@pytest.mark.parametrize(
    ("properties", "reason"),
    [
        ({"hw:cpu_policy": "mixed"}, "hw:cpu_policy=mixed needs hw:cpu_dedicated_mask"),
        ({"hw:cpu_policy": "mixed", "hw:cpu_dedicated_mask": "1-x"}, "a mask of CPUs is of the form 0-2,^1, not '1-x'"),
        ({"hw:cpu_policy": "odd"}, "hw:cpu_policy is dedicated, mixed or shared, not 'odd'"),
    ],
)
def test_a_policy_that_nova_refuses_has_no_query(properties, reason):
    assert translated(properties) == Untranslated("m1.large", reason)


def test_extra_specs_by_which_nova_selects_hosts_make_the_flavor_incomplete():
    properties = {
        "quota:cpu_shares": "10",
        "hw:mem_page_size": "large",
        "pci_passthrough:alias": "a1:2",
        "accel:device_profile": "fpga1",
        "aggregate_instance_extra_specs:ssd": "true",
        "hw_rng:allowed": "true",
    }
    assert translated(properties).restricting == (
        "accel:device_profile", "aggregate_instance_extra_specs:ssd", "hw:mem_page_size", "pci_passthrough:alias",
    )  # fmt: skip


def test_a_value_may_have_commas_and_quotes():
    properties = "a='x, y', b='it's', c='', trait:CUSTOM_A='required'"
    assert translated(Properties=properties) == Translated("m1.large", f"{BASE}&required=CUSTOM_A", ("a", "b", "c"))


@pytest.mark.parametrize(
    ("properties", "changed", "reason"),
    [
        ({}, {"Name": "bare metal"}, "a name has up to 255"),
        ({}, {"Name": "x" * 256}, "a name has up to 255"),
        ({}, {"VCPUs": -1}, "VCPUs is not a number of at least 0: '-1'"),
        ({}, {"RAM": True}, "RAM is not a number"),
        ({}, {"Disk": "eighty"}, "Disk is not a number"),
        ({}, {"Properties": "hw:x"}, "Properties are not of the form key='value': 'hw:x'"),
        ({}, {"Properties": 7}, "Properties are neither an object nor text"),
        ({"resources:VCPU": "many"}, {}, "resources:VCPU is not a number"),
        ({"resources:vcpu": "1"}, {}, "'vcpu' is no name of a resource class"),
        ({"trait:CUSTOM_A": "preferred"}, {}, "trait:CUSTOM_A is required or forbidden, not 'preferred'"),
        ({"trait1:CUSTOM_A": "required"}, {}, "it has traits for group '1', but no resources"),
        ({"group_policy": "some"}, {}, "group_policy is none or isolate, not 'some'"),
        ({}, {"VCPUs": 0, "RAM": 0, "Disk": 0}, "a request needs resources"),
    ],
)
def test_a_flavor_that_cannot_be_translated_has_a_reason(properties, changed, reason):
    flavor = translated(properties, **changed)
    assert isinstance(flavor, Untranslated)
    assert reason in flavor.reason


def test_two_flavors_of_one_name_are_not_translated():
    flavors = read_flavors(json.dumps([record(), record(VCPUs=1), record(Name="b")]))
    assert [(flavor.name, type(flavor)) for flavor in flavors] == [("m1.large", Untranslated), ("b", Translated)]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "not JSON"),
        ("{}", "not a list of flavors"),
        ("[1]", "flavor 1 is not an object"),
        (json.dumps([record(), {"Name": "a"}]), "flavor 2 has no VCPUs; use `openstack flavor list -f json --long`"),
    ],
)
def test_another_text_is_refused_with_the_place(text, reason):
    with pytest.raises(NotFlavors, match=reason):
        read_flavors(text)


values = st.none() | st.booleans() | st.integers(-2, 2**70) | st.text(max_size=8) | st.sampled_from(["required", "0"])
specs = st.dictionaries(
    st.sampled_from(["resources:VCPU", "resources1:VGPU", "trait1:HW_A", "trait:", "group_policy", "resources_:X"])
    | st.text(max_size=12),
    values,
)


@given(st.lists(st.dictionaries(st.sampled_from([*record(), "other"]), values | specs), max_size=3))
def test_any_json_is_translated_or_refused(changes):
    for flavor in read_flavors(json.dumps([record(**changed) for changed in changes])):
        if isinstance(flavor, Translated):
            Request.parse(flavor.query)
        else:
            assert flavor.reason
