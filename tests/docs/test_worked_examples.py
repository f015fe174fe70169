"""Pages of worked examples: every command prints what the page says, on a server that has nothing yet."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import httpx2
import pytest
from rich.cells import cell_len

import stead
from stead.testing.serving import placement
from tests.checkout import ROOT
from tests.docs.console import Command, commands_of, run
from tests.system.api.client import NEWEST

DOCS = ROOT / "docs"
TOKEN = "admin"

pytestmark = [
    pytest.mark.timeout(180),  # runs what the pages show
    pytest.mark.skipif(not shutil.which("curl"), reason="the pages use curl"),
]


PARTS = ["Ask for more", "Claim, order and watch", "How many more fit", "Plan maintenance and growth"]
"""The parts of the page of Stead's extensions. Each begins with a site of its own."""


@pytest.mark.parametrize(("name", "part"), [*(("extensions.md", part) for part in PARTS), ("other-languages.md", None)])
def test_every_command_prints_what_the_page_says(name: str, part: str | None, tmp_path: Path) -> None:
    (tmp_path / "samples").symlink_to(DOCS.parent / "samples")
    with placement() as url:
        commands = commands_of(DOCS / name, part)
        assert len(commands) > 4
        require(commands, tmp_path, STEAD_URL=url, STEAD_TOKEN=TOKEN)


def test_the_parts_have_all_commands_of_their_page() -> None:
    page = DOCS / "extensions.md"
    assert [command for part in PARTS for command in commands_of(page, part)] == commands_of(page)


@pytest.mark.skipif(not shutil.which("node"), reason="the example is JavaScript")
def test_the_browser_s_example_follows_changes(tmp_path: Path) -> None:
    (block,) = re.findall(r"^```js\n(.*?)^```", (DOCS / "extensions.md").read_text(), re.DOTALL | re.MULTILINE)
    with placement() as url:
        headers = {"OpenStack-API-Version": f"placement {NEWEST}, stead 1.0", "X-Auth-Token": TOKEN}
        with httpx2.Client(base_url=url, headers=headers) as client:
            token = client.get("/changes?timeout=0").json()["token"]
            first, second = (client.post("/resource_providers", json={"name": name}).json()["uuid"] for name in "äb")
            script = tmp_path / "follow.mjs"
            show = "(changes) => console.log(JSON.stringify(changes))"
            script.write_text(f"{block}await follow(...process.argv.slice(2), {show});\n")
            follower = [shutil.which("node"), str(script), url, TOKEN]
            with subprocess.Popen([*follower, token], stdout=subprocess.PIPE, text=True) as following:
                assert following.stdout is not None
                before = json.loads(following.stdout.readline())
                third = client.post("/resource_providers", json={"name": "c"}).json()["uuid"]
                after = json.loads(following.stdout.readline())
                following.terminate()
            assert {each["uuid"] for each in before["providers"]} == {first, second}
            assert [each["uuid"] for each in after["providers"]] == [third]
            refused = subprocess.run([*follower, "nonsense"], stderr=subprocess.PIPE, text=True, check=False)
            assert "400: " in refused.stderr


@pytest.mark.parametrize("page", [DOCS.parent / "README.md", *sorted(DOCS.glob("*.md"))], ids=lambda page: page.name)
def test_no_picture_of_a_page_is_wider_than_a_terminal(page: Path) -> None:
    too_long = [
        line
        for command in commands_of(page)
        if command.draws
        for line in "".join(command.printed).splitlines()
        if cell_len(line) > 80
    ]
    assert too_long == []


@pytest.mark.parametrize("page", [DOCS.parent / "README.md", DOCS / "getting-started.md"], ids=lambda page: page.name)
def test_no_command_for_newcomers_is_wider_than_a_terminal(page: Path) -> None:
    lines = [line for command in commands_of(page) for line in f"$ {command.text}".splitlines()]
    assert len(lines) > 20
    assert [line for line in lines if cell_len(line) > 80] == []


def require(commands: list[Command], directory: Path, **environment: str) -> None:
    """Every one of *commands*, run in *directory* one after the other, prints what its page says."""
    for command, output in zip(commands, outputs(commands, directory, **environment), strict=True):
        assert command.prints(output), f"$ {command.text}{output}"


def outputs(commands: list[Command], directory: Path, **environment: str) -> list[str]:
    """What *commands* print, run in *directory* one after the other."""
    return run(commands, shell_of(directory, **environment), directory)


def shell_of(directory: Path, **environment: str) -> dict[str, str]:
    """The environment of a reader whose ``stead`` is this one, in *directory*, and who configured nothing else."""
    tools = directory / "bin"
    tools.mkdir(exist_ok=True)
    program = tools / "stead"
    program.write_text(f"#!/bin/sh\nexec {sys.executable} -c 'from stead.cli import main; main()' \"$@\"\n")
    program.chmod(0o755)
    usual = {name: value for name, value in os.environ.items() if not name.startswith(("OS_", "STEAD_"))}
    source = str(Path(stead.__file__).parent.parent)
    return {**usual, "PATH": f"{tools}:{os.environ['PATH']}", "PYTHONPATH": source, **environment}
