"""What is tortured: a database, `stead serve` once or several times, and proxies on both sides of it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote, urlsplit

import sqlalchemy as sa

from tests.checkout import ROOT
from tests.servers.throwaway import STARTERS, Running
from tests.system.torture.planted import VARIABLE
from tests.system.torture.proxy import Proxy
from tests.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

START_SECONDS = 60.0
ANSWER_SECONDS = 1.0
"""A database that is silent for so long is given up."""


class Database:
    """A file, or a throw-away server behind a proxy: *url* is for the service, *own_url* goes past the proxy."""

    def __init__(self, kind: str, place: Path) -> None:
        self.kind = kind
        self.url = self.own_url = f"sqlite:///{place}/stead.db"
        self._server: Running | None = None
        self.proxy: Proxy | None = None
        if kind == "sqlite":
            return
        self._server = STARTERS[kind](place / "apt.lock")
        self.own_url = self._server.url
        name = {"postgresql": ".s.PGSQL.5432", "mariadb": "socket"}[kind]
        home = self._server.home.path
        self.proxy = Proxy(place / name, home / name)
        self.url = self.own_url.replace(quote(str(home), safe=""), quote(str(place), safe=""))
        self.url = self.url.replace(quote(str(home)), quote(str(place)))

    def kill(self) -> None:
        """SIGKILL the server, all its processes, and start it again on the same data."""
        assert self._server is not None
        process = self._server.process
        # PostgreSQL's have sessions of their own, and while one of them lives it does not start again.
        all_of_it = [process.pid, *_children(process.pid)]
        for pid in all_of_it:
            _signal(pid, signal.SIGKILL)
        process.wait()
        wait_until(lambda: not any(_lives(pid) for pid in all_of_it), "a killed server lives", seconds=START_SECONDS)
        self._server = self._server.start_again()

    def stand_still(self, seconds: float) -> None:
        """Let the server do nothing for so long, and then go on with whatever it was told before."""
        assert self._server is not None
        stopped = [self._server.process.pid, *_children(self._server.process.pid)]
        try:
            for pid in stopped:
                _signal(pid, signal.SIGSTOP)
            time.sleep(seconds)
        finally:
            for pid in stopped:
                _signal(pid, signal.SIGCONT)

    def close(self) -> None:
        if self.proxy is not None:
            self.proxy.close()
        if self._server is not None:
            self._server.stop()

    def engine(self) -> sa.Engine:
        return sa.create_engine(self.own_url, poolclass=sa.NullPool)


class Stead:
    """One ``stead serve`` behind a proxy; with a bug, if one is named."""

    def __init__(self, place: Path, name: str, database: Database, *, workers: int, bug: str | None) -> None:
        self._place = place
        self._workers = workers
        self._bug = bug
        self._configuration = place / f"{name}.conf"
        self._configuration.write_text(
            f"[placement_database]\nconnection = {database.url}\nsync_on_startup = true\n"
            f"[api]\nauth_strategy = noauth2\n[stead]\nanswer_timeout = {ANSWER_SECONDS}\n"
        )
        self._port = 0
        self._process = self._start()
        self.proxy = Proxy(("127.0.0.1", 0), ("127.0.0.1", self._port))
        self.url = f"http://127.0.0.1:{self.proxy.port}"

    def _start(self) -> subprocess.Popen[bytes]:
        command = ["-c", "from stead.cli import main; main()"]
        environment = dict(os.environ, PYTHONPATH=os.pathsep.join([str(ROOT), *filter(None, sys.path)]))
        if self._bug is not None:
            command = ["-m", "tests.system.torture.planted"]
            environment[VARIABLE] = self._bug
        arguments = ["--json", "serve", "--port", str(self._port), "--workers", str(self._workers)]
        with self.log.open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, *command, *arguments, "--config-file", str(self._configuration)],
                cwd=self._place,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,
            )
        assert process.stdout is not None
        with process.stdout:
            line = process.stdout.readline()
        if not line:
            process.wait()
            raise RuntimeError(self.log.read_text())
        self._port = urlsplit(json.loads(line)["url"]).port or 0
        return process

    @property
    def log(self) -> Path:
        return self._configuration.with_suffix(".log")

    def workers(self) -> list[int]:
        """The processes that answer."""
        return [pid for pid in _children(self._process.pid) if _is_worker(pid)]

    def kill_worker(self, which: int) -> None:
        workers = self.workers()
        if workers:
            _signal(workers[which % len(workers)], signal.SIGKILL)

    def kill(self) -> None:
        """SIGKILL all of it, and start it again on the same port."""
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._restart()

    def revive(self) -> None:
        """Start it again if it ended, as it does when its workers end too often, or find no database at their start."""
        if self._process.poll() is not None:
            self._restart()

    def _restart(self) -> None:
        failures: list[RuntimeError] = []

        def starts() -> bool:
            try:
                self._process = self._start()
            except RuntimeError as failure:  # the database is not there yet, or the port not free
                failures.append(failure)
                return False
            return True

        wait_until(starts, lambda: str(failures[-1]), seconds=START_SECONDS)

    def close(self) -> None:
        self.proxy.close()
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()


def _children(pid: int) -> list[int]:
    tasks = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(child) for task in tasks for child in task.read_text().split()]


def _signal(pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, number)


def _lives(pid: int) -> bool:
    with suppress(OSError):  # it is gone
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] != "Z"
    return False


def _is_worker(pid: int) -> bool:
    with suppress(OSError):  # it is gone already
        return b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes()
    return False


class Site:
    """All of it together."""

    def __init__(self, database: Database, services: list[Stead]) -> None:
        self.database = database
        self.services = services

    @property
    def urls(self) -> list[str]:
        return [service.url for service in self.services]


@contextmanager
def site(kind: str, *, services: int = 1, workers: int = 2, bug: str | None = None) -> Iterator[Site]:
    """A site on a new database; nothing is left of it afterwards.

    Raises:
        Unavailable: this kind of database cannot be had here.
    """
    with ExitStack() as ends:
        place = Path(ends.enter_context(tempfile.TemporaryDirectory(prefix="stead-torture-")))
        database = Database(kind, place)
        ends.callback(database.close)
        running: list[Stead] = []
        for number in range(services):
            service = Stead(place, f"stead{number}", database, workers=workers, bug=bug)
            ends.callback(service.close)
            running.append(service)
        yield Site(database, running)
