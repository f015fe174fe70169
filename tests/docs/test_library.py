"""The pages of the library and the sample schedulers do what they say."""

import ast
import csv
import doctest
import json
import os
import re
import subprocess
import sys

import pytest

import stead
from scripts import library, notebook
from stead import Node, testing
from tests.checkout import ROOT

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
    (block,) = [block for block in BLOCKS if "def test_" in block]
    (tmp_path / "test_page.py").write_text(f"import stead\n\n{block}")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "stead.testing.plugin", "-p", "no:cacheprovider", "."]
    # Without the entry points: if that of Stead is installed, the plugin would be registered twice.
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    ran = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout + ran.stderr


@pytest.mark.parametrize("block", [block for block in BLOCKS if not block.startswith(">>>")])
def test_other_code_of_the_page_is_python_with_names_that_exist(block):
    tree = compile(block, PAGE.name, "exec", ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    for name in re.findall(r"stead\.(?!aio)(\w+)", ast.unparse(tree)):
        assert hasattr(stead, name)


def test_the_reference_has_every_public_name():
    assert {name for names in library.SECTIONS.values() for name in names} == set(stead.__all__) - {"__version__"}
    page = library.page()
    assert "```\n\n#" not in page, "every entry has words after its signature"
    assert all(
        f"\n#### {name}\n" in page for name in ("candidates", "claim_all", "watch", "apply", "move", "fail_next")
    )


def test_the_gpu_scheduler_places_jobs_by_priority_and_a_second_run_places_nothing_again(tmp_path):
    data, jobs = tmp_path / "data", tmp_path / "jobs.json"

    def host(name):
        gpus = [Node(f"{name}-gpu{number}", PGPU=1) for number in range(2)]
        return Node(name, MEMORY_MB=1024, children=[Node(f"{name}-numa0", PCPU=8, children=gpus)])

    with stead.open(data) as site:
        site.apply([host("a"), host("b")])
    small = {"name": "small", "priority": 1, "gpus": 1, "cores": 4, "tasks": 1}
    gang = {"name": "gang", "priority": 9, "gpus": 1, "cores": 4, "tasks": 2}
    jobs.write_text(json.dumps([small, gang]))
    first = run("gpu_scheduler.py", data, jobs)
    assert first.stdout.splitlines()[0] == "gang runs on a, b", first.stderr
    assert re.fullmatch("small runs on [ab]", first.stdout.splitlines()[1])
    assert run("gpu_scheduler.py", data, jobs).stdout.splitlines() == first.stdout.splitlines()
    with stead.open(data) as site:
        assert len(list(site.claims(project="gpu-jobs"))) == 3
    assert len((SCHEDULERS / "gpu_scheduler.py").read_text().splitlines()) <= 60


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
