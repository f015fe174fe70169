"""The released service, installed in a virtual environment of its own and run as a black box.

It is spoken to over HTTP and by its commands. Nothing of it is imported, and what it logs is thrown away unread.
"""

import http.client
import os
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from pathlib import Path

from tests.checkout import ROOT
from tests.servers.environment import Environment, Unavailable

RELEASED = Environment(".venv-released", ROOT / "locks" / "differential.txt", "STEAD_RELEASED_VENV")


def configure(directory: Path, connection: str | None = None) -> Path:
    """A placement.conf that both services can be started with: noauth2, and tables that are made at start.

    *connection* is the database's URL; an SQLite database in *directory* if not given.
    """
    file = directory / "placement.conf"
    file.write_text(
        f"[placement_database]\nconnection = {connection or f'sqlite:///{directory}/placement.db'}\n"
        "sync_on_startup = true\nsqlite_synchronous = false\n[api]\nauth_strategy = noauth2\n"
    )
    return file


def connection_of(url: str) -> str:
    """A database URL of Stead's tests as the released service's configuration has it, with a driver that it knows."""
    return url.replace("postgresql+psycopg:", "postgresql+psycopg2:")


def run(place: Path, directory: Path, *command: str) -> tuple[int, str]:
    """The exit code and the output of one of the commands of a release, with *directory*'s placement.conf.

    What it writes to stderr is thrown away unread.
    """
    program, *arguments = command
    ended = subprocess.run(
        [place / "bin" / program, "--config-file", directory / "placement.conf", *arguments],
        cwd=directory,
        env=_environment(directory),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        timeout=120,
    )
    return ended.returncode, ended.stdout


@contextmanager
def serving(directory: Path, place: Path | None = None) -> Iterator[int]:
    """The loopback port of one released service with its files in *directory*; it has ended when the block has.

    *place* is the virtual environment of the release, the current one if not given. A placement.conf that is there is
    used as it is.

    Raises:
        Unavailable
    """
    application = "placement.wsgi.api:application" if place is None else "placement.wsgi:init_application()"
    place = place or RELEASED.installed()
    if not (directory / "placement.conf").exists():
        configure(directory)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        # Accepted connections inherit it; without it each answer waits 40 ms for the client's acknowledgement.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        port = listener.getsockname()[1]
        server = _start(place, directory, listener.fileno(), application)
    try:
        _wait_for(port)
        yield port
    finally:
        server.terminate()
        try:
            server.wait(timeout=30)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()


def _environment(directory: Path) -> dict[str, str]:
    return {
        "PATH": os.environ.get("PATH", os.defpath),
        "HOME": str(directory),
        "OS_PLACEMENT_CONFIG_DIR": str(directory),
        "PYTHONHASHSEED": "0",  # its sets have the same order in every run, so that what it answers can be repeated
    }


def _start(place: Path, directory: Path, listener: int, application: str) -> subprocess.Popen[bytes]:
    arguments = ["--bind", f"fd://{listener}", "--workers", "1", "--worker-class", "gthread"]
    arguments += ["--threads", "1", "--keep-alive", "3600", "--timeout", "0"]
    try:
        return subprocess.Popen(
            [place / "bin" / "gunicorn", *arguments, application],
            cwd=directory,
            env=_environment(directory),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=[listener],
            start_new_session=True,
        )
    except OSError as error:
        raise Unavailable(f"{place} has no gunicorn: {error}") from error


def _wait_for(port: int) -> None:
    """Only the service holds the socket: it answers, or it has ended and the connection is refused."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    try:
        connection.request("GET", "/")
        status = connection.getresponse().status
    except OSError as error:
        raise Unavailable(f"it ended at once: {error}") from error
    finally:
        connection.close()
    if status != HTTPStatus.OK:
        raise Unavailable(f"it answers {status}")
