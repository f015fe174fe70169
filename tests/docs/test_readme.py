"""The README from top to bottom, in a clean checkout: each command as it is printed does what it says."""

from __future__ import annotations

import re
import shutil
import socket
import sqlite3
import subprocess
import tomllib
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from tests.docs.clean_checkout import NEEDED, ROOT, make_checkout, plain_environment
from tests.docs.console import Command, commands_of, run

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [
    pytest.mark.timeout(300),  # runs what the page shows
    NEEDED,
    pytest.mark.skipif(not shutil.which("curl"), reason="the page uses curl"),
]

SAMPLE_MACHINE = "samples/site/compute.xml"
ALIKE = re.compile(r"(?<=gpu)\d|(?<=NUMA)\d|(?<=GPU_0000:)(17|18|81|82):00\.0")
"""What differs between the places of which a claim draws one."""

ADOPTED = ROOT / "tests" / "system" / "adoption" / "dumps" / "16.0.0" / "sqlite.sql"


def place_stand_ins(checkout: Path, tools: Path) -> None:
    """What no test may rely on: a machine of this form, and packages from the network."""
    tools.mkdir()
    place_lstopo(tools)
    extras = tomllib.loads((checkout / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    installs = "|".join(f'"install .[{extra}]"' for extra in extras)
    stand_in(checkout / ".venv" / "bin" / "pip", f'case "$*" in {installs}) exit 0;; esac')


def place_lstopo(tools: Path) -> None:
    """A program that prints one of the sample machines, as the machine on which it runs."""
    stand_in(tools / "lstopo", f'[ "$*" = "--of xml" ] && exec cat "{tools}/machine.xml"')
    machine = (ROOT / SAMPLE_MACHINE).read_text()
    named, count = re.subn(r"(<object type=\"Machine\"[^>]*>)", r'\1<info name="HostName" value="mine"/>', machine)
    assert count == 1
    (tools / "machine.xml").write_text(named)


def stand_in(program: Path, text: str) -> None:
    program.write_text(f'#!/bin/sh\n{text}\necho "$0: not with $*"; exit 1\n')
    program.chmod(0o755)


@contextmanager
def serving(command: Command, checkout: Path, environment: dict[str, str]) -> Iterator[str]:
    """What the server prints that *command* starts in the foreground, until SIGTERM stops it."""
    script = command.text if "exec " in command.text else f"exec {command.text}"
    with subprocess.Popen(
        ["bash", "-c", script], cwd=checkout, env=environment,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    ) as server:  # fmt: skip
        assert server.stdout is not None
        try:
            said = []
            end = "Ctrl-C stops it." if "make" in command.text else "Stead listens on"
            while not said or end not in said[-1]:
                said.append(server.stdout.readline())
                assert said[-1], "".join(said)
            yield "".join(said)
        finally:
            server.terminate()
            server.communicate()


def test_each_command_works_as_printed(tmp_path: Path) -> None:
    checkout = make_checkout(tmp_path / "checkout")
    place_stand_ins(checkout, tmp_path / "bin")
    with sqlite3.connect(tmp_path / "p.db") as database:  # as the service that is replaced left it
        database.executescript(ADOPTED.read_text())
    database.close()
    configuration = tmp_path / "placement.conf"
    configuration.write_text(
        f"[placement_database]\nconnection = sqlite:///{tmp_path}/p.db\n[api]\nauth_strategy = noauth2\n"
    )
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    environment = plain_environment(PORT=port)
    environment["PATH"] = f"{tmp_path}/bin:{environment['PATH']}"
    commands = commands_of(checkout / "README.md")
    for command in commands:  # what stands for this machine: its port, its configuration, the network that it is in
        command.text = command.text.replace("8778", port).replace("0.0.0.0", "127.0.0.1")
        command.text = command.text.replace("/etc/placement/placement.conf", str(configuration))
    here = next(place for place, command in enumerate(commands) if "pip install" in command.text)
    trying, openstack = commands[:here], commands[here:]
    assert (trying[0].text, len(trying)) == ("make run\n", 11)
    with serving(trying[0], checkout, environment):
        require(trying[1:], checkout, environment)
    assert (openstack[-1].text.split()[:2], len(openstack)) == ([".venv/bin/stead", "serve"], 5)
    require(openstack[:-1], checkout, environment)
    with serving(openstack[-1], checkout, environment):
        pass


def require(commands: list[Command], checkout: Path, environment: dict[str, str]) -> None:
    """Each of *commands* prints what the page says, if it says anything, and succeeds, unless that is a refusal."""
    checked = [Command(f"{{ {each.text.rstrip()}\n}} || echo ended with $?\n", each.printed) for each in commands]
    for command, output in zip(checked, run(checked, environment, checkout), strict=True):
        said, _, code = output.partition("ended with ")
        is_refusal = any(line.startswith("stead: ") for line in command.printed)
        assert bool(code) == is_refusal, f"$ {command.text}{output}"
        if " claim " in command.text:
            command.printed, said = [ALIKE.sub("?", "".join(command.printed))], ALIKE.sub("?", said)
        assert not command.printed or command.prints(said), f"$ {command.text}{output}"
