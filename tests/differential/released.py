"""The released service, installed in a virtual environment of its own and run as a black box.

It is spoken to over HTTP alone. Nothing of it is imported, and what it prints is thrown away unread.
"""

import http.client
import os
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from pathlib import Path

from tests.servers.environment import Environment, Unavailable

RELEASED = Environment(".venv-released", Path(__file__).with_name("requirements.txt"), "STEAD_RELEASED_VENV")


def configure(directory: Path) -> Path:
    """A placement.conf that both services can be started with: noauth2, an SQLite database in *directory*."""
    file = directory / "placement.conf"
    file.write_text(
        f"[placement_database]\nconnection = sqlite:///{directory}/placement.db\nsync_on_startup = true\n"
        "sqlite_synchronous = false\n[api]\nauth_strategy = noauth2\n"
    )
    return file


@contextmanager
def serving(directory: Path) -> Iterator[int]:
    """The loopback port of one released service with its files in *directory*; it has ended when the block has.

    Raises:
        Unavailable
    """
    place = RELEASED.installed()
    configure(directory)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        # Accepted connections inherit it; without it each answer waits 40 ms for the client's acknowledgement.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        port = listener.getsockname()[1]
        server = _start(place, directory, listener.fileno())
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


def _start(place: Path, directory: Path, listener: int) -> subprocess.Popen[bytes]:
    arguments = ["--bind", f"fd://{listener}", "--workers", "1", "--worker-class", "gthread"]
    arguments += ["--threads", "1", "--keep-alive", "3600", "--timeout", "0"]
    try:
        return subprocess.Popen(
            [place / "bin" / "gunicorn", *arguments, "placement.wsgi.api:application"],
            cwd=directory,
            # Its sets have the same order in every run, so that what it answers can be repeated.
            env={
                "PATH": os.environ.get("PATH", os.defpath),
                "HOME": str(directory),
                "OS_PLACEMENT_CONFIG_DIR": str(directory),
                "PYTHONHASHSEED": "0",
            },
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
