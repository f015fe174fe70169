"""A GPU scheduler: a queue with priorities, gangs on distinct hosts, GPUs near their cores, and what becomes free.

    python gpu_scheduler.py data/ jobs.json
    python gpu_scheduler.py --demo  # three hosts in memory

Each job is {"name", "priority", "gpus", "cores", "tasks", "near"}. Each task is on one host; with near, its GPUs are
below the NUMA node of its cores. The program may be killed: a job is found by its name.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from threading import Timer
from typing import TYPE_CHECKING

import stead
from stead import Group, Node, Request, testing

if TYPE_CHECKING:
    from collections.abc import Sequence

PROJECT = "gpu-jobs"


@dataclass(frozen=True)
class Job:
    """Tasks that start together or not at all; of each, the cores and GPUs."""

    name: str
    priority: int = 0
    gpus: int = 1
    cores: int = 4
    tasks: int = 1
    near: bool = True

    @property
    def request(self) -> Request:
        """A group for each GPU, which is a provider; the fullest hosts first, so that big jobs find whole ones."""
        return Request(
            Group("cpu", PCPU=self.cores), *Group("gpu", PGPU=1).times(self.gpus), near=self.near, order="pack"
        )

    @property
    def consumers(self) -> list[str]:
        """The consumers of the tasks: the same names after a restart."""
        return [f"{PROJECT}/{self.name}/{task}" for task in range(self.tasks)]


def place(site: stead.Site, job: Job) -> list[stead.Claim]:
    """Claim for all tasks of the job, on distinct hosts. Empty if there is no place now."""
    try:
        gang = site.claim_all([job.request] * job.tasks, job.consumers, distinct_hosts=True)
    except stead.NoPlace as error:
        print(f"{job.name} waits: {error.explanation.summary}")
        return []
    hosts = {place.host for claim in gang for place in site.places(claim).values()}
    print(f"{job.name} runs on {', '.join(sorted(hosts))}")
    return gang


def schedule(site: stead.Site, jobs: Sequence[Job]) -> None:
    """Place jobs by priority, again whenever something changes; returns when all were placed."""
    # From a token of before the first attempt, so that nothing that happens after it is missed.
    room = (change for change in site.watch(since=site.changes().token) if may_make_room(change))
    waiting = sorted(jobs, key=lambda job: -job.priority)
    # If one has no place, smaller ones behind it may fit meanwhile.
    while waiting := [job for job in waiting if not place(site, job)]:
        next(room)


def may_make_room(change: stead.Change) -> bool:
    """Whether it is no claim, and not the news that nothing happened."""
    return change.kind != "heartbeat" and (change.kind != "consumer" or change.is_deletion)


def host(name: str, gpus: int) -> Node:
    """A host with a NUMA node, which has the cores and the GPUs."""
    cards = [Node(f"{name}_gpu{number}", PGPU=1) for number in range(gpus)]
    return Node(name, children=[Node(f"{name}_numa0", PCPU=16, children=cards)])


def demo() -> None:
    """Place jobs on three hosts. One must wait until another, which was there before, ends."""
    with testing.site(project=PROJECT) as site:
        site.apply([host("node1", 4), host("node2", 4), host("node3", 0)])
        site.claim(Job("earlier", gpus=4).request, "earlier")
        ending = Timer(1.0, site.release, ["earlier"])
        ending.start()
        schedule(site, [Job("notebook", gpus=0), Job("gang", priority=9, tasks=2), Job("big", priority=5, gpus=3)])
        ending.join()


def main(arguments: list[str]) -> None:
    """Place the jobs of a file on the site in a data directory, or those of the demo."""
    match arguments:
        case ["--demo"]:
            demo()
        case [data, jobs]:
            with stead.open(data, project=PROJECT) as site:
                schedule(site, [Job(**record) for record in json.loads(Path(jobs).read_text())])
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
