"""``stead-bench throughput``: many concurrent clients that query candidates and sometimes claim one."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from stead_bench import filling, processes, servers, tables
from stead_bench.client import Order, Outcome
from stead_bench.errors import BenchError
from stead_bench.results import mib, percentile

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from stead_bench.filling import Watcher
    from stead_bench.peer import Peer
    from stead_bench.servers import Server, Serving
    from stead_bench.sites import Site


@dataclass(frozen=True)
class Load:
    """The number of concurrent clients, and the duration."""

    clients: int
    seconds: float
    site: Site


@dataclass(frozen=True)
class Throughput:
    """The result of one server.

    Attributes:
        requests_per_second: successful reads and claims.
        conflicts: claims that were refused because of another client's claim.
        empty: claims that were not tried because nothing fitted.
        errors: other errors; the first few are in *complaints*.
        cpu_ms: processor milliseconds per request, all processes of the server; None if unknown.
        database_cpu_ms: the same of the database server.
    """

    server: str
    seconds: float
    requests: int
    requests_per_second: float
    reads: int
    read_p50_ms: float | None
    read_p99_ms: float | None
    claims: int
    claim_p50_ms: float | None
    claim_p99_ms: float | None
    conflicts: int
    empty: int
    errors: int
    complaints: list[str]
    cpu_ms: float | None
    database_cpu_ms: float | None
    memory_mib: float | None


@contextmanager
def stead(database: str | None, site: Site, serving: Serving, watcher: Watcher) -> Iterator[Server]:
    """A Stead with *site* on *database*, which must be empty; None is a temporary SQLite file.

    Raises:
        BenchError: the database has other providers.
    """
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="stead-bench-")))
        url = database or f"sqlite:///{folder}/stead.db"
        filling.make(url, site, watcher)
        yield stack.enter_context(servers.stead(folder, url, serving))


def prepare_peer(peer: Peer, site: Site, watcher: Watcher) -> None:
    """Load the site into *peer*, without claims of an earlier run if possible.

    Raises:
        BenchError: it has other providers.
    """
    if peer.is_loaded:
        return
    if peer.server.database is not None:
        with tables.opened(peer.server.database) as store:
            tables.clear(store)
    filling.fill(peer.server, site, watcher)


def measure(server: Server, load: Load, *, seed: int, database_pids: Sequence[int] = ()) -> Throughput:
    """Run the clients against *server*.

    Args:
        database_pids: processes of the database server, whose time is reported separately.

    Raises:
        BenchError: a client did not start or ended early.
    """
    with _clients(server, load, seed) as clients:
        ours = server.processes()
        theirs = processes.family(database_pids)
        before = processes.cpu_seconds(ours), processes.cpu_seconds(theirs)
        began = time.monotonic()
        for client in clients:
            _tell(client, "go")
        outcomes = [Outcome(**json.loads(_hear(client))) for client in clients]
        seconds = time.monotonic() - began
        cpu = processes.cpu_seconds(ours) - before[0]
        database_cpu = processes.cpu_seconds(processes.family(database_pids)) - before[1]
    return _summed(server, outcomes, seconds, cpu if ours else None, database_cpu if theirs else None)


@contextmanager
def _clients(server: Server, load: Load, seed: int) -> Iterator[list[subprocess.Popen[str]]]:
    """The clients, started and ready; they are ended at the end of the block."""
    command = [sys.executable, "-m", "stead_bench.client"]
    clients = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(load.clients)
    ]
    try:
        for number, client in enumerate(clients):
            site = load.site
            order = Order(server.url, server.headers(), load.seconds, site.size, site.traits, number, seed)
            _tell(client, json.dumps(asdict(order)))
        for client in clients:
            _hear(client)
        yield clients
    finally:
        for client in clients:
            client.kill()
            client.communicate()


def _tell(client: subprocess.Popen[str], line: str) -> None:
    assert client.stdin is not None
    try:
        client.stdin.write(f"{line}\n")
        client.stdin.flush()
    except BrokenPipeError as error:
        raise BenchError("a client ended; what it said stands above") from error


def _hear(client: subprocess.Popen[str]) -> str:
    assert client.stdout is not None
    line = client.stdout.readline()
    if not line:
        raise BenchError("a client ended; what it said stands above")
    return line


def _summed(
    server: Server, outcomes: Sequence[Outcome], seconds: float, cpu: float | None, database_cpu: float | None
) -> Throughput:
    reads = [seconds for outcome in outcomes for seconds in outcome.reads]
    claims = [seconds for outcome in outcomes for seconds in outcome.claims]
    errors = [error for outcome in outcomes for error in outcome.errors]
    done = len(reads) + len(claims)
    return Throughput(
        server=server.name,
        seconds=round(seconds, 3),
        requests=done,
        requests_per_second=round(done / seconds, 1),
        reads=len(reads),
        read_p50_ms=_ms(median(reads)) if reads else None,
        read_p99_ms=_ms(percentile(reads, 0.99)) if reads else None,
        claims=len(claims),
        claim_p50_ms=_ms(median(claims)) if claims else None,
        claim_p99_ms=_ms(percentile(claims, 0.99)) if claims else None,
        conflicts=sum(outcome.conflicts for outcome in outcomes),
        empty=sum(outcome.empty for outcome in outcomes),
        errors=len(errors),
        complaints=errors[:5],
        cpu_ms=_ms(cpu / done) if cpu is not None and done else None,
        database_cpu_ms=_ms(database_cpu / done) if database_cpu is not None and done else None,
        memory_mib=mib(processes.resident_bytes(server.processes())),
    )


def _ms(seconds: float) -> float:
    return round(seconds * 1e3, 3)
