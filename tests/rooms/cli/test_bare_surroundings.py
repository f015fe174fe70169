"""Commands for a user without a home directory or an entry in the password file, and without temporary files.

Containers run programs so, as any user id, with a file system that is read-only.
"""

from __future__ import annotations

import json
import os
import pwd
import signal
import socket
import subprocess
import tempfile
from typing import TYPE_CHECKING

import pytest

from scripts.commands import leaves
from stead.cli.app import run
from tests.checkout import ROOT
from tests.conftest import write_configuration
from tests.servers.stead import STEAD

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [
    pytest.mark.one_database,
    pytest.mark.filterwarnings("default::DeprecationWarning"),  # what `stead config` imports of Keystone uses cgi
]

VALUES = {"FILE": ROOT / "samples/site.yaml", "MACHINE.xml": ROOT / "samples/site/small.xml", "SHELL": "bash"}
LINES = [
    [*words.split(), *(text for each in command.params if each.required for text in filled(each))]
    for filled in [
        lambda each: [
            *(each.opts[:1] if each.param_type_name == "option" else ()),
            str(VALUES.get(each.metavar or "", "x")),
        ]
    ]
    for words, command in leaves()
    if words != "serve"
]
"""Each command, with something for each value that it requires."""

HOME_VARIABLES = ("HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "STEAD_DATA_DIR", "STEAD_URL")


@pytest.fixture
def homeless(monkeypatch: pytest.MonkeyPatch) -> None:
    """The user of this process has no home directory."""

    def getpwuid(uid: int) -> object:
        raise KeyError(f"getpwuid(): uid not found: {uid}")

    for name in HOME_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(pwd, "getpwuid", getpwuid)


def test_a_user_without_a_home_is_told_what_to_set(homeless: None, capsys: pytest.CaptureFixture[str]) -> None:
    run(["tree"])
    assert "use --url or --data-dir, or set STEAD_URL, STEAD_DATA_DIR or HOME" in capsys.readouterr().err


@pytest.mark.parametrize("line", LINES, ids=" ".join)
@pytest.mark.parametrize("surroundings", ["nothing", "data", "url", "tilde"])
def test_a_command_ends_with_a_sentence_for_a_user_without_a_home(
    line: list[str],
    surroundings: str,
    homeless: None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    if surroundings == "data":
        monkeypatch.setenv("STEAD_DATA_DIR", str(tmp_path / "data"))
    elif surroundings == "tilde":
        monkeypatch.setenv("STEAD_DATA_DIR", "~/data")
    elif surroundings == "url":
        monkeypatch.setenv("STEAD_URL", "http://127.0.0.1:9")
        monkeypatch.setenv("OS_PLACEMENT_DATABASE__CONNECTION", f"sqlite:///{tmp_path}/stead.db")
        monkeypatch.setenv("OS_STEAD__TOKEN_FILE", str(tmp_path / "tokens"))
    code = run(line)  # an exception would be a traceback
    said = capsys.readouterr()
    assert code in (0, 1, 2)
    assert code == 0 or said.err or said.out
    if surroundings in ("data", "url"):
        assert "home directory" not in said.err


@pytest.mark.parametrize("line", LINES, ids=" ".join)
def test_a_command_needs_no_temporary_files(
    line: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("STEAD_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "nowhere"))
    assert run(line) in (0, 1, 2)
    assert "nowhere" not in capsys.readouterr().err


def unknown_user() -> None:
    """For a process that begins: its user has no entry. Its rights stay, since others may not be able to read Stead."""
    if os.getuid() == 0:
        os.setresuid(54321, 0, 0)


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def start(directory: Path, *arguments: str, program: str = "", **environment: str) -> subprocess.Popen[str]:
    command = [*STEAD[:2], program + STEAD[2], "--json", "serve", "--port", "0", *arguments]
    bare = {"PATH": os.environ["PATH"], **environment}
    return subprocess.Popen(
        command, env=bare, cwd=directory, preexec_fn=unknown_user, text=True, stdout=-1, stderr=subprocess.PIPE
    )


@pytest.mark.parametrize("is_configured", [True, False])
def test_a_service_needs_no_home_directory(tmp_path: Path, is_configured: bool) -> None:
    configuration = write_configuration(tmp_path, f"sqlite:///{tmp_path}/stead.db")
    name, path = ("CONFIG_FILE", configuration) if is_configured else ("DATA_DIR", tmp_path / "data")
    with start(tmp_path, **{f"STEAD_{name}": str(path)}) as server:
        assert server.stdout is not None
        assert server.stderr is not None
        line = server.stdout.readline()
        assert line, server.stderr.read()
        assert json.loads(line)["url"].startswith("http://127.0.0.1:")
        server.send_signal(signal.SIGTERM)
        assert server.wait(timeout=50) == 0


def test_a_service_without_a_place_for_metrics_says_so(tmp_path: Path) -> None:
    configuration = write_configuration(tmp_path, f"sqlite:///{tmp_path}/stead.db")
    nowhere = f"import tempfile; tempfile.tempdir = {str(tmp_path / 'nowhere')!r}; "
    with start(
        tmp_path, "--metrics", f"127.0.0.1:{free_port()}", program=nowhere, STEAD_CONFIG_FILE=str(configuration)
    ) as server:
        out, err = server.communicate(timeout=50)
    assert (server.returncode, out) == (1, "")
    assert err.endswith("Set TMPDIR or [stead] metrics_directory.\n")
    assert "Traceback" not in err
