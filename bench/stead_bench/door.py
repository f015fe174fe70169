"""``stead-bench door``: the cost of the HTTP server of ``stead serve``, compared with another WSGI server."""

from __future__ import annotations

import tempfile
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from stead_bench import bare, filling, processes, servers
from stead_bench.bare_server import APPLICATION as BARE
from stead_bench.errors import BenchError
from stead_bench.queries import host_in_zones
from stead_bench.sites import Site
from stead_bench.wrk import Wrk

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from stead_bench.filling import Watcher
    from stead_bench.servers import Server, Serving
    from stead_bench.wrk import Load

STEAD = "stead.wsgi:application"

CONNECTIONS = (1, 16, 256)

QUESTIONS = ("bytes", "many bytes", "root", "small query", "large query")
"""Ordered by the work of the application, least first; in the first two only the server works."""

SMALL_LIMIT = 10

BYTES = 150

_JSON = [("content-type", "application/json")]


@dataclass(frozen=True)
class Question:
    """A request, and the application that receives it."""

    name: str
    target: str
    application: str


@dataclass(frozen=True)
class Cost:
    """The cost of one server: medians over the rounds.

    Attributes:
        cpu_us: processor microseconds per request, all processes and threads of the server.
        failed, refused: requests without an answer, and answers that are errors; of all rounds.
    """

    requests_per_second: float
    p50_ms: float
    p99_ms: float
    cpu_us: float
    failed: int
    refused: int


@dataclass(frozen=True)
class DoorRow:
    """One question on a number of connections.

    Attributes:
        bytes: size of the body of an answer.
        peer: None if there is none, like the ratios.
        rate_ratio, p99_ratio, cpu_ratio: Stead's value divided by the peer's.
    """

    question: str
    bytes: int
    connections: int
    stead: Cost
    peer: Cost | None = None
    rate_ratio: float | None = None
    p99_ratio: float | None = None
    cpu_ratio: float | None = None

    @property
    def complaints(self) -> list[str]:
        """Problems that make the measurement doubtful."""
        where = f"{self.question}, {self.connections} connections"
        sides = {"Stead": self.stead, "peer": self.peer}
        return [
            f"{where}, {name}: {cost.failed} requests failed, {cost.refused} were refused"
            for name, cost in sides.items()
            if cost is not None and (cost.failed or cost.refused)
        ]


@dataclass(frozen=True)
class Bench:
    """The parameters of the measurement.

    Attributes:
        peer_command: starts a WSGI server in the foreground; `{port}` and `{application}` are replaced.
        seconds: per round, of Stead and of the peer.
        rounds: number of rounds.
        hosts: number of hosts of the site.
    """

    serving: Serving
    peer_command: str | None
    seconds: int
    rounds: int
    hosts: int
    watcher: Watcher

    def rows(self, questions: Sequence[str], connections: Sequence[int]) -> Iterator[DoorRow]:
        """A row for each of *questions*, which are in `QUESTIONS`, and each number of connections.

        Raises:
            BenchError: a server did not start, or there is no load generator.
        """
        with ExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="stead-bench-")))
            wrk = Wrk(folder)
            doors = _Doors(self, folder, stack)
            for question in doors.questions():
                if question.name in questions:
                    for number in connections:
                        yield self._row(wrk, doors, question, number)

    def _row(self, wrk: Wrk, doors: _Doors, question: Question, connections: int) -> DoorRow:
        server, peer = doors.of(question.application)
        with closing(server.connect()) as connection:
            size = len(connection.get(question.target).body)
        ours: list[tuple[Load, float]] = []
        theirs: list[tuple[Load, float]] = []
        for number in range(self.rounds):
            turns = [(server, ours)] + ([(peer, theirs)] if peer is not None else [])
            for each, loads in turns if number % 2 == 0 else reversed(turns):
                loads.append(_turn(wrk, each, question.target, connections, self.seconds))
        stead, other = _cost(ours), _cost(theirs) if theirs else None
        return DoorRow(
            question.name,
            size,
            connections,
            stead,
            other,
            rate_ratio=_ratio(stead.requests_per_second, other.requests_per_second) if other else None,
            p99_ratio=_ratio(stead.p99_ms, other.p99_ms) if other else None,
            cpu_ratio=_ratio(stead.cpu_us, other.cpu_us) if other else None,
        )


