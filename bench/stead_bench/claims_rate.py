"""``stead-bench claims``: claims per second of Stead, alternating with a program that only commits the same rows."""

from __future__ import annotations

import os
import tempfile
import threading
import time
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING
from uuid import uuid4

import stead
from stead import Group, Request
from stead_bench import processes, servers
from stead_bench.bare_claims import BareClaims
from stead_bench.claims import body
from stead_bench.claims_site import OWNER, WORKS, ClaimsSite, make
from stead_bench.errors import BenchError
from stead_bench.results import percentile
from stead_bench.tables import durable, opened

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from contextlib import AbstractContextManager

    from stead import Site
    from stead_bench.asking import Connection
    from stead_bench.bare_claims import BareClient, Places
    from stead_bench.filling import Watcher
    from stead_bench.servers import Server, Serving

    Claim = Callable[[int], None]  # makes the claim of this number

EMBEDDED, SPREAD = "in the process", "spread"
"""The work of claims of the library, and of the bare program beside them."""

APART = 1_000_003
"""Distance between the claim numbers of two clients."""


@dataclass(frozen=True)
class ClaimRate:
    """The result for a number of clients that claim in one way on one database, as fast as they can.

    Attributes:
        work: one of :data:`~stead_bench.claims_site.WORKS`, or :data:`EMBEDDED`.
        per_second, bare_per_second: medians over the rounds.
        p50_ms, p99_ms, bare_p50_ms, bare_p99_ms: of all claims of all rounds.
        ratio: bare claims by Stead's, median over the rounds; in each round, both are measured back to back.
        cpu_ms: processor milliseconds of the service per claim.
        bare_retries: writes that the bare program repeated because of a deadlock or a busy file.
    """

    database: str
    work: str
    clients: int
    claims: int
    per_second: float
    p50_ms: float
    p99_ms: float
    cpu_ms: float
    bare_per_second: float
    bare_p50_ms: float
    bare_p99_ms: float
    bare_retries: int
    ratio: float


@dataclass
class Turn:
    """The result of one run of some clients: seconds of each claim, and the errors."""

    seconds: float = 0.0
    claims: list[float] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)

    @property
    def rate(self) -> float:
        """Claims per second."""
        return len(self.claims) / self.seconds


@dataclass(frozen=True)
class Bench:
    """The parameters of the measurement.

    Attributes:
        seconds: of each turn of Stead and of the bare program.
        rounds: turns of each.
    """

    site: ClaimsSite
    serving: Serving
    seconds: float
    rounds: int
    watcher: Watcher
    embedded: bool = False
    """Claims are those of the library in the process of the benchmark, which finds their places, not HTTP requests."""

    def rates(self, database: str | None, clients: Sequence[int]) -> Iterator[ClaimRate]:
        """A row for each way to claim and each number of clients, on an empty database; None is a temporary file.

        Raises:
            BenchError: the database has other providers, or a claim failed.
            NotDurable: the database may lose commits, which would make them faster.
        """
        with ExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="stead-bench-")))
            url = database or f"sqlite:///{folder}/stead.db"
            with opened(url) as store:
                make(store, self.site, self.watcher)
            store = stack.enter_context(durable(url, max(clients)))
            bare = BareClaims(store, self.site.every())
            name = url.partition(":")[0].partition("+")[0]
            if self.embedded:
                library = stack.enter_context(stead.open(url, project=OWNER))
                for number in clients:
                    yield self._rate(name, [os.getpid()], partial(_in_process, library), bare, EMBEDDED, number)
                return
            server = stack.enter_context(servers.stead(folder, url, self.serving))
            for work in WORKS:
                for number in clients:
                    serving = partial(_over_http, server, self.site, work)
                    yield self._rate(name, server.processes(), serving, bare, work, number)

    def _rate(
        self,
        database: str,
        pids: Sequence[int],
        serving: Callable[[int], AbstractContextManager[list[Claim]]],
        bare: BareClaims,
        work: str,
        clients: int,
    ) -> ClaimRate:
        ours: list[Turn] = []
        theirs: list[Turn] = []
        retries, cpu = 0, 0.0
        for _ in range(self.rounds):
            with ExitStack() as stack:
                writers = [bare.client(number) for number in range(clients)]
                for writer in writers:
                    stack.callback(writer.close)
                alike = SPREAD if self.embedded else work
                places = [bare.places(self.site.taken(alike, number)) for number in range(self.site.hosts)]
                theirs.append(turn([_bare(writer, places) for writer in writers], self.seconds))
                retries += sum(writer.retries for writer in writers)
            with serving(clients) as claims:
                before = processes.cpu_seconds(pids)
                ours.append(turn(claims, self.seconds))
                cpu += processes.cpu_seconds(pids) - before
        claimed = [seconds for each in ours for seconds in each.claims]
        written = [seconds for each in theirs for seconds in each.claims]
        return ClaimRate(
            database=database,
            work=work,
            clients=clients,
            claims=len(claimed),
            per_second=round(median(each.rate for each in ours), 1),
            p50_ms=_ms(median(claimed)),
            p99_ms=_ms(percentile(claimed, 0.99)),
            cpu_ms=_ms(cpu / len(claimed)),
            bare_per_second=round(median(each.rate for each in theirs), 1),
            bare_p50_ms=_ms(median(written)),
            bare_p99_ms=_ms(percentile(written, 0.99)),
            bare_retries=retries,
            ratio=round(median(bare.rate / stead.rate for bare, stead in zip(theirs, ours, strict=True)), 2),
        )


