"""Servers under test: started as processes of their own, asked over one connection, and their processor time read."""

from __future__ import annotations

import http.client
import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

HOST = "127.0.0.1"
WORKERS, THREADS = 1, 8
PATIENCE = 60.0
"""Seconds a server may take to begin, and to end."""


@dataclass
class Reply:
    """One answer, and the seconds from sending the request to having read the last byte."""

    seconds: float
    headers: list[tuple[str, str]]
    body: bytes


class Server:
    """A running server and one kept-alive connection to it."""

    def __init__(self, process: subprocess.Popen[bytes], port: int) -> None:
        self._process = process
        self._connection = http.client.HTTPConnection(HOST, port, timeout=PATIENCE)

    def get(self, target: str, headers: Mapping[str, str]) -> Reply:
        """Ask for *target*.

        Raises:
            RuntimeError: the answer is not 200.
        """
        began = time.perf_counter()
        self._connection.request("GET", target, headers=dict(headers))
        response = self._connection.getresponse()
        body = response.read()
        seconds = time.perf_counter() - began
        if response.status != http.HTTPStatus.OK:
            raise RuntimeError(f"{response.status} for {target}: {body[:500]!r}")
        return Reply(seconds, response.getheaders(), body)

    def cpu_seconds(self) -> float:
        """Processor time of the server so far, all its processes and threads together.

        Source: ``schedstat``, whose first number is nanoseconds on a processor (Linux only).
        """
        return sum(map(cpu_of_thread, threads_of_session(self._process.pid))) / 1e9

    def is_listening(self) -> bool:
        if self._process.poll() is not None:
            raise RuntimeError(f"the server ended with {self._process.returncode}")
        try:
            self._connection.connect()
        except OSError:
            return False
        return True


def threads_of_session(session: int) -> Iterator[Path]:
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if os.getsid(int(process.name)) == session:
                yield from (process / "task").iterdir()
        except (ProcessLookupError, FileNotFoundError):
            continue  # it ended while we looked


def cpu_of_thread(thread: Path) -> int:
    try:
        return int((thread / "schedstat").read_text(encoding="ascii").split()[0])
    except FileNotFoundError:
        return 0


@contextmanager
def running(command: list[str], environment: Mapping[str, str], port: int, log: Path) -> Iterator[Server]:
    """Start *command*, wait until it listens on *port*, and end it and all it started afterwards."""
    environment = {**os.environ, **environment}
    with log.open("wb") as output:
        process = subprocess.Popen(command, env=environment, stdout=output, stderr=output, start_new_session=True)
    server = Server(process, port)
    try:
        wait_until_listening(server, log)
        yield server
    finally:
        end(process)


def wait_until_listening(server: Server, log: Path) -> None:
    deadline = time.monotonic() + PATIENCE
    while not server.is_listening():
        if time.monotonic() > deadline:
            raise RuntimeError(f"the server does not listen; it said:\n{log.read_text(errors='replace')}")
        time.sleep(0.05)


def end(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(PATIENCE)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
        return port


def stead(data: Path, port: int) -> list[str]:
    """The command of the service itself, with an embedded database in *data*."""
    start = [sys.executable, "-c", "from stead.cli import main; main()", "--data-dir", str(data), "serve"]
    return [*start, "--host", HOST, "--port", str(port), "--workers", str(WORKERS), "--threads", str(THREADS)]


def bare(port: int) -> list[str]:
    """The command of the bare application, under the same server with the same settings."""
    return [sys.executable, "-m", "bench.bare_server", HOST, str(port), str(WORKERS), str(THREADS)]
