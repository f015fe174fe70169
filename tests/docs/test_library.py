"""The pages of the library and the sample schedulers do what they say."""

import ast
import csv
import doctest
import json
import os
import re
import runpy
import subprocess
import sys

import pytest

import stead
from scripts import library, notebook
from stead import Node, testing
from stead.topology.document import load
from stead.topology.hwloc import Options, describe
from stead.topology.machine import read_xml
from stead.topology.site import as_record, site_of
from tests.checkout import ROOT
from tests.docs.console import commands_of
from tests.docs.test_worked_examples import DOCS, require

PAGE = ROOT / "docs/library.md"
SCHEDULERS = ROOT / "samples/schedulers"
BLOCKS = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE)


def run(script, *arguments, **environment):
    command = [sys.executable, SCHEDULERS / script, *map(str, arguments)]
    return subprocess.run(command, env={**os.environ, **environment}, capture_output=True, text=True, timeout=50)


def test_the_tutorial_prints_what_the_page_shows(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = "\n".join(block for block in BLOCKS if block.startswith(">>>"))
    test = doctest.DocTestParser().get_doctest(text, {}, PAGE.name, str(PAGE), 0)
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    report = []
    runner.run(test, out=report.append, clear_globs=False)
    assert runner.summarize(verbose=False).failed == 0, "".join(report)
    assert len(test.examples) > 20


def test_the_tests_of_the_page_pass_with_the_plugin(tmp_path):
    blocks = [block for block in BLOCKS if "def test_" in block]
    (tmp_path / "test_page.py").write_text("\n".join(["import stead\n", *blocks]))
    command = [sys.executable, "-m", "pytest", "-q", "-p", "stead.testing.plugin", "-p", "no:cacheprovider", "."]
    # Without the entry points: if that of Stead is installed, the plugin would be registered twice.
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    ran = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_the_other_code_of_the_page_runs_on_a_server_with_no_import_but_stead(tmp_path):
    """In a process of its own: another test may have imported ``stead.aio``."""
    blocks = [block for block in BLOCKS if not block.startswith(">>>") and "def test_" not in block]
    assert len(blocks) == 2
    with testing.placement() as url:
        url.site().apply(Node("host", VCPU=8))
        (tmp_path / "data").mkdir(mode=0o700)
        (tmp_path / "data/admin-token").write_text("admin")
        code = "import stead\njob = stead.Request(stead.Group(VCPU=1))\n"
        code += "\n".join(blocks).replace("http://127.0.0.1:8778", url)
        program = f"""
import ast, asyncio
names = {{}}
code = compile({code!r}, "page", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
asyncio.run(eval(code, names))
assert names["claim"].name == "train-1" and names["hosts"] == ["host"]
"""
        ran = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, timeout=50)
        assert ran.returncode == 0, ran.stderr


def test_the_reference_has_every_public_name():
    assert {name for names in library.SECTIONS.values() for name in names} == set(stead.__all__) - {"__version__"}
    page = library.page()
    assert "```\n\n#" not in page, "every entry has words after its signature"
    assert "Initialize self" not in page
    for signature in re.findall(r"^```python\n(.*?)^```", page, re.DOTALL | re.MULTILINE):
        ast.parse(f"{signature.rstrip()}: ..." if signature.startswith("class ") else f"def {signature.rstrip()}: ...")
    assert all(
        f"\n#### {name}\n" in page for name in ("candidates", "claim_all", "watch", "apply", "move", "fail_next")
    )


def job(name, priority=1, gpus=1, tasks=1, *, near=True):
    return {"name": name, "priority": priority, "gpus": gpus, "cores": 4, "tasks": tasks, "near": near}


def described(site):
    """The providers of a site file, for ``apply``."""
    return {"providers": list(map(as_record, site.providers.values()))}


def test_the_gpu_scheduler_places_jobs_on_the_sample_site_and_a_second_run_places_nothing_again(tmp_path):
    data, jobs = tmp_path / "data", tmp_path / "jobs.json"
    with stead.open(data) as site:
        site.apply(described(load((ROOT / "samples/site.yaml").read_text(), "site.yaml")), create_names=True)
    pair, gang, all_of_one = job("pair", 5, gpus=2), job("gang", 9, tasks=2), job("all", 7, gpus=3, near=False)
    jobs.write_text(json.dumps([pair, gang, all_of_one, job("cpus", gpus=0)]))
    first = run("gpu_scheduler.py", data, jobs)
    lines = first.stdout.splitlines()
    assert lines[:1] == ["gang runs on gpu1, gpu2"], first.stderr
    assert [line.split()[0] for line in lines] == ["gang", "all", "pair", "cpus"]
    assert run("gpu_scheduler.py", data, jobs).stdout.splitlines() == lines
    with stead.open(data) as site:
        claims = list(site.claims(project="gpu-jobs"))
        assert len(claims) == 5
        of_pair = site.find("gpu-jobs/pair/0")
        tree = site.tree(of_pair.providers[0])
        (node,) = {tree.find(uuid).parent for uuid in of_pair.providers if tree.find(uuid).parent != tree.root.uuid}
        assert node in of_pair.providers


