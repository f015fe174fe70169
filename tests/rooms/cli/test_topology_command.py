import json
import shlex
from pathlib import Path

import pytest

from stead.cli.app import run
from stead.topology.document import load
from tests.checkout import ROOT

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
