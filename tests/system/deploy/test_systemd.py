"""The systemd unit, as far as systemd can judge it without running it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from typing import TYPE_CHECKING

from tests.system.deploy.servers import program, sample, somebody

if TYPE_CHECKING:
    from pathlib import Path

MOST_EXPOSED = 2.0
"""Of 10, where 0 is the safest; what is left is that it listens on the network."""


def unit(directory: Path) -> Path:
    """The sample with a program that is there, and a user that is."""
    user, group = somebody()
    file = directory / "stead.service"
    file.write_text(
        sample(
            "stead.service",
            **{
                "/opt/stead/bin/stead": sys.executable,
                "User=placement": f"User={user}",
                "Group=placement": f"Group={group}",
            },
        )
    )
    return file


def test_the_unit_is_verified(tmp_path: Path) -> None:
    analyze = program("systemd-analyze", "systemd")
    done = subprocess.run([analyze, "verify", "--man=no", unit(tmp_path)], capture_output=True, text=True)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_the_unit_is_hardened(tmp_path: Path) -> None:
    analyze = program("systemd-analyze", "systemd")
    done = subprocess.run(
        [analyze, "security", "--offline=true", "--no-pager", unit(tmp_path)],
        capture_output=True,
        text=True,
        env={**os.environ, "LANG": "C.UTF-8"},
    )
    exposure = re.search(r"Overall exposure level for \S+: ([\d.]+)", done.stdout)
    assert exposure, done.stderr
    assert float(exposure[1]) < MOST_EXPOSED


def test_its_options_are_those_of_the_command() -> None:
    """Neither the unit nor the container may start something that does not exist."""
    from typer.main import get_command

    from stead.cli.local.serve import app

    known = {flag for parameter in get_command(app).params for flag in parameter.opts}
    for name in ("stead.service", "Containerfile"):
        used = set(re.findall(r"(?<![\w-])--(?:host|port|workers|metrics|config-file|socket|prefix)\b", sample(name)))
        assert used
        assert used <= known
