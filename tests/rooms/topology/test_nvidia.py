"""Outputs of nvidia-smi: what becomes of cards, MIG instances and links, and what is refused, with its line."""

import pytest

from stead.topology.document import dump
from stead.topology.hwloc import describe
from stead.topology.machine import read_xml
from stead.topology.nvidia import OWN_UUID, additions, describe_cards, read_cards
from stead.topology.site import Description, SiteError, site_of
from tests.checkout import ROOT
from tests.rooms.topology.machines import bridge, numa, package, pci, topology

SAMPLES = ROOT / "samples/gpu-box"
SMI = (SAMPLES / "smi.xml").read_text(encoding="utf-8")
TOPO = (SAMPLES / "topo.txt").read_text(encoding="utf-8")
MIG = (SAMPLES / "mig.xml").read_text(encoding="utf-8")
LIST = (SAMPLES / "mig.txt").read_text(encoding="utf-8")


def read(*texts, **options):
    cards = read_cards([(f"out{number}", text.encode()) for number, text in enumerate(texts)])
    return {each.name: each for each in describe_cards(cards, "box", **options)}


def amounts(described: Description) -> dict[str, int]:
    """What can be claimed of each class."""
    return {name: inventory.total - inventory.reserved for name, inventory in described.inventories.items()}


def test_cards_have_the_uuids_of_the_cards_and_lie_below_their_nodes():
    site = read(TOPO, SMI)  # in any order
    card = site["box_GPU_0000:07:00.0"]
    assert f"<uuid>GPU-{card.uuid}</uuid>" in SMI
    assert card.parent == "box_NUMA3"
    assert amounts(card) == {"PGPU": 1, "CUSTOM_GPU_MEMORY_MB": 40960}
    assert card.traits >= {
        OWN_UUID,
        "CUSTOM_GPU_NVIDIA_A100_SXM4_40GB",
        "CUSTOM_PCI_10DE_20B0",
        "CUSTOM_NVLINK_DOMAIN_0",
    }
    assert sum("PGPU" in each.inventories for each in site.values()) == 8
    assert {"CUSTOM_HAS_GPU", "CUSTOM_NVLINK_DOMAIN"} <= site["box"].traits
    assert site["box_NUMA3"].traits == {"HW_NUMA_ROOT"}


def test_cards_alone_are_children_of_the_host_and_two_groups_of_links_have_providers():
    assert {each.parent for each in read(SMI).values()} == {None, "box"}
    apart = "\n".join(
        "\t".join(
            "SYS" if cell == "NV12" and (row.startswith(("GPU0", "GPU1\t")) != (column in (1, 2))) else cell
            for column, cell in enumerate(row.split("\t"))
        )
        for row in TOPO.replace("NUMA Affinity", "Other").split("\n")
    )
    site = read(SMI, apart)
    assert site["box_GPU_0000:07:00.0"].parent == "box_NVLINK0"
    assert {each.name for each in site.values() if each.parent == "box_NVLINK1"} == {
        f"box_GPU_0000:{bus}:00.0" for bus in ("47", "4e", "87", "90", "b7", "bd")
    }


def test_a_divided_card_cannot_be_claimed_and_its_instances_can():
    site = read(MIG, LIST)
    assert amounts(site["box_GPU_0000:3b:00.0"]) == {"PGPU": 0, "CUSTOM_GPU_MEMORY_MB": 0}
    assert amounts(site["box_GPU_0000:d8:00.0"]) == {"PGPU": 1, "CUSTOM_GPU_MEMORY_MB": 40960}
    instances = [each for each in site.values() if each.parent == "box_GPU_0000:3b:00.0"]
    assert sorted(amounts(each)["CUSTOM_GPU_MEMORY_MB"] for each in instances) == [4864, 4864, 19968]
    assert sorted(name for each in instances for name in each.traits if "MIG" in name) == [
        "CUSTOM_MIG_1G_5GB",
        "CUSTOM_MIG_1G_5GB",
        "CUSTOM_MIG_3G_20GB",
    ]
    assert all(f"(UUID: MIG-{each.uuid})" in LIST for each in instances)
    assert sorted(read(MIG)) == [
        "box",
        "box_GPU_0000:3b:00.0",
        *(f"box_GPU_0000:3b:00.0_MIG_{ids}" for ids in ("13_0", "1_0", "5_0")),
        "box_GPU_0000:d8:00.0",
    ]


