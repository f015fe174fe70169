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
import tempfile
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.checkout import ROOT
from tests.databases import required
from tests.servers.programs import Unavailable, find, look_or_install
from tests.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SAMPLES = ROOT / "samples" / "deploy"


def sample(name: str, **replaced: str) -> str:
    """The text of a sample; every one of *replaced* must be in it."""
    text = (SAMPLES / name).read_text()
    for old, new in replaced.items():
        assert old in text, old
        text = text.replace(old, new)
    return text


APT_LOCK = Path(tempfile.gettempdir()) / f"stead-apt-{os.geteuid()}.lock"


def program(name: str, *packages: str) -> str:
    """The path of a program of Debian's *packages*, or the test is skipped."""
    return _installed(lambda: find((name,), ("/usr/sbin", "/usr/bin")), packages)


def module(path: str, *packages: str) -> Path:
    """A module of a server, of Debian's *packages*, for a Python of our own version; or the test is skipped."""
    found = Path(_installed(lambda: Path(path) if Path(path).exists() else None, packages))
    links = subprocess.run(["ldd", found], capture_output=True, text=True, check=True).stdout
    version = re.search(r"python(?:-)?(3\.\d+)", links.lower())
    if version is None or version[1] != f"3.{sys.version_info.minor}":
        pytest.skip(f"its Python is {version and version[1]}, ours is 3.{sys.version_info.minor}")
    return found


def _installed(look: Callable[[], Path | None], packages: tuple[str, ...]) -> str:
    """A web server that is installed may run from then on, so it is installed only in CI, or if it is required.

    STEAD_TEST_REQUIRE may name the first of *packages*: then the test fails where it cannot be had.
    """
    is_required = packages[0] in required()
    if look() is None and "CI" not in os.environ and not is_required:
        pytest.skip(f"{' and '.join(packages)} not installed here")
    try:
        return str(look_or_install(look, packages, APT_LOCK))
    except Unavailable as why:
        if is_required:
            pytest.fail(f"STEAD_TEST_REQUIRE asks for {packages[0]}: {why}", pytrace=False)
        pytest.skip(str(why))


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
def running(
    command: list[str], environment: dict[str, str], port: int, log: Path, *, prefix: str = "/placement"
) -> Iterator[None]:
    """A server in the foreground, from when it answers below *prefix* until the block ends."""
    with log.open("ab") as out:
        process = subprocess.Popen(
            command, env=environment, stdout=out, stderr=out, stdin=subprocess.DEVNULL, start_new_session=True
        )
    try:
        wait_until(lambda: process.poll() is not None or _answers(port, prefix), log.read_text)
        assert process.poll() is None, log.read_text()
        yield
    finally:
        process.terminate()
        try:
            process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)  # its workers too
            process.wait()


def _answers(port: int, prefix: str) -> bool:
    connection = HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.request("GET", f"{prefix}/healthcheck")
        return connection.getresponse().status == 200
    except OSError:
        return False
    finally:
        connection.close()
