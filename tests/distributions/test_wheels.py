"""What the wheels of Stead and of its benchmarks install."""

from __future__ import annotations

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
    "__init__.py", "aio.py", "api", "application.py", "auth", "candidates", "catalog", "class_order.py", "cli",
    "client", "config", "domain", "embedded.py", "observation.py", "observe", "process", "py.typed", "serve",
    "service", "store", "testing", "topology", "ui", "wsgi.py",
}  # fmt: skip


SERVER = LANES / "src" / "wsgi_lanes"


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
