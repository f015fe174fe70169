"""The commands of docs/gpu-box.md, on a directory that a group shares and without a server.

Stead is a wheel in an environment of its own, whose dependencies are those of the tests. nvidia-smi is a script that
prints samples.
"""

from __future__ import annotations

import os
import sysconfig
import venv
from typing import TYPE_CHECKING

import pytest

from tests.distributions.wheels import ROOT, build, install
from tests.docs.console import Command, commands_of, run
from tests.docs.test_worked_examples import DOCS

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.timeout(300)  # each command opens the database

SAMPLES = DOCS.parent / "samples/gpu-box"


def with_wheel(directory: Path) -> Path:
    """The programs of a new environment with the wheel, in which pip installs without the network."""
    environment = directory / "venv"
    venv.create(environment, with_pip=False, symlinks=True)
    (packages,) = environment.glob("lib/python*/site-packages")
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib"))  # its own .pth files are not read
    install(build(ROOT, directory / "wheel"), python=environment / "bin" / "python")
    assert (environment / "bin" / "stead").exists()
    return environment / "bin"


def test_every_command_prints_what_the_page_says(tmp_path: Path) -> None:
    install, make, *commands = commands_of(DOCS / "gpu-box.md")
    assert install.text == "pip install .\n"
    assert make.text.startswith("sudo install -d -g gpu -m 2770 /srv/stead ")
    shared, programs = tmp_path / "shared", tmp_path / "bin"
    shared.mkdir()
    shared.chmod(0o2770)
    programs.mkdir()
    outputs = {"-q -x": "smi.xml", "topo -m": "topo.txt", "-L": "list.txt"}
    cases = "".join(f'"{words}") cat {SAMPLES}/{file};;\n' for words, file in outputs.items())
    (programs / "nvidia-smi").write_text(f'#!/bin/sh\ncase "$*" in\n{cases}esac\n')
    (programs / "nvidia-smi").chmod(0o755)
    commands = [Command(command.text.replace("/srv/stead", str(shared)), command.printed) for command in commands]
    path = f"{programs}:{with_wheel(tmp_path)}:{os.environ['PATH']}"
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("STEAD_", "PYTHON"))}
    for command, output in zip(commands, run(commands, {**environment, "PATH": path}, tmp_path), strict=True):
        assert command.prints(output), f"$ {command.text}{output}"
    assert (shared / "stead.db").stat().st_mode & 0o777 == 0o660
