import json
import shlex
from pathlib import Path

import pytest

from stead.cli.app import run
from stead.topology.document import load
from tests.checkout import ROOT
from tests.servers.placements import stead_itself

SAMPLES = ROOT / "samples"
SMALL = str(SAMPLES / "site" / "small.xml")


def stead(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = run(list(arguments))
    said = capsys.readouterr()
    return code, said.out, said.err


def test_the_sample_site_is_what_its_script_makes(capsys, monkeypatch):
    script = (SAMPLES / "make-site.sh").read_text().splitlines()
    commands = [shlex.split(line)[1:] for line in script if line.strip().startswith("stead ")]
    monkeypatch.chdir(SAMPLES / "site")
    made = "".join(stead(capsys, *command)[1] for command in commands) + Path("storage.yaml").read_text()
    header, _, site = Path("../site.yaml").read_text().partition("\n")
    assert header.startswith("# Made by samples/make-site.sh")
    assert site == made
    assert len(load(made).providers) == 57


def test_hosts_are_numbered_by_the_name(capsys):
    code, out, _ = stead(capsys, "topology", "hwloc", SMALL, SMALL, "--name", "rack-{n:03}", "--count", "2")
    assert code == 0
    roots = [name for name, said in load(out).providers.items() if said.parent is None]
    assert roots == ["rack-001", "rack-002", "rack-003", "rack-004"]


def test_the_same_can_be_had_in_json(capsys):
    code, out, _ = stead(capsys, "topology", "hwloc", SMALL, "--name", "h", "--json")
    assert code == 0
    (host,) = json.loads(out)["providers"]
    assert host["children"][0]["inventories"] == {"MEMORY_MB": 16384, "PCPU": 4}


@pytest.mark.parametrize("form", [[], ["--json"]])
def test_a_file_without_devices_is_said_once_and_beside_the_site(capsys, tmp_path, form: list[str]):
    bare = tmp_path / "bare\n.xml"
    text = Path(SMALL).read_text()
    bare.write_text(text)
    assert "PCIDev" not in text
    several = ["--name", "h{n}", "--count", "2", *form]
    _, expected, _ = stead(capsys, "topology", "hwloc", SMALL, SMALL, *several)
    code, out, err = stead(capsys, "topology", "hwloc", str(bare), str(bare), *several)
    assert (code, out) == (0, expected)
    assert err.startswith(f"stead: warning: {tmp_path}/bare\\n.xml: no I/O devices in the file")
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    "device", ['<object type="Bridge"/>', '<object type="OSDev" name="sda" osdev_type="1"/>', '<object type="PCIDev"/>']
)
def test_a_file_with_any_device_is_not_said_to_have_none(capsys, tmp_path, device: str):
    machine = tmp_path / "machine.xml"
    machine.write_text(Path(SMALL).read_text().replace("</object>\n</topology>", f"{device}</object>\n</topology>"))
    text = machine.read_text()
    assert device in text
    code, _, err = stead(capsys, "topology", "hwloc", str(machine), "--name", "h")
    assert code == 0
    assert "no I/O devices" not in err


def test_memory_and_cpus_are_reserved_and_what_is_left_out_is_said(capsys):
    gpu = str(SAMPLES / "site" / "gpu.xml")
    arguments = ["topology", "hwloc", gpu, "--name", "h", "--reserve-memory", "1001", "--reserve-cpus", "2:node"]
    code, out, err = stead(capsys, *arguments)
    assert code == 0
    nodes = [said.inventories for said in load(out).providers.values() if "HW_NUMA_ROOT" in said.traits]
    assert [each["MEMORY_MB"].reserved for each in nodes] == [501, 500]
    assert [each["PCPU"].reserved for each in nodes] == [2, 2]
    assert err.startswith(f"stead: warning: {gpu}: no links between GPUs (NVLink, XGMI, Xe Link) in the file")


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (
            ["hwloc", SMALL, "--name", "h", "--reserve-cpus", "5"],
            "h_NUMA0: cannot reserve 5 hardware threads, it has 4",
        ),
        (["hwloc", SMALL, "--name", "h", "--reserve-memory", "1:host"], "--reserve-memory takes a number, or"),
        (["hwloc", SMALL, "--name", "h", "--reserve-cpus", "-1"], "--reserve-cpus takes a number, or"),
        (["hwloc", "nowhere.xml"], "nowhere.xml: No such file or directory"),
        (["hwloc", "."], "Is a directory"),
        (["hwloc", SMALL], "give a name with --name"),
        (["hwloc", SMALL, "--name", "h", "--count", "2"], "give a --name with {n} in it"),
        (["hwloc", SMALL, "--name", "h", "--shared", "some"], "--shared takes a number"),
        (["hwloc", SMALL, "--name", "h", "--aggregate", "x"], "--aggregate takes a UUID"),
        (["hwloc", str(SAMPLES / "site.yaml"), "--name", "h"], "not hwloc XML"),
        (["apply", "nowhere.yaml"], "nowhere.yaml: No such file or directory"),
        (["apply", SMALL], "not YAML"),
        (["apply", str(SAMPLES / "site.yaml"), "--url", "http://127.0.0.1:1"], "cannot reach"),
        (["dump", "--url", "http://127.0.0.1:1"], "cannot reach"),
    ],
)
def test_what_cannot_be_done_is_said_in_one_line(capsys, arguments: list[str], complaint: str):
    code, out, err = stead(capsys, "topology", *arguments)
    assert (code, out) == (2, "")
    assert complaint in err
    assert err.count("\n") == 1


