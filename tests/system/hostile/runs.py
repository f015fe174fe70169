"""A server under attack, and a probe beside it: what other clients notice, and what it costs the server."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit
from uuid import uuid4

from lanes_testing import pieces
from tests.servers.stead import started
from tests.system.api.client import NEWEST
from tests.system.hostile.attacks import SMALL_QUERY, Target
from tests.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

PROBE = {"X-Auth-Token": "probe:probe", "OpenStack-API-Version": f"placement {NEWEST}"}
ADMIN = {**PROBE, "X-Auth-Token": "admin", "Content-Type": "application/json"}
LARGEST_BODY = 16 * 1024 * 1024
CHILDREN = 24
PROBE_SECONDS = 0.05
IDLE_LOOKS, IDLE_TICKS = 60, 4
"""A worker that used so few ticks of its processor in so many looks has read what was sent."""

DESCRIPTORS_KEPT = 8
"""Descriptors beside those of connections that a worker may have opened meanwhile."""


def query_for(groups: str) -> str:
    """A query whose answer has as many candidates as CHILDREN to the power of the number of *groups*."""
    resources = "&".join(f"resources_{group}=VCPU:1" for group in groups)
    return f"/allocation_candidates?{resources}&group_policy=none"


LARGE_QUERY = query_for("ABC")
"""5 MB."""
LARGEST_QUERY = query_for("ABCD")
WORK_OF_100_MB = 15_000_000
"""`max_candidate_work` with which the answer to LARGEST_QUERY has 106 MB; by default it is cut at 35 MB."""


@dataclass
class Report:
    """What one attack did. Times are seconds, ``memory`` is bytes above rest, at most.

    ``waited``: of the event loop, for a processor; on a busy machine, it explains slow answers.
    ``attackers``: connections that they had open at most, or answers by status.
    """

    health: list[float] = field(default_factory=list)
    query: list[float] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    memory: int = 0
    descriptors: int = 0
    recovered: float = 0.0
    waited: float = 0.0
    attackers: str = ""

    def __str__(self) -> str:
        return (
            f"health at worst {max(self.health, default=0):.2f} s, small query {max(self.query, default=0):.2f} s, "
            f"{len(self.query)} probes, {len(self.failures)} failed, memory + {self.memory / 1e6:.0f} MB, "
            f"{self.descriptors} descriptors, well after {self.recovered:.1f} s; "
            f"the loop waited {self.waited:.1f} s for a processor; "
            f"attackers: {self.attackers or 'nothing'}"
        )


class WorkerEnded(AssertionError):
    """The worker under attack has ended, so its main process has replaced it."""


class Victim:
    """A server with a site, and its one worker."""

    def __init__(self, url: str, main_process: int, largest_query: str) -> None:
        place = urlsplit(url)
        assert place.hostname is not None
        assert place.port is not None
        self.target = Target(place.hostname, place.port, LARGE_QUERY, largest_query, LARGEST_BODY)
        children = Path(f"/proc/{main_process}/task/{main_process}/children").read_text().split()
        (self._worker,) = [
            child for child in children if b"stead.serve.worker" in Path(f"/proc/{child}/cmdline").read_bytes()
        ]

    def memory(self) -> int:
        """Resident bytes of the worker.

        Raises:
            WorkerEnded
        """
        try:
            lines = Path(f"/proc/{self._worker}/status").read_text().splitlines()
        except FileNotFoundError:
            lines = []
        resident = next((line.split()[1] for line in lines if line.startswith("VmRSS")), None)
        if resident is None:  # it is gone, or its parent has not noticed yet
            raise WorkerEnded(f"worker {self._worker} ended")
        return 1024 * int(resident)

    def waited(self) -> float:
        """Seconds that the event loop of the worker has waited for a processor that ran something else."""
        try:
            return int(Path(f"/proc/{self._worker}/task/{self._worker}/schedstat").read_text().split()[1]) / 1e9
        except (OSError, IndexError):
            return 0.0

    def _processor_time(self) -> int:
        """Clock ticks that the worker has used."""
        fields = Path(f"/proc/{self._worker}/stat").read_text().rpartition(")")[2].split()
        return int(fields[11]) + int(fields[12])

    def memory_with(self, kind: str, count: int) -> tuple[int, int]:
        """What the worker has in memory with *count* connections that sent a *kind* of pieces, and after all end."""
        before = self.descriptors()
        command = [sys.executable, pieces.__file__, kind, str(self.target.port), str(count)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as sender:
            assert sender.stdin is not None
            assert sender.stdout is not None
            assert sender.stdout.readline()
            with_them = self._memory_when_idle()
            sender.stdin.close()
        wait_until(lambda: self.descriptors() <= before + DESCRIPTORS_KEPT, seconds=60)
        self._memory_when_idle()
        return with_them, self.memory()

    def _memory_when_idle(self) -> int:
        """The most that the worker has in memory until it has read everything that clients sent."""
        most, used = self.memory(), [-1]

        def is_idle() -> bool:
            nonlocal most
            most = max(most, self.memory())
            used.append(self._processor_time())
            return len(used) > IDLE_LOOKS and used[-1] - used[-IDLE_LOOKS] <= IDLE_TICKS

        wait_until(is_idle, seconds=120)
        return most

    def descriptors(self) -> int:
        return len(list(Path(f"/proc/{self._worker}/fd").iterdir()))

    def ask(self, method: str, path: str, headers: dict[str, str], body: object = None) -> int:
        connection = HTTPConnection(self.target.host, self.target.port, timeout=60)
        try:
            connection.request(method, path, json.dumps(body) if body is not None else None, headers)
            answer = connection.getresponse()
            answer.read()
            return answer.status
        finally:
            connection.close()

    def fill(self) -> None:
        """One tree in which a query for three groups has thousands of candidates, and a host for the small query."""
        root = str(uuid4())
        assert self.ask("POST", "/resource_providers", ADMIN, {"name": "root", "uuid": root}) == 200
        for number in range(CHILDREN):
            child = str(uuid4())
            made = {"name": f"child{number}", "uuid": child, "parent_provider_uuid": root}
            assert self.ask("POST", "/resource_providers", ADMIN, made) == 200
            inventories = {"VCPU": {"total": 100}} | ({"MEMORY_MB": {"total": 100}} if number == 0 else {})
            body = {"resource_provider_generation": 0, "inventories": inventories}
            assert self.ask("PUT", f"/resource_providers/{child}/inventories", ADMIN, body) == 200

    def attacked(self, attack: AbstractContextManager[None], seconds: float) -> Report:
        """Probe all the time, during the attack and afterwards, until it is well again."""
        self.target.done.clear()
        report, rest, waited = Report(), self.memory(), self.waited()
        with attack:
            until = time.monotonic() + seconds
            while time.monotonic() < until:
                self._probe(report)
                report.memory = max(report.memory, self.memory() - rest)
                report.descriptors = max(report.descriptors, self.descriptors())
                time.sleep(PROBE_SECONDS)
        report.waited = self.waited() - waited
        report.attackers = ", ".join(f"{what} {count}" for what, count in sorted(self.target.done.items()))
        ended = time.monotonic()
        after = Report()
        while True:
            after.failures.clear()
            self._probe(after)
            if not after.failures and max(after.health[-1], after.query[-1]) < 0.5:
                break
        report.recovered = time.monotonic() - ended
        return report

    def _probe(self, report: Report) -> None:
        """Ask as other clients do, each time on a new connection."""
        probes = {"/healthcheck/live": report.health, "/healthcheck": report.health, SMALL_QUERY: report.query}
        for path, times in probes.items():
            begin = time.monotonic()
            try:
                status = self.ask("GET", path, {**PROBE, "X-Auth-Token": "admin:probe"})
            except (OSError, HTTPException) as error:
                report.failures.append(f"{path}: {error!r}")
            else:
                if status != 200:
                    report.failures.append(f"{path}: {status}")
            times.append(time.monotonic() - begin)


@contextmanager
def victim(directory: Path, options: str = "", largest_query: str = LARGE_QUERY) -> Iterator[Victim]:
    """A server on SQLite with one worker, filled."""
    file = directory / "placement.conf"
    file.write_text(
        f"[placement_database]\nconnection = sqlite:///{directory}/placement.db\nsync_on_startup = true\n"
        f"[api]\nauth_strategy = noauth2\n[stead]\n{options}"
    )
    with started(file, workers=1) as server:
        under_attack = Victim(server.url, server.process.pid, largest_query)
        under_attack.fill()
        yield under_attack
