"""Database servers that a test may stop, restrict and start again: none of them is shared with other tests."""

from __future__ import annotations

import os
import signal
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
import sqlalchemy as sa

from tests.databases import required
from tests.servers.programs import Unavailable
from tests.servers.throwaway import STARTERS, Running
from tests.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sqlalchemy.engine import Connection


class Victim:
    """A server, and a database on it that an ordinary user owns."""

    def __init__(self, kind: str, running: Running) -> None:
        self.kind = kind
        self.running = running
        self.name = f"stead_{uuid4().hex[:12]}"
        self.execute(f"CREATE DATABASE {self.name}")
        url = sa.make_url(running.url).set(database=self.name)
        if kind == "mariadb":  # what is read-only to others is not to root
            self.execute("CREATE USER stead@localhost", f"GRANT ALL ON {self.name}.* TO stead@localhost")
            url = url.set(username="stead")
        self.url = url.render_as_string(hide_password=False)

    @contextmanager
    def connected(self) -> Iterator[Connection]:
        engine = sa.create_engine(self.running.url, isolation_level="AUTOCOMMIT", poolclass=sa.NullPool)
        with engine.connect() as connection:
            yield connection

    def execute(self, *statements: str) -> None:
        with self.connected() as connection:
            for statement in statements:
                connection.execute(sa.text(statement))

    def crash(self) -> None:
        self.running.crash()

    def start_again(self) -> None:
        self.running = self.running.start_again()

    def start_again_with(self, *arguments: str) -> None:
        self.crash()
        self.running = self.running.start_again(*arguments)

    @contextmanager
    def standing_still(self) -> Iterator[None]:
        """Meanwhile the server does nothing, and nobody is told so: its kernel goes on to take what it is sent."""
        stopped = processes_of(self.running)
        for pid in stopped:
            os.kill(pid, signal.SIGSTOP)
        try:
            # A thread that runs meanwhile may still answer.
            wait_until(lambda: all(map(is_stopped, stopped)), "the server stands still")
            yield
        finally:
            for pid in stopped:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)

    def kill_connections(self) -> int:
        """End all connections of the service; returns how many."""
        with self.connected() as connection:
            if self.kind == "postgresql":
                query = (
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()"
                    " AND backend_type = 'client backend'"
                )
                return len(connection.execute(sa.text(query)).all())
            ids = connection.execute(sa.text("SELECT id FROM information_schema.processlist WHERE user = 'stead'"))
            killed = list(ids.scalars())
            for id_ in killed:
                connection.execute(sa.text(f"KILL {id_}"))
            return len(killed)

    def set_read_only(self, on: bool) -> None:
        if self.kind == "postgresql":
            value = "on" if on else "off"
            self.execute(f"ALTER SYSTEM SET default_transaction_read_only = {value}", "SELECT pg_reload_conf()")
        else:
            self.execute(f"SET GLOBAL read_only = {int(on)}")

    def read_only(self) -> bool:
        """As new transactions of the service see it."""
        name = "@@read_only" if self.kind == "mariadb" else "current_setting('default_transaction_read_only')"
        with self.connected() as connection:
            value: Any = connection.execute(sa.text(f"SELECT {name}")).scalar_one()
            return value in (1, "on")


def processes_of(running: Running) -> list[int]:
    """The server's process, and those that it started."""
    tasks = Path(f"/proc/{running.process.pid}/task").glob("*/children")
    return [running.process.pid, *(int(child) for task in tasks for child in task.read_text().split())]


def is_stopped(pid: int) -> bool:
    """Whether no thread of a process runs: all are stopped, or have ended."""
    states = []
    for task in Path(f"/proc/{pid}/task").glob("*/stat"):
        with suppress(FileNotFoundError, ProcessLookupError):  # this one has ended since
            states.append(task.read_text().rpartition(")")[2].split()[0])
    return set(states) <= {"T", "Z", "X"}


def started(kind: str, place: Path) -> Running:
    """A server of this kind; the test is skipped where it cannot be had, unless STEAD_TEST_REQUIRE asks for it."""
    try:
        return STARTERS[kind](place / "apt.lock")
    except Unavailable as error:
        if kind in required():
            pytest.fail(f"STEAD_TEST_REQUIRE asks for {kind}: {error}", pytrace=False)
        pytest.skip(f"no {kind}: {error}")


@pytest.fixture(scope="module", params=sorted(STARTERS))
def victim(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Victim]:
    victim = Victim(request.param, started(request.param, tmp_path_factory.mktemp("victim")))
    yield victim
    victim.running.stop()
