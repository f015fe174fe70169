"""The samples of samples/deploy/, run by the programs they are for; what is of an operator's machine is replaced."""

from __future__ import annotations

import grp
import os
import pwd
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

SAMPLES = Path(__file__).parent.parent.parent / "samples" / "deploy"
PATIENCE_SECONDS = 30.0


def sample(name: str, **replaced: str) -> str:
    """The text of a sample; every one of *replaced* must be in it."""
    text = (SAMPLES / name).read_text()
    for old, new in replaced.items():
        assert old in text, old
        text = text.replace(old, new)
    return text


def program(name: str, *places: str) -> str:
    """The path of a program, or the test is skipped."""
    found = shutil.which(name, path=os.pathsep.join([os.environ["PATH"], *places]))
    if found is None:
        pytest.skip(f"{name} is not installed here")
    return found


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


def configuration(directory: Path, more: str = "") -> dict[str, str]:
    """A placement.conf on SQLite that believes everybody, and the environment in which it is found."""
    (directory / "placement.conf").write_text(
        f"[placement_database]\nconnection = sqlite:///{directory}/placement.db\nsync_on_startup = true\n"
        f"[api]\nauth_strategy = noauth2\n{more}"
    )
    own = [path for path in sys.path if Path(path).is_dir() and not Path(path).is_relative_to(sys.base_prefix)]
    paths = os.pathsep.join(own)  # without the standard library: the server's Python has its own
    return {"PATH": os.environ["PATH"], "OS_PLACEMENT_CONFIG_DIR": str(directory), "PYTHONPATH": paths}


def somebody() -> tuple[str, str]:
    """User and group that serve: not root."""
    user = pwd.getpwnam("www-data" if os.geteuid() == 0 else pwd.getpwuid(os.geteuid()).pw_name)
    return user.pw_name, grp.getgrgid(user.pw_gid).gr_name


def owned_by(user: str, directory: Path) -> None:
    """Give *directory* to *user*."""
    if os.geteuid() == 0:
        for path in (directory, *directory.rglob("*")):
            shutil.chown(path, user)


@contextmanager
def running(command: list[str], environment: dict[str, str], port: int, log: Path) -> Iterator[None]:
    """A server in the foreground, from when it answers until the block ends."""
    with log.open("ab") as out:
        process = subprocess.Popen(
            command, env=environment, stdout=out, stderr=out, stdin=subprocess.DEVNULL, start_new_session=True
        )
    try:
        until = time.monotonic() + PATIENCE_SECONDS
        while not _answers(port):
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < until, log.read_text()
            time.sleep(0.1)
        yield
    finally:
        process.terminate()
        try:
            process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)  # its workers too
            process.wait()


def _answers(port: int) -> bool:
    connection = HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.request("GET", "/placement/healthcheck")
        return connection.getresponse().status == 200
    except OSError:
        return False
    finally:
        connection.close()


def python_of(text: str) -> None:
    """Skip unless the server's Python is of our own version: it has our packages."""
    version = re.search(r"python(?:-)?(3\.\d+)", text.lower())
    if version is None or version[1] != f"3.{sys.version_info.minor}":
        pytest.skip(f"its Python is {version and version[1]}, ours is 3.{sys.version_info.minor}")
