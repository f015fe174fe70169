"""``stead-bench trace``: the tasks of a real GPU cluster arrive one after the other, and Stead gives each a place.

Tasks arrive in random order, which is drawn again when all of them came, until they asked for 130 % of the GPUs. None
leaves. A task without a place is refused. The result is the part of all GPUs that was given out.

A host has ``CUSTOM_CPU_MILLI`` and ``MEMORY_MB``, and each GPU is a child with 1,000 ``CUSTOM_GPU_MILLI`` and a trait
of its model. Every claim is made through the library, in this process and on a temporary SQLite file.
"""

from __future__ import annotations

import csv
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from random import Random
from statistics import mean
from typing import TYPE_CHECKING, NamedTuple
from uuid import uuid4, uuid5

import stead
from stead import Group, Node, NothingFits, Request
from stead_bench.errors import BenchError
from stead_bench.sites import SPACE

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from stead import Site
    from stead_bench.filling import Watcher

CPU, MEMORY, GPU = "CUSTOM_CPU_MILLI", "MEMORY_MB", "CUSTOM_GPU_MILLI"
WHOLE = 1000
"""Amount of one GPU."""

UNTIL = 1.3
"""The share of all GPUs that is asked for at the end."""

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
        at_100, at_130: percent of all GPUs that was given out when that many were asked for; means of all seeds.
        seeds: number of runs; 0 if the row was published.
        refused: tasks without a place, per run.
        claim_ms: processor time of this process for each arrival, in milliseconds.
        curve: percent asked for, and percent given out; means of all seeds.
    """

    tasks: str
    order: str
    at_100: float
    at_130: float
    seeds: int = 0
    refused: float = 0.0
    claim_ms: float = 0.0
    curve: tuple[tuple[float, float], ...] = ()


class _Run(NamedTuple):
    """One run: percent given out at each point of the curve, tasks without a place, and seconds for each arrival."""

    given: list[float]
    refused: int
    seconds: float


@dataclass(frozen=True)
class Bench:
    """The parameters of the measurement."""

    hosts: Sequence[Host]
    seeds: int
    watcher: Watcher
    mix: Sequence[Task] = ()
    """Tasks that become flavors, weighted by their number; if empty, those that arrive."""

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
        asked = [100 * STEP * number for number in range(1, round(UNTIL / STEP) + 1)]
        given = [mean(points) for points in zip(*(run.given for run in runs), strict=True)]
        return Fill(
            tasks=name,
            order=order,
            at_100=round(given[round(1 / STEP) - 1], 2),
            at_130=round(given[-1], 2),
            seeds=self.seeds,
            refused=round(mean(run.refused for run in runs), 1),
            claim_ms=round(mean(run.seconds for run in runs) * 1e3, 2),
            curve=tuple((round(x, 1), round(y, 3)) for x, y in zip(asked, given, strict=True)),
        )

    def _run(self, tasks: Sequence[Task], order: str, seed: int, total: int) -> _Run:
        with (
            tempfile.TemporaryDirectory(prefix="stead-bench-") as folder,
            stead.open(f"sqlite:///{folder}/stead.db", project=OWNER) as site,
        ):
            site.apply([host.node(seed) for host in self.hosts], create_names=True)
            if order == "headroom":
                for number, (task, times) in enumerate(Counter(self.mix or tasks).items()):
                    site.put_flavor(f"task-{number}", task.request(), weight=times)
            return _filled(site, arriving(tasks, seed), order, total)


def arriving(tasks: Sequence[Task], seed: int) -> Iterator[Task]:
    """Tasks in random order, drawn again when all came; endless."""
    random = Random(seed)
    while True:
        yield from random.sample(tasks, len(tasks))


def _filled(site: Site, arrivals: Iterator[Task], order: str, total: int) -> _Run:
    asked = given = number = refused = 0
    points: list[float] = []
    requests: dict[Task, Request] = {}
    began = time.process_time()
    for task in arrivals:
        request = requests.setdefault(task, task.request(order))
        number += 1
        asked += task.asked
        try:
            site.claim(request, uuid4())
        except NothingFits:
            refused += 1
        else:
            given += task.asked
        points += [100 * given / total] * (int(asked / total / STEP) - len(points))
        if asked >= UNTIL * total:
            break
    return _Run(points[: round(UNTIL / STEP)], refused, (time.process_time() - began) / number)


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
