"""Faults: what a data centre does to a service, at random."""

from __future__ import annotations

import random
import threading
from typing import TYPE_CHECKING

from tests.system.torture.site import ANSWER_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.system.torture.site import Site

SHORTEST_PAUSE, LONGEST_PAUSE = 0.3, 2.0  # seconds
STANDSTILL = (0.5 * ANSWER_SECONDS, 3 * ANSWER_SECONDS)


class Faults(threading.Thread):
    """Does harm to a site until it is told to stop; then everything runs again."""

    def __init__(self, site: Site, stop: threading.Event, seed: int) -> None:
        super().__init__(name="faults")
        self.done: list[str] = []
        self.failure: BaseException | None = None
        self._site = site
        self._stop_asked = stop
        self._chance = random.Random(seed)

    def run(self) -> None:
        kinds = self._kinds()
        try:
            while not self._stop_asked.wait(self._chance.uniform(SHORTEST_PAUSE, LONGEST_PAUSE)):
                name = self._chance.choice(list(kinds))
                kinds[name]()
                self.done.append(name)
                self._revive()
            self._revive()
        except BaseException as failure:  # whoever waits for this thread raises it
            self.failure = failure

    def _revive(self) -> None:
        for service in self._site.services:
            service.revive()

    def _kinds(self) -> dict[str, Callable[[], None]]:
        chance, database = self._chance, self._site.database
        kinds: dict[str, Callable[[], None]] = {
            "clients cut off": lambda: chance.choice(self._site.services).proxy.cut(),
            "worker killed": lambda: chance.choice(self._site.services).kill_worker(chance.randrange(100)),
            "service killed": lambda: chance.choice(self._site.services).kill(),
        }
        if database.proxy is not None:
            kinds["database cut off"] = database.proxy.cut
            kinds["database killed"] = database.kill
            kinds["database hung"] = lambda: database.stand_still(chance.uniform(*STANDSTILL))
        return kinds
