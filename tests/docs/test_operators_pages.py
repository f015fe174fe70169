"""The commands of the pages for operators, on databases as they find them and on servers that they start."""

from __future__ import annotations

import re
import socket
import sqlite3
from typing import TYPE_CHECKING

import httpx2
import pytest

from tests.checkout import ROOT
from tests.conftest import write_configuration
from tests.docs.console import Command, commands_of
from tests.docs.test_readme import serving
from tests.docs.test_worked_examples import DOCS, outputs, require, shell_of

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.timeout(180)  # runs what the pages show

CONFIGURATION = "/etc/placement/placement.conf"
DUMP = ROOT / "tests" / "system" / "adoption" / "dumps" / "16.0.0" / "sqlite.sql"


def test_a_database_that_is_not_ready_is_checked(tmp_path: Path) -> None:
    """One that the newest release left, in which consumers are missing."""
    with sqlite3.connect(tmp_path / "placement.db") as database:
        database.executescript(DUMP.read_text())
        database.execute("DELETE FROM consumers")
    database.close()
    configuration = write_configuration(tmp_path, f"sqlite:///{tmp_path}/placement.db")
    commands = commands_of(DOCS / "adoption.md")
    assert commands
    require(commands, tmp_path, STEAD_CONFIG_FILE=str(configuration))


def test_what_is_in_effect_is_printed(tmp_path: Path) -> None:
    configuration = tmp_path / "placement.conf"
    configuration.write_text("""\
[api]
auth_strategy = keystone
[placement_database]
connection = mysql+pymysql://placement:a-password@db/placement
[placement]
max_alocation_candidates = 5
""")
    commands = commands_of(DOCS / "configuration.md")
    assert commands
    environment = {"STEAD_CONFIG_FILE": str(configuration), "OS_PLACEMENT_DATABASE__MAX_POOL_SIZE": "20"}
    printed = outputs(commands, tmp_path, **environment)
    for command, output in zip(commands, printed, strict=True):
        assert command.prints(output.replace(str(configuration), CONFIGURATION)), output


@pytest.mark.one_database
@pytest.mark.parametrize("name", ["deployment.md", "operations.md"])
def test_the_service_starts_as_the_pages_start_it(name: str, database_url: str, tmp_path: Path) -> None:
    """The other commands of the page run before it, on the same database."""
    configuration = write_configuration(tmp_path, database_url)
    ports = {port: free_port() for port in ("8778", "9778")}
    for command in (commands := commands_of(DOCS / name)):
        command.text = command.text.replace(CONFIGURATION, str(configuration)).replace("0.0.0.0", "127.0.0.1")
        command.text = re.sub("|".join(ports), lambda port: ports[port[0]], command.text)
    (serve,) = [command for command in commands if command.text.startswith("stead serve")]
    commands.remove(serve)
    serve.text += "" if "--port" in serve.text else f" --port {ports['8778']}"
    serve.text = serve.text.replace("\n", "")
    checked = [Command(f"{command.text.rstrip()} || echo FAILED") for command in commands]
    upgrade = Command(f"stead db upgrade --config-file {configuration}")
    for command, output in zip([upgrade, *checked], outputs([upgrade, *checked], tmp_path), strict=True):
        assert "FAILED" not in output, f"$ {command.text}\n{output}"
    with serving(serve, tmp_path, shell_of(tmp_path)):
        assert httpx2.get(f"http://127.0.0.1:{ports['8778']}/healthcheck").status_code == 200
        if "--metrics" in serve.text:
            assert "stead_build_info" in httpx2.get(f"http://127.0.0.1:{ports['9778']}/metrics").text


def free_port() -> str:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return str(free.getsockname()[1])


def test_each_program_around_the_service_has_a_test() -> None:
    """The rows of "Surroundings" name tests that exist, and every module with such a test has a row."""
    _, _, section = (DOCS / "operations.md").read_text().partition("## Surroundings\n")
    _, _, table = section.partition(" test |\n|---|---|---|---|\n")
    rows = table.partition("\n\n")[0].splitlines()
    named = {re.findall(r"`([a-z_/.]+)` \|$", row)[0] for row in rows}
    for place in named:
        assert (ROOT / "tests" / place).exists(), place
    deployed = {f"system/deploy/{file.name}" for file in (ROOT / "tests" / "system" / "deploy").glob("test_*.py")}
    assert deployed <= named
