"""Pages of worked examples: every command prints what the page says, on a server that has nothing yet."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import stead
from stead.bench import servers
from stead.bench.servers import Serving
from tests.docs.console import Command, commands_of, run

DOCS = Path(__file__).parent.parent.parent / "docs"

pytestmark = [pytest.mark.timeout(180), pytest.mark.skipif(not shutil.which("curl"), reason="the pages use curl")]


@pytest.mark.parametrize("name", ["beyond.md", "beyond-claims.md"])
def test_every_command_prints_what_the_page_says(name: str, tmp_path: Path) -> None:
    (tmp_path / "samples").symlink_to(DOCS.parent / "samples")
    with servers.stead(tmp_path, f"sqlite:///{tmp_path}/stead.db", Serving(1, 8)) as server:
        require(commands_of(DOCS / name), tmp_path, STEAD_URL=server.url, STEAD_TOKEN=server.token)


def test_who_gets_started_gets_as_far_as_the_page_says(tmp_path: Path) -> None:
    """With the embedded server, which the commands find by its data."""
    data = tmp_path / "data"
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("OS_", "STEAD_"))}
    serve = [sys.executable, "-c", "from stead.cli import main; main()", "--json", "serve", "--port", "0"]
    with subprocess.Popen(
        [*serve, "--data-dir", str(data)],
        env=environment,
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as server:
        try:
            assert server.stdout is not None
            url = json.loads(server.stdout.readline())["url"]
            commands = commands_of(DOCS / "getting-started.md")
            for command in commands:
                command.text = command.text.replace("http://127.0.0.1:8778", url)
            require(commands, tmp_path, STEAD_DATA_DIR=str(data))
        finally:
            server.terminate()


def require(commands: list[Command], directory: Path, **environment: str) -> None:
    """Every one of *commands*, run in *directory* one after the other, prints what its page says."""
    assert len(commands) > 5
    tools = directory / "bin"
    tools.mkdir()
    program = tools / "stead"
    program.write_text(f"#!/bin/sh\nexec {sys.executable} -c 'from stead.cli import main; main()' \"$@\"\n")
    program.chmod(0o755)
    usual = {name: value for name, value in os.environ.items() if not name.startswith(("OS_", "STEAD_"))}
    house = str(Path(stead.__file__).parent.parent)
    printed = run(
        commands, {**usual, "PATH": f"{tools}:{os.environ['PATH']}", "PYTHONPATH": house, **environment}, directory
    )
    for wanted, output in zip(commands, printed, strict=True):
        assert wanted.prints(output), f"$ {wanted.text}{output}"
