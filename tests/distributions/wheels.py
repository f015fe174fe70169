"""Wheels of this repository's distributions, built and installed as pip does it, without a network."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
NAMES = ROOT / "distributions" / "stead-placement"


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
