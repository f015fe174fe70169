"""``stead-bench trace``: the tasks of a real GPU cluster arrive one after the other, and Stead gives each a place.

Tasks arrive in random order, which is drawn again when all of them came, until they asked for 130 % of the GPUs. None
leaves. A task without a place is refused. The result is the part of all GPUs that was given out.

A host has ``CUSTOM_CPU_MILLI`` and ``MEMORY_MB``, and each GPU is a child with 1,000 ``CUSTOM_GPU_MILLI`` and a trait
of its model. Every claim is made through the library on a temporary SQLite file: in this process, or by several clients
of a server on loopback, of which each takes the next task that arrives.
"""

from __future__ import annotations

import csv
import os
import tempfile
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from random import Random
from statistics import mean
from typing import TYPE_CHECKING, NamedTuple
from uuid import uuid4, uuid5

import stead
from stead import Group, Node, NothingFits, Request, Site, Stale
from stead_bench import processes, servers
from stead_bench.errors import BenchError
from stead_bench.servers import Serving
from stead_bench.sites import SPACE

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from stead_bench.filling import Watcher

CPU, MEMORY, GPU = "CUSTOM_CPU_MILLI", "MEMORY_MB", "CUSTOM_GPU_MILLI"
WHOLE = 1000
"""Amount of one GPU."""

UNTIL = 1.3
"""The share of all GPUs that is asked for at the end, if the caller does not choose."""

STEP = 0.01
"""Distance between two points of the curve, as a share of all GPUs."""

OWNER = "bench"


class Task(NamedTuple):
    """What one task asks for: ``gpus`` GPUs, ``milli`` of each, of one of ``models`` (empty: of any)."""

    cpu: int
    memory: int
    gpus: int
    milli: int
    models: tuple[str, ...]

    @property
    def asked(self) -> int:
        """The amount of GPU of the task."""
        return self.gpus * self.milli

    def request(self, order: str | None = None) -> Request:
        """The task as a request."""
        terms = [[_trait(model) for model in self.models]] if self.models else ()
        devices = (Group(f"GPU{number}", {GPU: self.milli}, required=terms) for number in range(self.gpus))
        amounts = {name: amount for name, amount in ((CPU, self.cpu), (MEMORY, self.memory)) if amount}
        return Request(*([Group("", amounts)] if amounts else ()), *devices, order=order)


class Host(NamedTuple):
    """A host with equal GPUs."""

    name: str
    cpu: int
    memory: int
    gpus: int
    model: str

    def node(self, seed: int) -> Node:
        """The host as a tree. Its uuid depends on *seed*, so that candidates which are equally good differ by seed."""
        children = (
            Node(f"{self.name}-gpu{number}", {GPU: WHOLE}, traits=[_trait(self.model)]) for number in range(self.gpus)
        )
        uuid = uuid5(SPACE, f"{seed} {self.name}")
        return Node(self.name, {CPU: self.cpu, MEMORY: self.memory}, children=children, uuid=uuid)


def _trait(model: str) -> str:
    return f"CUSTOM_GPU_{model}"


def hosts_of(file: Path) -> list[Host]:
    """The hosts of a CSV file with the columns ``sn``, ``cpu_milli``, ``memory_mib``, ``gpu`` and ``model``.

    Raises:
        BenchError: it cannot be read.
    """
    return [
        Host(row["sn"], int(row["cpu_milli"]), int(row["memory_mib"]), int(row["gpu"]), row["model"])
        for row in _rows(file, {"sn", "cpu_milli", "memory_mib", "gpu", "model"})
    ]


def tasks_of(file: Path) -> list[Task]:
    """The tasks of a CSV file with ``cpu_milli``, ``memory_mib``, ``num_gpu``, ``gpu_milli`` and maybe ``gpu_spec``.

    Raises:
        BenchError: it cannot be read.
    """
    tasks = []
    for row in _rows(file, {"cpu_milli", "memory_mib", "num_gpu", "gpu_milli"}):
        gpus = int(row["num_gpu"])
        models = tuple(sorted(filter(None, (row.get("gpu_spec") or "").split("|"))))
        milli = int(row["gpu_milli"]) if gpus == 1 else WHOLE
        tasks.append(Task(int(row["cpu_milli"]), int(row["memory_mib"]), gpus, milli, models if gpus else ()))
    return tasks