class _Doors:
    """The servers of both applications, Stead's and the peer's, all with the same site."""

    def __init__(self, bench: Bench, folder: Path, stack: ExitStack) -> None:
        bodies = folder / "bodies"
        bodies.mkdir()
        database = f"sqlite:///{folder}/stead.db"
        filling.make(database, Site("flat", bench.hosts), bench.watcher)
        stead = stack.enter_context(servers.stead(folder, database, bench.serving, durable=False))
        self._query = host_in_zones(Site("flat", bench.hosts))
        with closing(stead.connect()) as connection:
            large = connection.get(self._query.target(0, None)).body
        self._few = bare.keep(bodies, 0, _JSON, b"x" * BYTES)
        self._many = bare.keep(bodies, 1, _JSON, large)
        idle = stack.enter_context(servers.bare(folder, bodies, bench.serving))
        self._servers = {STEAD: stead, BARE: idle}
        self._peers: dict[str, Server] = {}
        if bench.peer_command is not None:
            environment = {bare.FOLDER: str(bodies), "STEAD_CONFIG_FILE": str(folder / "placement.conf")}
            for application, ready in ((STEAD, "/"), (BARE, self._few)):
                peer = _peer(bench.peer_command, application, ready, folder, environment)
                self._peers[application] = stack.enter_context(peer)

    def questions(self) -> list[Question]:
        """All of `QUESTIONS`."""
        asked = [
            (self._few, BARE),
            (self._many, BARE),
            ("/", STEAD),
            (self._query.target(0, SMALL_LIMIT), STEAD),
            (self._query.target(0, None), STEAD),
        ]
        return [Question(name, *each) for name, each in zip(QUESTIONS, asked, strict=True)]

    def of(self, application: str) -> tuple[Server, Server | None]:
        """The two servers of *application*."""
        return self._servers[application], self._peers.get(application)


@contextmanager
def _peer(command: str, application: str, ready: str, folder: Path, environment: dict[str, str]) -> Iterator[Server]:
    port = servers.free_port()
    url = f"http://{servers.HOST}:{port}"
    filled = command.replace("{port}", str(port)).replace("{application}", application)
    if filled == command:
        raise BenchError("the command of the peer needs {port} and {application} in their places")
    started = servers.Started(filled, url, folder / f"peer-{application}.log", ready=ready, environment=environment)
    try:
        yield servers.Server("peer", url, pids=(started.start(),))
    finally:
        started.kill()


def _turn(wrk: Wrk, server: Server, target: str, connections: int, seconds: int) -> tuple[Load, float]:
    """The result of the load, and the processor seconds of the server during it."""
    pids = server.processes()
    before = processes.cpu_seconds(pids)
    load = wrk.run(server.url + target, server.headers(), connections=connections, seconds=seconds)
    return load, processes.cpu_seconds(pids) - before


def _cost(loads: Sequence[tuple[Load, float]]) -> Cost:
    return Cost(
        requests_per_second=round(median(load.requests / load.seconds for load, _ in loads), 1),
        p50_ms=round(median(load.p50_ms for load, _ in loads), 3),
        p99_ms=round(median(load.p99_ms for load, _ in loads), 3),
        cpu_us=round(median(cpu / load.requests for load, cpu in loads) * 1e6, 1),
        failed=sum(load.failed for load, _ in loads),
        refused=sum(load.refused for load, _ in loads),
    )


def _ratio(dividend: float, divisor: float) -> float | None:
    return round(dividend / divisor, 2) if divisor else None
