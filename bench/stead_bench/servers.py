"""The servers under test: those that run already, and those that are started here as processes of their own."""

from __future__ import annotations

import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import time
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from stead_bench import processes
from stead_bench.asking import PATIENCE, Connection
from stead_bench.errors import BenchError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

HOST = "127.0.0.1"
START_SECONDS, STOP_SECONDS = 60.0, 60.0
MICROVERSION = "1.39"


@dataclass(frozen=True)
class Serving:
    """How a server is run: worker processes, and threads of each."""

    workers: int = 1
    threads: int = 8


@dataclass
class Server:
    """A running server.

    Attributes:
        name: what reports call it.
        pids: its processes, those started by them not counted; empty if unknown.
        database: the URL of its database, if sites may be written straight into it.
    """

    name: str
    url: str
    token: str = field(default="admin", repr=False)
    pids: Sequence[int] = ()
    database: str | None = field(default=None, repr=False)
    patience: float = PATIENCE

    def headers(self, microversion: str = MICROVERSION) -> dict[str, str]:
        """What a request says of itself: who asks, and at which microversion."""
        return {
            "X-Auth-Token": self.token,
            "OpenStack-API-Version": f"placement {microversion}",
            "Accept": "application/json",
        }

    def connect(self, microversion: str = MICROVERSION) -> Connection:
        """A new connection, whose requests have these headers."""
        return Connection(self.url, self.headers(microversion), self.patience)

    def processes(self) -> list[int]:
        """All its processes."""
        return processes.family(self.pids)


def configure(folder: Path, database: str, *, durable: bool = True) -> Path:
    """Write a placement.conf for a Stead on *database* that believes who asks (``noauth2``); returns the file."""
    configuration = folder / "placement.conf"
    connection = database.replace("$", "$$")  # which oslo.config takes for a reference
    configuration.write_text(
        # The bare server beside it logs no requests either.
        "[DEFAULT]\ndefault_log_levels = placement.requestlog=WARNING\n"
        f"[placement_database]\nconnection = {connection}\nsync_on_startup = true\n"
        f"sqlite_synchronous = {durable}\n[api]\nauth_strategy = noauth2\n",
        encoding="utf-8",
    )
    return configuration


@contextmanager
def stead(folder: Path, database: str, serving: Serving, *, durable: bool = True) -> Iterator[Server]:
    """A ``stead serve`` on *database*, with its configuration and log in *folder*; ended when the block is.

    Args:
        durable: off, SQLite does not wait for the disk, where writes are not what is measured.

    Raises:
        BenchError: it did not start.
    """
    configuration = configure(folder, database, durable=durable)
    command = [sys.executable, "-c", "from stead.cli import main; main()", "--json", "serve", "--port", "0"]
    command += ["--workers", str(serving.workers), "--threads", str(serving.threads)]
    with _running([*command, "--config-file", str(configuration)], {}, folder / "stead.log") as (process, line):
        url = json.loads(line)["url"]
        yield _complete(Server("Stead", url, pids=(process.pid,), database=database), serving)


@contextmanager
def bare(folder: Path, bodies: Path, serving: Serving) -> Iterator[Server]:
    """The application that returns the files in *bodies*, under the same HTTP server with the same settings.

    Raises:
        BenchError: it did not start.
    """
    numbers = [str(free_port()), str(serving.workers), str(serving.threads)]
    command = [sys.executable, "-m", "stead_bench.bare_server", HOST, *numbers]
    with _running(command, {"STEAD_BENCH_BODIES": str(bodies)}, folder / "bare.log") as (process, line):
        yield _complete(Server("bare", line.strip(), pids=(process.pid,)), serving)


def _complete(server: Server, serving: Serving) -> Server:
    """The server when all its workers are there: connections stay with the worker that took them, so those made while
    the first one was alone would all be its.
    """
    if serving.workers > 1 and not becomes_idle(server, START_SECONDS):
        raise BenchError(f"the workers of {server.name} do not come to rest")
    return server


class Started:
    """A server that a command starts, in the foreground, at a URL that is known; it can be started anew."""

    def __init__(
        self, command: str, url: str, log: Path, *, ready: str = "/", environment: Mapping[str, str] | None = None
    ) -> None:
        """Nothing is started yet.

        Args:
            command: a program and its arguments, quoted as in a shell.
            log: what it prints goes there.
            ready: a path at which it answers as soon as it is ready.
            environment: variables beside those of this process.
        """
        self._command, self._url, self._log = shlex.split(command), url, log
        self._ready = ready
        self._environment = {**os.environ, **(environment or {})}
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> int:
        """Start it and wait until it answers; returns its process.

        Raises:
            BenchError: it does not.
        """
        try:
            with self._log.open("ab") as log:
                self._process = subprocess.Popen(
                    self._command,
                    env=self._environment,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                )
        except OSError as error:
            raise BenchError(f"cannot start {self._command[0]}: {error}") from error
        deadline = time.monotonic() + START_SECONDS
        while not _answers(self._url, self._ready):
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise BenchError(f"{self._command[0]} does not answer at {self._url}")
            time.sleep(0.1)
        return self._process.pid

    def kill(self) -> None:
        """End it and all it started, whatever they do."""
        if self._process is not None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None


def _answers(url: str, path: str) -> bool:
    """Whether a server answers at *path*: one that listens need not be ready yet."""
    with closing(Connection(url, {}, START_SECONDS)) as connection:
        try:
            connection.get(path)
        except BenchError:
            return False
        return True


@contextmanager
def _running(
    command: list[str], environment: Mapping[str, str], log: Path
) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Start *command*, wait for the line that says it listens, and end it with all it started afterwards."""
    with log.open("w") as errors:
        process = subprocess.Popen(
            command,
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            start_new_session=True,
        )
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        if not line:
            said = log.read_text(errors="replace").strip().splitlines()
            raise BenchError(f"a server did not start: {said[-1] if said else 'it said nothing'}")
        yield process, line
    finally:
        _end(process)
        process.stdout.close()


def _end(process: subprocess.Popen[str]) -> None:
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def free_port() -> int:
    """A port that nothing listens at now."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
        return port


def becomes_idle(server: Server, within: float) -> bool:
    """Whether *server* stops working within so many seconds; at once true if its processes are unknown."""
    pids = server.processes()
    deadline = time.monotonic() + within
    while pids and time.monotonic() < deadline:
        before = processes.cpu_seconds(pids)
        time.sleep(_LOOK)
        if processes.cpu_seconds(pids) - before < _LOOK / 10:
            return True
    return not pids


_LOOK = 0.5
