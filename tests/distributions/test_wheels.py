"""What the wheels of Stead and of its benchmarks install."""

from __future__ import annotations

import os
import subprocess
import sys
from subprocess import PIPE
from typing import TYPE_CHECKING
from urllib.request import urlopen

import pytest

import stead
from scripts import twins
from tests.distributions.wheels import BENCHMARKS, LANES, ROOT, build, install, installed_files, project

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.one_database, pytest.mark.timeout(120)]  # builds distributions

OF_STEAD = {
    "__init__.py", "aio.py", "aliases.py", "api", "application.py", "auth", "candidates", "catalog",
    "cli", "client", "config", "domain", "embedded.py", "observation.py", "observe", "printing.py", "process",
    "py.typed", "serve", "service", "store", "testing", "topology", "ui", "wsgi.py",
}  # fmt: skip


SERVER = LANES / "src" / "wsgi_lanes"
SAMPLES = ROOT / "samples" / "schedulers"


def tracked(folder: Path) -> set[str]:
    listed = subprocess.run(["git", "ls-files"], cwd=folder, check=True, capture_output=True, text=True)
    return {f"{folder.name}/{name}" for name in listed.stdout.splitlines() if (folder / name).exists()}


def test_the_wheel_of_stead_has_the_service_and_neither_benchmarks_nor_tests(tmp_path: Path) -> None:
    installed = installed_files(build(ROOT, tmp_path / "wheel"))
    assert {name.split("/")[0] for name in installed} == {"stead", "wsgi_lanes", "bin"}
    assert {name.split("/")[1] for name in installed if name.startswith("stead/")} == OF_STEAD
    assert {name for name in installed if name.startswith("bin/")} == {"bin/stead"}
    generated = {path.relative_to(ROOT / "src").as_posix() for path in twins.generated()}
    assert installed - {"bin/stead"} == tracked(ROOT / "src" / "stead") | tracked(SERVER) | generated


@pytest.fixture(scope="module")
def of_wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the files of Stead's wheel."""
    directory = tmp_path_factory.mktemp("wheel")
    install(build(ROOT, directory / "wheel"), target=directory / "installed")
    return directory / "installed"


DEMOS = {
    "exporter.py": 'stead_used{host="node1",resource_class="PGPU"} 1',
    "gpu_scheduler.py": "gang runs on node1, node2",
    "import_hosts.py": "<Claim of train-1 (test): PGPU:1 of node2_gpu",
    "import_kubernetes.py": "places for 8 GPUs: ['node-a', 'node-b']",
    "race.py": "over-committed hosts: 0, lost claims: 0, claims that no client has: 0, units used by no claim: 0",
}
"""What the demo of each sample prints in the end."""


@pytest.mark.parametrize("sample", sorted(path.name for path in SAMPLES.glob("*.py")))
def test_the_demo_of_a_sample_runs_with_the_wheel(of_wheel: Path, tmp_path: Path, sample: str) -> None:
    environment = {**os.environ, "PYTHONPATH": str(of_wheel)}

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, *arguments]
        return subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=100)

    assert run("-c", "import stead; print(stead.__file__)").stdout.strip() == str(of_wheel / "stead/__init__.py")
    demo = run(str(SAMPLES / sample), "--demo")
    assert (demo.returncode, demo.stderr) == (0, "")
    assert DEMOS[sample] in demo.stdout


@pytest.mark.parametrize("sample", sorted(DEMOS))
def test_a_sample_without_arguments_says_how_it_is_used(tmp_path: Path, sample: str) -> None:
    ran = subprocess.run([sys.executable, SAMPLES / sample], cwd=tmp_path, capture_output=True, text=True, timeout=50)
    assert (ran.returncode, ran.stdout) == (1, "")
    assert f"python {sample} --demo" in ran.stderr


def test_the_wheel_of_the_benchmarks_has_nothing_else(tmp_path: Path) -> None:
    installed = installed_files(build(BENCHMARKS, tmp_path / "wheel"))
    assert installed == {"bin/stead-bench"} | tracked(BENCHMARKS / "stead_bench")


def test_the_benchmarks_need_stead_of_their_own_version() -> None:
    benchmarks = project(BENCHMARKS)
    assert benchmarks["version"] == stead.__version__
    assert benchmarks["dependencies"] == [f"stead=={stead.__version__}"]
    assert benchmarks["requires-python"] == project(ROOT)["requires-python"]


def test_the_benchmarks_have_the_license_of_stead() -> None:
    assert (BENCHMARKS / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()


def test_the_wheel_of_the_server_has_the_files_that_the_wheel_of_stead_has(tmp_path: Path) -> None:
    assert installed_files(build(LANES, tmp_path / "wheel")) == tracked(SERVER)


def test_stead_declares_what_the_server_in_its_wheel_needs() -> None:
    server = project(LANES)
    assert set(server["dependencies"]) <= set(project(ROOT)["dependencies"])
    assert set(server["optional-dependencies"]["test"]) <= set(project(ROOT)["optional-dependencies"]["test"])
    assert server["version"] == stead.__version__
    assert server["requires-python"] == project(ROOT)["requires-python"]
    assert (LANES / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()


def test_the_server_serves_any_application_without_stead(tmp_path: Path) -> None:
    """The program of its README, with nothing but the wheel and its dependency."""
    place = tmp_path / "installed"
    install(build(LANES, tmp_path / "wheel"), target=place)
    program = (LANES / "README.md").read_text().partition("```python\n")[2].partition("```")[0]
    (tmp_path / "serve.py").write_text(HIDE_STEAD + program)
    with subprocess.Popen([sys.executable, tmp_path / "serve.py"], env={"PYTHONPATH": str(place)}, stdout=PIPE) as run:
        assert run.stdout is not None
        try:
            port = int(run.stdout.readline())
            with urlopen(f"http://127.0.0.1:{port}/", timeout=30) as answer:
                assert answer.read() == b"Hello\n"
        finally:
            run.terminate()
        assert run.wait(30) == 0


HIDE_STEAD = """
import sys

sys.modules["stead"] = None  # an import fails

"""
