"""A GPU scheduler: a queue with priorities, gangs on distinct hosts, GPUs near their cores, and what becomes free.

    python gpu_scheduler.py data/ jobs.json

Each job is {"name", "priority", "gpus", "cores", "tasks"}. The program may be killed: a job is found by its name.
"""

import heapq
import json
import sys
from pathlib import Path

import stead
from stead import Group, Request

PROJECT = "gpu-jobs"


def request_of(job):
    """GPUs below the NUMA node of the cores; the fullest hosts first, so that big jobs find whole ones."""
    return Request(Group("cpu", PCPU=job["cores"]), Group("gpu", PGPU=job["gpus"]), near=["cpu", "gpu"], order="pack")


def place(site, job):
    """All tasks of the job on distinct hosts, or none; None if there is no place now."""
    try:
        return site.claim_all([request_of(job)] * job["tasks"], names_of(job), distinct_hosts=True)
    except stead.NothingFits as error:
        print(f"{job['name']} waits: {error.explanation.relaxations or 'no single change would help'}")
        return None


def names_of(job):
    """The consumers of the tasks: the same names after a restart."""
    return [f"{PROJECT}/{job['name']}/{task}" for task in range(job["tasks"])]


def schedule(site, jobs):
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
