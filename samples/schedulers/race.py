"""Clients that claim and release at the same time, and a check that nothing was given out twice or lost.

    python race.py http://127.0.0.1:8778
    python race.py --demo  # on a data directory of its own

Each client is a process. One of them is killed on the way and started again. The race has hosts and a resource class of
its own, so it does not disturb a site that is in use, and it removes them afterwards. STEAD_TOKEN is the token.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from time import monotonic
from typing import TYPE_CHECKING

import stead
from stead import Node

if TYPE_CHECKING:
    from collections.abc import Iterator

PROJECT = "race"
CLIENTS, CLAIMS, HOSTS, UNITS = 4, 100, 10, 16
KILLED_AFTER = 20
"""Lines of the client that is killed."""


def site_at(where: str) -> stead.Site:
    """The site at a URL, or in a data directory."""
    if "://" in where:
        return stead.connect(where, os.environ.get("STEAD_TOKEN"), project=PROJECT)
    return stead.open(where, project=PROJECT)


def compete(where: str, number: int) -> None:
    """Claim a unit again and again, and release every third claim. Says what was acknowledged."""
    with site_at(where) as site:
        for turn in range(CLAIMS):
            name = f"race-{number}-{turn}"
            try:
                site.claim({"CUSTOM_RACE": 1}, name, explain=False)
            except stead.NoPlace:
                print("full", name, flush=True)
                continue
            print("claimed", name, flush=True)
            if turn % 3 == 0:
                site.release(name)
                print("released", name, flush=True)


def client(where: str, number: int) -> subprocess.Popen[str]:
    """The process of a client."""
    command = [sys.executable, __file__, "--client", where, str(number)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def acknowledged(where: str) -> Iterator[str]:
    """What all clients say."""
    running = [client(where, number) for number in range(CLIENTS)]
    killed = running.pop()
    assert killed.stdout is not None
    for _, line in zip(range(KILLED_AFTER), killed.stdout, strict=False):
        yield line
    killed.kill()
    yield from killed.communicate()[0].splitlines()
    running.append(client(where, CLIENTS - 1))  # it claims under the same names
    for each in running:
        yield from each.communicate()[0].splitlines()
        if each.returncode:
            raise SystemExit(f"a client failed with exit code {each.returncode}")


def race(where: str) -> bool:
    """Run the race at a URL or in a data directory; whether every check passed."""
    with site_at(where) as site:
        site.apply([Node(f"race-host{number}", CUSTOM_RACE=UNITS) for number in range(HOSTS)], create_names=True)
        started = monotonic()
        claimed, tries = set[str](), 0
        for line in acknowledged(where):
            what, _, name = line.strip().partition(" ")
            tries += what != "released"
            (claimed.add if what == "claimed" else claimed.discard)(name)
        print(f"{tries} claims by {CLIENTS} clients in {monotonic() - started:.1f} s; one was killed and started again")
        is_sound = check(site, {stead.uuid_of(name) for name in claimed})
        site.release_all(project=PROJECT)
        for number in range(HOSTS):
            site.delete(f"race-host{number}")
        return is_sound


def check(site: stead.Site, expected: set[str]) -> bool:
    """Compare what is used with what there is, and with the claims that were acknowledged and not released."""
    rooms = [site.provider(f"race-host{number}").rooms["CUSTOM_RACE"] for number in range(HOSTS)]
    claims = {claim.consumer for claim in site.claims(project=PROJECT)}
    used = sum(room.used for room in rooms)
    print(f"{used} of {sum(room.capacity for room in rooms)} units are used, by {len(claims)} consumers")
    faults = {
        "over-committed hosts": sum(room.free < 0 for room in rooms),
        "lost claims": len(expected - claims),
        "claims that no client has": len(claims - expected),
        "units used by no claim": used - len(claims),
    }
    print(", ".join(f"{what}: {number}" for what, number in faults.items()))
    return not any(faults.values())


def main(arguments: list[str]) -> None:
    """Run a race, or one of its clients."""
    match arguments:
        case ["--client", where, number]:
            compete(where, int(number))
        case ["--demo"]:
            with tempfile.TemporaryDirectory() as directory:
                sys.exit(not race(f"{directory}/data"))
        case [where]:
            sys.exit(not race(where))
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
