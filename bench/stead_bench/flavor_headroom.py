"""The cost of fresh headrooms: ``python -m stead_bench.flavor_headroom [HOSTS]`` (10,000 trees).

200 flavors beside 200 claims per second, in this process and without a network. The seconds are simulated: each is 200
claims of random hosts, and nothing waits. Windows of 15 seconds without flavors, with headrooms brought up to date each
second, and with headrooms brought up to date once (as a scrape does) follow each other in turn. The share of one core
is the processor time of a window with flavors, minus that of one without, by its 15 seconds.
"""

from __future__ import annotations

import sys
import time
from collections import defaultdict
from itertools import count
from random import Random
from statistics import median
from typing import TYPE_CHECKING
from uuid import uuid5

import numpy as np

from stead.api.query.candidates import stored_request
from stead_bench import in_process
from stead_bench.claims import body
from stead_bench.queries import host_in_zones, port_and_gpu
from stead_bench.sites import SPACE, Site

if TYPE_CHECKING:
    from collections.abc import Mapping
    from wsgiref.types import WSGIApplication

    from stead.domain.request import CandidateRequest
    from stead.service.service import Service
    from stead_bench.queries import Query

FLAVORS = 200
CLAIMS = 200
"""Per second."""
WINDOW = 15
"""Seconds."""
ROUNDS = 3
INTERVALS = {"each second": 1, "each 15 seconds": WINDOW}


def main() -> None:
    """Measure and show."""
    hosts = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    print("share: of one core; CPU of one update; in full: all trees counted")
    for site, query in ((Site("flat", hosts), host_in_zones), (Site("numa", hosts), port_and_gpu)):
        with in_process.service_of(site) as (service, app, _):
            measure(site, query(site), Claiming(service, app))


def measure(site: Site, query: Query, claiming: Claiming) -> None:
    """Show each round of windows when it is measured, then the medians of all rounds."""
    requests = {str(number): stored_request(query.vary(number * 37)) for number in range(FLAVORS)}
    in_full = update(claiming.service, requests)
    shares: dict[str, list[float]] = defaultdict(list)
    updates: dict[str, list[float]] = defaultdict(list)
    claiming.window(None, requests)  # what else is done for the first time
    for number in range(1, ROUNDS + 1):
        without, _ = claiming.window(None, requests)
        for name, interval in INTERVALS.items():
            update(claiming.service, requests)  # of the windows without flavors
            spent, of_updates = claiming.window(interval, requests)
            shares[name].append((spent - without) / WINDOW)
            updates[name] += of_updates
            show(site, f"{name}, round {number} of {ROUNDS}", shares[name][-1], median(of_updates), in_full)
    for name in INTERVALS:
        show(site, f"{name}, {query.name}", median(shares[name]), median(updates[name]), in_full)


def show(site: Site, what: str, share: float, of_update: float, in_full: float) -> None:
    """Print a row at once."""
    row = f"share {share:5.1%}, update {of_update * 1e3:5.0f} ms, in full {in_full * 1e3:5.0f} ms"
    print(f"{site!s:22}  {what:36} {row}", flush=True)


def update(service: Service, requests: Mapping[str, CandidateRequest]) -> float:
    """Processor seconds until the headrooms of all flavors are those of now."""
    began = time.process_time()
    number = len(list(service.rooms_of_flavors(requests, {})))
    if number != len(requests):
        raise RuntimeError(f"{len(requests) - number} flavors have no headroom")
    return time.process_time() - began


class Claiming:
    """Claims a unit of random providers."""

    def __init__(self, service: Service, app: WSGIApplication) -> None:
        self.service = service
        self._app = app
        self._random = Random(1)
        self._numbers = count()
        snapshot = service.snapshot()
        # The class of which there is most, so that no claim is refused.
        able = (class_id for class_id in snapshot.inventory if snapshot.serving(class_id, 1).any())
        class_id = max(able, key=lambda class_id: int(snapshot.inventory[class_id].room.whole.sum()))
        self._name = snapshot.class_names.by_id[class_id].name
        self._uuids = [snapshot.uuid(slot) for slot in np.flatnonzero(snapshot.serving(class_id, 1)).tolist()]

    def window(self, interval: int | None, requests: Mapping[str, CandidateRequest]) -> tuple[float, list[float]]:
        """Processor seconds of a window, and of each update in it; None for no updates."""
        updates = []
        began = time.process_time()
        for second in range(1, WINDOW + 1):
            for _ in range(CLAIMS):
                self._claim()
            self.service.snapshot()
            if interval is not None and not second % interval:
                updates.append(update(self.service, requests))
        return time.process_time() - began, updates

    def _claim(self) -> None:
        claim = body({self._random.choice(self._uuids): {self._name: 1}})
        in_process.post(self._app, "/allocations", {str(uuid5(SPACE, f"claim/{next(self._numbers)}")): claim})


if __name__ == "__main__":
    main()
