"""``stead-bench fill``: concurrent clients fill a site of empty hosts, with one request for each claim or with two.

One request: POST ``/claims``. Two requests: GET ``/allocation_candidates`` for the best candidate, then PUT of that
candidate; a client whose PUT conflicts with another client's starts again.
"""

from __future__ import annotations

import json
import tempfile
import threading
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any
from uuid import uuid4, uuid5

from stead.domain.provider import Inventory
from stead.topology.site import Description
from stead_bench import processes, servers, tables
from stead_bench.errors import BenchError, Refused
from stead_bench.results import percentile
from stead_bench.sites import PREFIX, SPACE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from stead_bench.asking import Connection
    from stead_bench.filling import Watcher
    from stead_bench.servers import Server, Serving

    Step = Callable[[Connection], int | None]
    """Claims once; returns the number of conflicts with other clients, None if nothing fits any more."""

TAKEN = {"VCPU": 2, "MEMORY_MB": 4096}
OWNER = {"project_id": "bench", "user_id": "bench", "consumer_type": "BENCH", "consumer_generation": None}
VERSIONS = "1.39, stead 1.2"


@dataclass(frozen=True)
class Fill:
    """The result of filling one site.

    Attributes:
        way: ``POST`` or ``GET + PUT``.
        order: the requested order of candidates.
        per_second: claims, over the time until nothing fitted.
        p50_ms, p99_ms: duration of one claim for its client, including retries.
        conflicts: places that were refused because another client had claimed them.
        cpu_ms: processor milliseconds of all services per claim.
    """

    database: str
    way: str
    order: str
    clients: int
    services: int
    hosts: int
    claims: int
    seconds: float
    per_second: float
    p50_ms: float
    p99_ms: float
    conflicts: int
    cpu_ms: float


@dataclass
class _Done:
    """The results of all clients."""

    seconds: list[float] = field(default_factory=list)
    conflicts: int = 0
    complaints: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Bench:
    """The parameters of the measurement.

    Attributes:
        per_host: number of claims that fit on one host.
        services: number of services on one database; each client uses one of them.
    """

    hosts: int
    per_host: int
    clients: int
    services: int
    serving: Serving
    watcher: Watcher

    def fills(self, database: str | None, orders: Sequence[str]) -> Iterator[Fill]:
        """A row for each order and way, each on an empty site; None is a temporary SQLite file.

        Raises:
            BenchError: the database has other providers, or a claim failed.
        """
        for order in orders:
            for way, step in (("POST", _by_one(order)), ("GET + PUT", _by_two(order))):
                with ExitStack() as stack:
                    folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="stead-bench-")))
                    url = database or f"sqlite:///{folder}/stead.db"
                    with tables.opened(url) as store:
                        tables.prepare(store)
                        tables.clear(store)
                        described = list(self._hosts())
                        tables.make_names(store, described)
                        with self.watcher("loading providers", len(described)) as loaded:
                            tables.load(store, described, loaded)
                    several = []
                    for number in range(self.services):
                        (own := folder / str(number)).mkdir()
                        several.append(stack.enter_context(servers.stead(own, url, self.serving)))
                    yield self._fill(url.partition(":")[0].partition("+")[0], way, order, several, step)

    def _hosts(self) -> Iterator[Description]:
        has = {name: Inventory(amount * self.per_host) for name, amount in TAKEN.items()}
        for number in range(self.hosts):
            name = f"{PREFIX}fill-{number:05}"
            yield Description(name, str(uuid5(SPACE, name)), None, has, frozenset(), frozenset())

    def _fill(self, database: str, way: str, order: str, several: Sequence[Server], step: Step) -> Fill:
        done = _Done()
        pids = [pid for server in several for pid in server.processes()]
        before = processes.cpu_seconds(pids)
        began = time.perf_counter()
        dealt = [several[number % len(several)] for number in range(self.clients)]
        clients = [threading.Thread(target=_claim_all, args=(server, step, done)) for server in dealt]
        for client in clients:
            client.start()
        for client in clients:
            client.join()
        seconds = time.perf_counter() - began
        cpu = processes.cpu_seconds(pids) - before
        if done.complaints:
            raise BenchError(f"a claim failed: {done.complaints[0]}")
        if len(done.seconds) != self.hosts * self.per_host:
            raise BenchError(f"{len(done.seconds)} claims were made where {self.hosts * self.per_host} fit")
        return Fill(
            database=database,
            way=way,
            order=order,
            clients=self.clients,
            services=self.services,
            hosts=self.hosts,
            claims=len(done.seconds),
            seconds=round(seconds, 2),
            per_second=round(len(done.seconds) / seconds, 1),
            p50_ms=round(median(done.seconds) * 1e3, 3),
            p99_ms=round(percentile(done.seconds, 0.99) * 1e3, 3),
            conflicts=done.conflicts,
            cpu_ms=round(cpu / len(done.seconds) * 1e3, 3),
        )


def _claim_all(server: Server, step: Step, done: _Done) -> None:
    """Claim until nothing fits."""
    connection = server.connect(VERSIONS)
    try:
        while True:
            began = time.perf_counter()
            conflicts = step(connection)
            if conflicts is None:
                return
            done.seconds.append(time.perf_counter() - began)
            done.conflicts += conflicts  # not atomic; rarely wrong, which is enough for a report
    except BenchError as error:
        done.complaints.append(str(error))
    finally:
        connection.close()


def _query(order: str) -> str:
    return "resources=" + ",".join(f"{name}:{amount}" for name, amount in TAKEN.items()) + f"&order_by={order}"


def _by_one(order: str) -> Step:
    def step(connection: Connection) -> int | None:
        claim = {"consumer_uuid": str(uuid4()), "query": _query(order), **OWNER}
        try:
            told = connection.post("/claims", {"claims": [claim], "explain": False})
        except Refused as refused:
            if refused.status == HTTPStatus.CONFLICT and "stead.nothing_fits" in str(refused):
                return None
            raise
        return int(told["tries"]) - 1

    return step


def _by_two(order: str) -> Step:
    def step(connection: Connection) -> int | None:
        conflicts = 0
        while True:
            reply = connection.get(f"/allocation_candidates?{_query(order)}&limit=1")
            requests: list[dict[str, Any]] = json.loads(reply.body)["allocation_requests"]
            if not requests:
                return None
            try:
                connection.put(f"/allocations/{uuid4()}", {**requests[0], **OWNER})
            except Refused as refused:
                if refused.status != HTTPStatus.CONFLICT:
                    raise
                conflicts += 1
            else:
                return conflicts

    return step