def _rows(file: Path, columns: set[str]) -> list[dict[str, str]]:
    try:
        with file.open(newline="") as opened:
            rows = list(csv.DictReader(opened))
    except OSError as error:
        raise BenchError(f"cannot read {file}: {error.strerror}") from error
    if not rows or not columns <= rows[0].keys():
        raise BenchError(f"{file} needs rows with the columns {', '.join(sorted(columns))}")
    return rows


@dataclass(frozen=True)
class Fill:
    """How one order filled the hosts with the tasks of one file.

    Attributes:
        tasks: the name of the file, without ``tasks-``.
        order: the value of ``order_by``; another policy, if the row was published.
        at_100, at_130: percent of all GPUs that was given out when that many were asked for; means of all seeds. Of an
            earlier end, if the run had one.
        seeds: number of runs; 0 if the row was published.
        refused: tasks without a place, per run.
        claim_ms: processor time for each arrival, in milliseconds: of this process, or of those of the server.
        clients: how many asked a server; 0 if the library ran in this process.
        repeated: attempts beyond the first of all granted claims, because another client took the place; per run.
        curve: percent asked for, and percent given out; means of all seeds.
    """

    tasks: str
    order: str
    at_100: float
    at_130: float
    seeds: int = 0
    refused: float = 0.0
    claim_ms: float = 0.0
    clients: int = 0
    repeated: float = 0.0
    curve: tuple[tuple[float, float], ...] = ()


class _Run(NamedTuple):
    """One run: percent given out at each point of the curve, tasks without a place, and seconds for each arrival."""

    given: list[float]
    refused: int
    seconds: float
    repeated: int = 0


@dataclass(frozen=True)
class Bench:
    """The parameters of the measurement."""

    hosts: Sequence[Host]
    seeds: int
    watcher: Watcher
    mix: Sequence[Task] = ()
    """Tasks that become flavors, weighted by their number; if empty, those that arrive."""
    clients: int = 0
    """Clients of a server with one worker; 0: the library in this process."""
    until: float = UNTIL
    """The share of all GPUs that is asked for at the end."""

    def fill(self, name: str, tasks: Sequence[Task], order: str) -> Fill:
        """The mean of all seeds for one order.

        Raises:
            BenchError: no task asks for a GPU, or one names a model that no host has.
        """
        total = sum(host.gpus for host in self.hosts) * WHOLE
        unknown = {model for task in tasks for model in task.models} - {host.model for host in self.hosts if host.gpus}
        if unknown:
            raise BenchError(f"{name}: no host has a GPU of the model {min(unknown)}")
        if not total or not any(task.asked for task in tasks):
            raise BenchError(f"{name}: no host has a GPU, or no task asks for one")
        with self.watcher(f"{name}, {order}", self.seeds) as done:
            runs = []
            for seed in range(1, self.seeds + 1):
                runs.append(self._run(tasks, order, seed, total))
                done(1)
        asked = [100 * STEP * number for number in range(1, round(self.until / STEP) + 1)]
        given = [mean(points) for points in zip(*(run.given for run in runs), strict=True)]
        return Fill(
            tasks=name,
            order=order,
            at_100=round(given[min(round(1 / STEP), len(given)) - 1], 2),
            at_130=round(given[-1], 2),
            seeds=self.seeds,
            refused=round(mean(run.refused for run in runs), 1),
            claim_ms=round(mean(run.seconds for run in runs) * 1e3, 2),
            clients=self.clients,
            repeated=round(mean(run.repeated for run in runs), 1),
            curve=tuple((round(x, 1), round(y, 3)) for x, y in zip(asked, given, strict=True)),
        )

    def _run(self, tasks: Sequence[Task], order: str, seed: int, total: int) -> _Run:
        with ExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="stead-bench-")))
            url, pids, sites = f"sqlite:///{folder}/stead.db", [os.getpid()], list[Site]()
            if self.clients:
                server = stack.enter_context(servers.stead(folder, url, Serving(1, self.clients + 1), durable=False))
                pids = server.processes()
                for _ in range(self.clients):
                    site = stead.connect(server.url, server.token, project=OWNER)
                    sites.append(stack.enter_context(site))
            else:
                sites.append(stack.enter_context(stead.open(url, project=OWNER)))
            site = sites[0]
            site.apply([host.node(seed) for host in self.hosts], create_names=True)
            if order == "headroom":
                for number, (task, times) in enumerate(Counter(self.mix or tasks).items()):
                    site.put_flavor(f"task-{number}", task.request(), weight=times)
            filling = _Filling(arriving(tasks, seed), order, total, self.until)
            before = processes.cpu_seconds(pids)
            filling.run(sites)
            return filling.outcome(processes.cpu_seconds(pids) - before)


