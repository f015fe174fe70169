"""A scheduler and its server are killed again and again: no job is placed twice, and nothing leaks.

``make jobs`` runs it for longer.
"""

from __future__ import annotations

import os
import random
import socket
import subprocess
import sys
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

import stead
from stead import Node
from tests.checkout import ROOT
from tests.conftest import write_configuration
from tests.servers.stead import started
from tests.system.library.toy_scheduler import PROJECT, consumers_of, read_journal, request_of
from tests.waiting import wait_until

if TYPE_CHECKING:
    from pathlib import Path

JOBS, KILLS = int(os.environ.get("STEAD_TOY_JOBS", "150")), int(os.environ.get("STEAD_TOY_KILLS", "6"))

pytestmark = pytest.mark.timeout(240 + 20 * KILLS + JOBS)  # restarts a server and a scheduler many times


def test_a_scheduler_that_is_killed_places_no_job_twice_and_leaks_nothing(tmp_path: Path) -> None:
    journal, chance = tmp_path / "journal", random.Random(7)
    journal.touch()
    configuration = write_configuration(tmp_path, f"sqlite:///{tmp_path}/stead.db")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    options = ["--port", str(port)]
    with ExitStack() as serving:
        server = serving.enter_context(started(configuration, workers=1, options=options))
        with stead.connect(server.url, "admin", project=PROJECT, timeout=120) as site:
            site.apply([Node(f"host{number}", VCPU=8) for number in range(4)])
            scheduler = start(server.url, journal)
            try:
                for kill in range(KILLS):
                    bound = JOBS * (kill + 1) // (KILLS + 1) + chance.randrange(3)
                    wait_until(lambda bound=bound: len(read_journal(journal)[0]) >= bound, seconds=150)
                    if kill % 3 == 2:
                        server.kill()
                        serving.pop_all().close()
                        server = serving.enter_context(started(configuration, workers=1, options=options))
                    else:
                        scheduler.kill()
                        scheduler.wait()
                        scheduler = start(server.url, journal)
                assert scheduler.wait(150 + JOBS) == 0
            finally:
                scheduler.kill()
                scheduler.wait()
            require_each_job_at_one_place(journal)
            require_claims_of_running_jobs(site, journal)
            site.release_all(project=PROJECT)
            assert site.usages() == {}
            assert {name: room.used for tree in site.trees() for name, room in tree.root.rooms.items()} == {"VCPU": 0}
            assert list(site.claims(project=PROJECT)) == []


def start(url: str, journal: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "tests.system.library.toy_scheduler", url, str(JOBS), str(journal)]
    return subprocess.Popen(command, cwd=ROOT)


def require_each_job_at_one_place(journal: Path) -> None:
    places: dict[str, set[tuple[str, ...]]] = {}
    for line in journal.read_text().splitlines():
        kind, *rest = line.split() or [""]
        if kind == "placed":
            places.setdefault(rest[0], set()).add(tuple(rest[1:]))
    assert set(places) == {str(job) for job in range(JOBS)}
    assert {job: found for job, found in places.items() if len(found) > 1} == {}


def require_claims_of_running_jobs(site: stead.Site, journal: Path) -> None:
    placed, ended = read_journal(journal)
    expected = {
        stead.uuid_of(name): request_of(job).groups[0].resources for job in placed - ended for name in consumers_of(job)
    }
    claims = {claim.consumer: next(iter(claim.allocations.values())) for claim in site.claims(project=PROJECT)}
    assert claims == expected
