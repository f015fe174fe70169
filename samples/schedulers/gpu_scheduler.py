"""A GPU scheduler: a queue with priorities, gangs on distinct hosts, GPUs near their cores, and what becomes free.

    python gpu_scheduler.py data/ jobs.json

Each job is {"name", "priority", "gpus", "cores", "tasks", "near"}. Each task is on one host; with near, its GPUs are
below the NUMA node of its cores. The program may be killed: a job is found by its name.
"""

from __future__ import annotations

import heapq
import json
import sys
from pathlib import Path
from typing import Any

import stead
from stead import Group, Request

PROJECT = "gpu-jobs"
Job = dict[str, Any]


def request_of(job: Job) -> Request:
    """A group for each GPU, which is a provider; the fullest hosts first, so that big jobs find whole ones."""
    groups = [Group("cpu", PCPU=job["cores"]), *(Group(f"gpu{number}", PGPU=1) for number in range(job["gpus"]))]
    near = [group.name for group in groups] if job["near"] else []
    return Request(*groups, near=near, order="pack")


def place(site: stead.Site, job: Job) -> list[stead.Claim] | None:
    """All tasks of the job on distinct hosts, or none; None if there is no place now."""
    try:
        return site.claim_all([request_of(job)] * job["tasks"], names_of(job), distinct_hosts=True)
    except (stead.NothingFits, stead.NothingFound) as error:
        changes = error.explanation and error.explanation.relaxations
        print(f"{job['name']} waits: {changes or 'no single change would help'}")
        return None


def names_of(job: Job) -> list[str]:
    """The consumers of the tasks: the same names after a restart."""
    return [f"{PROJECT}/{job['name']}/{task}" for task in range(job["tasks"])]


def schedule(site: stead.Site, jobs: list[Job]) -> None:
    """Place jobs by priority, again whenever something changes; returns when all were placed."""
    queue = sorted((-job["priority"], number, job) for number, job in enumerate(jobs))
    for change in site.watch(heartbeat=0.5):
        if change.kind == "consumer" and not change.is_deletion:
            continue  # a claim makes no room
        waiting = []
        while queue:
            entry = heapq.heappop(queue)
            gang = place(site, entry[2])
            if gang is None:
                waiting.append(entry)  # smaller jobs behind it may fit meanwhile
            else:
                hosts = sorted({site.tree(claim.providers[0]).root.name for claim in gang})
                print(f"{entry[2]['name']} runs on {', '.join(hosts)}")
        queue = waiting
        if not queue:
            return


if __name__ == "__main__":
    with stead.open(sys.argv[1], project=PROJECT) as opened:
        schedule(opened, json.loads(Path(sys.argv[2]).read_text()))