@pytest.mark.parametrize("text", ["", "\n \n"])
def test_an_empty_file_is_refused_as_it_may_be_the_rest_of_a_failed_command(capsys, tmp_path, text: str):
    (tmp_path / "site.yaml").write_text(text)
    code, out, err = stead(capsys, "topology", "apply", str(tmp_path / "site.yaml"), "--prune")
    assert (code, out) == (2, "")
    assert err == f"stead: {tmp_path}/site.yaml: empty file. A site without providers is `providers: []`.\n"


def test_a_file_that_is_not_text_is_refused(capsys, tmp_path):
    (tmp_path / "site.yaml").write_bytes(b"providers: \xff")
    code, _, err = stead(capsys, "topology", "apply", str(tmp_path / "site.yaml"))
    assert code == 2
    assert "it is not UTF-8 text" in err


def test_a_provider_in_two_files_is_refused(capsys):
    site = str(SAMPLES / "site.yaml")
    code, _, err = stead(capsys, "topology", "apply", site, site)
    assert code == 2
    assert "is described twice" in err


BOARDS = "name,parent,CUSTOM_BOARD\nrack-1,,\nboard-1,rack-1,1\n"


@pytest.mark.one_database
def test_a_table_and_a_machine_are_applied_and_again_without_a_change(capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    boards = tmp_path / "boards.csv"
    boards.write_text(BOARDS, encoding="utf-8")
    machine = ROOT / "samples/site/gpu.xml"
    with stead_itself(tmp_path) as (url, token):
        monkeypatch.setenv("STEAD_URL", url)
        monkeypatch.setenv("STEAD_TOKEN", token)
        for command in (["csv", str(boards)], ["hwloc", str(machine), "--name", "gpu"]):
            assert run(["topology", *command, "--apply"]) == 0
            assert "providers created" in capsys.readouterr().out
            assert run(["topology", *command, "--apply"]) == 0
            assert "0 changes: none; the server already matches" in capsys.readouterr().out
        boards.write_text(BOARDS.replace("board-1", "board-2") + "board-3,rack-1,many\n", encoding="utf-8")
        assert run(["topology", "csv", str(boards), "--apply"]) == 2
        assert "boards.csv:4: provider 'board-3': inventories: CUSTOM_BOARD must be a whole" in capsys.readouterr().err
        assert run(["topology", "dump"]) == 0
        dumped = load(capsys.readouterr().out).providers
        assert {"rack-1", "board-1"} <= dumped.keys()
        assert "board-2" not in dumped


GPU_BOX = SAMPLES / "gpu-box"


@pytest.mark.one_database
def test_gpus_are_applied_below_their_host_and_again_without_a_change(capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    program = tmp_path / "bin" / "nvidia-smi"
    program.parent.mkdir()
    program.write_text(
        f"""#!/bin/sh
case "$*" in
    "-q -x") cat {GPU_BOX}/mig.xml;;
    "-L") cat {GPU_BOX}/mig.txt;;
    *) printf '\\tGPU0\\tGPU1\\nGPU0\\t X \\tSYS\\nGPU1\\tSYS\\t X \\n';;
esac
""",
        encoding="utf-8",
    )
    program.chmod(0o755)
    site = tmp_path / "host.yaml"
    site.write_text(
        "providers:\n- name: rack\n  children:\n  - name: box\n    inventories: {VCPU: 8}\n"
        "    children: [{name: 'box_GPU_0000:d8:00.0', inventories: {PGPU: 1}}]\n",
        encoding="utf-8",
    )
    command = ["topology", "nvidia-smi", "--name", "box", "--apply"]
    monkeypatch.setenv("PATH", str(tmp_path))
    assert stead(capsys, *command)[::2] == (2, "stead: no nvidia-smi on this machine; give files with its output\n")
    with stead_itself(tmp_path) as (url, token):
        monkeypatch.setenv("STEAD_URL", url)
        monkeypatch.setenv("STEAD_TOKEN", token)
        monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")
        assert stead(capsys, "topology", "apply", str(site))[0] == 0
        assert stead(capsys, *command)[0] == 0
        assert "0 changes: none; the server already matches" in stead(capsys, *command)[1]
        providers = load(stead(capsys, "topology", "dump")[1]).providers
        assert providers["box"].parent == "rack"
        assert providers["box"].inventories["VCPU"].total == 8
        assert providers["box_GPU_0000:3b:00.0"].parent == "box"
        assert sum("CUSTOM_MIG" in each.inventories for each in providers.values()) == 3
        program.write_text("#!/bin/sh\necho 'driver not loaded' >&2; exit 9\n", encoding="utf-8")
        code, _, err = stead(capsys, *command)
        assert (code, err) == (2, "stead: nvidia-smi -q -x ended with 9: driver not loaded\n")
        assert stead(capsys, "topology", "nvidia-smi", str(GPU_BOX / "smi.xml"))[0] == 2  # no name


RACK = """
providers:
- name: rack
  children:
  - name: node-1
    inventories: {VCPU: 8}
    traits: [CUSTOM_MINE]
    aggregates: [5ead0000-0000-4000-8000-000000000001]
    children: [{name: card, uuid: 5ead0000-0000-4000-8000-000000000002, inventories: {PGPU: 1}}]
  - {name: node-2, inventories: {VCPU: 8}}
"""
ADDED = """
meta: {schema_version: '1.0'}
providers:
- identification: {uuid: $COMPUTE_NODE}
  inventories: {additional: [CUSTOM_LICENSE: {total: 22, reserved: 2}, CUSTOM_SLOT: {total: 4}]}
  traits: {additional: [CUSTOM_FAST, CUSTOM_OLD]}
"""
CARD = "- identification: {uuid: 5ead0000-0000-4000-8000-000000000002}\n  traits: {additional: [CUSTOM_COOLED]}\n"


@pytest.mark.one_database
def test_what_leaves_a_provider_yaml_leaves_its_host_and_nothing_else_changes(capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    file, site = tmp_path / "provider.yaml", tmp_path / "site.yaml"
    file.write_text(ADDED + CARD, encoding="utf-8")
    site.write_text(RACK, encoding="utf-8")
    command = ["topology", "provider-yaml", str(file), "--host"]
    with stead_itself(tmp_path) as (url, token):
        monkeypatch.setenv("STEAD_URL", url)
        monkeypatch.setenv("STEAD_TOKEN", token)
        assert stead(capsys, "topology", "apply", str(site))[0] == 0
        before = stead(capsys, "topology", "dump")[1]

        for faulty, complaint in (
            (ADDED.replace("$COMPUTE_NODE", "$HOST"), ":4: identification: uuid: '$HOST'"),
            (ADDED + CARD.replace("uuid: 5ead", "name: 5ead"), ":7: no resource provider 5ead"),
            (ADDED + "- identification: {name: node-1}\n", ":7: provider 'node-1' is described twice; first in"),
        ):
            file.write_text(faulty, encoding="utf-8")
            code, _, err = stead(capsys, *command, "node-1", "--apply")
            assert (code, err.count("\n")) == (2, 1)
            assert f"{file}{complaint}" in err
        file.write_text(ADDED + CARD, encoding="utf-8")
        code, _, err = stead(capsys, *command, "node-3", "--apply")
        assert (code, f"{file}:4: no resource provider node-3, for $COMPUTE_NODE; name" in err) == (2, True)
        code, out, _ = stead(capsys, *command, "node-1")
        assert (code, "a dry run" in out, "+CUSTOM_LICENSE total 22" in out) == (0, True, True)
        assert stead(capsys, "topology", "dump")[1] == before

        assert stead(capsys, *command, "node-1", "--apply")[0] == 0
        assert "2 providers described" in stead(capsys, *command, "node-2", "--apply")[1]
        for host in ("node-1", "node-2"):
            assert "0 changes: none; the server already matches" in stead(capsys, *command, host, "--apply")[1]
        providers = load(stead(capsys, "topology", "dump")[1]).providers
        assert providers["node-1"].inventories["CUSTOM_LICENSE"].reserved == 2
        assert providers["node-1"].traits >= {"CUSTOM_MINE", "CUSTOM_FAST", "CUSTOM_OLD"}
        assert "CUSTOM_COOLED" in providers["card"].traits

        consumer = "5ead0000-0000-4000-8000-000000000003"
        claim = ["claim", "resources=CUSTOM_LICENSE:3&in_tree=name:rack&required=CUSTOM_MINE", "--consumer", consumer]
        assert stead(capsys, *claim, "--project", "p", "--user", "u")[0] == 0
        file.write_text(ADDED.replace("total: 22", "total: 3"), encoding="utf-8")
        code, _, err = stead(capsys, *command, "node-1", "--apply")
        assert (code, err.count("\n")) == (2, 1)
        assert "CUSTOM_LICENSE of provider node-1: 3 used" in err
        assert "release claims first" in err

        file.write_text("meta: {schema_version: '1.0'}\n", encoding="utf-8")
        code, out, _ = stead(capsys, *command, "node-1", "--apply")
        assert (code, "kept inventory of CUSTOM_LICENSE of provider node-1: 3 in use" in out) == (1, True)
        providers = load(stead(capsys, "topology", "dump")[1]).providers
        assert providers["node-1"].inventories.keys() == {"VCPU", "CUSTOM_LICENSE"}
        assert providers["node-2"].inventories.keys() == {"VCPU", "CUSTOM_LICENSE", "CUSTOM_SLOT"}
        assert stead(capsys, "release", consumer, "--yes")[0] == 0
        for host in ("node-1", "node-2"):
            assert stead(capsys, *command, host, "--apply")[0] == 0
        assert stead(capsys, "topology", "dump")[1] == before
