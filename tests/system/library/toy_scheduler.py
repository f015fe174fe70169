"""A scheduler that may be killed at any time: claims jobs in order, ends old ones when there is no room.

    python -m tests.system.library.toy_scheduler URL JOBS JOURNAL

Its journal has a line for each job that it placed, ``placed JOB PROVIDER…``, and for each that it ended, ``ended JOB``,
which is written before the job is released. After a restart the journal and the claims tell it where it was.
"""

from __future__ import annotations

import os
import sys
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING

import stead
from stead import Group, Request

if TYPE_CHECKING:
    from typing import TextIO

PROJECT = "toy"


def request_of(job: int) -> Request:
    """One to three cores, so that jobs leave gaps."""
    return Request(Group(VCPU=job % 3 + 1), order="pack")


def consumers_of(job: int) -> list[str]:
    """Every fifth job is a gang of two tasks."""
    return [f"job-{job}-{task}" for task in range(2 if job % 5 == 0 else 1)]


def read_journal(journal: Path) -> tuple[set[int], set[int]]:
    """The jobs that were placed, and those that were ended. A line that a kill cut off says nothing."""
    lines = [line.split() for line in journal.read_text().splitlines(keepends=True) if line.endswith("\n")]
    placed, ended = ({int(line[1]) for line in lines if line[0] == kind} for kind in ("placed", "ended"))
    return placed, ended


def schedule(site: stead.Site, jobs: int, journal: Path) -> None:
    """Place all jobs."""
    journal.touch()
    placed, ended = read_journal(journal)
    for job in ended:
        release(site, job)  # what a kill may have come before
    with journal.open("a") as file:
        if journal.stat().st_size and not journal.read_text().endswith("\n"):
            note(file, "")
        running = deque(sorted(placed - ended))
        for job in [job for job in range(jobs) if job not in placed]:
            place(site, job, running, file)
            running.append(job)


def place(site: stead.Site, job: int, running: deque[int], file: TextIO) -> None:
    """Claim a place for all tasks of *job*; the oldest running jobs end until there is one."""
    consumers = consumers_of(job)
    while True:
        try:
            gang = site.claim_all([request_of(job)] * len(consumers), consumers, distinct_hosts=True)
        except stead.NothingFits:
            oldest = running.popleft()
            note(file, f"ended {oldest}")
            release(site, oldest)
        else:
            note(file, f"placed {job} {' '.join(claim.providers[0] for claim in gang)}")
            return


def release(site: stead.Site, job: int) -> None:
    """Give back what *job* has."""
    for consumer in consumers_of(job):
        claim = site.find(consumer)
        if claim is not None:
            claim.release()


def note(file: TextIO, line: str) -> None:
    """Write a line that a kill does not lose."""
    file.write(line + "\n")
    file.flush()
    os.fsync(file.fileno())


if __name__ == "__main__":
    with stead.connect(sys.argv[1], "admin", project=PROJECT, timeout=120) as connected:
        schedule(connected, int(sys.argv[2]), Path(sys.argv[3]))
