"""What ``stead serve`` says and refuses where others could become administrator, and how tokens are revoked."""

from __future__ import annotations

import os
import signal
import subprocess
from typing import TYPE_CHECKING
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

import pytest

from stead.auth.tokens import create
from tests.rooms.auth.odd_files import KINDS, replace_with
from tests.servers.stead import STEAD, started
from tests.system.api.client import NEWEST
from tests.waiting import wait_until

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.timeout(120), pytest.mark.one_database]  # starts servers


def refused(directory: Path, *arguments: str) -> list[str]:
    """The lines of a start that comes to nothing."""
    done = subprocess.run(
        [*STEAD, "serve", "--port", "0", *arguments], cwd=directory, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 1, done.stderr
    return done.stderr.splitlines()


def configuration(directory: Path, strategy: str, more: str = "") -> Path:
    file = directory / "placement.conf"
    file.write_text(
        f"[placement_database]\nconnection = sqlite:///{directory}/placement.db\nsync_on_startup = {more != ''}\n"
        f"[api]\nauth_strategy = {strategy}\n{more}"
    )
    return file


@pytest.mark.parametrize(
    ("strategy", "place", "is_open"),
    [
        ("noauth2", ("--host", "0.0.0.0"), "0.0.0.0 port "),
        ("noauth2", ("--host", "::"), ":: port "),
        ("noauth2", ("--host", "127.0.0.1"), None),
        ("noauth2", ("--host", "::1"), None),
        ("noauth2", ("--socket", "stead.socket"), None),
        ("token", ("--host", "0.0.0.0"), None),
    ],
)
def test_trusting_everybody_at_a_public_address_is_warned_of(
    tmp_path: Path, strategy: str, place: tuple[str, str], is_open: str | None
) -> None:
    file = configuration(tmp_path, strategy)  # on a database without tables: it says this, and then ends
    if strategy == "token":
        file.write_text(f"{file.read_text()}[stead]\ntoken_file = {tmp_path}/tokens.json\n")
    *said, reason = refused(tmp_path, *place, "--config-file", str(file))
    assert "stead db upgrade" in reason
    warnings = [line for line in said if "WARNING" in line and "auth_strategy" in line]
    assert len(warnings) == (1 if is_open else 0), said
    if is_open:
        assert f"[api] auth_strategy = noauth2 checks no token, and the service listens on {is_open}" in warnings[0]


@pytest.mark.parametrize("command", [["serve", "--port", "0"], ["token", "list"], ["db", "version"]])
def test_a_data_directory_that_others_may_write_to_is_refused_by_each_command(
    tmp_path: Path, command: list[str]
) -> None:
    data = tmp_path / "data"
    data.mkdir()
    (data / "stead.db").touch()
    data.chmod(0o775)
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("OS_", "STEAD_"))}
    done = subprocess.run(
        [*STEAD, "--data-dir", str(data), *command], env=environment, capture_output=True, text=True, timeout=60
    )
    assert done.returncode in (1, 2)
    assert done.stderr == (
        f"stead: data directory {data}: other users can write to it and become administrator "
        f"(mode 0775). Run `chmod 700 {data}`\n"
    )
    assert [path.name for path in data.iterdir()] == ["stead.db"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_token_file_that_is_none_ends_the_start_with_the_reason(tmp_path: Path, kind: str) -> None:
    file = configuration(tmp_path, "token", f"[stead]\ntoken_file = {tmp_path}/tokens.json\n")
    replace_with(tmp_path / "tokens.json", kind)
    lines = refused(tmp_path, "--config-file", str(file))
    assert lines[-1].endswith(f" did not start: token file {tmp_path}/tokens.json: it is {kind}, not a regular file")


def status(url: str, token: str) -> int:
    try:
        with urlopen(
            Request(f"{url}/traits", headers={"X-Auth-Token": token, "OpenStack-API-Version": f"placement {NEWEST}"})
        ) as answer:
            return int(answer.status)
    except HTTPError as error:
        error.close()
        return error.code
    except URLError:  # the connection was that of a worker that ended
        return 0


def test_deleting_the_file_of_a_running_server_revokes_its_tokens_and_a_reload_reads_all_anew(tmp_path: Path) -> None:
    tokens, others = tmp_path / "tokens.json", tmp_path / "others.json"
    first = create(tokens, "one", user="u", project="p", roles=["admin"])
    file = configuration(tmp_path, "token", f"[stead]\ntoken_file = {tokens}\n")
    with started(file, workers=1) as server:
        assert status(server.url, first) == 200
        tokens.unlink()
        assert [status(server.url, first) for _ in range(3)] == [401] * 3
        second = create(tokens, "two", user="u", project="p", roles=["admin"])
        assert [status(server.url, token) for token in (first, second)] == [401, 200]
        third = create(others, "three", user="u", project="p", roles=["admin"])
        file.write_text(file.read_text().replace(str(tokens), str(others)))
        assert status(server.url, third) == 401
        server.process.send_signal(signal.SIGHUP)
        # For a moment the worker from before the reload answers as well.
        wait_until(lambda: (status(server.url, third), status(server.url, second)) == (200, 401))
        others.unlink()
        # The main process may not have finished the first reload; a worker without its token file does not start.
        server.process.send_signal(signal.SIGHUP)
        wait_until(lambda: "nothing is reloaded" in file.with_suffix(".log").read_text())
        assert status(server.url, third) == 401
        four = create(others, "four", user="u", project="p", roles=["admin"])
        assert status(server.url, four) == 200