def arriving(tasks: Sequence[Task], seed: int) -> Iterator[Task]:
    """Tasks in random order, drawn again when all came; endless."""
    random = Random(seed)
    while True:
        yield from random.sample(tasks, len(tasks))


class _Filling:
    """Tasks that arrive, and what was given out to them; for several threads."""

    def __init__(self, arrivals: Iterator[Task], order: str, total: int, until: float) -> None:
        """No task has arrived. *total* is the amount of all GPUs; the last task asks for the share *until* of it."""
        self._arrivals = arrivals
        self._order = order
        self._total = total
        self._until = until
        self._lock = threading.Lock()
        self._asked = self._given = self._number = self._refused = self._repeated = 0
        self._points: list[float] = []
        self._requests: dict[Task, Request] = {}

    def run(self, sites: Sequence[Site]) -> None:
        """Let the tasks arrive: each of *sites* asks for one after the other, all at the same time.

        Raises:
            Refused: for another reason than that nothing fits.
        """
        if len(sites) == 1:
            self._claim_all(sites[0])
            return
        with ThreadPoolExecutor(len(sites)) as clients:
            for done in [clients.submit(self._claim_all, site) for site in sites]:
                done.result()

    def _claim_all(self, site: Site) -> None:
        while (task := self._next()) is not None:
            repeated = 0
            while True:
                try:
                    claim = site.claim(self._request(task), uuid4())
                except NothingFits:
                    self._finished(0, refused=1, repeated=repeated)
                except Stale:  # the server lost every race until its claim timeout
                    repeated += 1
                    continue
                else:
                    self._finished(task.asked, repeated=repeated + (claim.tries or 1) - 1)
                break

    def _request(self, task: Task) -> Request:
        request = self._requests.get(task)
        if request is None:
            request = self._requests[task] = task.request(self._order)
        return request

    def _next(self) -> Task | None:
        """The next task; None after the last one."""
        with self._lock:
            if self._asked >= self._until * self._total:
                return None
            task = next(self._arrivals)
            self._asked += task.asked
            self._number += 1
            return task

    def _finished(self, given: int, *, refused: int = 0, repeated: int = 0) -> None:
        with self._lock:
            self._given += given
            self._refused += refused
            self._repeated += repeated
            # The tasks for which other clients ask at this moment have arrived, too, but were given nothing yet.
            reached = int(self._asked / self._total / STEP)
            self._points += [100 * self._given / self._total] * (reached - len(self._points))

    def outcome(self, seconds: float) -> _Run:
        """The result of the run, which took this processor time."""
        points = self._points[: round(self._until / STEP)]
        points[-1] = 100 * self._given / self._total
        return _Run(points, self._refused, seconds / self._number, self._repeated)


def published(file: Path, names: set[str]) -> list[Fill]:
    """The published rows of the tasks *names*: columns ``tasks,policy,allocated_at_100,allocated_at_130``.

    Raises:
        BenchError: the file cannot be read.
    """
    return [
        Fill(row["tasks"], row["policy"], float(row["allocated_at_100"]), float(row["allocated_at_130"]))
        for row in _rows(file, {"tasks", "policy", "allocated_at_100", "allocated_at_130"})
        if row["tasks"] in names
    ]
