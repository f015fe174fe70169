"""What the wheels of Stead and of its benchmarks install."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

import stead
from scripts import twins
from tests.distributions.wheels import BENCHMARKS, ROOT, build, installed_files, project

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.one_database, pytest.mark.timeout(120)]  # builds distributions

OF_STEAD = {
    "__init__.py", "aio.py", "api", "application.py", "auth", "candidates", "catalog", "class_order.py", "cli",
    "client", "config", "domain", "embedded.py", "httpd", "observation.py", "observe", "process", "py.typed", "serve",
    "service", "store", "testing", "topology", "ui", "wsgi.py",
}  # fmt: skip


def tracked(folder: Path) -> set[str]:
    listed = subprocess.run(["git", "ls-files"], cwd=folder, check=True, capture_output=True, text=True)
    return {f"{folder.name}/{name}" for name in listed.stdout.splitlines() if (folder / name).exists()}


def test_the_wheel_of_stead_has_the_service_and_neither_benchmarks_nor_tests(tmp_path: Path) -> None:
    installed = installed_files(build(ROOT, tmp_path / "wheel"))
    assert {name.split("/")[0] for name in installed} == {"stead", "bin"}
    assert {name.split("/")[1] for name in installed if name.startswith("stead/")} == OF_STEAD
    assert {name for name in installed if name.startswith("bin/")} == {"bin/stead"}
    generated = {path.relative_to(ROOT / "src").as_posix() for path in twins.generated()}
    assert installed - {"bin/stead"} == tracked(ROOT / "src" / "stead") | generated


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
