"""Wheels of this repository's distributions, built and installed as pip does it, without a network."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any
from zipfile import ZipFile

from tests.checkout import ROOT

NAMES = ROOT / "distributions" / "stead-placement"
LANES = ROOT / "distributions" / "wsgi-lanes"
BENCHMARKS = ROOT / "bench"


def project(source: Path) -> dict[str, Any]:
    """The table [project] of the distribution at *source*."""
    return tomllib.loads((source / "pyproject.toml").read_text())["project"]


def installed_files(wheel: Path) -> set[str]:
    """What the wheel installs: modules by their paths, programs by ``bin/`` and their names."""
    with ZipFile(wheel) as archive:
        names = archive.namelist()
        entry_points = [name for name in names if name.endswith(".dist-info/entry_points.txt")]
        text = "".join(archive.read(name).decode() for name in entry_points)
        lines = text.partition("[console_scripts]")[2].partition("[")[0].splitlines()
    programs = {f"bin/{line.partition('=')[0].strip()}" for line in lines if line.strip()}
    programs |= {f"bin/{Path(name).name}" for name in names if ".data/scripts/" in name}
    return programs | {name for name in names if ".dist-info/" not in name and ".data/" not in name}


def build(source: Path, into: Path) -> Path:
    """The wheel of the distribution at *source*."""
    into.mkdir(parents=True)
    _pip("wheel", "--no-deps", "--no-index", "--no-build-isolation", "--wheel-dir", str(into), str(source))
    (wheel,) = into.glob("*.whl")
    return wheel


def install(wheel: Path, *, target: Path | None = None, python: Path | None = None) -> None:
    """Install the wheel alone, in a directory or in the environment of another Python."""
    of_environment = ["--python", str(python)] if python else []
    _pip(
        *of_environment,
        "install",
        "--no-deps",
        "--no-index",
        *(["--target", str(target)] if target else []),
        str(wheel),
    )


def _pip(*arguments: str) -> None:
    command = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", *arguments]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
