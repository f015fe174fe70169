"""``stead-bench leases``: the time of renewals in one request, and what leases that are alive cost a service."""

from __future__ import annotations

import time
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING
from uuid import uuid5

from stead_bench import processes, servers
from stead_bench.errors import BenchError
from stead_bench.sites import PREFIX, SPACE

if TYPE_CHECKING:
    from stead_bench.asking import Connection
    from stead_bench.filling import Watcher
    from stead_bench.servers import Server, Serving

VERSIONS = "1.39, stead 1.2"
PORTION = 1_000
"""Claims in one request, all from one provider."""

LEASE_SECONDS = 24 * 3600
"""Longer than a measurement: no lease ends in it."""


@dataclass(frozen=True)
class Leases:
    """What leases cost on one database.

    Attributes:
        leases: number of leases that are alive.
        renewals: of one request; *renewal_seconds* are the median time of that request, and *longest_seconds* the
            longest one. *renewal_cpu_seconds* are the processor time of the service for it, without the database's.
        idle_percent: of a core, which the service takes without leases.
        alive_percent: the same with them, which no client renews meanwhile.
    """

    database: str
    leases: int
    renewals: int
    renewal_seconds: float
    longest_seconds: float
    renewal_cpu_seconds: float
    idle_percent: float
    alive_percent: float


@dataclass(frozen=True)
class Bench:
    """What to measure, and for how long."""

    leases: int
    renewals: int
    rounds: int
    seconds: float
    serving: Serving
    watcher: Watcher

    def measure(self, database: str | None) -> Leases:
        """Measure on *database*, which must be empty; None: a temporary SQLite file.

        Raises:
            BenchError: the database has other providers, or a request failed.
        """
        with TemporaryDirectory(prefix="stead-bench-") as name:
            url = database or f"sqlite:///{name}/stead.db"
            with (
                servers.stead(Path(name), url, self.serving) as server,
                closing(server.connect(VERSIONS)) as connection,
            ):
                return self._measured(server, connection, url.partition(":")[0].partition("+")[0])

    def _measured(self, server: Server, connection: Connection, database: str) -> Leases:
        if connection.read("/resource_providers")["resource_providers"]:
            raise BenchError("the database has providers; name an empty one")
        idle = self._percent(server)
        consumers = self._claimed(connection)
        alive = self._percent(server)
        asked = [{"consumer_uuid": uuid, "lease": LEASE_SECONDS} for uuid in consumers[: self.renewals]]
        seconds, cpu = [], []
        with self.watcher("renewing", self.rounds) as done:
            for _ in range(self.rounds):
                cpu_before, start = processes.cpu_seconds(server.processes()), time.perf_counter()
                if connection.put("/leases", {"leases": asked}) != {"gone": [], "without_lease": []}:
                    raise BenchError("a lease was not renewed")
                seconds.append(time.perf_counter() - start)
                cpu.append(processes.cpu_seconds(server.processes()) - cpu_before)
                done(1)
        return Leases(
            database,
            len(consumers),
            len(asked),
            round(median(seconds), 3),
            round(max(seconds), 3),
            round(median(cpu), 3),
            round(idle, 2),
            round(alive, 2),
        )

    def _percent(self, server: Server) -> float:
        """Of a core, which the service takes while no client asks."""
        with self.watcher("waiting", 1) as done:
            pids = server.processes()
            before, start = processes.cpu_seconds(pids), time.perf_counter()
            time.sleep(self.seconds)
            percent = 100 * (processes.cpu_seconds(pids) - before) / (time.perf_counter() - start)
            done(1)
        return percent

    def _claimed(self, connection: Connection) -> list[str]:
        """The consumers of new claims with leases."""
        consumers: list[str] = []
        with self.watcher("claiming", self.leases) as done:
            for first in range(0, self.leases, PORTION):
                provider = str(uuid5(SPACE, f"leases/provider/{first}"))
                connection.post("/resource_providers", {"name": f"{PREFIX}leases-{first}", "uuid": provider})
                inventories = {"VCPU": {"total": PORTION}}
                body = {"resource_provider_generation": 0, "inventories": inventories}
                connection.put(f"/resource_providers/{provider}/inventories", body)
                numbers = range(first, min(first + PORTION, self.leases))
                portion = [str(uuid5(SPACE, f"leases/consumer/{number}")) for number in numbers]
                claim = {
                    "allocations": {provider: {"resources": {"VCPU": 1}}},
                    "project_id": "bench",
                    "user_id": "bench",
                    "consumer_type": "BENCH",
                    "consumer_generation": None,
                    "lease": LEASE_SECONDS,
                }
                connection.post("/allocations", dict.fromkeys(portion, claim))
                consumers += portion
                done(len(portion))
        return consumers
