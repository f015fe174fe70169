"""The servers under test: running ones, and those that the benchmark starts as separate processes."""

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
START_SECONDS, STOP_SECONDS = 300.0, 60.0
MICROVERSION = "1.39"


@dataclass(frozen=True)
class Serving:
    """The worker processes of a server, and the threads of each."""

    workers: int = 1
    threads: int = 8


@dataclass
class Server:
    """A running server.

    Attributes:
        name: in reports.
        pids: its main processes, without their children; empty if unknown.
        database: the URL of its database, if sites may be written directly into it.
    """

    name: str
    url: str
    token: str = field(default="admin", repr=False)
    pids: Sequence[int] = ()
    database: str | None = field(default=None, repr=False)
    patience: float = PATIENCE

    def headers(self, microversion: str = MICROVERSION) -> dict[str, str]:
        """The headers of a request: identity and microversion."""
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
    """Write a placement.conf for Stead on *database* without verified identities (``noauth2``); returns the file."""
    configuration = folder / "placement.conf"
    connection = database.replace("$", "$$")  # oslo.config would treat a single $ as a reference
    configuration.write_text(
        # The bare server does not log requests either.
        "[DEFAULT]\ndefault_log_levels = placement.requestlog=WARNING\n"
        f"[placement_database]\nconnection = {connection}\nsync_on_startup = true\n"
        f"sqlite_synchronous = {durable}\n[api]\nauth_strategy = noauth2\n",
        encoding="utf-8",
    )
    return configuration


@contextmanager
def stead(folder: Path, database: str, serving: Serving, *, durable: bool = True) -> Iterator[Server]:
    """Run ``stead serve`` on *database* during the block, with its configuration and log in *folder*.

    Args:
        durable: if off, SQLite does not wait for the disk; for measurements that do not concern writes.

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
    """Serve the files in *bodies* with the bare application, under the same HTTP server with the same settings.

    Raises:
        BenchError: it did not start.
    """
    numbers = [str(free_port()), str(serving.workers), str(serving.threads)]
    command = [sys.executable, "-m", "stead_bench.bare_server", HOST, *numbers]
    with _running(command, {"STEAD_BENCH_BODIES": str(bodies)}, folder / "bare.log") as (process, line):
        yield _complete(Server("bare", line.strip(), pids=(process.pid,)), serving)


def _complete(server: Server, serving: Serving) -> Server:
    """Wait until all workers of the server run. A connection stays with the worker that accepted it, so otherwise the
    first worker would get all connections.
    """
    if serving.workers > 1 and not becomes_idle(server, START_SECONDS):
        raise BenchError(f"the workers of {server.name} do not come to rest")
    return server


class Started:
    """A server that a command starts in the foreground, at a known URL; it can be restarted."""

    def __init__(
        self, command: str, url: str, log: Path, *, ready: str = "/", environment: Mapping[str, str] | None = None
    ) -> None:
        """Start nothing yet.

        Args:
            command: a program and its arguments, quoted as in a shell.
            log: file for its output.
            ready: a path at which it answers as soon as it is ready.
            environment: variables in addition to those of this process.
        """
        self._command, self._url, self._log = shlex.split(command), url, log
        self._ready = ready
        self._environment = {**os.environ, **(environment or {})}
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> int:
        """Start it and wait until it answers; returns its process id.

        Raises:
            BenchError: it does not answer.
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
        """Kill it and all its descendants."""
        if self._process is not None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None


def _answers(url: str, path: str) -> bool:
    """Whether a server answers at *path*: a listening server need not be ready yet."""
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
    """Start *command*, wait for the line that says it listens; at the end of the block, end it with its descendants."""
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
    """A port on which nothing listens now."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
        return port


def becomes_idle(server: Server, within: float) -> bool:
    """Whether *server* becomes idle within *within* seconds; True at once if its processes are unknown."""
    pids = server.processes()
    deadline = time.monotonic() + within
    while pids and time.monotonic() < deadline:
        before = processes.cpu_seconds(pids)
        time.sleep(_LOOK)
        if processes.cpu_seconds(pids) - before < _LOOK / 10:
            return True
    return not pids


_LOOK = 0.5
