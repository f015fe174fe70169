"""A server and two processes with `stead.open` on one directory: one order of all requests explains all answers."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import threading
from contextlib import ExitStack
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa

import stead
from tests.checkout import ROOT
from tests.conftest import write_configuration
from tests.servers.stead import started
from tests.system.library.elsewhere import answered
from tests.system.torture.checker import check
from tests.system.torture.clients import Client, Knowledge
from tests.system.torture.history import History
from tests.system.torture.model import ReadBooks
from tests.system.torture.run import TOTALS, books_of
from tests.system.torture.speech import HEADERS, Caller, World, set_up
from tests.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

pytestmark = pytest.mark.timeout(240)  # starts a server and several processes on a machine that may be busy

OPERATIONS = 400
KILLS = 2


class InProcess(Caller):
    """A client whose service is this process."""

    def __init__(self, world: World, site: stead.Site) -> None:
        super().__init__(world, [], random.Random(0))
        self._site = site

    def call(
        self, method: str, path: str, body: Any = None, _headers: Mapping[str, str] = HEADERS
    ) -> tuple[int | None, Any]:
        return answered(self._site, method, path, body)


class Elsewhere(Caller):
    """A client whose service is another process. If that is killed, the next request starts another one."""

    def __init__(self, world: World, directory: Path) -> None:
        super().__init__(world, [], random.Random(0))
        self._directory = directory
        self._process: subprocess.Popen[str] | None = None
        self.started = 0

    def call(
        self, method: str, path: str, body: Any = None, _headers: Mapping[str, str] = HEADERS
    ) -> tuple[int | None, Any]:
        process = self._process or self._start()
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            print(json.dumps([method, path, body]), file=process.stdin, flush=True)
            line = process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            self.close()
            return None, None
        status, told = json.loads(line)
        return status, told

    def _start(self) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "tests.system.library.elsewhere", str(self._directory)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT)
        self.started += 1
        return self._process

    def kill(self) -> None:
        """SIGKILL, whatever it does."""
        if self._process is not None:
            self._process.kill()

    def close(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.communicate()


def test_some_order_explains_what_a_server_and_two_processes_answer(tmp_path: Path) -> None:
    data, world, history, stop = tmp_path / "data", World(), History(list(TOTALS)), threading.Event()
    url = f"sqlite:///{data}/stead.db"
    with ExitStack() as ends:
        site = ends.enter_context(stead.open(data, timeout=15))
        server = ends.enter_context(started(write_configuration(tmp_path, url), workers=1))
        setter = Caller(world, [server.url], random.Random(1))
        initial = set_up(setter, world, TOTALS)
        setter.close()
        elsewhere = Elsewhere(world, data)
        callers = [
            Caller(world, [server.url], random.Random(2)),
            Caller(world, [server.url], random.Random(3)),
            InProcess(world, site),
            InProcess(world, site),
            elsewhere,
        ]
        knowledge = Knowledge(list(TOTALS))
        clients = [
            Client(number, caller, history, knowledge, stop, seed=number) for number, caller in enumerate(callers)
        ]
        for client in clients:
            client.start()
        try:
            for part in range(1, KILLS + 2):
                bound = OPERATIONS * part // (KILLS + 1)
                wait_until(
                    lambda bound=bound, part=part: len(history.operations) > bound and elsewhere.started >= part,
                    seconds=150,
                )
                if part <= KILLS:
                    elsewhere.kill()
        finally:
            stop.set()
            for client in clients:
                client.join()
        for client in clients:
            if client.failure is not None:
                raise client.failure
        engine = sa.create_engine(url)
        ends.callback(engine.dispose)
        place = SimpleNamespace(database=SimpleNamespace(kind="sqlite", engine=lambda: engine))
        history.record(len(clients), ReadBooks(), lambda _request: books_of(place, world))
    assert check(history.operations, initial) > 0
    assert {operation.client for operation in history.operations} == set(range(len(clients) + 1))
    assert elsewhere.started > KILLS
