"""Servers of each kind, and all cases sent to one of them in segments."""

from __future__ import annotations

import json
import os
import signal
import ssl
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from lanes_testing.segments import connect, read_answer, read_orderly_end, send_cut
from tests.servers.stead import started
from tests.system.segments.cases import LONGEST_BODY, USER, Case, cases, preparations
from tests.waiting import wait_until

if TYPE_CHECKING:
    import socket
    from collections.abc import Iterable, Iterator

    from tests.servers.certificates import Certificate

DOORS = ("tcp", "tls", "unix")
WORKERS = (1, 2)


@dataclass
class Door:
    """How clients reach a server, and its workers.

    ``ends_exactly``: an answer ends the connection if its case says so, and in no other case. Other servers than
    Stead's own may end it after any answer that says so.
    """

    place: tuple[str, int] | str
    context: ssl.SSLContext | None
    workers: list[int]
    name: str = ""
    ends_exactly: bool = True

    def connect(self, worker: int) -> socket.socket:
        """A connection that this worker accepts: the others are stopped meanwhile."""
        others = [each for each in self.workers if each != worker]
        if not others:
            return connect(self.place, self.context)
        for other in others:
            os.kill(other, signal.SIGSTOP)
        try:
            connection = connect(self.place, self.context)
            connection.sendall(b"GET /healthcheck/live HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert read_answer(connection).status == 200
        finally:
            for other in others:
                os.kill(other, signal.SIGCONT)
        return connection


def workers_of(main_process: int) -> list[int]:
    """The worker processes of a `stead serve`."""
    children = Path(f"/proc/{main_process}/task/{main_process}/children").read_text().split()
    return [int(child) for child in children if b"stead.serve.worker" in Path(f"/proc/{child}/cmdline").read_bytes()]


@contextmanager
def opened(kind: str, workers: int, directory: Path, certificate: Certificate) -> Iterator[Door]:
    """A server of this *kind* on SQLite, with what the successes need."""
    file = directory / "placement.conf"
    file.write_text(
        f"[placement_database]\nconnection = sqlite:///{directory}/placement.db\nsync_on_startup = true\n"
        f"sqlite_synchronous = false\n[api]\nauth_strategy = noauth2\n[stead]\nmax_body_size = {LONGEST_BODY}\n"
    )
    path = str(directory / "s.sock")
    options = {
        "tcp": [],
        "tls": ["--tls-certificate", str(certificate.certificate), "--tls-key", str(certificate.key)],
        "unix": ["--socket", path],
    }[kind]
    with started(file, workers=workers, options=options) as server:
        wait_until(lambda: len(workers_of(server.process.pid)) == workers)
        place = path if kind == "unix" else ("127.0.0.1", int(server.url.rpartition(":")[2]))
        context = ssl.create_default_context(cafile=certificate.certificate) if kind == "tls" else None
        door = Door(place, context, workers_of(server.process.pid), f"{kind}, {workers} workers")
        for worker in door.workers:
            door.connect(worker).close()  # it has loaded
        with door.connect(door.workers[0]) as connection:
            for method, target, body in preparations():
                case = Case("", method, target, USER, json.dumps(body).encode(), frozenset())
                connection.sendall(case.head + case.body)
                answer = read_answer(connection)
                assert answer.status < 300, (str(case), answer)
        yield door


def boundaries(case: Case) -> list[int]:
    """Every place where the request can be cut; of a long body, its first and last ones."""
    end, head = len(case.head) + len(case.body), len(case.head)
    return sorted({*range(1, head + 1), *range(head, min(head + 4, end)), *range(max(head, end - 4), end)})


@dataclass
class Sender:
    """Sends cases on kept connections, one to each worker in turn.

    Attributes:
        sent: how many requests.
        cut: by kind of case, the boundaries at which one of them was cut.
    """

    door: Door
    sent: int = 0
    announced_ends: int = 0
    connections_made: int = 0
    cut: dict[str, set[int]] = field(default_factory=dict)
    _connections: dict[int, socket.socket] = field(default_factory=dict)
    _succeeded: set[str] = field(default_factory=set)

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()

    def send(self, case: Case, cuts: Iterable[int]) -> None:
        """Send it in segments; check its answer, and that the connection ends only if the answer says so."""
        worker = self.door.workers[self.sent % len(self.door.workers)]
        if worker not in self._connections:
            self._connections[worker] = self.door.connect(worker)
            self.connections_made += 1
        connection = self._connections[worker]
        cuts = sorted(cuts)
        place = f"{self.door.name}: {case}, cut at {cuts}"
        try:
            send_cut(connection, case.head + case.body, cuts)
            answer = read_answer(connection)
            expected = case.again if str(case) in self._succeeded and case.again else case.statuses
            assert answer.status in expected, f"{answer.status}, {answer.body[:300]!r}"
            assert answer.closes == case.closes or not self.door.ends_exactly, answer
            if answer.closes:
                read_orderly_end(connection)
        except (OSError, AssertionError) as error:
            raise AssertionError(f"{place}: {error!r}") from error
        self._succeeded.add(str(case))
        self.sent += 1
        self.cut.setdefault(case.kind, set()).update(cuts)
        if answer.closes:
            self.announced_ends += 1
            connection.close()
            del self._connections[worker]


def send_all(door: Door, number: int, *, complete: bool) -> Sender:
    """Send every case to a server, the *number*-th of the run.

    Args:
        complete: cut every request at every boundary, one after the other. Otherwise each request is cut between head
            and body, and at one more boundary, another one for each server; and the first request of each kind is cut
            at every boundary, each by one of the servers.
    """
    client = Sender(door)
    begun: set[str] = set()
    servers = len(DOORS) * len(WORKERS)
    try:
        for position, case in enumerate(cases()):
            every = boundaries(case)
            if complete:
                for boundary in every:
                    client.send(case, [boundary])
                continue
            if case.kind not in begun:
                begun.add(case.kind)
                for boundary in every[number::servers]:
                    client.send(case, [boundary])
            client.send(case, [len(case.head)])
            client.send(case, [len(case.head), every[(position * 31 + number * 53) % len(every)]])
    finally:
        client.close()
    return client