@pytest.mark.parametrize("machine", sorted((ROOT / "samples/site").glob("*.xml")), ids=lambda path: path.stem)
def test_the_gpu_scheduler_places_any_number_of_gpus_that_a_described_machine_has(machine, placement_site):
    of_machine = site_of(describe(read_xml(machine.read_bytes(), machine.name), "host", Options(), source=machine.name))
    placement_site.apply(described(of_machine), create_names=True)
    scheduler = runpy.run_path(str(SCHEDULERS / "gpu_scheduler.py"))
    number = sum(one.inventories["PGPU"].total for one in of_machine.providers.values() if "PGPU" in one.inventories)
    for gpus in range(number + 1) if any("PCPU" in one.inventories for one in of_machine.providers.values()) else ():
        (claim,) = scheduler["place"](placement_site, scheduler["Job"]("any", gpus=gpus, near=False, cores=1))
        assert sum(amounts.get("PGPU", 0) for amounts in claim.allocations.values()) == gpus
        claim.release()
    assert scheduler["place"](placement_site, scheduler["Job"]("more", gpus=number + 1, near=False, cores=1)) == []


def test_the_importer_writes_hosts_once_and_the_exporter_shows_them(tmp_path):
    hosts = tmp_path / "hosts.csv"
    with hosts.open("w") as file:
        rows = csv.writer(file)
        rows.writerow(["name", "cores", "memory_mb", "gpus", "model"])
        rows.writerows([f"host{number:03}", 64, 262144, number % 3, "A100"] for number in range(250))
    with testing.placement() as url:
        first, second = (run("import_hosts.py", url, hosts, STEAD_TOKEN="admin") for _ in range(2))
        assert (first.stdout, second.stdout) == ("499 providers changed\n", "0 providers changed\n"), first.stderr
        url.site().claim(stead.Request(stead.Group(PCPU=8, in_tree="host001")), "job")
        exported = run("exporter.py", url, STEAD_TOKEN="admin").stdout.splitlines()
    assert 'stead_capacity{host="host002",resource_class="PGPU"} 2' in exported
    assert 'stead_used{host="host001",resource_class="PCPU"} 8' in exported
    assert len(exported) == 2 + 2 * (250 * 2 + 166)


@pytest.mark.timeout(180)  # two races of four processes each
def test_the_races_of_the_page_are_won_by_nobody(tmp_path):
    commands = commands_of(DOCS / "own-placement.md")
    (tmp_path / "samples").symlink_to(ROOT / "samples")
    (tmp_path / "bin").mkdir()
    python = tmp_path / "bin/python"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    with testing.placement() as url:
        require(commands, tmp_path, STEAD_URL=url, STEAD_TOKEN="admin")


def node(name, **more):
    record = runpy.run_path(str(SCHEDULERS / "import_kubernetes.py"))["sample"](name)
    record["status"].update(more)
    return record


def import_nodes(site, *records):
    return runpy.run_path(str(SCHEDULERS / "import_kubernetes.py"))["import_nodes"](site, {"items": list(records)})


def test_the_nodes_of_kubernetes_are_imported_with_what_pods_can_use(placement_site):
    capacity = {"cpu": "4", "memory": "16Gi", "ephemeral-storage": "100G", "example.com/dongle": "3", "pods": "110"}
    usable = {"cpu": "3920m", "memory": "15728640Ki", "ephemeral-storage": "9e10", "example.com/dongle": "1"}
    assert import_nodes(placement_site, node("a", capacity=capacity, allocatable=usable)) == 1
    provider = placement_site.provider("a")
    assert {name: (each.total, each.reserved) for name, each in provider.inventories.items()} == {
        "VCPU": (4, 1),
        "MEMORY_MB": (16384, 1024),
        "DISK_GB": (93, 10),
        "CUSTOM_EXAMPLE_COM_DONGLE": (3, 2),
    }
    traits = {"CUSTOM_KUBERNETES_NODE", "HW_ARCH_X86_64", "CUSTOM_GPU_NVIDIA_A100_SXM4_80GB"}
    assert (provider.traits, provider.aggregates) == (traits, {stead.rack("zone eu-1a")})
    assert import_nodes(placement_site, node("a", capacity=capacity, allocatable=usable)) == 0


def test_the_states_of_nodes_are_imported_and_those_of_operators_stay(placement_site, capsys):
    ready, unknown = ([{"type": "Ready", "status": status}] for status in ("True", "Unknown"))
    cordoned = {**node("b"), "spec": {"unschedulable": True}}

    def reasons():
        return [
            disabled and disabled.reason
            for disabled in (placement_site.provider(name).disabled for name in ("a", "b", "c"))
        ]

    import_nodes(placement_site, node("a", conditions=unknown), cordoned, node("c"))
    placement_site.disable("c", "bad DIMM")
    assert reasons() == ["not ready in Kubernetes", "cordoned in Kubernetes", "bad DIMM"]
    assert (
        import_nodes(
            placement_site, node("a", conditions=ready), {**cordoned, "status": node("b", conditions=unknown)["status"]}
        )
        == 1
    )
    assert reasons() == [None, "cordoned in Kubernetes", "bad DIMM"]
    assert "not in the cluster any more: c" in capsys.readouterr().out


def test_the_notebook_shows_what_its_cells_return():
    """Otherwise run ``python -m scripts.notebook``."""
    stored = json.loads(notebook.NOTEBOOK.read_text())
    assert notebook.executed(stored) == stored
    drawings = [
        output["data"].get("text/html")
        for cell in stored["cells"]
        for output in cell.get("outputs", ())
        if "data" in output
    ]
    assert sum(drawing is not None for drawing in drawings) >= 3