def test_a_card_that_is_divided_in_another_way_keeps_no_old_instance_and_no_whole_card():
    before = list(read(MIG, LIST).values())
    whole = MIG.replace("<current_mig>Enabled", "<current_mig>Disabled")
    start, end = whole.index("<mig_device>"), whole.rindex("</mig_device>") + len("</mig_device>")
    after = {each.name: each for each in describe_cards(cards_of(whole[:start] + whole[end:]), "box", before)}
    assert amounts(after["box_GPU_0000:3b:00.0"])["PGPU"] == 1
    gone = [each for each in after.values() if each.parent == "box_GPU_0000:3b:00.0"]
    assert [amounts(each) for each in gone] == [{"CUSTOM_MIG": 0, "CUSTOM_GPU_MEMORY_MB": 0}] * 3
    shared = {each.name: each for each in describe_cards(cards_of(MIG), "box", after.values(), shares=2)}
    assert amounts(shared["box_GPU_0000:d8:00.0"]) == {"PGPU": 0, "CUSTOM_GPU_SHARE": 2, "CUSTOM_GPU_MEMORY_MB": 40960}
    again = {each.name: each for each in describe_cards(cards_of(MIG), "box", shared.values())}
    assert amounts(again["box_GPU_0000:d8:00.0"])["CUSTOM_GPU_SHARE"] == 0


def cards_of(text):
    return read_cards([("out", text.encode())])


def test_what_is_known_of_the_host_stays_and_a_second_run_adds_nothing():
    machine = read_xml(topology(package(numa() + bridge(pci("07:00.0", "0302 [10de:20b0]")))))
    known = describe(machine, "box")
    described = describe_cards(cards_of(SMI), "box", known)
    card = next(each for each in described if each.name == "box_GPU_0000:07:00.0")
    assert card.parent == "box_NUMA0"
    assert card.uuid is not None
    assert {each.name for each in known} < {each.name for each in described}
    assert additions(described, described) == []
    assert [each.name for each in additions(described, known)].count("box_NUMA0") == 0
    server = [Description("box", "0c0ffee0-0000-4000-8000-000000000001", "rack"), Description("rack")]
    assert next(each for each in describe_cards(cards_of(SMI), "box", server) if each.name == "box").parent == "rack"
    dump(site_of(described))
    other = Description(card.name, "0c0ffee0-0000-4000-8000-000000000002", "box")
    (kept,) = [each for each in describe_cards(cards_of(SMI), "box", [other]) if each.name == card.name]
    assert (kept.uuid, OWN_UUID in kept.traits) == (other.uuid, False)


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ((TOPO,), "out0: no output of `nvidia-smi -q -x`, which has the cards"),
        ((SMI, MIG), "out1: the cards of another machine; describe one machine at a time"),
        ((SMI, "hello"), "out1:1: no output of `nvidia-smi -q -x`, `nvidia-smi topo -m` or `nvidia-smi -L`"),
        (("<topology/>",), "out0:1: no output of nvidia-smi: the outermost element is <topology>"),
        ((SMI[:5000],), f"out0:{SMI[:5000].count(chr(10)) + 1}: not XML of nvidia-smi"),
        ((SMI.replace("<uuid>GPU-", "<uuid>GPU", 1),), "out0:8: the uuid of the GPU, "),
        ((SMI.replace('id="00000000:0F', 'id="0F', 1),), "out0:52: the id of the GPU, '0F:00.0', is not a PCI address"),
        ((SMI.replace("00000000:0F:00.0", "00000000:07:00.0"),), "out0:52: 0000:07:00.0 is described twice"),
        ((SMI.split("<gpu id")[0] + "</nvidia_smi_log>",), "out0: no GPU"),
        ((MIG.replace("<index>1</index>", ""),), "a MIG instance has no index"),
        ((MIG, TOPO), "out1:1: 8 GPUs, but `nvidia-smi -q -x` has 2"),
        ((SMI, TOPO[: TOPO.index("GPU7\t", 100)]), "out1: 7 rows below 8 GPUs: cut short"),
        ((SMI, TOPO.replace("GPU3\tNV12\tNV12\tNV12\t X \tNV12\tNV12\tNV12\tNV12", "GPU3\tNV12")), "out1:5: not a row"),
        ((SMI, LIST), "out1:1: no card GPU-"),
        ((MIG, LIST + "what\n"), "out1:6: not a line of `nvidia-smi -L`: 'what'"),
        (('<!DOCTYPE a [<!ENTITY b "c">]><nvidia_smi_log>&b;</nvidia_smi_log>',), "out0: declares XML entities"),
        (("<nvidia_smi_log>" + "<a>" * 200,), "out0:1: nested more than 100 levels deep"),
    ],
)  # fmt: skip
def test_bad_output_is_refused_with_its_place(texts, message):
    with pytest.raises(SiteError) as refused:
        read(*texts)
    assert message in str(refused.value)