def turn(claims: Sequence[Claim], seconds: float) -> Turn:
    """Let clients claim for *seconds*, each in its own thread, after a first claim that does not count.

    Raises:
        BenchError: a claim failed.
    """
    done = Turn()
    ready = threading.Barrier(len(claims) + 1)
    over = threading.Event()

    def work(claim: Claim, number: int) -> None:
        try:
            claim(number)
            ready.wait()
            while not over.is_set():
                number += 1
                began = time.perf_counter()
                claim(number)
                done.claims.append(time.perf_counter() - began)
        except BenchError as error:
            done.complaints.append(str(error))
            over.set()
            ready.abort()
        except threading.BrokenBarrierError:
            return

    clients = [threading.Thread(target=work, args=(claim, place * APART)) for place, claim in enumerate(claims)]
    for client in clients:
        client.start()
    with suppress(threading.BrokenBarrierError):
        ready.wait()
    began = time.perf_counter()
    over.wait(seconds)
    over.set()
    for client in clients:
        client.join()
    done.seconds = time.perf_counter() - began
    if done.complaints:
        raise BenchError(f"a claim failed: {done.complaints[0]}")
    if not done.claims:
        raise BenchError("no claim was done in time")
    return done


def _bare(writer: BareClient, places: Sequence[Places]) -> Claim:
    return lambda number: writer.claim(places[number % len(places)])


@contextmanager
def _over_http(server: Server, site: ClaimsSite, work: str, clients: int) -> Iterator[list[Claim]]:
    """Clients of *server*, each with its own connection."""

    def claim(connection: Connection, number: int) -> None:
        taken = {provider: dict.fromkeys(classes, 1) for provider, classes in site.taken(work, number).items()}
        connection.put(f"/allocations/{uuid4()}", body(taken))

    connections = [server.connect() for _ in range(clients)]
    try:
        yield [partial(claim, connection) for connection in connections]
    finally:
        for connection in connections:
            connection.close()


@contextmanager
def _in_process(library: Site, clients: int) -> Iterator[list[Claim]]:
    """Threads that claim by query in this process, each claim for a new consumer."""
    request = Request(Group(VCPU=1, MEMORY_MB=1, DISK_GB=1))  # as in the other works

    def claim(_: int) -> None:
        library.claim(request, str(uuid4()))

    yield [claim] * clients


def _ms(seconds: float) -> float:
    return round(seconds * 1e3, 3)
