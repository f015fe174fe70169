"""Throw-away servers: they answer while the tests run, and nothing is left of them afterwards."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from urllib.parse import unquote

import pytest

from tests.servers import programs
from tests.servers.programs import Unavailable
from tests.servers.throwaway import refusal_of
from tests.waiting import wait_until

pytestmark = pytest.mark.timeout(240)  # starts and stops a database server

PROGRAMS = {
    "postgresql": programs.find(("postgres",), ("/usr/lib/postgresql/*/bin",)),
    "mariadb": programs.find(("mariadbd",), ("/usr/sbin",)),
}


def commands() -> Iterator[tuple[int, str]]:
    """The processes of this machine, and how they were started."""
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            yield int(process.name), (process / "cmdline").read_bytes().decode(errors="replace")


@pytest.mark.parametrize("kind", PROGRAMS)
@pytest.mark.parametrize("end", ["the owner is killed", "the keeper is told to stop"])
def test_a_server_ends_with_its_test_run(kind: str, end: str, tmp_path: Path) -> None:
    if PROGRAMS[kind] is None:
        pytest.skip(f"no program of {kind} is installed")
    owner = subprocess.Popen(["sleep", "600"])
    keeper = subprocess.Popen([sys.executable, "-m", "tests.servers.keeper", kind, str(tmp_path), str(owner.pid)])
    try:
        wait_until((tmp_path / f"{kind}.url").exists)
        url = (tmp_path / f"{kind}.url").read_text()
        home = Path("/" + unquote(url).partition("=/")[2].partition("&")[0])
        assert refusal_of(url) is None
        assert home.exists()
        if end == "the owner is killed":
            owner.kill()
            owner.wait()
        else:
            os.kill(keeper.pid, signal.SIGTERM)
        keeper.wait(timeout=60)
    finally:
        owner.kill()
        owner.wait()
        keeper.terminate()
        keeper.wait()
    assert not home.exists()
    assert not [pid for pid, command in commands() if str(home) in command]


def test_of_several_versions_the_newest_is_taken(tmp_path: Path) -> None:
    for version in ("9", "15", "13"):
        program = tmp_path / version / "bin" / "a-server"
        program.parent.mkdir(parents=True)
        program.write_text("#!/bin/sh\n")
        program.chmod(0o755)
    assert programs.find(("a-server",), (f"{tmp_path}/*/bin",)) == tmp_path / "15" / "bin" / "a-server"
    assert programs.find(("another-server",), (f"{tmp_path}/*/bin",)) is None


def test_nothing_is_installed_against_the_user_s_will(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STEAD_TEST_INSTALL", "0")
    with pytest.raises(Unavailable, match="STEAD_TEST_INSTALL=0"):
        programs.install("a-package-that-does-not-exist")
